//! Traffic: flows that come and go by a rule.

use crate::impair::mix;
use crate::protocol::{FlowSpec, Protocol};
use crate::route::{Placement, Route};
use fastrand::Rng;
use longhaul_proto::units::{Rate, Time};
use std::iter::Peekable;
use std::time::Duration;

/// Flows of one kind that come by one rule.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// How each flow sends; its length and seed are set anew for each.
    pub spec: FlowSpec,
    /// When they come.
    pub arrivals: Arrivals,
    /// Their lengths in bytes; absent: that of `spec`.
    pub sizes: Option<Distribution>,
    /// The hosts between which they run.
    pub pairs: Vec<Pair>,
    /// Which pair the next flow takes.
    pub pick: Pick,
    /// All end here at the latest.
    pub stop: Option<Time>,
    /// They are only there for others to meet, so that a run does not wait for them.
    pub is_background: bool,
    /// Hosts keep what their flows learn of the way between them: each flow is told what the last one that ended found,
    /// if its controller can make use of it.
    pub remembers: bool,
}

impl Traffic {
    /// Flows over the first hop, without any access of their own, that end when they are done.
    pub fn new(spec: FlowSpec, arrivals: Arrivals) -> Traffic {
        Traffic {
            spec,
            arrivals,
            sizes: None,
            pairs: vec![Pair::default()],
            pick: Pick::InTurn,
            stop: None,
            is_background: false,
            remembers: false,
        }
    }

    /// Short flows of others, from the beginning on, which a run does not wait for: a Poisson process of flows of these sizes that
    /// fill a share `load` of a path of this rate (sizes as in [`Arrivals::poisson`]).
    pub fn others(protocol: Protocol, sizes: Distribution, load: f64, rate: Rate, until: Time) -> Traffic {
        let arrivals = Arrivals::poisson(Time::ZERO, until, load, rate, sizes.mean());
        let spec = FlowSpec::new(protocol, 0);
        Traffic { sizes: Some(sizes), is_background: true, ..Traffic::new(spec, arrivals) }
    }

    /// The flows that come, in the order of time: those that a workload with this seed begins, in which this is the
    /// traffic at `index`. Without those that begin only when another has ended ([`Arrivals::Chained`]).
    pub fn coming(&self, seed: u64, index: usize) -> impl Iterator<Item = Coming> + Send + use<> {
        let streams = self.streams(Traffic::seed(seed, index)).into_iter();
        Merged(streams.filter(|stream| !stream.is_chained()).map(Iterator::peekable).collect())
    }

    /// Where the randomness of the traffic at `index` of a workload comes from.
    pub(crate) fn seed(seed: u64, index: usize) -> u64 {
        mix(seed ^ mix(index as u64 + 1))
    }

    /// The arrivals, one generator for each independent source; equal seeds give equal arrivals.
    pub(crate) fn streams(&self, seed: u64) -> Vec<Stream> {
        let mut rng = Rng::with_seed(seed);
        let sources = match self.arrivals {
            Arrivals::OnOff { sources, .. } | Arrivals::Chained { sources, .. } => sources,
            _ => 1,
        };
        (0..sources).map(|_| Stream::new(self, Rng::with_seed(rng.u64(..)))).collect()
    }
}

/// Two hosts and the way between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pair {
    /// The hops that they share with others.
    pub route: Route,
    /// How much longer their way is than that of the hops alone, in each direction.
    pub access_delay: Duration,
    /// Rate of their devices; absent: that of the path of the first hop.
    pub access_rate: Option<Rate>,
}

impl Pair {
    /// A flow between the two that begins at `start`.
    pub fn at(&self, start: Time) -> Placement {
        Placement {
            start,
            route: self.route.clone(),
            access_delay: self.access_delay,
            access_rate: self.access_rate,
        }
    }
}

/// Which pair of hosts the next flow takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pick {
    /// One after another.
    #[default]
    InTurn,
    /// Any.
    AtRandom,
}

/// When flows come.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// All at one moment.
    Together {
        /// When.
        at: Time,
        /// How many.
        count: u64,
    },
    /// One after another.
    Staggered {
        /// The first.
        from: Time,
        /// Between two.
        gap: Duration,
        /// How many.
        count: u64,
    },
    /// A renewal process: independent gaps (exponential ones make a Poisson process).
    Random {
        /// No flow before this.
        from: Time,
        /// No flow from here on.
        until: Time,
        /// Seconds between two moments of arrival.
        gap_s: Distribution,
        /// Flows that come at each.
        batch: u64,
    },
    /// Sources that begin their next flow when the last is done, after a gap.
    Chained {
        /// The first flow of each source.
        from: Time,
        /// Seconds between the end of a flow and the next.
        gap_s: Distribution,
        /// Flows of each source.
        count: u64,
        /// How many sources.
        sources: u64,
    },
    /// Sources that are on and off in turn, each for itself; while one is on, it is a flow that is then cut off.
    OnOff {
        /// Off until here, and then on after one off time.
        from: Time,
        /// Off from here on.
        until: Time,
        /// Seconds on.
        on_s: Distribution,
        /// Seconds off.
        off_s: Distribution,
        /// How many sources.
        sources: u64,
    },
}

impl Arrivals {
    /// A Poisson process of flows of `mean_bytes` (as they load the path, headers counted) that fill a share `load` of
    /// a path of this rate.
    pub fn poisson(from: Time, until: Time, load: f64, rate: Rate, mean_bytes: f64) -> Arrivals {
        let mean_gap_s = mean_bytes * 8.0 / (load * rate.0 as f64);
        Arrivals::Random { from, until, gap_s: Distribution::Exponential { mean: mean_gap_s }, batch: 1 }
    }
}

/// Where random lengths and gaps come from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(f64),
    /// Any value between the two, each as likely.
    Uniform {
        /// Least.
        from: f64,
        /// Most.
        to: f64,
    },
    /// Without memory.
    Exponential {
        /// Mean.
        mean: f64,
    },
    /// With a heavy tail: P(X > x) = (scale / x)^shape, the scale following from the mean.
    Pareto {
        /// Above 1; the smaller, the heavier the tail. No variance up to 2.
        shape: f64,
        /// Mean.
        mean: f64,
    },
}

impl Distribution {
    /// The next value; never negative.
    pub fn sample(&self, rng: &mut Rng) -> f64 {
        // in (0, 1]
        let unit = 1.0 - rng.f64();
        match *self {
            Distribution::Constant(value) => value.max(0.0),
            Distribution::Uniform { from, to } => (to - unit * (to - from)).max(0.0),
            Distribution::Exponential { mean } => -mean.max(0.0) * unit.ln(),
            Distribution::Pareto { shape, mean } => {
                let scale = mean.max(0.0) * (shape - 1.0) / shape;
                scale / unit.powf(1.0 / shape)
            }
        }
    }

    /// Its mean.
    pub fn mean(&self) -> f64 {
        match *self {
            Distribution::Constant(value) => value,
            Distribution::Uniform { from, to } => (from + to) / 2.0,
            Distribution::Exponential { mean } | Distribution::Pareto { mean, .. } => mean,
        }
    }
}

/// A flow that comes.
#[derive(Clone, Debug, PartialEq)]
pub struct Coming {
    /// When it begins.
    pub at: Time,
    /// When it is cut off.
    pub stop: Option<Time>,
    /// How it sends, and how much.
    pub spec: FlowSpec,
    /// Index of the pair.
    pub pair: usize,
}

/// Several sources as one.
struct Merged(Vec<Peekable<Stream>>);

impl Iterator for Merged {
    type Item = Coming;

    fn next(&mut self) -> Option<Coming> {
        let times =
            self.0.iter_mut().enumerate().filter_map(|(index, stream)| Some((stream.peek()?.at, index)));
        let (_, first) = times.min()?;
        self.0[first].next()
    }
}

/// One source of flows.
#[derive(Debug)]
pub(crate) struct Stream {
    arrivals: Arrivals,
    spec: FlowSpec,
    sizes: Option<Distribution>,
    stop: Option<Time>,
    pairs: usize,
    pick: Pick,
    rng: Rng,
    /// Flows given out.
    given: u64,
    /// The last moment of arrival, or the end of the last time on.
    at: Time,
}

impl Stream {
    fn new(traffic: &Traffic, rng: Rng) -> Stream {
        Stream {
            arrivals: traffic.arrivals.clone(),
            spec: traffic.spec.clone(),
            sizes: traffic.sizes,
            stop: traffic.stop,
            pairs: traffic.pairs.len().max(1),
            pick: traffic.pick,
            rng,
            given: 0,
            at: match traffic.arrivals {
                Arrivals::Together { at, .. } => at,
                Arrivals::Staggered { from, .. }
                | Arrivals::Random { from, .. }
                | Arrivals::Chained { from, .. }
                | Arrivals::OnOff { from, .. } => from,
            },
        }
    }

    /// Whether the next flow comes only after the last has ended.
    pub(crate) fn is_chained(&self) -> bool {
        matches!(self.arrivals, Arrivals::Chained { .. })
    }

    /// The last flow has ended.
    pub(crate) fn on_end(&mut self, now: Time) {
        self.at = now;
    }

    /// When the next flow comes, and when it is cut off by its own rule.
    fn next_moment(&mut self) -> Option<(Time, Option<Time>)> {
        match self.arrivals {
            Arrivals::Together { at, count } => (self.given < count).then_some((at, None)),
            Arrivals::Staggered { from, gap, count } => {
                let nth = u32::try_from(self.given).unwrap_or(u32::MAX);
                (self.given < count).then(|| (from + gap * nth, None))
            }
            Arrivals::Random { until, gap_s, batch, .. } => {
                if self.given.is_multiple_of(batch.max(1)) {
                    self.at = self.at + seconds(gap_s.sample(&mut self.rng));
                }
                (self.at < until).then_some((self.at, None))
            }
            Arrivals::Chained { gap_s, count, .. } => {
                if self.given > 0 {
                    self.at = self.at + seconds(gap_s.sample(&mut self.rng));
                }
                (self.given < count).then_some((self.at, None))
            }
            Arrivals::OnOff { until, on_s, off_s, .. } => {
                let on = self.at + seconds(off_s.sample(&mut self.rng));
                self.at = on + seconds(on_s.sample(&mut self.rng));
                (on < until).then_some((on, Some(self.at.min(until))))
            }
        }
    }
}

impl Iterator for Stream {
    type Item = Coming;

    fn next(&mut self) -> Option<Coming> {
        let (at, own_stop) = self.next_moment()?;
        let pair = match self.pick {
            Pick::InTurn => (self.given % self.pairs as u64) as usize,
            Pick::AtRandom => self.rng.usize(..self.pairs),
        };
        self.given += 1;
        let bytes = match self.sizes {
            Some(sizes) => (sizes.sample(&mut self.rng).round() as u64).max(1),
            None => self.spec.bytes,
        };
        let stop = own_stop.into_iter().chain(self.stop).min();
        Some(Coming { at, stop, spec: FlowSpec { bytes, seed: self.rng.u64(..), ..self.spec.clone() }, pair })
    }
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
