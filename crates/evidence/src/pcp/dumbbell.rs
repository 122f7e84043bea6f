//! The network of the PCP paper's simulations: 100 pairs of hosts and one link that they share.

use super::router::{self, RoutedFlow};
use super::tcp_sack;
use crate::Scale;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_proto::wire::{DATA_OVERHEAD, IPV4_UDP_LEN};
use longhaul_sim::flow::{FlowSpec, ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::impair::mix;
use longhaul_sim::metrics::Summary;
use longhaul_sim::path::PathConfig;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Distribution, Pair, Pick, Traffic};
use longhaul_sim::workload::{FlowRecord, Measured, Workload};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The link, and the flows that come.
#[derive(Clone, Copy, Debug)]
pub struct Dumbbell {
    /// Rate of the shared link.
    pub rate_mbit: f64,
    /// Mean round trip; the pairs' are spread evenly over 0.6 to 1.4 of it (U[15, 35] ms around 25 ms).
    pub rtt_ms: f64,
    /// What the link's queue does.
    pub discipline: QueueDiscipline,
    /// Random loss on the link, from senders to receivers.
    pub loss: f64,
    /// Packets in a flow, in the mean.
    pub flow_packets: f64,
    /// Share of the link that the flows ask for.
    pub load: f64,
    /// Lengths and gaps have heavy tails.
    pub is_heavy_tailed: bool,
    /// Flows that begin at one moment.
    pub together: u64,
    /// Flows between two hosts before those that are measured, in the mean.
    pub flows_before: u32,
}

impl Default for Dumbbell {
    /// 40 Mb/s, 25 ms, drop-tail, flows of 200 packets that come by themselves and fill 60 %.
    fn default() -> Dumbbell {
        Dumbbell {
            rate_mbit: 40.0,
            rtt_ms: 25.0,
            discipline: QueueDiscipline::DropTail,
            loss: 0.0,
            flow_packets: 200.0,
            load: 0.6,
            is_heavy_tailed: false,
            together: 1,
            flows_before: 3,
        }
    }
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderKind {
    /// The paper's, that remembers what earlier flows between the same hosts found.
    Pcp,
    /// The same without memory: every flow is the first.
    PcpFresh,
    /// What it is compared with: TCP-SACK by the NewReno rule, that begins with one segment and counts
    /// acknowledgements.
    Tcp,
    /// TCP as it is now: CUBIC that begins with ten segments.
    Cubic,
    /// What `longhaul cp` does.
    Adaptive,
}

impl SenderKind {
    /// In the order of columns.
    pub const ALL: [SenderKind; 5] =
        [SenderKind::Pcp, SenderKind::PcpFresh, SenderKind::Tcp, SenderKind::Cubic, SenderKind::Adaptive];
    /// By the paper, with each other and with the ideal.
    pub const COMPARED: [SenderKind; 2] = [SenderKind::Pcp, SenderKind::Tcp];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            SenderKind::Pcp => "PCP",
            SenderKind::PcpFresh => "PCP without history",
            SenderKind::Tcp => "TCP",
            SenderKind::Cubic => "CUBIC",
            SenderKind::Adaptive => "adaptive",
        }
    }

    /// The protocol with packets of [`PACKET_BYTES`], and the bytes of data in each.
    fn protocol(self) -> (Protocol, u32) {
        let mut protocol = match self {
            SenderKind::Pcp | SenderKind::PcpFresh => Protocol::Object(ObjectFlow::new(ControllerKind::Pcp)),
            SenderKind::Tcp => Protocol::Tcp(tcp_sack()),
            SenderKind::Cubic => Protocol::Tcp(TcpFlow::new(ControllerKind::Cubic)),
            SenderKind::Adaptive => Protocol::Object(ObjectFlow::new(ControllerKind::Adaptive)),
        };
        let payload = match &mut protocol {
            Protocol::Object(flow) => {
                let payload = PACKET_BYTES - (IPV4_UDP_LEN + DATA_OVERHEAD) as u32;
                flow.packet_len = Some(payload);
                payload
            }
            Protocol::Tcp(flow) => {
                let payload = PACKET_BYTES - TCP_HEADERS;
                flow.mss = Some(payload as u16);
                payload
            }
        };
        (protocol, payload)
    }
}

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// So many flows are measured, in the mean.
    pub flows: u32,
    /// With so many seeds.
    pub seeds: u64,
}

impl Length {
    /// For this scale.
    pub fn of(scale: Scale) -> Length {
        let (flows, seeds) = scale.pick((1000, 3), (300, 1), (20, 1));
        Length { flows, seeds }
    }
}

/// What came of the flows of a run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Response times, seconds; of flows that did not end, until the end of the run.
    pub responses_s: Vec<f64>,
    /// What each of them would have taken with the ideal router; of senders that the paper does not compare nothing.
    pub ideal_s: Vec<f64>,
    /// And that if its first control packet left only when the set-up was over.
    pub late_ideal_s: Vec<f64>,
    /// And that if no other flow had been there.
    pub alone_s: Vec<f64>,
    /// Its round trip.
    pub rtt_s: Vec<f64>,
    /// Flows that did not end.
    pub unfinished: usize,
    /// Bytes that reached the shared queue, and those that it dropped.
    pub offered_bytes: u64,
    /// See above.
    pub dropped_bytes: u64,
}

impl Sample {
    /// Of several runs together.
    pub fn pool<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Sample {
        let mut all = Sample::default();
        for sample in samples {
            all.responses_s.extend(&sample.responses_s);
            all.ideal_s.extend(&sample.ideal_s);
            all.late_ideal_s.extend(&sample.late_ideal_s);
            all.alone_s.extend(&sample.alone_s);
            all.rtt_s.extend(&sample.rtt_s);
            all.unfinished += sample.unfinished;
            all.offered_bytes += sample.offered_bytes;
            all.dropped_bytes += sample.dropped_bytes;
        }
        all
    }

    /// Of the response times.
    pub fn response(&self) -> Summary {
        Summary::of(self.responses_s.iter().copied())
    }

    /// Of those with the ideal router.
    pub fn ideal(&self) -> Summary {
        Summary::of(self.ideal_s.iter().copied())
    }

    /// Share of the bytes offered that the queue dropped.
    pub fn loss(&self) -> f64 {
        if self.offered_bytes == 0 { 0.0 } else { self.dropped_bytes as f64 / self.offered_bytes as f64 }
    }
}

/// A network at a value of what varies.
pub struct Point {
    /// The value.
    pub at: f64,
    /// Which of the networks compared; empty where there is one.
    pub network: &'static str,
    /// In the order of [`SenderKind::ALL`].
    pub samples: Vec<Sample>,
}

impl Point {
    /// The same beside a router that hears of a flow only when its set-up is over.
    pub fn told_late(&self) -> Point {
        let late = |sample: &Sample| Sample {
            ideal_s: sample.late_ideal_s.clone(),
            alone_s: sample
                .alone_s
                .iter()
                .zip(&sample.rtt_s)
                .map(|(alone_s, rtt_s)| alone_s + rtt_s)
                .collect(),
            ..sample.clone()
        };
        Point { samples: self.samples.iter().map(late).collect(), ..*self }
    }

    /// What a sender's flows took.
    pub fn of(&self, sender: SenderKind) -> &Sample {
        &self.samples[sender as usize]
    }
}

impl Dumbbell {
    /// Simulate flows of one kind. What is measured comes when the hosts know each other: the paper tells of two
    /// round trips above fair queueing at low loads, which only history allows (§3.4).
    pub fn run(&self, sender: SenderKind, flows: u32, seed: u64) -> Sample {
        let (protocol, payload) = sender.protocol();
        let from = Time::ZERO + self.time_of(f64::from(self.flows_before) * PAIRS as f64);
        let until = from + self.time_of(f64::from(flows));
        let pairs = self.pairs(seed);
        let traffic = Traffic {
            sizes: Some(self.sizes(f64::from(payload))),
            pairs: pairs.clone(),
            pick: Pick::AtRandom,
            remembers: sender == SenderKind::Pcp,
            ..Traffic::new(FlowSpec::new(protocol, 0), self.arrivals(until))
        };
        let path = PathConfig::new(&self.scenario(seed));
        let mut workload = Workload::new(path, vec![traffic], until + PATIENCE);
        workload.measure_from = from;
        workload.seed = seed;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let flows = self.routed(&measured, &pairs, payload);
        let is_compared = SenderKind::COMPARED.contains(&sender);
        self.sample(&measured, from, &flows, is_compared)
    }

    /// How long it takes for so many flows to come, in the mean.
    fn time_of(&self, flows: f64) -> Duration {
        let flows_per_s = self.load * self.rate_mbit * 1e6 / self.mean_flow_bits();
        Duration::from_secs_f64(flows / flows_per_s)
    }

    fn mean_flow_bits(&self) -> f64 {
        self.flow_packets * f64::from(PACKET_BYTES) * 8.0
    }

    /// The flows as the ideal router has them.
    fn routed(&self, measured: &Measured, pairs: &[Pair], payload: u32) -> Vec<RoutedFlow> {
        let routed = |flow: &FlowRecord| RoutedFlow {
            start_s: flow.started.as_secs_f64(),
            rtt_s: self.least_rtt_s() + 2.0 * pairs[flow.pair].access_delay.as_secs_f64(),
            packets: flow.bytes.div_ceil(u64::from(payload)),
        };
        measured.flows.iter().map(routed).collect()
    }

    fn sample(&self, measured: &Measured, from: Time, flows: &[RoutedFlow], is_compared: bool) -> Sample {
        let packet_s = f64::from(PACKET_BYTES) * 8.0 / (self.rate_mbit * 1e6);
        let is_counted = |flow: &FlowRecord| flow.started >= from;
        // Of all flows, for those before are in the way of others.
        let counted = |times: Vec<f64>| -> Vec<f64> {
            let all = measured.flows.iter().zip(times);
            all.filter(|(flow, _)| is_counted(flow)).map(|(_, time)| time).collect()
        };
        let ideal_s = |late: f64| {
            let later = |flow: &RoutedFlow| RoutedFlow { start_s: flow.start_s + late * flow.rtt_s, ..*flow };
            let told: Vec<RoutedFlow> = if is_compared { flows.iter().map(later).collect() } else { vec![] };
            let responses_s = router::responses(&told, packet_s).into_iter();
            counted(responses_s.zip(flows).map(|(response_s, flow)| response_s + late * flow.rtt_s).collect())
        };
        let response_s = |flow: &FlowRecord| flow.delivered.unwrap_or(flow.ended).since(flow.started);
        let link = measured.hops[0].forward.totals;
        Sample {
            responses_s: counted(measured.flows.iter().map(|flow| response_s(flow).as_secs_f64()).collect()),
            ideal_s: ideal_s(0.0),
            late_ideal_s: ideal_s(1.0),
            alone_s: counted(
                flows.iter().map(|flow| 1.5 * flow.rtt_s + flow.packets as f64 * packet_s).collect(),
            ),
            rtt_s: counted(flows.iter().map(|flow| flow.rtt_s).collect()),
            unfinished: measured
                .flows
                .iter()
                .filter(|flow| is_counted(flow) && flow.delivered.is_none())
                .count(),
            offered_bytes: link.offered_bytes,
            dropped_bytes: link.dropped_bytes,
        }
    }

    /// A queue of one bandwidth-delay product: 100 packets at 40 Mb/s and 25 ms.
    fn scenario(&self, seed: u64) -> Scenario {
        let bdp_kb = self.rate_mbit * self.rtt_ms / 8.0;
        Scenario {
            queue_kb: Some(bdp_kb),
            queue_discipline: self.discipline,
            loss: self.loss,
            seed,
            ..Scenario::new(self.rate_mbit, self.least_rtt_s() * 1e3)
        }
    }

    fn least_rtt_s(&self) -> f64 {
        self.rtt_ms * RTT_SPREAD.0 / 1e3
    }

    fn pairs(&self, seed: u64) -> Vec<Pair> {
        let mut rng = fastrand::Rng::with_seed(mix(seed ^ PAIRS_SEED));
        let spread = self.rtt_ms * (RTT_SPREAD.1 - RTT_SPREAD.0) / 1e3;
        let access = Distribution::Uniform { from: 0.0, to: spread / 2.0 };
        let mut pair =
            || Pair { access_delay: Duration::from_secs_f64(access.sample(&mut rng)), ..Pair::default() };
        (0..PAIRS).map(|_| pair()).collect()
    }

    fn sizes(&self, payload: f64) -> Distribution {
        let mean = self.flow_packets * payload;
        if self.is_heavy_tailed {
            Distribution::Pareto { shape: SIZE_SHAPE, mean }
        } else {
            Distribution::Constant(mean)
        }
    }

    fn arrivals(&self, until: Time) -> Arrivals {
        let mean = self.mean_flow_bits() * self.together as f64 / (self.load * self.rate_mbit * 1e6);
        let gap_s = if self.is_heavy_tailed {
            Distribution::Pareto { shape: GAP_SHAPE, mean }
        } else {
            Distribution::Exponential { mean }
        };
        Arrivals::Random { from: Time::ZERO, until, gap_s, batch: self.together }
    }
}

/// Whole IP packets, as the paper's.
const PACKET_BYTES: u32 = 1250;
/// IPv4 and TCP with timestamps.
const TCP_HEADERS: u32 = 52;
const PAIRS: usize = 100;
/// U[15, 35] ms around 25 ms.
const RTT_SPREAD: (f64, f64) = (0.6, 1.4);
/// The paper's Pareto shapes.
const SIZE_SHAPE: f64 = 1.25;
const GAP_SHAPE: f64 = 1.2;
/// Flows that have not ended so long after the last began are counted with what they took until then.
const PATIENCE: Duration = Duration::from_secs(120);
/// Tells the draw of the pairs from others with the same seed.
const PAIRS_SEED: u64 = 0x9a17;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_senders_meet_the_same_flows() {
        let dumbbell = Dumbbell { is_heavy_tailed: true, flow_packets: 50.0, ..Dumbbell::default() };
        let [first, others @ ..] = &SenderKind::ALL.map(|sender| dumbbell.run(sender, 100, 3));
        assert!(first.ideal_s.len() > 20 && first.late_ideal_s.len() == first.ideal_s.len());
        for other in others {
            assert_eq!(other.responses_s.len(), first.ideal_s.len());
            // Lengths are drawn in bytes of data, so they may differ by a packet.
            let (a, b) = (Summary::of(first.alone_s.clone()).mean, Summary::of(other.alone_s.clone()).mean);
            assert!((a - b).abs() < 0.02 * a, "{a} {b}");
        }
    }

    #[test]
    fn nobody_beats_the_ideal_on_a_quiet_link() {
        let dumbbell = Dumbbell { load: 0.1, ..Dumbbell::default() };
        let samples = SenderKind::ALL.map(|sender| dumbbell.run(sender, 20, 1));
        let ideal = samples[0].ideal().mean;
        assert!(Summary::of(samples[0].late_ideal_s.clone()).mean > ideal);
        for (sample, sender) in samples.iter().zip(SenderKind::ALL) {
            let ours = sample.response().mean;
            assert!(ours > 0.95 * ideal && ours < 5.0 * ideal, "{}: {ours} {ideal}", sender.name());
        }
    }
}
