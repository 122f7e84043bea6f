//! What has come in over one path, and how a receiver has several: object, map and sink are one, the numbers of datagrams and
//! what is told of them are a path's own. An acknowledgement goes back over the path that it tells of.

use super::{Receiver, ReceiverStats, Timed};
use crate::ecn::Ecn;
use crate::endpoint::Sink;
use crate::seen::Seen;
use crate::units::{DatagramNumber, Time};
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct PathArrivals {
    /// Numbers seen lately.
    pub seen: Seen,
    /// Raised by the owner from the socket's own counter.
    pub dropped: u64,
    pub latest: DatagramNumber,
    pub latest_time: Time,
    pub latest_ecn: Ecn,
    /// Arrivals that the sender wants to know one by one, newest first.
    pub timed: VecDeque<Timed>,
    /// New packets since the last acknowledgement, and since when.
    pub unspoken: u64,
    pub unspoken_since: Option<Time>,
    pub ack_now: bool,
    /// After completion, late data is answered at most this often.
    pub next_reminder: Time,
    pub next_number: DatagramNumber,
    pub by_streams: bool,
    /// Packets that came for the first time.
    pub distinct: u64,
    pub stats: ReceiverStats,
}

impl<K: Sink> Receiver<K> {
    /// Do something over another path than the first, which becomes known by that if it is the next: whatever concerns a path
    /// concerns that one meanwhile.
    pub fn on_path<T>(&mut self, path: usize, act: impl FnOnce(&mut Receiver<K>) -> T) -> T {
        while self.others.len() < path {
            self.others.push(PathArrivals::default());
        }
        self.exchange(path);
        let outcome = act(self);
        self.exchange(path);
        outcome
    }

    fn exchange(&mut self, path: usize) {
        if path > 0 {
            std::mem::swap(&mut self.path, &mut self.others[path - 1]);
        }
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        1 + self.others.len()
    }

    /// Counters of one path, and how many datagrams had left its sender when the latest of those that came in did.
    pub fn path_figures(&mut self, path: usize) -> (ReceiverStats, u64) {
        self.on_path(path, |receiver| {
            let stats = receiver.path.stats;
            let covered = if stats.received > 0 { receiver.path.seen.largest() + 1 } else { 0 };
            (stats, covered)
        })
    }

    /// When to call `handle_timeout` of any path.
    pub fn next_timeout(&self) -> Option<Time> {
        std::iter::once(&self.path).chain(&self.others).filter_map(|path| self.timeout_of(path)).min()
    }

    /// Something is to be told that concerns the object: by whichever path it comes through.
    pub(super) fn acknowledge_now(&mut self) {
        std::iter::once(&mut self.path).chain(&mut self.others).for_each(|path| path.ack_now = true);
    }

    /// Counters of all paths together.
    pub fn stats(&self) -> ReceiverStats {
        self.others.iter().map(|path| path.stats).fold(self.path.stats, ReceiverStats::and)
    }

    /// Packets refused because the sink was full, of all paths together.
    pub fn refused(&self) -> u64 {
        self.path.stats.refused + self.others.iter().map(|path| path.stats.refused).sum::<u64>()
    }
}

impl ReceiverStats {
    fn and(self, other: ReceiverStats) -> ReceiverStats {
        ReceiverStats {
            received: self.received + other.received,
            repeats: self.repeats + other.repeats,
            refused: self.refused + other.refused,
            malformed: self.malformed + other.malformed,
            marked: self.marked + other.marked,
            acks: self.acks + other.acks,
            requests: self.requests + other.requests,
            last_news: self.last_news.max(other.last_news),
        }
    }
}
