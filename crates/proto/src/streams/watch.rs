//! Telling a connection that stalls from one that is slow.

use crate::units::Time;
use core::time::Duration;

/// What is known of a connection at a moment.
#[derive(Clone, Copy, Debug)]
pub struct StreamSample {
    /// Bytes that it took and the other side has not acknowledged.
    pub in_flight: u64,
    /// When some of them were last acknowledged, or when it began to carry something.
    pub progress: Time,
    /// Bytes that the other host's kernel has acknowledged since the connection began.
    pub kernel_acked: u64,
    /// Bytes that wait in the socket, sent or unsent, and which that kernel has not acknowledged.
    pub queued: u64,
    /// The connection's round trip.
    pub rtt: Duration,
}

/// Watches one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamWatch {
    kernel_acked: u64,
    progress: Time,
    looked_at: Time,
}

impl StreamWatch {
    /// Look at it. `patience` is how long it may get nothing through while others do, `others` when one of those
    /// last did. Returns whether it stalls.
    pub fn look(&mut self, sample: &StreamSample, others: Time, patience: Duration, now: Time) -> bool {
        let idle = sample.in_flight == 0 && sample.queued == 0;
        // A few bytes may be no more than a probe of ours: a box on the way that takes bytes and passes nothing on
        // would look alive.
        let moves = sample.kernel_acked > self.kernel_acked && sample.queued >= QUEUED_MIN;
        self.kernel_acked = sample.kernel_acked;
        // Whoever was away for so long does not know what would have moved meanwhile.
        let was_away = now.since(self.looked_at) > patience / 2;
        self.looked_at = now;
        if idle || moves || was_away {
            self.progress = now;
        }
        self.progress = self.progress.max(sample.progress);
        let patience = patience.max(sample.rtt * RTTS_MIN);
        let patience = if others > self.progress { patience } else { patience * ALONE };
        now.since(self.progress) >= patience
    }

    /// When it last got something through, or had nothing to do.
    pub fn progress(&self) -> Time {
        self.progress
    }
}

/// Look at all connections that carry one thing, each with what is known of it. Tells which of them stall.
pub fn stalled<K>(all: Vec<(K, &mut StreamWatch, StreamSample)>, patience: Duration, now: Time) -> Vec<K> {
    let progress: Vec<Time> = all.iter().map(|(_, watch, _)| watch.progress()).collect();
    let others = |at: usize| {
        let others = progress.iter().enumerate().filter(|(other, _)| *other != at);
        others.map(|(_, progress)| *progress).max().unwrap_or(Time::ZERO)
    };
    let looks = all.into_iter().enumerate();
    let stalls = looks.filter_map(|(at, (name, watch, sample))| {
        watch.look(&sample, others(at), patience, now).then_some(name)
    });
    stalls.collect()
}

/// With less than this in the socket, what its kernel acknowledges does not count.
const QUEUED_MIN: u64 = 4 << 10;
/// A connection may always be silent for so many round trips: a retransmission timeout and its repetition.
const RTTS_MIN: u32 = 4;
/// While none gets anything through it is the path, and new ones would not either: so many times the patience.
const ALONE: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn sample() -> StreamSample {
        StreamSample {
            in_flight: 1 << 20,
            progress: at(1),
            kernel_acked: 100,
            queued: 1 << 19,
            rtt: Duration::from_millis(50),
        }
    }

    /// The first second in which a connection counts as stalled, if others get on and it does what `sample` says.
    fn stalls_at(others: impl Fn(u64) -> Time, sample: impl Fn(u64) -> StreamSample) -> Option<u64> {
        let mut watch = StreamWatch::default();
        (1..100).find(|second| watch.look(&sample(*second), others(*second), PATIENCE, at(*second)))
    }

    #[test]
    fn a_connection_that_gets_nothing_through_while_others_do_stalls() {
        assert_eq!(stalls_at(at, |_| sample()), Some(6));
    }

    #[test]
    fn a_slow_one_does_not() {
        assert_eq!(stalls_at(at, |s| StreamSample { kernel_acked: s * 1000, ..sample() }), None);
        assert_eq!(stalls_at(at, |s| StreamSample { progress: at(s - s % 4), ..sample() }), None);
        assert_eq!(stalls_at(at, |_| StreamSample { in_flight: 0, queued: 0, ..sample() }), None);
    }

    #[test]
    fn what_nobody_watched_is_not_held_against_a_connection() {
        let mut watch = StreamWatch::default();
        let mut look = |second| watch.look(&sample(), at(second), PATIENCE, at(second));
        let stalled: Vec<u64> = (1..4).chain(60..70).filter(|second| look(*second)).collect();
        assert_eq!(stalled, [65, 66, 67, 68, 69]);
    }

    #[test]
    fn while_nothing_moves_at_all_it_is_the_path() {
        assert_eq!(stalls_at(|_| at(1), |_| sample()), Some(21));
    }

    #[test]
    fn a_box_that_takes_probes_and_passes_nothing_on_is_found_out() {
        let swallowed = |s| StreamSample { kernel_acked: s * 16, queued: 16, ..sample() };
        assert_eq!(stalls_at(at, swallowed), Some(6));
    }

    #[test]
    fn a_path_with_round_trips_of_seconds_is_given_a_few() {
        let far = |_| StreamSample { rtt: Duration::from_secs(3), ..sample() };
        assert_eq!(stalls_at(at, far), Some(13));
    }
}
