//! How far apart the two datagrams of a packet pair came in.

use super::TimedArrival;
use core::time::Duration;

/// Finds the pairs among datagrams as they come in, each once.
#[derive(Debug, Default)]
pub(super) struct PairSpans {
    /// The datagram with the highest number so far.
    last: Option<TimedArrival>,
}

impl PairSpans {
    /// The span of the pair that `one` is the second of, if both left within `spread`.
    pub fn next(&mut self, one: &TimedArrival, spread: Duration) -> Option<Duration> {
        let first = self.last.filter(|last| is_pair(last, one, spread));
        if self.last.is_none_or(|last| one.number > last.number) {
            self.last = Some(*one);
        }
        first.map(|first| one.arrival.since(first.arrival))
    }
}

/// Datagrams that left further apart are no pair: the host was interrupted between them.
pub(super) fn is_pair(first: &TimedArrival, second: &TimedArrival, spread: Duration) -> bool {
    first.number.checked_add(1) == Some(second.number) && second.sent.since(first.sent) < spread
}
