//! Spreads datagrams over time, by absolute deadlines so that late wake-ups do not add up.

use crate::units::{Rate, Time, nanos};
use core::time::Duration;

/// Decides when the next datagram may go.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// When the next datagram is due.
    due: Time,
    /// What the last deadline left over, in units of 1/rate ns.
    remainder: u64,
    rate: Option<Rate>,
    burst: Duration,
    /// A caller that is later than this does not make up for it.
    catch_up: Duration,
    /// How late the flow was when a train began.
    owed: Duration,
    /// Time lost because the caller came later than that.
    lost: Duration,
}

impl Pacer {
    /// Unpaced until told a rate.
    pub fn new() -> Pacer {
        Pacer {
            due: Time::ZERO,
            remainder: 0,
            rate: None,
            burst: BURST,
            catch_up: BURST * CATCH_UP,
            owed: Duration::ZERO,
            lost: Duration::ZERO,
        }
    }

    /// The rate from now on; `None` sends as fast as the socket takes it.
    pub fn set_rate(&mut self, rate: Option<Rate>) {
        if rate != self.rate {
            self.rate = rate;
            self.remainder = 0;
        }
    }

    /// Datagrams that fall due within this span may leave together; zero spaces each by itself.
    pub fn set_burst(&mut self, burst: Duration) {
        (self.burst, self.catch_up) = (burst, burst * CATCH_UP);
    }

    /// Begin a train now: each of its datagrams leaves by itself, and one that leaves late does not delay the next, so
    /// that the train as a whole keeps to its rate.
    pub fn begin_train(&mut self, now: Time, rate: Rate) {
        self.owed = if self.rate.is_some() { now.since(self.due).min(self.catch_up) } else { Duration::ZERO };
        self.set_rate(Some(rate));
        (self.burst, self.catch_up) = (Duration::ZERO, TRAIN_CATCH_UP);
        (self.due, self.remainder) = (now, 0);
    }

    /// The train's last datagram goes now: the flow takes up where it was, and what follows keeps its usual distance.
    pub fn end_train(&mut self, now: Time, rate: Option<Rate>, burst: Duration) {
        self.set_rate(rate);
        self.set_burst(burst);
        self.due = now - self.owed;
    }

    /// Whether a datagram may go now.
    pub fn may_send(&self, now: Time) -> bool {
        self.rate.is_none() || now >= self.due
    }

    /// A datagram of `bytes` goes now.
    pub fn on_sent(&mut self, now: Time, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let lag = now.since(self.due);
        if lag > self.catch_up {
            self.lost += lag - self.catch_up;
            self.due = now - self.catch_up;
            self.remainder = 0;
        }
        let rate = rate.0.max(1);
        let scaled = u128::from(bytes) * 8_000_000_000 + u128::from(self.remainder);
        let step = u64::try_from(scaled / u128::from(rate)).unwrap_or(u64::MAX);
        self.remainder = (scaled % u128::from(rate)) as u64;
        self.due = Time(self.due.0.saturating_add(step));
    }

    /// Nothing was there to send until now: the time gone by earns no credit.
    pub fn skip_idle(&mut self, now: Time) {
        if now > self.due {
            self.due = now;
        }
    }

    /// When to wake up: not at the next deadline but when a small burst is due, so that a fast flow does not wake up
    /// for every datagram. `None`: at once.
    pub fn wake_at(&self, datagram_bytes: u64) -> Option<Time> {
        let rate = self.rate?;
        let gap = nanos(rate.time_for(datagram_bytes));
        let burst = nanos(self.burst).checked_div(gap).unwrap_or(MAX_BURST).clamp(1, MAX_BURST);
        Some(Time(self.due.0.saturating_add(gap.saturating_mul(burst - 1))))
    }

    /// How much sending time was lost to late wake-ups: the sign of a busy processor.
    pub fn time_lost(&self) -> Duration {
        self.lost
    }
}

impl Default for Pacer {
    fn default() -> Pacer {
        Pacer::new()
    }
}

/// A caller that comes late may make up for this many bursts, no more, lest a stalled process floods the path.
pub(crate) const CATCH_UP: u32 = 4;

/// What a user-space timer is late by now and then. More, and the train's datagrams would bunch.
const TRAIN_CATCH_UP: Duration = Duration::from_micros(200);

/// Short against the queue of any path with room for a round trip, long enough that a fast flow does not wake up for
/// every datagram.
pub const BURST: Duration = Duration::from_micros(500);
/// Datagrams in a burst at most: what one GSO call carries.
const MAX_BURST: u64 = 44;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn long_run_rate_is_exact(mbps in 1u64..20_000, bytes in 100u64..9000, late_ns in 0u64..1_000_000) {
            // Waking up late, but by less than the catch-up, costs no rate.
            let rate = Rate(mbps * 1_000_000);
            let mut pacer = Pacer::new();
            pacer.set_rate(Some(rate));
            let start = Time::from_millis(5);
            pacer.skip_idle(start);
            let (mut now, mut sent) = (start, 0u64);
            while sent < 2000 {
                while pacer.may_send(now) && sent < 2000 {
                    pacer.on_sent(now, bytes);
                    sent += 1;
                }
                now = pacer.wake_at(bytes).unwrap() + Duration::from_nanos(late_ns);
            }
            let ideal = nanos(rate.time_for(bytes * 2000));
            let took = pacer.due.since(start).as_nanos() as u64;
            prop_assert!(took.abs_diff(ideal) <= 2, "{} {}", took, ideal);
        }
    }

    #[test]
    fn a_pair_costs_the_flow_one_packet_time_and_none_of_what_it_was_owed() {
        // Woken every 500 µs for five packets of 100 µs each, the first two of which leave as a pair.
        let rate = Some(Rate::from_mbps(100.0));
        let mut pacer = Pacer::new();
        pacer.set_rate(rate);
        let (start, mut sent) = (Time::from_millis(5), 0);
        pacer.skip_idle(start);
        for wake in 0..100 {
            let now = start + BURST * wake;
            pacer.begin_train(now, Rate(u64::MAX));
            pacer.on_sent(now, 1250);
            assert!(pacer.may_send(now), "the second at once");
            pacer.end_train(now, rate, BURST);
            pacer.on_sent(now, 1250);
            sent += 2;
            while pacer.may_send(now) {
                pacer.on_sent(now, 1250);
                sent += 1;
            }
        }
        assert_eq!(sent, 1 + 500 * 99 / 100 + 100, "as many as fell due, and one more for each pair");
        assert_eq!(pacer.time_lost(), Duration::ZERO);
    }

    #[test]
    fn a_long_stall_does_not_flood() {
        let mut pacer = Pacer::new();
        pacer.set_rate(Some(Rate::from_mbps(100.0)));
        let now = Time::from_millis(1000);
        let mut burst = 0;
        while pacer.may_send(now) {
            pacer.on_sent(now, 1250);
            burst += 1;
        }
        assert_eq!(burst, 21, "2 ms at 100 Mb/s are 20 datagrams of 1250 bytes, and the one now due");
        assert!(pacer.time_lost() > Duration::from_millis(900));
    }
}
