//! BBR, version 1 (Cardwell et al., ACM Queue 2016; constants as in Linux's `tcp_bbr.c`): a competitor for
//! experiments.
//!
//! It models the path by two figures, the largest delivery rate of the last ten rounds and the shortest round trip
//! of the last ten seconds, paces at the first and keeps at most twice their product on its way. Left out are the
//! long-term sampling for policers and the allowance for aggregated acknowledgements.
//!
//! ```text
//! Startup ──rate grows no more──▶ Drain ──queue gone──▶ ProbeBw ◀──200 ms──▶ ProbeRtt (round trip older than 10 s)
//! ```

use super::{AckSample, BURST, ControlConfig, Controller, LossSample, RATE_MIN, Snapshot};
use crate::units::{DatagramNumber, Rate, Time};
use core::time::Duration;
use std::collections::VecDeque;

/// See the [module](self).
#[derive(Debug)]
pub struct Bbr {
    datagram_len: u64,
    state: State,
    bandwidth: MaxRate,
    rtt_min: Option<Duration>,
    rtt_min_at: Time,
    marks: VecDeque<Mark>,
    /// Acknowledgements so far between which the sender had nothing to send.
    idles: u64,
    received_bytes: u64,
    round: Round,
    pipe: Pipe,
    pacing_rate: Rate,
    window_bytes: u64,
    /// The window before a loss or a `ProbeRtt` made it smaller.
    window_before: u64,
    recovery: Recovery,
    rng: fastrand::Rng,
    /// Somebody else on the path empties the queue now and then.
    is_shown_rtt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Startup,
    Drain,
    /// One phase of the gain cycle.
    ProbeBw {
        phase: usize,
        began: Time,
        lost: bool,
    },
    /// Once little enough is on its way: until `until`, and for a round.
    ProbeRtt {
        until: Option<Time>,
        round_ends: DatagramNumber,
    },
}

/// What was so when an acknowledgement came in: datagrams from `number` on left after it.
#[derive(Clone, Copy, Debug)]
struct Mark {
    number: DatagramNumber,
    now: Time,
    arrival: Time,
    received_bytes: u64,
    idles: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    count: u64,
    ends: DatagramNumber,
}

/// Whether the delivery rate still grows from round to round.
#[derive(Clone, Copy, Debug, Default)]
struct Pipe {
    rate: Rate,
    rounds: u32,
    is_full: bool,
}

/// For the first round after a loss no more leaves than comes in.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Recovery {
    No,
    /// The next acknowledgement tells how long.
    Begun,
    Conserving {
        until: DatagramNumber,
    },
    /// Later losses of the same recovery do not start it again.
    Over {
        until: DatagramNumber,
    },
}

impl Bbr {
    /// Begin with ten datagrams in a round trip, and grow.
    pub fn new(config: ControlConfig) -> Bbr {
        let datagram_len = config.datagram_len.max(1);
        let window_bytes = WINDOW_FIRST * datagram_len;
        let rtt = if config.rtt.is_zero() { RTT_UNKNOWN } else { config.rtt };
        Bbr {
            datagram_len,
            state: State::Startup,
            bandwidth: MaxRate::default(),
            rtt_min: None,
            rtt_min_at: Time::ZERO,
            marks: VecDeque::new(),
            idles: 0,
            received_bytes: 0,
            round: Round::default(),
            pipe: Pipe::default(),
            pacing_rate: Rate::measured(window_bytes, rtt).scale(STARTUP_GAIN),
            window_bytes,
            window_before: 0,
            is_shown_rtt: false,
            recovery: Recovery::No,
            rng: fastrand::Rng::with_seed(config.seed),
        }
    }

    /// Go on at `rate` beside another BBR, where the empty path's round trip is known. It never pauses to look at that: the other's pauses
    /// show it, and what a pause costs is the other's gain (over an emulated path 13.8 % beside the kernel's BBR instead of 56.4 %).
    pub(super) fn resumed(config: ControlConfig, now: Time, rate: Rate) -> Bbr {
        let mut bbr = Bbr::new(config);
        bbr.bandwidth.update(0, rate);
        (bbr.rtt_min, bbr.rtt_min_at) = (Some(config.rtt), now);
        bbr.is_shown_rtt = true;
        bbr.pipe = Pipe { rate, rounds: FULL_ROUNDS, is_full: true };
        bbr.pacing_rate = rate;
        bbr.window_bytes = rate.bytes_in(config.rtt * 2);
        bbr.probe_bandwidth(now);
        bbr
    }

    fn pacing_gain(&self) -> f64 {
        match self.state {
            State::Startup => STARTUP_GAIN,
            State::Drain => 1.0 / STARTUP_GAIN,
            State::ProbeBw { phase, .. } => CYCLE[phase],
            State::ProbeRtt { .. } => 1.0,
        }
    }

    fn window_gain(&self) -> f64 {
        match self.state {
            State::Startup | State::Drain => STARTUP_GAIN,
            State::ProbeBw { .. } => WINDOW_GAIN,
            State::ProbeRtt { .. } => 1.0,
        }
    }

    /// What the path holds at `gain` times its rate, and what lies with the hosts in bursts. `None`: not known yet.
    fn target_bytes(&self, gain: f64) -> Option<u64> {
        let (rtt, rate) = (self.rtt_min?, self.bandwidth.get()?);
        let burst = self.pacing_rate.bytes_in(BURST).max(BURST_MIN * self.datagram_len);
        let raise = if matches!(self.state, State::ProbeBw { phase: 0, .. }) { PROBE_EXTRA } else { 0 };
        let beside = BURSTS.saturating_mul(burst).saturating_add(raise * self.datagram_len);
        Some(rate.scale(gain).bytes_in(rtt).saturating_add(beside))
    }

    fn in_flight_within(&self, ack: &AckSample, gain: f64) -> bool {
        self.target_bytes(gain).is_some_and(|target| ack.in_flight <= target)
    }

    /// The rate at which the datagrams that came in last were delivered: what came in since the acknowledgement before
    /// they left, over the longer of the times that passed here and at the receiver.
    fn sample_rate(&mut self, ack: &AckSample) -> Option<(Rate, bool)> {
        while self.marks.get(1).is_some_and(|next| next.number <= ack.largest) {
            self.marks.pop_front();
        }
        let mark = self.marks.front().filter(|mark| mark.number <= ack.largest)?;
        let span = ack.now.since(mark.now).max(ack.arrival.since(mark.arrival));
        let bytes = ack.received_bytes.saturating_sub(mark.received_bytes);
        let is_sound = span >= self.rtt_min.unwrap_or_default() && !span.is_zero();
        is_sound.then(|| (Rate::measured(bytes, span), mark.idles != self.idles))
    }

    fn update_model(&mut self, ack: &AckSample) {
        let new_round = ack.largest >= self.round.ends;
        if new_round {
            self.round = Round { count: self.round.count + 1, ends: ack.next_number };
        }
        if let Some((rate, is_idle)) = self.sample_rate(ack)
            && (!is_idle || self.bandwidth.get().is_none_or(|most| rate >= most))
        {
            self.bandwidth.update(self.round.count, rate);
            self.check_pipe(new_round && !is_idle);
        }
    }

    /// Three rounds in which the rate grew by less than a quarter: the pipe is full.
    fn check_pipe(&mut self, is_round: bool) {
        let Some(rate) = self.bandwidth.get().filter(|_| is_round && !self.pipe.is_full) else { return };
        if rate >= self.pipe.rate.scale(FULL_GROWTH) {
            self.pipe = Pipe { rate, rounds: 0, is_full: false };
        } else {
            self.pipe.rounds += 1;
            self.pipe.is_full = self.pipe.rounds >= FULL_ROUNDS;
        }
    }

    fn update_state(&mut self, ack: &AckSample) {
        match self.state {
            State::Startup if self.pipe.is_full => self.state = State::Drain,
            State::Drain if self.in_flight_within(ack, 1.0) => self.probe_bandwidth(ack.now),
            State::ProbeBw { phase, began, lost } => {
                let lasted = ack.now.since(began) > self.rtt_min.unwrap_or_default();
                let goes_on = match CYCLE[phase] {
                    // The higher rate must have filled the path, if it can; the lower one must have drained it.
                    gain if gain > 1.0 => lasted && (lost || !self.in_flight_within(ack, gain)),
                    gain if gain < 1.0 => lasted || self.in_flight_within(ack, 1.0),
                    _ => lasted,
                };
                if goes_on {
                    let phase = (phase + 1) % CYCLE.len();
                    self.state = State::ProbeBw { phase, began: ack.now, lost: false };
                }
            }
            _ => {}
        }
    }

    /// Enter the cycle anywhere but where it slows down, so that flows do not probe together.
    fn probe_bandwidth(&mut self, now: Time) {
        let phase = (2 + self.rng.usize(..CYCLE.len() - 1)) % CYCLE.len();
        self.state = State::ProbeBw { phase, began: now, lost: false };
    }

    /// The shortest round trip, and the pause that makes it visible once it has become old.
    fn update_rtt(&mut self, ack: &AckSample) {
        let is_old = !self.is_shown_rtt && self.rtt_min.is_some() && ack.now.since(self.rtt_min_at) > RTT_AGE;
        if let Some(rtt) = ack.rtt
            && (is_old || self.rtt_min.is_none_or(|least| rtt <= least))
        {
            (self.rtt_min, self.rtt_min_at) = (Some(rtt), ack.now);
        }
        if is_old && !matches!(self.state, State::ProbeRtt { .. }) {
            self.window_before = self.window_before.max(self.window_bytes);
            self.state = State::ProbeRtt { until: None, round_ends: 0 };
        }
        if let State::ProbeRtt { until, round_ends } = self.state {
            match until {
                None if ack.in_flight <= WINDOW_MIN * self.datagram_len => {
                    let until = Some(ack.now + PROBE_RTT_SPAN);
                    self.state = State::ProbeRtt { until, round_ends: ack.next_number };
                }
                Some(at) if ack.now >= at && ack.largest >= round_ends => self.end_probe_rtt(ack.now),
                _ => {}
            }
        }
    }

    fn end_probe_rtt(&mut self, now: Time) {
        self.rtt_min_at = now;
        self.restore_window();
        if self.pipe.is_full {
            self.probe_bandwidth(now);
        } else {
            self.state = State::Startup;
        }
    }

    fn restore_window(&mut self) {
        self.window_bytes = self.window_bytes.max(std::mem::take(&mut self.window_before));
    }

    fn set_pacing(&mut self) {
        let Some(rate) = self.bandwidth.get() else { return };
        let rate = rate.scale(self.pacing_gain() * PACING_MARGIN).max(Rate(RATE_MIN as u64));
        if self.pipe.is_full || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_window(&mut self, ack: &AckSample, acked_bytes: u64) {
        self.step_recovery(ack);
        if let Recovery::Conserving { .. } = self.recovery {
            self.window_bytes = self.window_bytes.max(ack.in_flight.saturating_add(acked_bytes));
        } else {
            let target = self.target_bytes(self.window_gain());
            let grown = self.window_bytes.saturating_add(acked_bytes);
            self.window_bytes = match target {
                Some(target) if self.pipe.is_full => grown.min(target),
                Some(target) if self.window_bytes >= target => self.window_bytes,
                _ => grown,
            };
        }
        self.window_bytes = self.window_bytes.max(WINDOW_MIN * self.datagram_len);
        if let State::ProbeRtt { .. } = self.state {
            self.window_bytes = WINDOW_MIN * self.datagram_len;
        }
    }

    fn step_recovery(&mut self, ack: &AckSample) {
        self.recovery = match self.recovery {
            Recovery::Begun => Recovery::Conserving { until: ack.next_number },
            Recovery::Conserving { until } if ack.largest >= until => {
                self.restore_window();
                Recovery::Over { until: ack.next_number }
            }
            Recovery::Over { until } if ack.largest >= until => Recovery::No,
            other => other,
        };
    }

    fn begin_recovery(&mut self, window_bytes: u64) {
        self.window_before = self.window_before.max(self.window_bytes);
        self.window_bytes = window_bytes.max(WINDOW_MIN * self.datagram_len);
        self.recovery = Recovery::Begun;
    }
}

impl Controller for Bbr {
    fn on_ack(&mut self, ack: &AckSample) {
        let acked_bytes = ack.received_bytes.saturating_sub(self.received_bytes);
        self.received_bytes = ack.received_bytes;
        self.idles += u64::from(ack.app_limited);
        self.update_model(ack);
        self.update_state(ack);
        self.update_rtt(ack);
        self.set_pacing();
        self.set_window(ack, acked_bytes);
        // Numbers that went back are a new count.
        while self.marks.pop_back_if(|mark| mark.number > ack.next_number).is_some() {}
        if self.marks.back().is_none_or(|mark| mark.number < ack.next_number) {
            self.marks.push_back(Mark {
                number: ack.next_number,
                now: ack.now,
                arrival: ack.arrival,
                received_bytes: ack.received_bytes,
                idles: self.idles,
            });
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        if let State::ProbeBw { lost, .. } = &mut self.state {
            *lost = true;
        }
        if loss.new_episode && self.recovery == Recovery::No {
            self.begin_recovery(loss.in_flight);
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        self.pipe = Pipe { is_full: self.pipe.is_full, ..Pipe::default() };
        self.begin_recovery(0);
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.pacing_rate)
    }

    fn window(&self) -> Option<u64> {
        Some(self.window_bytes)
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            bandwidth: self.bandwidth.get(),
            phase: match self.state {
                State::Startup => "startup",
                State::Drain => "drain",
                State::ProbeBw { .. } => "probe-bw",
                State::ProbeRtt { .. } => "probe-rtt",
            },
            ..Snapshot::default()
        }
    }
}

/// The largest rate of the last ten rounds: candidates with falling rates and rising rounds.
#[derive(Clone, Debug, Default)]
struct MaxRate {
    candidates: VecDeque<(u64, Rate)>,
}

impl MaxRate {
    fn update(&mut self, round: u64, rate: Rate) {
        while self.candidates.back().is_some_and(|(_, last)| *last <= rate) {
            self.candidates.pop_back();
        }
        self.candidates.push_back((round, rate));
        while self.candidates.front().is_some_and(|(first, _)| first + RATE_ROUNDS <= round) {
            self.candidates.pop_front();
        }
    }

    fn get(&self) -> Option<Rate> {
        self.candidates.front().map(|(_, rate)| *rate)
    }
}

/// 2/ln 2: the least gain that lets the rate double each round.
const STARTUP_GAIN: f64 = 2.885;
/// Pacing gains of the eight phases, each about a round trip.
pub const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Window in terms of what the path holds: acknowledgements may be late and bundled.
const WINDOW_GAIN: f64 = 2.0;
/// The window at first (RFC 6928 §2), and at least, in datagrams.
pub const WINDOW_FIRST: u64 = 10;
const WINDOW_MIN: u64 = 4;
/// Bursts that the window makes room for, and datagrams in one at least.
const BURSTS: u64 = 3;
const BURST_MIN: u64 = 2;
/// Datagrams more on their way while the rate is probed.
const PROBE_EXTRA: u64 = 2;
/// The share of the rate that is paced at, lest a queue builds up for ever.
const PACING_MARGIN: f64 = 0.99;
/// The rate still grows if it is so much larger than when it last grew …
const FULL_GROWTH: f64 = 1.25;
/// … and no more after so many rounds without.
const FULL_ROUNDS: u32 = 3;
/// Rounds of which the largest rate counts.
const RATE_ROUNDS: u64 = 10;
/// A shortest round trip older than this is measured anew …
pub const RTT_AGE: Duration = Duration::from_secs(10);
/// … with next to nothing on its way for so long.
pub const PROBE_RTT_SPAN: Duration = Duration::from_millis(200);
/// Where nobody measured the round trip before.
const RTT_UNKNOWN: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;

    fn bbr() -> Bbr {
        Bbr::new(ControlConfig::new(1000, Duration::from_millis(20)))
    }

    /// A datagram of 1000 bytes every 100 µs, acknowledged by tens over 20 ms: 80 Mb/s.
    fn run(bbr: &mut Bbr, ms: core::ops::Range<u64>) {
        for at in ms {
            bbr.on_ack(&AckSample { next_number: 10 * at + 200, in_flight: 200_000, ..ack(at, 10 * at) });
        }
    }

    #[test]
    fn it_begins_with_ten_datagrams_in_a_round_trip_and_gain() {
        let bbr = bbr();
        assert_eq!(bbr.window(), Some(10_000));
        assert_eq!(bbr.pacing_rate(), Some(Rate(4_000_000).scale(2.885)));
    }

    #[test]
    fn the_rate_is_that_of_delivery_and_the_pipe_is_full_after_three_rounds_without_growth() {
        let mut bbr = bbr();
        run(&mut bbr, 0..41);
        assert_eq!(bbr.bandwidth.get(), Some(Rate::from_mbps(80.0)));
        assert_eq!(bbr.pacing_rate(), Some(Rate::from_mbps(80.0).scale(2.885 * 0.99)));
        assert_eq!(bbr.snapshot().phase, "startup");
        run(&mut bbr, 41..110);
        assert!(bbr.pipe.is_full);
        assert_ne!(bbr.snapshot().phase, "startup");
    }

    #[test]
    fn an_idle_sender_tells_nothing_of_the_path_unless_it_is_more() {
        let mut bbr = bbr();
        run(&mut bbr, 0..60);
        for at in 60..600 {
            let largest = 590 + (at - 59);
            bbr.on_ack(&AckSample { app_limited: true, next_number: largest + 20, ..ack(at, largest) });
        }
        assert_eq!(
            bbr.bandwidth.get(),
            Some(Rate::from_mbps(80.0)),
            "though only 8 came in for ten rounds and more"
        );
    }

    #[test]
    fn the_largest_rate_is_forgotten_after_ten_rounds() {
        let mut most = MaxRate::default();
        for (round, rate) in [(1, 50), (2, 90), (3, 70), (4, 80)] {
            most.update(round, Rate(rate));
        }
        assert_eq!(most.get(), Some(Rate(90)));
        for (round, kept) in [(11, 90), (12, 80), (13, 80), (14, 10)] {
            most.update(round, Rate(10));
            assert_eq!(most.get(), Some(Rate(kept)), "round {round}");
        }
    }

    #[test]
    fn for_a_round_after_a_loss_no_more_leaves_than_comes_in() {
        let mut bbr = bbr();
        run(&mut bbr, 0..200);
        let before = bbr.window().unwrap();
        assert!(before > 300_000, "twice what the path holds: {before}");
        bbr.on_loss(&LossSample { in_flight: 150_000, ..loss(200, 3, true) });
        assert_eq!(bbr.window(), Some(150_000));
        let step = |at, in_flight| AckSample { next_number: 10 * at + 200, in_flight, ..ack(at, 10 * at) };
        bbr.on_ack(&step(200, 148_000));
        assert_eq!(bbr.window(), Some(158_000), "what is on its way and what came in");
        bbr.on_loss(&LossSample { in_flight: 100_000, ..loss(201, 3, true) });
        (201..220).for_each(|at| bbr.on_ack(&step(at, 140_000)));
        assert_eq!(bbr.window(), Some(158_000), "once in a recovery");
        bbr.on_ack(&step(221, 150_000));
        assert!(bbr.window() >= Some(before - 20_000), "{:?} of {before}", bbr.window());
    }

    #[test]
    fn silence_leaves_four_datagrams_and_the_first_round_restores_the_window() {
        let mut bbr = bbr();
        run(&mut bbr, 0..200);
        let before = bbr.window().unwrap();
        (0..3).for_each(|n| bbr.on_timeout(Time::from_millis(300 + n)));
        assert_eq!(bbr.window(), Some(4000));
        run(&mut bbr, 400..440);
        assert!(bbr.window() >= Some(before - 20_000), "{:?} of {before}", bbr.window());
    }
}
