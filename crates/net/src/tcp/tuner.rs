//! How many connections are best: tells the search what their kernels know of them.

use super::info::TcpInfo;
use longhaul_proto::streams::search::{Interval, Search};
use longhaul_proto::units::Time;
use std::time::Duration;

/// What kernels know of the connections that carry one thing, all taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Mean smoothed round trip of those that are given data. Idle ones know of no queue.
    pub rtt: Option<Duration>,
    /// The longest smoothed round trip.
    pub rtt_longest: Duration,
    /// The shortest round trip lately.
    pub rtt_least: Option<Duration>,
    /// How many of those that are given data have lost something since they began.
    pub with_losses: u32,
    /// How many of those fill their congestion window: it is what holds them back, not their program or reader.
    pub window_bound: u32,
    /// Segments that all of them have sent again since they began.
    pub retransmits: u64,
}

impl Survey {
    /// Of these connections; each with whether it is given data.
    pub fn of(connections: impl IntoIterator<Item = (bool, TcpInfo)>) -> Survey {
        let mut survey = Survey::default();
        let (mut sum, mut told) = (Duration::ZERO, 0);
        for (is_active, info) in connections {
            survey.retransmits += info.retransmits;
            let has_lost = is_active && info.retransmits > 0;
            survey.with_losses += u32::from(has_lost);
            survey.window_bound += u32::from(has_lost && info.queued_bytes >= info.cwnd_bytes);
            survey.rtt_longest = survey.rtt_longest.max(info.rtt);
            if !info.rtt_min.is_zero() {
                survey.rtt_least =
                    Some(survey.rtt_least.map_or(info.rtt_min, |least| least.min(info.rtt_min)));
            }
            if is_active && !info.rtt.is_zero() {
                (sum, told) = (sum + info.rtt, told + 1);
            }
        }
        survey.rtt = (told > 0).then(|| sum / told);
        survey
    }

    /// By how much round trips are longer than the shortest lately: what waits in the path's queue.
    pub fn queue(&self) -> Duration {
        match (self.rtt, self.rtt_least) {
            (Some(rtt), Some(least)) => rtt.saturating_sub(least),
            _ => Duration::ZERO,
        }
    }
}

/// What went on since the last look.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// For how long.
    pub span: Duration,
    /// Bytes that came in at the other side.
    pub acked: u64,
    /// Connections that were given data.
    pub streams: u32,
    /// A connection's round trip.
    pub rtt: Duration,
    /// For how long a connection had room and there was nothing to send.
    pub idle: Duration,
}

impl Progress {
    /// Whether this tells of the path, and not of a program that had little to send.
    pub fn is_busy(&self) -> bool {
        self.idle < self.span / IDLE_SHARE
    }
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub struct Tuner {
    search: Search,
    /// Segments that the connections' kernels had sent again at the last look.
    retransmits: u64,
}

impl Tuner {
    /// Begin with so many connections, and try `most` at most.
    pub fn new(first: u32, most: u32) -> Tuner {
        Tuner { search: Search::new(first, most), retransmits: 0 }
    }

    /// The search, which says how many there should be.
    pub fn search(&self) -> &Search {
        &self.search
    }

    /// Some time has passed.
    pub fn look(&mut self, now: Time, progress: &Progress, survey: &Survey) {
        let before = std::mem::replace(&mut self.retransmits, survey.retransmits);
        let interval = Interval {
            now,
            span: progress.span,
            acked: progress.acked,
            streams: progress.streams,
            with_losses: survey.with_losses,
            window_bound: survey.window_bound,
            lost: survey.retransmits.saturating_sub(before),
            rtt: progress.rtt,
            queue: survey.queue(),
            busy: progress.is_busy(),
        };
        if self.search.on_interval(&interval) {
            tracing::debug!("{} TCP streams now, tried {:?}", self.search.wanted(), self.search.tried());
        }
    }
}

/// A span counts if there was nothing to send for less than one part in so many of it.
const IDLE_SHARE: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_connections_tell_of_the_shortest_round_trip_and_of_nothing_else() {
        let ms = Duration::from_millis;
        let info = |rtt, rtt_min, retransmits| TcpInfo {
            rtt: ms(rtt),
            rtt_min: ms(rtt_min),
            retransmits,
            ..TcpInfo::default()
        };
        assert_eq!(Survey::of([]).queue(), Duration::ZERO);
        let survey = Survey::of([(true, info(30, 20, 1)), (true, info(50, 0, 0)), (false, info(90, 10, 5))]);
        assert_eq!((survey.rtt, survey.rtt_longest, survey.rtt_least), (Some(ms(40)), ms(90), Some(ms(10))));
        assert_eq!((survey.with_losses, survey.retransmits, survey.queue()), (1, 6, ms(30)));
    }

    #[test]
    fn a_connection_that_waits_for_its_reader_is_not_held_back_by_its_window() {
        let info = |retransmits, queued_bytes| TcpInfo {
            retransmits,
            queued_bytes,
            cwnd_bytes: 30_000,
            ..TcpInfo::default()
        };
        let bound = |connections: &[(bool, TcpInfo)]| Survey::of(connections.iter().copied()).window_bound;
        assert_eq!(bound(&[(true, info(1, 29_999)), (true, info(0, 90_000)), (false, info(1, 90_000))]), 0);
        assert_eq!(bound(&[(true, info(1, 29_999)), (true, info(2, 30_000)), (true, info(1, 90_000))]), 2);
    }
}
