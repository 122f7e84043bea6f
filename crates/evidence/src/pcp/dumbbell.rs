//! The network of the PCP paper's simulations: 100 pairs of hosts and one link that they share.

use super::fluid::{FluidFlow, fair_shares};
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
    /// Flows that come for so long are measured.
    pub span: Duration,
    /// With so many seeds.
    pub seeds: u64,
}

impl Length {
    /// For this scale.
    pub fn of(scale: Scale) -> Length {
        let (seconds, seeds) = scale.pick((120, 3), (25, 1), (3, 1));
        Length { span: Duration::from_secs(seconds), seeds }
    }
}

/// What came of the flows of a run.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Response times, seconds; of flows that did not end, until the end of the run.
    pub responses_s: Vec<f64>,
    /// What each of them would have taken with the ideal router.
    pub ideal_s: Vec<f64>,
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
    /// What a sender's flows took.
    pub fn of(&self, sender: SenderKind) -> &Sample {
        &self.samples[sender as usize]
    }
}

impl Dumbbell {
    /// Simulate flows of one kind. What is measured comes when the hosts know each other: the paper tells of two
    /// round trips above fair queueing at low loads, which only history allows (§3.4).
    pub fn run(&self, sender: SenderKind, span: Duration, seed: u64) -> Sample {
        let (protocol, payload) = sender.protocol();
        let from = Time::ZERO + self.warm_up();
        let until = from + span;
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
        self.sample(&workload.run(), from, &pairs, payload)
    }

    /// How long it takes for as many flows to come as give each pair of hosts [`FLOWS_BEFORE`].
    fn warm_up(&self) -> Duration {
        let flows_per_s = self.load * self.rate_mbit * 1e6 / self.mean_flow_bits();
        Duration::from_secs_f64(FLOWS_BEFORE * PAIRS as f64 / flows_per_s)
    }

    fn mean_flow_bits(&self) -> f64 {
        self.flow_packets * f64::from(PACKET_BYTES) * 8.0
    }

    fn sample(&self, measured: &Measured, from: Time, pairs: &[Pair], payload: u32) -> Sample {
        let rtt_s =
            |flow: &FlowRecord| self.least_rtt_s() + 2.0 * pairs[flow.pair].access_delay.as_secs_f64();
        let mut all: Vec<(FluidFlow, &FlowRecord)> = measured
            .flows
            .iter()
            .map(|flow| {
                let packets = flow.bytes.div_ceil(u64::from(payload));
                let bits = (packets * u64::from(PACKET_BYTES) * 8) as f64;
                // a round trip to learn the rate
                let arrival_s = flow.started.as_secs_f64() + rtt_s(flow);
                (FluidFlow { arrival_s, bits }, flow)
            })
            .collect();
        all.sort_by(|a, b| a.0.arrival_s.total_cmp(&b.0.arrival_s));
        let fluid: Vec<FluidFlow> = all.iter().map(|(flow, _)| *flow).collect();
        let done_s = fair_shares(&fluid, self.rate_mbit * 1e6);
        // half a round trip until the last bit is there
        let ideal_s = |(done_s, (_, flow)): (&f64, &(FluidFlow, &FlowRecord))| {
            done_s + rtt_s(flow) / 2.0 - flow.started.as_secs_f64()
        };
        let counted = || measured.flows.iter().filter(|flow| flow.started >= from);
        let link = measured.hops[0].forward.totals;
        Sample {
            responses_s: counted()
                .map(|flow| flow.delivered.unwrap_or(flow.ended).since(flow.started).as_secs_f64())
                .collect(),
            ideal_s: done_s
                .iter()
                .zip(&all)
                .filter(|(_, (_, flow))| flow.started >= from)
                .map(ideal_s)
                .collect(),
            unfinished: counted().filter(|flow| flow.delivered.is_none()).count(),
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
/// Flows between two hosts before those that are measured, in the mean: one in 20 pairs has none.
const FLOWS_BEFORE: f64 = 3.0;
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
        let samples = SenderKind::ALL.map(|sender| dumbbell.run(sender, Duration::from_secs(2), 3));
        let [first, others @ ..] = &samples;
        assert!(first.ideal_s.len() > 20);
        for sample in &samples {
            assert_eq!(sample.ideal_s.len(), sample.responses_s.len());
        }
        for other in others {
            assert_eq!(other.ideal_s.len(), first.ideal_s.len());
            // lengths are drawn in bytes of data, so they may differ by a packet
            let (a, b) = (first.ideal().mean, other.ideal().mean);
            assert!((a - b).abs() < 0.02 * a, "{a} {b}");
        }
    }

    #[test]
    fn nobody_beats_the_ideal_on_a_quiet_link() {
        let dumbbell = Dumbbell { load: 0.1, ..Dumbbell::default() };
        for sender in SenderKind::ALL {
            let sample = dumbbell.run(sender, Duration::from_secs(5), 1);
            let (ours, ideal) = (sample.response().mean, sample.ideal().mean);
            assert!(ours > 0.95 * ideal && ours < 5.0 * ideal, "{}: {ours} {ideal}", sender.name());
        }
    }
}
