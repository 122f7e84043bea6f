//! How many streams there should be, found by experiment while data flows.
//!
//! The FOBS paper says of PSockets that it finds the best number of sockets by experiment and then transfers with
//! that (section 2). Here the experiment is the transfer itself. As long as streams do not fill the path, which
//! shows in round trips that are as short as they ever were, there is no need to measure them: several times as
//! many are tried at once. What fills the path is measured, and from what fewer streams carried it follows how many
//! are just enough:
//!
//! ```text
//! Settle ──▶ Settle, with more ──▶ …       until the path is full, or more streams give no more
//!   └──▶ Measure ──▶ with twice as many    to see that they give no more
//!                ──▶ with just enough ──▶ Hold ──▶ again, when throughput has moved
//! ```
//!
//! Where packets are lost by chance, what fewer streams carried was the luck of their start. What fills such a path
//! is held until streams lose their windows and throughput sags, which adds some, or the path stays full, which
//! tries fewer.
//!
//! Streams that fill the path and have overflowed its queue leave nothing to be had but what others have there. No more are
//! tried, whatever they would gain.

mod hold;
mod tally;

pub use tally::Try;

use crate::units::Time;
use core::time::Duration;
use hold::{Advice, HEADROOM, Hold, SAGS};
use tally::Sum;

/// What happened since the last call.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// The end of it.
    pub now: Time,
    /// How long it was.
    pub span: Duration,
    /// Bytes acknowledged in it.
    pub acked: u64,
    /// Streams that carried data.
    pub streams: u32,
    /// Those of them that have lost something since they were opened.
    pub with_losses: u32,
    /// Those of these whose congestion window is what holds them back, not their program or reader.
    pub window_bound: u32,
    /// Segments that they lost in it.
    pub lost: u64,
    /// A stream's round trip.
    pub rtt: Duration,
    /// By how much round trips are longer than the shortest ever was: what waits in the path's queue.
    pub queue: Duration,
    /// The streams had always something to send. Otherwise what was acknowledged tells about the program or the reader,
    /// not about the path.
    pub busy: bool,
}

/// What the search is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Waits until a number of streams has found its speed.
    Settling,
    /// Measures it.
    Measuring,
    /// Keeps the number that it chose.
    Holding,
}

/// The search. Feed it with [`Search::on_interval`] some times a second, and do as [`Search::wanted`] says.
#[derive(Clone, Debug)]
pub struct Search {
    /// As many as can be had lately …
    streams_max: u32,
    /// … of as many as there may be.
    streams_most: u32,
    wanted: u32,
    phase: SearchPhase,
    course: Course,
    /// What was tried in this round, each number once.
    tried: Vec<Try>,
    /// Streams are new, so what they have lost, they lost lately …
    is_first_round: bool,
    /// … but for so many of them, which had before.
    old_losses: Option<u32>,
    /// Streams lose packets by chance: what fewer of them do soon after their start says little.
    is_by_chance: bool,
    /// Numbers tried to come nearer to what is just enough.
    narrowed: u32,
    /// Round trips vary for other reasons than a queue: twice the streams carried twice as much where one seemed to
    /// stand.
    ignores_queue: bool,
}

#[derive(Clone, Copy, Debug)]
enum SearchPhase {
    /// Spans and bytes count from when all streams were there.
    Settle {
        all_there: Option<Time>,
        /// Since when streams are missing.
        short_since: Option<Time>,
        chunk: Sum,
        last_rate: f64,
        /// The latest chunk was clearly more than fewer streams carried, if any did, and the path had room.
        gains: bool,
    },
    Measure {
        sum: Sum,
        chunk: Sum,
    },
    Hold(Hold),
}

/// What the number that is being tried is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// To fill the path.
    Up,
    /// Twice as many as fill it, to see that they give no more.
    Confirm,
    /// To be just enough.
    Narrow,
}

impl Search {
    /// Begin with so many streams: 1, or what was best last time.
    pub fn new(first: u32, streams_max: u32) -> Search {
        let streams_max = streams_max.max(1);
        let wanted = first.clamp(1, streams_max);
        let mut search = Search {
            streams_max,
            streams_most: streams_max,
            wanted,
            phase: SearchPhase::Hold(Hold::new(0.0, false)),
            course: Course::Up,
            tried: vec![],
            is_first_round: true,
            old_losses: None,
            is_by_chance: false,
            narrowed: 0,
            ignores_queue: false,
        };
        search.begin_round();
        search
    }

    /// How many streams there should be now.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// How many streams there should be at hand: where more have helped, those that will be tried next are opened while
    /// these find their speed.
    pub fn at_hand(&self) -> u32 {
        match self.phase {
            SearchPhase::Settle { gains: true, .. } => self.leap_to(),
            _ => self.wanted,
        }
    }

    /// What it is doing.
    pub fn doing(&self) -> Doing {
        match self.phase {
            SearchPhase::Settle { .. } => Doing::Settling,
            SearchPhase::Measure { .. } => Doing::Measuring,
            SearchPhase::Hold(_) => Doing::Holding,
        }
    }

    /// The number that was chosen, while it is kept and not for now only.
    pub fn chosen(&self) -> Option<u32> {
        matches!(&self.phase, SearchPhase::Hold(hold) if hold.is_settled()).then_some(self.wanted)
    }

    /// What was tried in this round.
    pub fn tried(&self) -> &[Try] {
        &self.tried
    }

    /// Take in what happened lately. Returns whether the number wanted has changed.
    pub fn on_interval(&mut self, interval: &Interval) -> bool {
        let before = self.wanted;
        match self.phase {
            SearchPhase::Settle { .. } => self.settle(interval),
            SearchPhase::Measure { .. } => self.measure(interval),
            SearchPhase::Hold(_) => self.hold(interval),
        }
        self.wanted != before
    }

    fn begin_round(&mut self) {
        self.tried.clear();
        self.streams_max = self.streams_most;
        (self.course, self.narrowed, self.is_by_chance) = (Course::Up, 0, false);
        self.ignores_queue = false;
        self.begin_try(self.wanted);
    }

    fn begin_try(&mut self, streams: u32) {
        self.wanted = streams.clamp(1, self.streams_max);
        self.phase = SearchPhase::Settle {
            all_there: None,
            short_since: None,
            chunk: Sum::default(),
            last_rate: 0.0,
            gains: false,
        };
    }

    /// Wait until all streams are there and slow start is over: throughput has stopped growing.
    fn settle(&mut self, interval: &Interval) {
        let SearchPhase::Settle { all_there, short_since, chunk, last_rate, .. } = &mut self.phase else {
            return;
        };
        if interval.streams < self.wanted {
            if interval.acked == 0 {
                // Where nothing passes no stream can be had, and that says nothing of later.
                *short_since = None;
                return;
            }
            let since = *short_since.get_or_insert(interval.now);
            if interval.now.since(since) >= STREAMS_PATIENCE {
                // More than so many cannot be had.
                self.streams_max = interval.streams.max(1);
                self.begin_try(self.streams_max);
            }
            return;
        }
        *short_since = None;
        let began = *all_there.get_or_insert(interval.now);
        if !interval.busy {
            // Nothing grows that is not used.
            (*all_there, *chunk, *last_rate) = (None, Sum::default(), 0.0);
            self.old_losses = None;
            return;
        }
        chunk.add(interval);
        let (done, before) = (*chunk, *last_rate);
        // What was lost while the path had room was lost by chance, and ended slow starts.
        let is_unlucky = self.is_unlucky(interval);
        let may_leap = self.may_leap(&done, interval);
        let is_by_chance = is_unlucky && may_leap;
        // Of the first streams no more need be known than what they carry in a round trip; of others, what they gain.
        let is_enough = is_by_chance && self.tried.is_empty() && done.span >= interval.rtt;
        if !done.is_chunk(interval.rtt) && !is_enough {
            return;
        }
        self.is_by_chance |= is_by_chance;
        let rate = done.rate();
        let grows = rate <= 0.0 || rate > before * STEADY;
        let waits = interval.now.since(began) < span_of(interval.rtt, SETTLE_MAX);
        if grows && waits && !is_by_chance {
            let opens_ahead = may_leap && (!self.tried.is_empty() || self.is_far(interval));
            if let SearchPhase::Settle { chunk, last_rate, gains, .. } = &mut self.phase {
                (*chunk, *last_rate, *gains) = (Sum::default(), rate, opens_ahead);
            }
            return;
        }
        // This number of streams has found its speed: is it worth measuring?
        if may_leap {
            return self.leap(rate);
        }
        self.phase = SearchPhase::Measure { sum: Sum::default(), chunk: Sum::default() };
    }

    /// Whether most streams have lost something since they were first looked at.
    fn is_unlucky(&mut self, interval: &Interval) -> bool {
        let old_losses = *self.old_losses.get_or_insert(interval.with_losses);
        let with_losses = interval.with_losses.saturating_sub(old_losses);
        self.is_first_round && with_losses * MOST.1 >= interval.streams * MOST.0
    }

    /// Whether the streams that may follow the only one take long to open, which takes some round trips.
    fn is_far(&self, interval: &Interval) -> bool {
        self.is_first_round && self.wanted == 1 && interval.rtt >= FAR
    }

    fn may_leap(&self, chunk: &Sum, interval: &Interval) -> bool {
        let gains = chunk.rate() > 0.0 && chunk.rate() >= self.best().rate * GAIN_CLEAR;
        self.course == Course::Up && gains && self.leaves_room(chunk, interval)
    }

    fn measure(&mut self, interval: &Interval) {
        let SearchPhase::Measure { sum, chunk } = &mut self.phase else { return };
        if interval.streams < self.wanted {
            return self.begin_try(self.wanted);
        }
        if !interval.busy {
            return;
        }
        sum.add(interval);
        chunk.add(interval);
        let sum = *sum;
        if chunk.is_chunk(interval.rtt) {
            let done = core::mem::take(chunk);
            // Streams fill the path at the end of their slow start, and empty it when they begin to lose packets.
            let is_room = self.leaves_room(&done, interval);
            if self.course != Course::Narrow && is_room && done.rate() < sum.rate() * SAGS {
                // Squared, as throughput is still on its way down.
                return self.leap(done.rate().powi(2) / sum.rate());
            }
            if self.course == Course::Narrow && is_room && done.rate() < self.best().rate * TOO_FEW {
                return self.conclude(done.tried(self.wanted, interval));
            }
        }
        if sum.span >= span_of(interval.rtt, MEASURE_MIN) {
            self.conclude(sum.tried(self.wanted, interval));
        }
    }

    /// Whether the path has room for more streams, and there may be more.
    fn leaves_room(&self, chunk: &Sum, interval: &Interval) -> bool {
        (self.ignores_queue || !chunk.is_full(interval.rtt)) && self.wanted < self.streams_max
    }

    /// Try many more streams without measuring these, which seem to carry so much.
    fn leap(&mut self, rate: f64) {
        self.note(Try::unmeasured(self.wanted, rate));
        self.course = Course::Up;
        self.begin_try(self.leap_to());
    }

    fn leap_to(&self) -> u32 {
        let factor = match self.wanted {
            _ if !self.is_first_round => 2,
            1 => LEAP_FROM_ONE,
            few if few < CAREFUL_FROM => LEAP,
            _ => 2,
        };
        (self.wanted * factor).min(self.streams_max)
    }

    /// A number of streams has been measured: what next?
    fn conclude(&mut self, tried: Try) {
        let best = self.best();
        let [is_full, overflows] = [tried.is_full, tried.overflows].map(|seems| seems && !self.ignores_queue);
        let tried = Try { is_full, overflows, ..tried };
        self.note(tried);
        if self.course == Course::Confirm && tried.rate >= best.rate * GAIN_PROPORTIONAL {
            (self.course, self.ignores_queue) = (Course::Up, true);
            return self.begin_try(self.wanted * LEAP);
        }
        let goes_on = match self.course {
            _ if tried.overflows => false,
            // Several streams that fill a path leave nothing to be had; one alone leaves gaps where the queue is short.
            Course::Up => tried.streams == 1 || !tried.is_full && tried.rate >= best.rate * GAIN_CLEAR,
            Course::Confirm => tried.rate >= best.rate * GAIN_MIN,
            Course::Narrow => false,
        };
        if goes_on && self.wanted < self.streams_max {
            self.course = Course::Confirm;
            return self.begin_try(self.wanted * 2);
        }
        let is_worth_it = tried.is_full || tried.rate >= best.rate * GAIN_CLEAR;
        if self.course != Course::Narrow && self.is_by_chance && is_worth_it {
            // It will soon be too few, or else the path stays full.
            self.phase = SearchPhase::Hold(Hold::for_now(tried.rate));
            return;
        }
        let (best, _) = self.best_and_smallest_good();
        let fewer_are_known = self.tried.iter().any(|other| other.streams < tried.streams);
        if self.course == Course::Narrow && fewer_are_known && tried.rate >= best.rate * NARROW_ENOUGH {
            if tried.is_good(&best) {
                return self.narrow();
            }
            // Its streams may have lost their windows to those that were too many: the rest will show.
            return self.keep(tried.streams, best.rate);
        }
        self.narrow();
    }

    fn note(&mut self, tried: Try) {
        self.tried.retain(|other| other.streams != tried.streams);
        self.tried.push(tried);
    }

    fn best(&self) -> Try {
        self.best_of(|_| true).unwrap_or(Try::unmeasured(1, 0.0))
    }

    fn best_of(&self, is_meant: impl Fn(&Try) -> bool) -> Option<Try> {
        self.tried.iter().copied().filter(is_meant).max_by(|a, b| a.rate.total_cmp(&b.rate))
    }

    /// The best of those that were measured, if any were, and the smallest of them that is nearly as good, or that leaves nothing
    /// to be had but what others have.
    fn best_and_smallest_good(&self) -> (Try, Try) {
        let best = self.best_of(|tried| tried.is_measured).unwrap_or_else(|| self.best());
        let is_enough = |tried: &Try| tried.is_measured && (tried.overflows || tried.is_good(&best));
        let good = self.tried.iter().copied().filter(is_enough);
        (best, good.min_by_key(|tried| tried.streams).unwrap_or(best))
    }

    /// Try what should be just enough, unless that is known well enough.
    fn narrow(&mut self) {
        let (best, good) = self.best_and_smallest_good();
        let fewer = self.tried.iter().filter(|tried| tried.streams < good.streams && tried.rate > 0.0);
        let next = match fewer.max_by_key(|tried| tried.streams) {
            // The path is still not full, and each stream carries about as much as the others.
            Some(few) if !best.is_full && best.of_stream() >= few.of_stream() * ALIKE => good.streams,
            // Below a full path each stream carries as much as the others.
            Some(few) => {
                let just = f64::from(few.streams) * best.rate / few.rate * HEADROOM;
                let step = (f64::from(good.streams) * STEP_DOWN).ceil() as u32;
                (just.ceil() as u32).max(few.streams + 1).max(step)
            }
            None => good.streams / 2,
        };
        let is_near = f64::from(next) * NEAR >= f64::from(good.streams);
        if next == 0 || is_near || self.narrowed >= NARROWED_MAX {
            return self.keep(good.streams, good.rate);
        }
        self.narrowed += 1;
        self.course = Course::Narrow;
        self.begin_try(next);
    }

    fn keep(&mut self, streams: u32, usual: f64) {
        self.phase =
            SearchPhase::Hold(Hold::new(usual, self.tried.iter().any(|tried| tried.streams > streams)));
        self.wanted = streams;
    }

    /// Keep the number, or add to it where throughput sags, until throughput has moved away for a while.
    fn hold(&mut self, interval: &Interval) {
        let SearchPhase::Hold(hold) = &mut self.phase else { return };
        match hold.on_interval(interval, self.ignores_queue, self.wanted, self.streams_max) {
            Advice::Keep => {}
            Advice::Use(streams) => self.wanted = streams,
            Advice::Fewer => self.narrow(),
            Advice::Anew => {
                self.is_first_round = false;
                self.begin_round();
            }
        }
    }
}

/// Ten round trips, but at least so long.
fn span_of(rtt: Duration, least: Duration) -> Duration {
    (rtt * MEASURE_RTTS).max(least)
}

/// What fills the path is measured for so many round trips, and for [`MEASURE_MIN`] at least: long enough for a few of
/// TCP's saw teeth on short paths, and not so long that the search outlasts the transfer.
const MEASURE_RTTS: u32 = 10;
const MEASURE_MIN: Duration = Duration::from_secs(1);
/// Slow start is over at the latest after this; it doubles each round trip, so ten of those are a factor of 1000.
const SETTLE_MAX: Duration = Duration::from_secs(2);
/// Where so large a part of the streams has lost something, as a fraction, their slow starts are over.
const MOST: (u32, u32) = (3, 4);
/// Throughput that grows less than this from one span to the next has settled.
const STEADY: f64 = 1.1;
/// Where streams leave the path empty, four times as many are tried; from so many on, twice as many. One that does so
/// after its slow start says most clearly that there is much to gain.
const LEAP: u32 = 4;
const LEAP_FROM_ONE: u32 = 6;
const CAREFUL_FROM: u32 = 8;
/// Over so long round trips, streams are opened ahead while the first finds its speed.
const FAR: Duration = Duration::from_millis(100);
/// More streams than are there after so long cannot be had.
const STREAMS_PATIENCE: Duration = Duration::from_secs(5);
/// Four times as many streams that gain less than this gain nothing.
const GAIN_CLEAR: f64 = 1.15;
/// Twice as many than fill the path are better only if they gain this.
const GAIN_MIN: f64 = 1.05;
/// Twice as many that gain this are alike: their path was not full.
const GAIN_PROPORTIONAL: f64 = 1.6;
/// A number less than this times what is just enough is near enough.
const NEAR: f64 = 1.3;
const NARROWED_MAX: u32 = 3;
/// It is not less than this share of what is known to do: what fewer carried may have been luck.
const STEP_DOWN: f64 = 0.55;
/// What was to be just enough is kept if it gives this share of the best.
const NARROW_ENOUGH: f64 = 0.85;
/// With this share of the best, and the path not full, it is not worth measuring to the end.
const TOO_FEW: f64 = 0.75;
/// Streams that carry this share of what others do carry about as much.
const ALIKE: f64 = 0.7;

#[cfg(test)]
mod tests;
