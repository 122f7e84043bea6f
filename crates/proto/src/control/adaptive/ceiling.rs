//! Too much loss: is it ours? And if so, what it says of the bottleneck.

use super::company::RANDOM_SHARED;
use super::loss::{Counted, RANDOM_MAX};
use super::startup::TRAIN_LEN;
use super::{ALIKE, Adaptive, REFRESH_EVERY, State, TIMER};
use crate::control::{AckSample, BURST, RATE_MIN};
use crate::units::{DatagramNumber, Time, nanos};
use core::time::Duration;

/// A while of sending less, to see whether loss goes away.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Test {
    pub began: Time,
    /// The first datagram sent at the lower rate.
    pub from: DatagramNumber,
    /// Where counting began: once what was sent before is through.
    pub counted: Option<Counted>,
    /// What called for the test.
    pub loss: f64,
    pub delivered: f64,
    /// All of that had passed while the path was full.
    pub is_measured: bool,
    pub queue_ns: f64,
    /// No queue was there, as far as is known.
    pub is_dry: bool,
    /// More was tried than a policer lets pass.
    pub tries_more: bool,
}

/// What is known of the bottleneck's limits from having met them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ceiling {
    /// The target's base that makes half of the queue that was there when the path last dropped for want of room.
    pub room_ns: f64,
    /// Bursts that the queue takes, ns.
    pub burst_ns: f64,
    /// Until then the rate does not grow.
    pub hold_until: Time,
    /// How long it did not, the last time, and at which bandwidth.
    pub hold: Duration,
    pub bandwidth: f64,
}

impl Ceiling {
    /// Nothing met yet.
    pub fn new(rtt: Duration) -> Ceiling {
        // The first bursts are of one datagram where the window is at its least, which is TRAIN_LEN datagrams.
        let burst_ns = (nanos(rtt) as f64 / TRAIN_LEN).clamp(nanos(TIMER) as f64, nanos(BURST) as f64);
        Ceiling {
            room_ns: f64::INFINITY,
            burst_ns,
            hold_until: Time::ZERO,
            hold: Duration::ZERO,
            bandwidth: 0.0,
        }
    }
}

impl Test {
    /// What is sent, bit/s. A known policer needs no proof: its bucket is to stay empty until its rate is measured anew.
    pub fn rate(&self) -> f64 {
        self.delivered * if self.tries_more { 1.0 } else { 1.0 - ALIKE }
    }
}

impl Adaptive {
    /// End of a round in a test, which delivered `delivered` bit/s: once what was sent at the old rate is through, count; when
    /// enough is counted, judge.
    pub(super) fn judge(&mut self, ack: &AckSample, test: Test, delivered: f64) {
        let Some(counted) = test.counted else {
            if ack.largest < test.from {
                return;
            }
            if test.tries_more && self.meet_policer(ack.now, delivered) {
                self.loss.restart(ack);
                return;
            }
            // Beside an outage it comes unevenly, and what was delivered before says nothing.
            let is_even = delivered > self.round.delivered_max / 2.0 && !self.round.is_late;
            let is_dry =
                test.is_dry && is_even && (test.is_measured || delivered * (1.0 - ALIKE) <= test.delivered);
            let test = Test { is_dry, tries_more: false, ..test };
            let is_slower = is_dry && delivered < test.delivered * (1.0 - ALIKE);
            self.state = State::Test(if is_slower && !test.is_measured {
                // A burst that passed before had made the path look faster.
                Test { from: ack.next_number, delivered, is_measured: true, ..test }
            } else {
                Test { counted: Some(Counted::at(ack)), ..test }
            });
            return;
        };
        let (datagrams, loss) = counted.until(ack, self.datagram_len);
        // While a test lasts no refresh begins: it takes no longer than half of the time between two, and a round trip or two.
        // Without a bound the worst cell of a grid falls from 61 to 47 %.
        let is_long = ack.now >= test.began + REFRESH_EVERY / 2;
        if datagrams < self.loss.datagrams_to_judge(test.loss) && !is_long {
            return;
        }
        let (before, now) = (test.loss - self.loss.random, loss - self.loss.random);
        // Where so many share the path that one of them makes no difference, it looks like nobody's doing.
        if loss > RANDOM_SHARED && !self.is_background && !self.refresh.is_idle && self.has_company() {
            self.loss.restart(ack);
            self.compete_at(test.delivered);
            return;
        }
        let is_flood = loss > RANDOM_MAX;
        let still =
            now > before / 2.0 || before - now < self.loss.chance((test.loss + loss) / 2.0, datagrams);
        self.loss.restart(ack);
        self.state = State::Cruise;
        if is_flood {
            self.bandwidth = test.delivered.max(RATE_MIN);
            self.meet_ceiling(ack.now, test.queue_ns);
            return;
        }
        self.loss.random = loss;
        if !still {
            // It was ours: what was delivered while it lasted is what the path carries.
            self.bandwidth = (test.delivered / (1.0 - loss).max(0.1)).max(RATE_MIN);
            if test.is_dry && self.find_policer(ack) {
                self.hold_growth(ack.now);
            } else {
                self.meet_ceiling(ack.now, test.queue_ns);
            }
        }
    }

    /// The path dropped for want of room when its queue was `queue_ns` long by our measure.
    pub(super) fn meet_ceiling(&mut self, now: Time, queue_ns: f64) {
        let share = self.target_share();
        let ceiling = &mut self.ceiling;
        if queue_ns < ceiling.burst_ns {
            ceiling.burst_ns /= 2.0;
        }
        ceiling.room_ns = (queue_ns / 2.0 / share).max(nanos(TIMER) as f64);
        self.hold_growth(now);
    }

    /// The path carries no more: wait before more is tried.
    pub(super) fn hold_growth(&mut self, now: Time) {
        let ceiling = &mut self.ceiling;
        let least = self.rtt * HOLD_ROUNDS;
        ceiling.hold = (ceiling.hold * 2).clamp(least, HOLD_MAX.max(least));
        ceiling.hold_until = now + ceiling.hold;
        ceiling.bandwidth = self.bandwidth;
    }
}

/// Rounds without growth after congestion loss, twice as many each time that it is met again, up to a bound. With 2 s for 5 a
/// policer of 20 Mb/s drops 1.5 % in one order of twelve (`sharing`).
const HOLD_ROUNDS: u32 = 6;
const HOLD_MAX: Duration = Duration::from_secs(5);
/// The queue aimed at may be longer by this again after each refresh.
pub(super) const ROOM_RECOVERY: f64 = 1.5;
