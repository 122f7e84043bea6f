//! What a number of streams carried.

use super::Interval;
use crate::units::nanos;
use core::time::Duration;

/// A number of streams that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    /// How many.
    pub streams: u32,
    /// Bytes per second.
    pub rate: f64,
    /// Standard error of that, as a share of it.
    pub error: f64,
    /// They filled the path.
    pub is_full: bool,
    /// They filled it and had overflowed its queue: it carries all it can, and what more of them gained others on it would
    /// lose.
    pub overflows: bool,
    /// For long enough; otherwise this is how fast they were just after their slow start, which may have been luck.
    pub is_measured: bool,
}

impl Try {
    /// So many seem to carry so much, with room for more.
    pub(super) fn unmeasured(streams: u32, rate: f64) -> Try {
        Try { streams, rate, error: 0.0, is_full: false, overflows: false, is_measured: false }
    }

    pub(super) fn of_stream(&self) -> f64 {
        self.rate / f64::from(self.streams.max(1))
    }

    /// Whether it may well be nearly as good as the best, as far as the measurements can tell.
    pub(super) fn is_good(&self, best: &Try) -> bool {
        self.rate * (1.0 + self.error) >= best.rate * GOOD * (1.0 - best.error)
    }
}

/// What came in over some intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    pub(super) span: Duration,
    bytes: u64,
    /// Sum of the squares of each interval's bytes over the root of its length: for the spread of its rate.
    squares: f64,
    intervals: u32,
    /// Sum of the queue's delays.
    queued: Duration,
}

impl Sum {
    pub(super) fn add(&mut self, interval: &Interval) {
        let seconds = interval.span.as_secs_f64();
        self.span += interval.span;
        self.bytes += interval.acked;
        self.squares += (interval.acked as f64).powi(2) / seconds.max(1e-9);
        self.intervals += 1;
        self.queued += interval.queue;
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.bytes as f64 * 1e9 / nanos(self.span).max(1) as f64
    }

    /// Standard error of the rate as a share of it.
    fn error(&self) -> f64 {
        let (rate, seconds) = (self.rate(), self.span.as_secs_f64());
        if self.intervals < 2 || rate <= 0.0 {
            return 0.0;
        }
        let variance = (self.squares / seconds - rate * rate).max(0.0) / f64::from(self.intervals - 1);
        variance.sqrt() / rate
    }

    /// Whether a queue stood in the path.
    pub(super) fn is_full(&self, rtt: Duration) -> bool {
        is_full(self.queued / self.intervals.max(1), rtt)
    }

    /// What these streams did, which this interval ends.
    pub(super) fn tried(&self, streams: u32, end: &Interval) -> Try {
        let is_full = self.is_full(end.rtt);
        Try {
            streams,
            rate: self.rate(),
            error: self.error().min(ERROR_MAX),
            is_full,
            overflows: is_full && end.window_bound > 0,
            is_measured: true,
        }
    }

    /// What a span too short to measure says, if it is long enough to say something.
    pub(super) fn is_chunk(&self, rtt: Duration) -> bool {
        self.span >= (rtt * CHUNK_RTTS).max(CHUNK_MIN)
    }
}

/// Whether so long a queue means that the path is full: more than what timers and hosts make of an empty one.
pub(super) fn is_full(queue: Duration, rtt: Duration) -> bool {
    queue >= (rtt / QUEUE_SHARE).max(QUEUE_MIN)
}

/// While settling, spans of so many round trips are compared.
const CHUNK_RTTS: u32 = 2;
const CHUNK_MIN: Duration = Duration::from_millis(200);
/// A queue of a tenth of the round trip, and of no less than two milliseconds, fills a path.
const QUEUE_SHARE: u32 = 10;
const QUEUE_MIN: Duration = Duration::from_millis(2);
/// The smallest number within 5 % of the best is taken: streams that gain less take from others for nothing.
const GOOD: f64 = 0.95;
/// Measurements may differ by chance, but not by more than so much to either side.
const ERROR_MAX: f64 = 0.03;
