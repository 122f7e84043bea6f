//! Which rate to test next, and when (PCP §3.3, §3.4).

use super::super::{RATE_MIN, Remembered};
use crate::control::pcp_part::{PcpPart, Without};
use crate::units::{Rate, Time};
use core::time::Duration;

/// A search that doubles its step after each success and halves it after each failure.
#[derive(Clone, Debug)]
pub(super) struct Search {
    datagram_bits: f64,
    rtt: Duration,
    /// What was shown to pass, bit/s; zero before the first success.
    proven: f64,
    /// The most that was, for the next transfer.
    best: f64,
    /// What the next test adds to it.
    step: f64,
    /// Failures in a row.
    failures: u32,
    /// No test before.
    next: Time,
    history: Option<History>,
    without: Without,
}

/// What earlier transfers found, and whether it turned out right.
#[derive(Clone, Copy, Debug)]
struct History {
    share: f64,
    /// bit/s; zero once it turned out wrong.
    rate: f64,
    /// The first test is over.
    is_settled: bool,
}

impl Search {
    /// Begin at the share of what is remembered, or else with a full datagram in half a round trip (§3.3).
    pub fn new(datagram_len: u64, rtt: Duration, remembered: Option<Remembered>, without: Without) -> Search {
        let datagram_bits = 8.0 * datagram_len as f64;
        let mut search = Search {
            datagram_bits,
            rtt,
            proven: 0.0,
            best: 0.0,
            step: 0.0,
            failures: 0,
            next: Time::ZERO,
            history: None,
            without,
        };
        let from_nothing = 2.0 * datagram_bits / rtt.as_secs_f64();
        let from_history = remembered.map(|known| {
            let share = if known.share > 0.0 { known.share.min(Remembered::SHARE_MAX) } else { 0.0 };
            let rate = known.rate.0 as f64;
            search.history = Some(History { share, rate, is_settled: false });
            rate * share
        });
        search.step = from_history.unwrap_or(0.0).max(from_nothing);
        search
    }

    /// The base rate, bit/s.
    pub fn base(&self) -> f64 {
        self.proven.max(self.floor())
    }

    /// What is sent before anything is known: a datagram each round trip, the rate of the paper's beginning.
    fn floor(&self) -> f64 {
        (self.datagram_bits / self.rtt.as_secs_f64()).clamp(RATE_MIN, FLOOR_MAX)
    }

    /// The rate to test next.
    pub fn test_rate(&self) -> f64 {
        self.proven + self.step
    }

    /// No test before this.
    pub fn next(&self) -> Time {
        self.next
    }

    /// The round trip as it is now.
    pub fn set_rtt(&mut self, now: Time, rtt: Duration) {
        if rtt < self.rtt {
            // What was put off by a round trip that has come back to normal is not put off for long.
            self.next = self.next.min(now + rtt * (1 << BACKOFF_MAX));
        }
        self.rtt = rtt;
    }

    /// The path carried a test: the rate jumps there, and the next test is due.
    pub fn on_carried(&mut self, now: Time, rate: f64) {
        self.settle_history(true);
        self.proven = self.proven.max(rate);
        self.best = self.best.max(self.proven);
        // A host that cannot send so fast does not get there, however much is asked for.
        self.step = (self.step * 2.0).min(self.proven * 2.0);
        self.failures = 0;
        self.next = now;
    }

    /// A test that was asked for at `asked_at` failed.
    pub fn on_failed(&mut self, asked_at: Time) {
        self.settle_history(false);
        self.step = (self.step / 2.0).max(self.step_min());
        let before = if self.without.has(PcpPart::BackOff) { self.failures } else { 0 };
        self.next = asked_at + self.rtt * (1 << before);
        self.failures = (self.failures + 1).min(BACKOFF_MAX);
    }

    /// There was too little to send for a whole train.
    pub fn on_cut_short(&mut self, now: Time) {
        self.next = now + self.rtt;
    }

    /// The base rate was too high: lower it by `share`. What that leaves is looked for soon, but if `drains` only
    /// once the queue has had the time to go.
    pub fn lower(&mut self, now: Time, share: f64, drains: bool) {
        self.proven = (self.base() * (1.0 - share)).max(RATE_MIN);
        self.step = self.step.min(self.proven).max(self.step_min());
        self.failures = self.failures.min(1);
        let soon = now + self.rtt * SOON_ROUNDS;
        self.next = if drains { soon } else { self.next.min(soon) };
    }

    /// The receiver takes no more than `rate`.
    pub fn bound(&mut self, now: Time, rate: f64) {
        self.proven = self.proven.min(rate).max(RATE_MIN);
        self.next = self.next.max(now + self.rtt);
    }

    /// Additive, so that flows that share a path end up with equal rates; less where that is much. A flow that has next
    /// to nothing never asks for less than the paper's first probe does, a datagram in half a round trip.
    fn step_min(&self) -> f64 {
        if self.proven <= self.floor() {
            return 2.0 * self.floor() - self.proven;
        }
        if !self.without.has(PcpPart::LeastStep) {
            return STEP_NONE;
        }
        let additive = self.datagram_bits / self.rtt.max(STEP_SPAN_MIN).as_secs_f64();
        additive.min(self.base() / STEP_SHARE)
    }

    fn settle_history(&mut self, is_right: bool) {
        if let Some(history) = self.history.as_mut().filter(|history| !history.is_settled) {
            history.is_settled = true;
            let factor = if is_right { 2.0 } else { 0.5 };
            history.rate *= f64::from(u8::from(is_right));
            history.share = (history.share * factor).clamp(SHARE_MIN, Remembered::SHARE_MAX);
        }
    }

    /// What a later transfer may begin with (§3.4); nothing where no test succeeded. It is the best that the path
    /// carried lately, not what was left of it in the end: a guess that is too high costs a probe, one that is too low
    /// a search.
    pub fn remember(&self) -> Option<Remembered> {
        let share = self.history.map_or(Remembered::SHARE_MAX, |history| history.share);
        let earlier = self.history.map_or(0.0, |history| history.rate * KEPT);
        let rate = Rate(self.best.max(earlier) as u64);
        (self.best > 0.0).then_some(Remembered { rate, share })
    }
}

/// A wait is twice the last, so often in a row at most: 32 round trips.
const BACKOFF_MAX: u32 = 5;
/// What a lower rate leaves is looked for after so many round trips.
const SOON_ROUNDS: u32 = 3;
/// The smallest step is a datagram in a round trip, or in this where the round trip is shorter …
const STEP_SPAN_MIN: Duration = Duration::from_millis(25);
/// … and at most this part of the base rate.
const STEP_SHARE: f64 = 4.0;
/// Without a least step: what is as good as none, and can be doubled.
const STEP_NONE: f64 = 1.0;
/// What was remembered and turned out right outlives a slower transfer by this factor.
const KEPT: f64 = 0.8;
/// Nor is it above this before a test succeeded, however short the round trip.
const FLOOR_MAX: f64 = 1_000_000.0;
/// Shares of what is remembered stop shrinking here: about 1/200.
const SHARE_MIN: f64 = Remembered::SHARE_MAX / 64.0;

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    /// A datagram a round trip is 100 kb/s.
    const LEN: u64 = 1250;
    const UNIT: f64 = 100_000.0;

    fn search(remembered: Option<Remembered>) -> Search {
        Search::new(LEN, RTT, remembered, Without::default())
    }

    #[test]
    fn steps_double_from_two_datagrams_a_round_trip() {
        let mut search = search(None);
        let mut tested = vec![];
        for _ in 0..6 {
            tested.push(search.test_rate() / UNIT);
            search.on_carried(Time::ZERO, search.test_rate());
        }
        assert_eq!(tested, [2.0, 6.0, 14.0, 30.0, 62.0, 126.0]);
        assert_eq!(search.base(), 126.0 * UNIT);
    }

    #[test]
    fn a_failure_halves_the_step_and_leaves_the_rate() {
        let mut search = search(None);
        search.on_carried(Time::ZERO, search.test_rate());
        search.on_carried(Time::ZERO, search.test_rate());
        assert_eq!(search.test_rate(), 14.0 * UNIT);
        search.on_failed(Time::ZERO);
        assert_eq!((search.base(), search.test_rate()), (6.0 * UNIT, 10.0 * UNIT));
    }

    #[test]
    fn parts_of_the_search_can_be_switched_off() {
        let without = |part| {
            let mut search = Search::new(LEN, RTT, None, Without(Some(part)));
            search.on_carried(Time::ZERO, search.test_rate());
            (0..20).for_each(|_| search.on_failed(Time::ZERO));
            search
        };
        assert!(without(PcpPart::BackOff).next() <= Time::ZERO + RTT);
        assert!(without(PcpPart::LeastStep).step < 0.01 * UNIT);
        assert!(without(PcpPart::BackOff).step >= 0.5 * UNIT);
    }

    #[test]
    fn failures_in_a_row_back_off_to_32_round_trips() {
        let mut search = search(None);
        for most in [1, 2, 4, 8, 16, 32, 32, 32] {
            search.on_failed(Time::ZERO);
            assert_eq!(search.next(), Time::ZERO + RTT * most);
        }
        search.on_carried(Time::from_millis(5), search.test_rate());
        assert_eq!(search.next(), Time::from_millis(5));
    }

    /// A host that slept for hours measures a round trip of hours.
    #[test]
    fn a_round_trip_of_hours_does_not_put_off_probes_for_days() {
        let mut search = search(None);
        search.set_rtt(Time::ZERO, Duration::from_secs(10_000));
        (0..6).for_each(|_| search.on_failed(Time::ZERO));
        assert!(search.next() > Time::ZERO + Duration::from_secs(100_000));
        let now = Time::from_millis(50);
        search.set_rtt(now, RTT);
        assert!(search.next() <= now + RTT * 32);
    }

    #[test]
    fn history_begins_at_a_third_and_then_tests_the_whole() {
        let mut search = search(Some(Remembered::new(Rate(90_000_000))));
        assert!((search.test_rate() - 30e6).abs() < 1.0);
        search.on_carried(Time::ZERO, 30e6);
        assert!((search.test_rate() - 90e6).abs() < 1.0);
    }

    #[test]
    fn bad_guesses_halve_the_share_and_good_ones_double_it() {
        let known = Remembered::new(Rate(90_000_000));
        let mut bad = search(Some(known));
        bad.on_failed(Time::ZERO);
        assert_eq!(bad.remember(), None);
        bad.on_carried(Time::ZERO, bad.test_rate());
        let after_bad = bad.remember().unwrap();
        assert_eq!(after_bad.share, 1.0 / 6.0);
        // Only the first test is a guess.
        bad.on_failed(Time::ZERO);
        assert_eq!(bad.remember(), Some(after_bad));
        let mut good = search(Some(after_bad));
        good.on_carried(Time::ZERO, good.test_rate());
        assert_eq!(good.remember().unwrap().share, 1.0 / 3.0);
        let mut better = search(good.remember());
        better.on_carried(Time::ZERO, better.test_rate());
        assert_eq!(better.remember().unwrap().share, 1.0 / 3.0, "never above a third");
    }

    #[test]
    fn the_best_that_the_path_carried_is_remembered() {
        let known = Some(Remembered::new(Rate(90_000_000)));
        let rate = |search: &Search| search.remember().unwrap().rate.0;
        let mut shared = search(known);
        shared.on_carried(Time::ZERO, 30e6);
        shared.lower(Time::ZERO, 0.9, true);
        assert_eq!(rate(&shared), 72_000_000, "what was right fades");
        let mut slower = search(known);
        slower.on_failed(Time::ZERO);
        slower.on_carried(Time::ZERO, 10e6);
        assert_eq!(rate(&slower), 10_000_000, "what was wrong does not come back");
        slower.lower(Time::ZERO, 0.9, true);
        assert_eq!(rate(&slower), 10_000_000);
    }

    /// Tests that met others' queues used to shrink far below the rate that needs no test.
    #[test]
    fn no_test_asks_for_less_than_the_first() {
        let mut search = search(None);
        (0..10).for_each(|_| search.on_failed(Time::ZERO));
        assert_eq!(search.test_rate(), 2.0 * UNIT);
        search.on_carried(Time::ZERO, search.test_rate());
        search.lower(Time::ZERO, 0.9, true);
        assert_eq!(search.test_rate(), 2.0 * UNIT);
    }

    #[test]
    fn senseless_history_is_no_faster_than_none() {
        for share in [f64::NAN, -1.0, 0.0] {
            let search = search(Some(Remembered { rate: Rate(u64::MAX), share }));
            assert_eq!(search.test_rate(), 2.0 * UNIT);
        }
        let search = search(Some(Remembered { rate: Rate(90_000_000), share: 5.0 }));
        assert!((search.test_rate() - 30e6).abs() < 1.0);
    }

    #[test]
    fn a_host_that_cannot_send_so_fast_asks_for_three_times_what_it_did_at_most() {
        let mut search = search(Some(Remembered::new(Rate(3_000_000_000))));
        for _ in 0..100 {
            search.on_carried(Time::ZERO, 700e6);
        }
        assert_eq!((search.base(), search.test_rate()), (700e6, 2100e6));
    }

    #[test]
    fn lowering_brings_the_next_test_near() {
        let mut search = search(None);
        search.on_carried(Time::ZERO, 10e6);
        (0..6).for_each(|_| search.on_failed(Time::ZERO));
        search.lower(Time::ZERO, 0.1, true);
        assert!((search.base() - 9e6).abs() < 1.0);
        assert!(search.next() <= Time::ZERO + RTT * 4);
    }
}
