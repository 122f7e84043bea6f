//! The event queue: what happens next, and when.

use longhaul_proto::units::Time;
use std::collections::VecDeque;

/// Events in the order of (time, order of scheduling).
///
/// Events wait in *tracks*: a track holds what happens at one place (packets on their way to one host, one host's
/// timer), which is nearly always scheduled in the order of time already. So an event costs a step at the end of its
/// track, and a tournament over the first event of each track finds the next of all; the number of events that wait
/// does not matter, only the number of tracks does, by its logarithm.
#[derive(Debug, Default)]
pub struct EventQueue {
    tracks: Vec<VecDeque<Entry>>,
    closed: Vec<TrackId>,
    /// A binary tree: node *i* is the earlier of nodes 2*i* and 2*i* + 1; the second half are the tracks' heads.
    tournament: Vec<Head>,
    now: Time,
    scheduled: u64,
}

/// Names a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackId(u32);

/// An event whose time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happens.
    pub time: Time,
    /// The track it was scheduled on.
    pub track: TrackId,
    /// What it was scheduled with.
    pub item: u32,
}

impl TrackId {
    /// Position in a table of tracks; freed numbers are given out again.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl EventQueue {
    /// No tracks, no events, time zero.
    pub fn new() -> EventQueue {
        EventQueue::default()
    }

    /// The time of the event that was taken last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Add a track.
    pub fn open_track(&mut self) -> TrackId {
        if let Some(track) = self.closed.pop() {
            return track;
        }
        let track = TrackId(u32::try_from(self.tracks.len()).expect("fewer than 2³² tracks"));
        self.tracks.push(VecDeque::new());
        if self.tracks.len() > self.leaves() {
            self.grow();
        }
        track
    }

    /// Remove a track; what still waited on it is handed back and does not happen.
    pub fn close_track(&mut self, track: TrackId) -> impl Iterator<Item = u32> + use<> {
        let rest = std::mem::take(&mut self.tracks[track.index()]);
        self.replay(track);
        self.closed.push(track);
        rest.into_iter().map(|entry| entry.item)
    }

    /// How many events wait on a track.
    pub fn len(&self, track: TrackId) -> usize {
        self.tracks[track.index()].len()
    }

    /// Let `item` happen at `time` (now, if that has passed).
    pub fn schedule(&mut self, track: TrackId, time: Time, item: u32) {
        let entry = Entry { time: time.max(self.now), order: self.next_order(), item };
        let entries = &mut self.tracks[track.index()];
        let later = entries.iter().rev().take_while(|other| other.time > entry.time).count();
        let place = entries.len() - later;
        if later == 0 {
            entries.push_back(entry);
        } else {
            entries.insert(place, entry);
        }
        if place == 0 {
            self.replay(track);
        }
    }

    /// Let the one event of a timer's track happen at `time`, and no longer at the time set before; `None` stops it.
    pub fn set_timer(&mut self, track: TrackId, time: Option<Time>) {
        let time = time.map(|time| time.max(self.now));
        let entries = &mut self.tracks[track.index()];
        if entries.front().map(|entry| entry.time) == time {
            return;
        }
        entries.clear();
        if let Some(time) = time {
            let order = self.next_order();
            self.tracks[track.index()].push_back(Entry { time, order, item: 0 });
        }
        self.replay(track);
    }

    /// When the next event happens.
    pub fn next_time(&self) -> Option<Time> {
        self.tournament.get(ROOT).filter(|head| **head != Head::NONE).map(|head| head.time)
    }

    /// Take the next event; its time is now.
    pub fn pop(&mut self) -> Option<Event> {
        let head = *self.tournament.get(ROOT)?;
        let entry = self.tracks.get_mut(head.track.index())?.pop_front()?;
        self.now = entry.time;
        self.replay(head.track);
        Some(Event { time: entry.time, track: head.track, item: entry.item })
    }

    fn next_order(&mut self) -> u64 {
        self.scheduled += 1;
        self.scheduled
    }

    fn leaves(&self) -> usize {
        self.tournament.len() / 2
    }

    fn head(&self, track: TrackId) -> Head {
        match self.tracks[track.index()].front() {
            Some(entry) => Head { time: entry.time, order: entry.order, track },
            None => Head::NONE,
        }
    }

    /// The head of `track` changed: play its matches again, up to the first whose winner stays.
    fn replay(&mut self, track: TrackId) {
        let mut node = self.leaves() + track.index();
        let mut winner = self.head(track);
        self.tournament[node] = winner;
        while node > ROOT {
            let rival = self.tournament[node ^ 1];
            if rival.key() < winner.key() {
                winner = rival;
            }
            node /= 2;
            if self.tournament[node] == winner {
                return;
            }
            self.tournament[node] = winner;
        }
    }

    fn winner(&self, node: usize) -> Head {
        let (left, right) = (self.tournament[2 * node], self.tournament[2 * node + 1]);
        if right.key() < left.key() { right } else { left }
    }

    fn grow(&mut self) {
        let leaves = self.tracks.len().next_power_of_two().max(2);
        self.tournament.clear();
        self.tournament.resize(2 * leaves, Head::NONE);
        for index in 0..self.tracks.len() {
            self.tournament[leaves + index] = self.head(TrackId(index as u32));
        }
        for node in (ROOT..leaves).rev() {
            self.tournament[node] = self.winner(node);
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    order: u64,
    item: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    time: Time,
    order: u64,
    track: TrackId,
}

impl Head {
    /// Of an empty track: comes after all events.
    const NONE: Head = Head { time: Time::MAX, order: u64::MAX, track: TrackId(u32::MAX) };

    fn key(&self) -> u128 {
        u128::from(self.time.0) << 64 | u128::from(self.order)
    }
}

const ROOT: usize = 1;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    #[derive(Clone, Debug)]
    enum Op {
        Schedule { track: usize, after: u64 },
        Timer { track: usize, after: Option<u64> },
        Pop,
        Reopen { track: usize },
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            4 => (0..5usize, 0..50u64).prop_map(|(track, after)| Op::Schedule { track, after }),
            2 => (5..8usize, proptest::option::of(0..50u64)).prop_map(|(track, after)| Op::Timer { track, after }),
            4 => Just(Op::Pop),
            1 => (0..5usize).prop_map(|track| Op::Reopen { track }),
        ]
    }

    proptest! {
        /// Against one heap of (time, order) that forgets what was cancelled.
        #[test]
        fn events_come_in_order(ops in proptest::collection::vec(op(), 1..400)) {
            let mut queue = EventQueue::new();
            let mut tracks: Vec<TrackId> = (0..8).map(|_| queue.open_track()).collect();
            let mut model: BinaryHeap<Reverse<(Time, u64, usize, u32)>> = BinaryHeap::new();
            let mut order = 0;
            for (item, op) in ops.into_iter().enumerate() {
                let (item, now) = (item as u32, queue.now());
                order += 1;
                match op {
                    Op::Schedule { track, after } => {
                        let time = Time(now.0 + after);
                        queue.schedule(tracks[track], time, item);
                        model.push(Reverse((time, order, track, item)));
                    }
                    Op::Timer { track, after } => {
                        let time = after.map(|after| Time(now.0 + after));
                        queue.set_timer(tracks[track], time);
                        let same = model.iter().any(|Reverse(e)| e.2 == track && Some(e.0) == time);
                        if !same {
                            model.retain(|Reverse(e)| e.2 != track);
                            model.extend(time.map(|time| Reverse((time, order, track, 0))));
                        }
                    }
                    Op::Reopen { track } => {
                        let rest = queue.close_track(tracks[track]).count();
                        prop_assert_eq!(rest, model.iter().filter(|Reverse(e)| e.2 == track).count());
                        model.retain(|Reverse(e)| e.2 != track);
                        tracks[track] = queue.open_track();
                    }
                    Op::Pop => {
                        let found = queue.pop().map(|e| (e.time, e.track, e.item));
                        let expected = model.pop().map(|Reverse((time, _, track, item))| (time, tracks[track], item));
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(queue.next_time(), model.peek().map(|Reverse(e)| e.0));
            }
        }
    }

    #[test]
    fn the_past_is_now() {
        let mut queue = EventQueue::new();
        let track = queue.open_track();
        queue.schedule(track, Time(10), 1);
        queue.pop();
        queue.schedule(track, Time(3), 2);
        assert_eq!(queue.pop(), Some(Event { time: Time(10), track, item: 2 }));
        assert_eq!(queue.pop(), None);
    }
}
