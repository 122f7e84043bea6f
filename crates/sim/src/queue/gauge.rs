//! How full a queue was over time.

use longhaul_proto::units::Time;

/// How full a queue was over time, in bytes waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Occupancy {
    /// Mean over time.
    pub mean_bytes: f64,
    /// At most this for 95 % of the time, to within a thousandth of the queue's limit.
    pub p95_bytes: u64,
    /// Most at any moment.
    pub max_bytes: u64,
}

/// Integrates a level over time.
#[derive(Debug)]
pub(crate) struct Gauge {
    from: Time,
    at: Time,
    level: u64,
    area: u128,
    max: u64,
    bin_bytes: u64,
    /// Nanoseconds spent at each level, rounded up to a multiple of `bin_bytes`; as many as were needed so far, since
    /// there may be thousands of queues that stay empty.
    bins: Vec<u64>,
}

impl Gauge {
    /// Of a queue for `limit_bytes`, from `from` on.
    pub(crate) fn new(limit_bytes: u64, from: Time) -> Gauge {
        let bin_bytes = limit_bytes.div_ceil(BINS).max(1);
        Gauge { from, at: Time::ZERO, level: 0, area: 0, max: 0, bin_bytes, bins: Vec::new() }
    }

    /// The level is `level` from `at` on.
    pub(crate) fn set(&mut self, at: Time, level: u64) {
        self.advance(at);
        self.level = level;
        if at >= self.from {
            self.max = self.max.max(level);
        }
    }

    /// Forget what was, from `now` on.
    pub(crate) fn restart(&mut self, now: Time) {
        self.advance(now);
        (self.from, self.area, self.max) = (now, 0, self.level);
        self.bins.clear();
    }

    fn advance(&mut self, to: Time) {
        let span = to.0.saturating_sub(self.at.max(self.from).0);
        self.at = self.at.max(to);
        if span == 0 {
            return;
        }
        self.max = self.max.max(self.level);
        self.area += u128::from(span) * u128::from(self.level);
        let bin = self.level.div_ceil(self.bin_bytes) as usize;
        if bin >= self.bins.len() {
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += span;
    }

    /// What was seen until `now`.
    pub(crate) fn occupancy(&mut self, now: Time) -> Occupancy {
        self.advance(now);
        let span: u64 = self.bins.iter().sum();
        if span == 0 {
            return Occupancy::default();
        }
        let mut left = span - span / 20;
        let mut p95_bytes = self.max;
        for (bin, &time) in self.bins.iter().enumerate() {
            if time >= left {
                p95_bytes = (bin as u64 * self.bin_bytes).min(self.max);
                break;
            }
            left -= time;
        }
        Occupancy { mean_bytes: self.area as f64 / span as f64, p95_bytes, max_bytes: self.max }
    }
}

/// Steps of the histogram from which the 95th percentile is read.
const BINS: u64 = 1000;
