//! The network of the PCP paper's simulations: 100 pairs of hosts and one link that they share.

use super::fluid::{FluidFlow, fair_shares};
use crate::experiments::Scale;
use crate::flow::{FlowSpec, Protocol};
use crate::impair::mix;
use crate::metrics::Summary;
use crate::path::PathConfig;
use crate::queue::QueueDiscipline;
use crate::scenario::Scenario;
use crate::trace::TraceMode;
use crate::traffic::{Arrivals, Distribution, Pair, Pick, Traffic};
use crate::workload::{FlowRecord, Measured, Workload};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{DATA_OVERHEAD, IPV4_UDP_LEN};
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
pub enum Sender {
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

impl Sender {
    /// In the order of columns.
    pub const ALL: [Sender; 5] =
        [Sender::Pcp, Sender::PcpFresh, Sender::Tcp, Sender::Cubic, Sender::Adaptive];

    /// In tables.
    pub fn name(self) -> &'static str {
        match self {
            Sender::Pcp => "PCP",
            Sender::PcpFresh => "PCP without history",
            Sender::Tcp => "TCP",
            Sender::Cubic => "CUBIC",
            Sender::Adaptive => "adaptive",
        }
    }

    /// The protocol with packets of [`PACKET_BYTES`], and the bytes of data in each.
    fn protocol(self) -> (Protocol, u32) {
        let name = match self {
            Sender::Pcp | Sender::PcpFresh => "pcp",
            Sender::Tcp => "tcp:newreno",
            Sender::Cubic => "tcp:cubic",
            Sender::Adaptive => ControllerKind::Adaptive.name(),
        };
        let mut protocol: Protocol = name.parse().expect("the program offers it");
        let payload = match &mut protocol {
            Protocol::Object(flow) => {
                let payload = PACKET_BYTES - (IPV4_UDP_LEN + DATA_OVERHEAD) as u32;
                flow.packet_len = Some(payload);
                payload
            }
            Protocol::Tcp(flow) => {
                flow.classic = self == Sender::Tcp;
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
    /// Flows come for so long.
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

impl Dumbbell {
    /// Simulate flows of one kind.
    pub fn run(&self, sender: Sender, span: Duration, seed: u64) -> Sample {
        let (protocol, payload) = sender.protocol();
        let pairs = self.pairs(seed);
        let traffic = Traffic {
            sizes: Some(self.sizes(f64::from(payload))),
            pairs: pairs.clone(),
            pick: Pick::AtRandom,
            remembers: sender == Sender::Pcp,
            ..Traffic::new(FlowSpec::new(protocol, 0), self.arrivals(span))
        };
        let path = PathConfig::new(&self.scenario(seed));
        let mut workload = Workload::new(path, vec![traffic], Time::ZERO + span + PATIENCE);
        workload.seed = seed;
        workload.options.trace = TraceMode::Off;
        self.sample(&workload.run(), &pairs, payload)
    }

    fn sample(&self, measured: &Measured, pairs: &[Pair], payload: u32) -> Sample {
        let rtt_s =
            |flow: &FlowRecord| self.least_rtt_s() + 2.0 * pairs[flow.pair].access_delay.as_secs_f64();
        let mut fluid: Vec<(FluidFlow, f64)> = measured
            .flows
            .iter()
            .map(|flow| {
                let packets = flow.bytes.div_ceil(u64::from(payload));
                let bits = (packets * u64::from(PACKET_BYTES) * 8) as f64;
                let rtt_s = rtt_s(flow);
                // a round trip to learn the rate, and half of one until the last bit is there
                let arrival_s = flow.started.as_secs_f64() + rtt_s;
                (FluidFlow { arrival_s, bits }, 1.5 * rtt_s)
            })
            .collect();
        fluid.sort_by(|a, b| a.0.arrival_s.total_cmp(&b.0.arrival_s));
        let flows: Vec<FluidFlow> = fluid.iter().map(|(flow, _)| *flow).collect();
        let done = fair_shares(&flows, self.rate_mbit * 1e6);
        let ideal_s = done
            .iter()
            .zip(&fluid)
            .map(|(done, (flow, overhead))| done - flow.arrival_s + overhead)
            .collect();
        let link = measured.hops[0].forward.totals;
        Sample {
            responses_s: measured
                .flows
                .iter()
                .map(|flow| flow.delivered.unwrap_or(flow.ended).since(flow.started).as_secs_f64())
                .collect(),
            ideal_s,
            unfinished: measured.flows.iter().filter(|flow| flow.delivered.is_none()).count(),
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

    fn arrivals(&self, span: Duration) -> Arrivals {
        let (from, until) = (Time::ZERO, Time::ZERO + span);
        let mean_bytes = self.flow_packets * f64::from(PACKET_BYTES) * self.together as f64;
        let mean = mean_bytes * 8.0 / (self.load * Rate::from_mbps(self.rate_mbit).0 as f64);
        let gap_s = if self.is_heavy_tailed {
            Distribution::Pareto { shape: GAP_SHAPE, mean }
        } else {
            Distribution::Exponential { mean }
        };
        Arrivals::Random { from, until, gap_s, batch: self.together }
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
        let samples = Sender::ALL.map(|sender| dumbbell.run(sender, Duration::from_secs(2), 3));
        let [first, others @ ..] = &samples;
        assert!(first.ideal_s.len() > 20);
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
        for sender in Sender::ALL {
            let sample = dumbbell.run(sender, Duration::from_secs(5), 1);
            let (ours, ideal) = (sample.response().mean, sample.ideal().mean);
            assert!(ours > 0.95 * ideal && ours < 5.0 * ideal, "{}: {ours} {ideal}", sender.name());
        }
    }
}
