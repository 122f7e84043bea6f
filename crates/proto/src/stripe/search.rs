//! How many lanes there should be, found by experiment while data flows.
//!
//! The FOBS paper says of PSockets that it finds the best number of sockets by experiment and then transfers with that
//! (section 2). Here 1, 2, 4 … lanes are tried during the transfer itself, a curve is put through the throughputs, and
//! the smallest number that is nearly as good as the best is kept until the path changes:
//!
//! ```text
//! Settle ──▶ Measure ──▶ Settle, with twice as many ──▶ …      until more lanes give no more
//!                           then with half as many …            if the first try was not with one
//!                           then with the number chosen ──▶ Hold ──▶ again, when throughput has moved
//! ```

use super::fit::Curve;
use crate::units::{Time, nanos};
use core::time::Duration;

/// What happened since the last call.
#[derive(Clone, Copy, Debug)]
pub struct Interval {
    /// The end of it.
    pub now: Time,
    /// How long it was.
    pub span: Duration,
    /// Bytes acknowledged in it.
    pub acked: u64,
    /// Lanes that carried data.
    pub lanes: u32,
    /// A lane's round trip.
    pub rtt: Duration,
    /// The lanes had always something to send. Otherwise what was acknowledged tells about the program or the reader,
    /// not about the path.
    pub busy: bool,
}

/// What the search is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Waits until a number of lanes has found its speed.
    Settling,
    /// Measures it.
    Measuring,
    /// Keeps the number that it chose.
    Holding,
}

/// The search. Feed it with [`Search::on_interval`] a few times a second, and do as [`Search::wanted`] says.
#[derive(Clone, Debug)]
pub struct Search {
    lanes_max: u32,
    wanted: u32,
    phase: Phase,
    course: Course,
    /// The number that the first try of this round was with.
    first: u32,
    /// What was tried in this round.
    tried: Vec<Try>,
    /// Tries in a row that were no better than the best before.
    fruitless: u32,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Spans and bytes count from when all lanes were there.
    Settle {
        all_there: Option<Time>,
        since: Time,
        chunk: Sum,
        last_rate: f64,
    },
    Measure {
        sum: Sum,
    },
    Hold {
        usual: f64,
        recent: f64,
        moved_for: Duration,
    },
}

/// A number of lanes that was tried.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Try {
    /// How many.
    pub lanes: u32,
    /// Bytes per second.
    pub rate: f64,
    /// Standard error of that, as a share of it.
    pub error: f64,
}

impl Try {
    /// Whether it may well be nearly as good as the best, as far as the measurements can tell.
    fn is_good(&self, best: &Try) -> bool {
        self.rate * (1.0 + self.error) >= best.rate * GOOD * (1.0 - best.error)
    }
}

/// What the next number is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Twice as many.
    Up,
    /// Half as many.
    Down,
    /// The one chosen, to see that it is as good as it should be.
    Check,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    span: Duration,
    bytes: u64,
    /// Sum of the squares of each interval's bytes over the root of its length: for the spread of its rate.
    squares: f64,
    intervals: u32,
}

impl Sum {
    fn add(&mut self, interval: &Interval) {
        let seconds = interval.span.as_secs_f64();
        self.span += interval.span;
        self.bytes += interval.acked;
        self.squares += (interval.acked as f64).powi(2) / seconds.max(1e-9);
        self.intervals += 1;
    }

    /// Bytes per second.
    fn rate(&self) -> f64 {
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
}

impl Search {
    /// Begin with so many lanes: 1, or what was best last time.
    pub fn new(first: u32, lanes_max: u32, now: Time) -> Search {
        let first = first.clamp(1, lanes_max.max(1));
        let mut search = Search {
            lanes_max: lanes_max.max(1),
            wanted: first,
            phase: Phase::Hold { usual: 0.0, recent: 0.0, moved_for: Duration::ZERO },
            course: Course::Up,
            first,
            tried: vec![],
            fruitless: 0,
        };
        search.begin_round(now);
        search
    }

    /// How many lanes there should be now.
    pub fn wanted(&self) -> u32 {
        self.wanted
    }

    /// What it is doing.
    pub fn doing(&self) -> Doing {
        match self.phase {
            Phase::Settle { .. } => Doing::Settling,
            Phase::Measure { .. } => Doing::Measuring,
            Phase::Hold { .. } => Doing::Holding,
        }
    }

    /// The number that was chosen, while it is kept.
    pub fn chosen(&self) -> Option<u32> {
        (self.doing() == Doing::Holding).then_some(self.wanted)
    }

    /// What was tried in this round.
    pub fn tried(&self) -> &[Try] {
        &self.tried
    }

    /// Take in what happened lately. Returns whether the number wanted has changed.
    pub fn on_interval(&mut self, interval: &Interval) -> bool {
        let before = self.wanted;
        match self.phase {
            Phase::Settle { .. } => self.settle(interval),
            Phase::Measure { .. } => self.measure(interval),
            Phase::Hold { .. } => self.hold(interval),
        }
        self.wanted != before
    }

    fn begin_round(&mut self, now: Time) {
        self.tried.clear();
        (self.course, self.first, self.fruitless) = (Course::Up, self.wanted, 0);
        self.begin_try(self.wanted, now);
    }

    fn begin_try(&mut self, lanes: u32, now: Time) {
        self.wanted = lanes.clamp(1, self.lanes_max);
        self.phase = Phase::Settle { all_there: None, since: now, chunk: Sum::default(), last_rate: 0.0 };
    }

    /// Wait until all lanes are there and slow start is over: throughput has stopped growing.
    fn settle(&mut self, interval: &Interval) {
        let Phase::Settle { all_there, since, chunk, last_rate } = &mut self.phase else { return };
        if interval.lanes < self.wanted {
            if interval.now.since(*since) >= LANES_PATIENCE {
                // More than so many cannot be had.
                self.lanes_max = interval.lanes.max(1);
                self.wanted = self.wanted.min(self.lanes_max);
                self.choose(interval.now);
            }
            return;
        }
        let began = *all_there.get_or_insert(interval.now);
        if !interval.busy {
            // Nothing grows that is not used.
            (*all_there, *chunk, *last_rate) = (None, Sum::default(), 0.0);
            return;
        }
        chunk.add(interval);
        if chunk.span < (interval.rtt * CHUNK_RTTS).max(CHUNK_MIN) {
            return;
        }
        let rate = chunk.rate();
        let grows = rate > *last_rate * STEADY;
        (*last_rate, *chunk) = (rate, Sum::default());
        let waited = interval.now.since(began);
        if waited >= span_of(interval.rtt, SETTLE_MAX) || !grows && waited >= interval.rtt * CHUNK_RTTS {
            self.phase = Phase::Measure { sum: Sum::default() };
        }
    }

    fn measure(&mut self, interval: &Interval) {
        let Phase::Measure { sum } = &mut self.phase else { return };
        if interval.lanes < self.wanted {
            return self.begin_try(self.wanted, interval.now);
        }
        if !interval.busy {
            return;
        }
        sum.add(interval);
        if sum.span >= span_of(interval.rtt, MEASURE_MIN) {
            let tried = Try { lanes: self.wanted, rate: sum.rate(), error: sum.error() };
            self.conclude(tried, interval.now);
        }
    }

    /// A number of lanes has been measured: what next?
    fn conclude(&mut self, tried: Try, now: Time) {
        if self.course == Course::Check {
            return self.check(&tried);
        }
        let best = self.best();
        self.tried.push(tried);
        let (better, worse) = (tried.rate > best.rate * GAIN_MIN, tried.rate < best.rate * WORSE);
        self.fruitless = if better { 0 } else { self.fruitless + 1 };
        if self.course == Course::Up {
            if self.wanted < self.lanes_max && !worse && self.fruitless < FRUITLESS_MAX {
                return self.begin_try(self.wanted.saturating_mul(2), now);
            }
            self.course = Course::Down;
            if self.first > 1 {
                return self.begin_try(self.first / 2, now);
            }
        } else if self.wanted > 1 && tried.is_good(&best) {
            return self.begin_try(self.wanted / 2, now);
        }
        self.choose(now);
    }

    fn best(&self) -> Try {
        let none = Try { lanes: 1, rate: 0.0, error: 0.0 };
        self.tried.iter().copied().max_by(|a, b| a.rate.total_cmp(&b.rate)).unwrap_or(none)
    }

    /// The smallest number that was tried and is nearly as good as the best.
    fn smallest_good(&self) -> Option<Try> {
        let best = self.best();
        self.tried.iter().copied().filter(|tried| tried.is_good(&best)).min_by_key(|tried| tried.lanes)
    }

    fn choose(&mut self, now: Time) {
        let Some(good) = self.smallest_good() else {
            self.course = Course::Check;
            return self.begin_try(self.wanted, now);
        };
        let most = self.tried.iter().map(|tried| tried.lanes).max().unwrap_or(good.lanes);
        let points: Vec<(u32, f64)> = self.tried.iter().map(|tried| (tried.lanes, tried.rate)).collect();
        let fitted = Curve::through(&points).and_then(|curve| curve.smallest_good(most, GOOD));
        match fitted {
            Some(fitted) if fitted < good.lanes => {
                self.course = Course::Check;
                self.begin_try(fitted, now);
            }
            _ => self.keep(good.lanes, good.rate),
        }
    }

    /// Whether the number that the curve chose is as good as the curve says.
    fn check(&mut self, tried: &Try) {
        match self.smallest_good() {
            Some(good) if tried.rate < self.best().rate * CHECK => self.keep(good.lanes, good.rate),
            _ => self.keep(tried.lanes, tried.rate),
        }
    }

    fn keep(&mut self, lanes: u32, usual: f64) {
        self.wanted = lanes;
        self.phase = Phase::Hold { usual, recent: usual, moved_for: Duration::ZERO };
    }

    /// Keep the number until throughput has moved away for a while.
    fn hold(&mut self, interval: &Interval) {
        let Phase::Hold { usual, recent, moved_for } = &mut self.phase else { return };
        if !interval.busy || interval.span.is_zero() {
            *moved_for = Duration::ZERO;
            return;
        }
        let rate = interval.acked as f64 / interval.span.as_secs_f64();
        let weight = (interval.span.as_secs_f64() / RECENT.as_secs_f64()).min(1.0);
        *recent += (rate - *recent) * weight;
        let moved = (*recent / usual.max(1.0) - 1.0).abs() > MOVED;
        *moved_for = if moved { *moved_for + interval.span } else { Duration::ZERO };
        if *moved_for >= span_of(interval.rtt, MOVED_FOR) {
            self.begin_round(interval.now);
        }
    }
}

/// Ten round trips, but at least so long.
fn span_of(rtt: Duration, least: Duration) -> Duration {
    (rtt * MEASURE_RTTS).max(least)
}

/// Each number is measured for so many round trips, and for [`MEASURE_MIN`] at least: long enough for a few of TCP's
/// saw teeth on short paths, and not so long that the search outlasts the transfer.
const MEASURE_RTTS: u32 = 10;
const MEASURE_MIN: Duration = Duration::from_secs(1);
/// Slow start is over at the latest after this; it doubles each round trip, so ten of those are a factor of 1000.
const SETTLE_MAX: Duration = Duration::from_secs(3);
/// While settling, spans of so many round trips are compared.
const CHUNK_RTTS: u32 = 3;
const CHUNK_MIN: Duration = Duration::from_millis(250);
/// Throughput that grows less than this from one span to the next has settled.
const STEADY: f64 = 1.1;
/// More lanes than are there after so long cannot be had.
const LANES_PATIENCE: Duration = Duration::from_secs(5);
/// More lanes are better only if they gain this.
const GAIN_MIN: f64 = 1.05;
/// Lanes that give less than this of the best are too many: no need to try still more.
const WORSE: f64 = 0.8;
/// So many tries in a row that gain nothing end the search: one alone may have met bad luck.
const FRUITLESS_MAX: u32 = 2;
/// The smallest number within 5 % of the best is taken: lanes that gain less take from others for nothing.
const GOOD: f64 = 0.95;
/// What a number chosen by the curve must give of the best that was measured.
const CHECK: f64 = 0.9;
/// A change of throughput by more than a quarter, for [`MOVED_FOR`], means that the path has changed.
const MOVED: f64 = 0.25;
const MOVED_FOR: Duration = Duration::from_secs(5);
/// Throughput now is averaged over about so long.
const RECENT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);
    const STEP: Duration = Duration::from_millis(100);

    /// A path on which n lanes get `rate(n)` bytes a second after a slow start of some round trips, give or take
    /// `noise` of it.
    struct Path {
        search: Search,
        now: Time,
        rng: fastrand::Rng,
        noise: f64,
        lanes: u32,
        changed: Time,
        /// How many lanes were wanted, and from when on.
        course: Vec<(f64, u32)>,
    }

    impl Path {
        fn new(first: u32, noise: f64, seed: u64) -> Path {
            Path {
                search: Search::new(first, 32, Time::ZERO),
                now: Time::ZERO,
                rng: fastrand::Rng::with_seed(seed),
                noise,
                lanes: 0,
                changed: Time::ZERO,
                course: vec![],
            }
        }

        fn run(&mut self, seconds: f64, rate: impl Fn(u32) -> f64) -> &mut Path {
            self.run_as(seconds, true, rate)
        }

        fn run_as(&mut self, seconds: f64, busy: bool, rate: impl Fn(u32) -> f64) -> &mut Path {
            let end = self.now + Duration::from_secs_f64(seconds);
            while self.now < end {
                self.now = self.now + STEP;
                if self.lanes != self.search.wanted() {
                    (self.lanes, self.changed) = (self.search.wanted(), self.now);
                    self.course.push((self.now.as_secs_f64(), self.lanes));
                }
                let grown = 2f64.powf(self.now.since(self.changed).as_secs_f64() / RTT.as_secs_f64() - 6.0);
                let luck = 1.0 + self.noise * (self.rng.f64() * 2.0 - 1.0);
                let acked = rate(self.lanes) * luck * grown.min(1.0) * STEP.as_secs_f64();
                let interval = Interval {
                    now: self.now,
                    span: STEP,
                    acked: acked as u64,
                    lanes: self.lanes,
                    rtt: RTT,
                    busy,
                };
                self.search.on_interval(&interval);
            }
            self
        }

        fn chosen(&self) -> u32 {
            self.search.chosen().unwrap_or_else(|| panic!("still searching: {:?}", self.course))
        }
    }

    /// Lanes that each get their own share until the path is full: window-limited, or held back by random loss
    /// (Mathis's formula gives each the same rate).
    fn capped(each: f64, cap: f64) -> impl Fn(u32) -> f64 {
        move |lanes| (each * f64::from(lanes)).min(cap)
    }

    #[test]
    fn enough_lanes_to_fill_the_path_and_no_more() {
        for (each, least, most) in
            [(12e6, 1, 1), (5e6, 2, 4), (1.5e6, 6, 9), (0.7e6, 13, 19), (0.1e6, 30, 32)]
        {
            let mut path = Path::new(1, 0.0, 1);
            let chosen = path.run(60.0, capped(each, 11e6)).chosen();
            assert!((least..=most).contains(&chosen), "{each}: {chosen} after {:?}", path.search.tried());
        }
    }

    #[test]
    fn noise_does_not_lead_it_far_astray() {
        for seed in 0..50 {
            let chosen = Path::new(1, 0.2, seed).run(60.0, capped(1.5e6, 11e6)).chosen();
            assert!((5..=16).contains(&chosen), "seed {seed}: {chosen}");
            let chosen = Path::new(1, 0.2, seed).run(60.0, |_| 11e6).chosen();
            assert!(chosen <= 4, "seed {seed}, a flat path: {chosen}");
        }
    }

    #[test]
    fn lanes_that_get_into_each_others_way_are_not_taken() {
        // As figure 2 of the PSockets paper: a rise up to 12 lanes, then a fall.
        let rate = |lanes: u32| {
            let n = f64::from(lanes);
            if lanes <= 12 { n * 0.8e6 } else { 9.6e6 / (1.0 + (n - 12.0) / 20.0) }
        };
        let chosen = Path::new(1, 0.05, 3).run(60.0, rate).chosen();
        assert!((7..=16).contains(&chosen), "{chosen}");
    }

    #[test]
    fn what_was_best_last_time_is_where_it_begins_and_it_may_go_down_from_there() {
        let mut path = Path::new(16, 0.0, 1);
        let chosen = path.run(60.0, capped(3e6, 11e6)).chosen();
        assert_eq!(path.course[0].1, 16);
        assert!((3..=5).contains(&chosen), "{chosen}: {:?}", path.course);
    }

    #[test]
    fn it_keeps_its_choice_until_the_path_changes() {
        let mut path = Path::new(1, 0.1, 1);
        let chosen = path.run(30.0, capped(5e6, 11e6)).chosen();
        let steps = path.course.len();
        assert_eq!(path.run(300.0, capped(5e6, 11e6)).chosen(), chosen);
        assert_eq!(path.course.len(), steps, "it tried again for no reason");
        // Loss sets in: each lane gets a fifth of what it had.
        let chosen = path.run(60.0, capped(1e6, 11e6)).chosen();
        assert!(chosen >= 8, "{chosen}");
    }

    #[test]
    fn a_program_that_sends_little_teaches_it_nothing() {
        let mut path = Path::new(1, 0.0, 1);
        path.run_as(60.0, false, |_| 1e3);
        assert_eq!((path.search.wanted(), path.search.tried().len()), (1, 0));
        let chosen = path.run(30.0, capped(5e6, 11e6)).chosen();
        assert_eq!(path.run_as(60.0, false, |_| 1e3).chosen(), chosen);
    }

    #[test]
    fn lanes_that_cannot_be_had_are_not_waited_for() {
        let mut search = Search::new(1, 32, Time::ZERO);
        let mut now = Time::ZERO;
        for _ in 0..600 {
            now = now + STEP;
            let lanes = search.wanted().min(3);
            let acked = u64::from(lanes) * 100_000;
            search.on_interval(&Interval { now, span: STEP, acked, lanes, rtt: RTT, busy: true });
        }
        assert!(search.chosen().is_some_and(|lanes| lanes <= 3), "{search:?}");
    }
}
