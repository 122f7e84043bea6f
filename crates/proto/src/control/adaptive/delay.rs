//! How long packets wait in the bottleneck's queue.

use super::target::TARGET_MOST;
use super::{LITTLE, NOISE_NS, REFRESH_EVERY, TIMER};
use crate::control::bbr::RTT_AGE;
use crate::units::{Time, nanos};
use core::time::Duration;

/// Queueing delay from one-way delays and from round trips, each against the least seen.
///
/// A one-way delay does not see the way back, but the two clocks drift apart; a round trip does not drift, but sees
/// the way back. Both err upwards, so the smaller of the two counts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QueueDelay {
    one_way: Base,
    round_trip: Base,
    /// The least of the current tick.
    tick: (Option<i64>, Option<i64>),
    /// What waits, ns, by the last tick.
    pub queue_ns: f64,
    /// By the tick before.
    before_ns: f64,
    /// By how much a tick strays from the mean of its neighbours, ns.
    pub noise_ns: f64,
    /// When the queue was last seen empty.
    pub empty_at: Time,
}

impl QueueDelay {
    /// A datagram came in.
    pub fn sample(&mut self, one_way_ns: Option<i64>, rtt: Option<Duration>) {
        let rtt_ns = rtt.map(|rtt| i64::try_from(rtt.as_nanos()).unwrap_or(i64::MAX));
        self.tick.0 = [self.tick.0, one_way_ns].into_iter().flatten().min();
        self.tick.1 = [self.tick.1, rtt_ns].into_iter().flatten().min();
    }

    /// The least of a tick tells the queue: what is above it is bursts and chance.
    pub fn end_tick(&mut self, now: Time, target_ns: f64, patience: Duration) {
        let (one_way, rtt) = core::mem::take(&mut self.tick);
        self.one_way.sample(one_way);
        self.round_trip.sample(rtt);
        let found = [one_way.map(|d| self.one_way.above(d)), rtt.map(|d| self.round_trip.above(d))];
        let Some(queue_ns) = found.into_iter().flatten().reduce(f64::min) else { return };
        // A queue that grows or drains steadily is no noise.
        let stray = (self.queue_ns - (self.before_ns + queue_ns) / 2.0).abs();
        self.noise_ns += (stray - self.noise_ns) * NOISE_GAIN;
        (self.before_ns, self.queue_ns) = (self.queue_ns, queue_ns);
        let is_empty = queue_ns <= self.slack_ns(target_ns);
        if is_empty {
            self.empty_at = now;
        }
        self.one_way.age(now, is_empty, patience);
        self.round_trip.age(now, is_empty, patience);
    }

    /// The delay of the empty path as far as known, up to a constant.
    pub fn base_ns(&self) -> i64 {
        self.one_way.least().or(self.round_trip.least()).unwrap_or(0)
    }

    /// Queues that differ by less are alike.
    pub fn slack_ns(&self, target_ns: f64) -> f64 {
        (target_ns * EMPTY_SHARE).max(nanos(TIMER) as f64).max(self.noise_ns)
    }

    /// The round trip of the empty path: `least`, the shortest that was ever seen, until the last while shows that the way
    /// is another now.
    pub fn path_rtt(&self, least: Duration) -> Duration {
        let lately = self.round_trip.least().map(|least| Duration::from_nanos(least.max(0) as u64));
        let longer = least.saturating_add(least.mul_f64(ROUTE_PART) + ROUTE_MIN);
        lately.filter(|lately| *lately > longer && *lately < DELAY_MAX).unwrap_or(least).min(DELAY_MAX)
    }

    /// What the last tick saw is the delay of an empty queue, after all.
    pub fn rebase(&mut self, now: Time) {
        self.empty_at = now;
        self.one_way.rebase();
        self.round_trip.rebase();
        self.queue_ns = 0.0;
    }
}

/// The least delay of the last while, aged so that drifting clocks and changed routes are followed.
#[derive(Clone, Copy, Debug, Default)]
struct Base {
    current: Option<i64>,
    previous: Option<i64>,
    /// The latest.
    latest: Option<i64>,
    began: Time,
    /// The queue was empty in the current stretch.
    is_confirmed: bool,
    /// Since when it has not been.
    confirmed_at: Time,
}

impl Base {
    fn sample(&mut self, delay_ns: Option<i64>) {
        self.current = [self.current, delay_ns].into_iter().flatten().min();
        self.latest = delay_ns.or(self.latest);
    }

    fn rebase(&mut self) {
        (self.current, self.previous) = (self.latest, None);
    }

    fn least(&self) -> Option<i64> {
        [self.current, self.previous].into_iter().flatten().min()
    }

    fn above(&self, delay_ns: i64) -> f64 {
        let above_ns = self.least().map_or(0, |least| delay_ns.saturating_sub(least));
        above_ns.clamp(0, nanos(DELAY_MAX) as i64) as f64
    }

    /// A stretch in which the queue never ran empty tells nothing of an empty path: while others fill it, what was
    /// known before stays, for as long as `patience`.
    fn age(&mut self, now: Time, is_empty: bool, patience: Duration) {
        if is_empty {
            (self.is_confirmed, self.confirmed_at) = (true, now);
        }
        if now.since(self.began) <= STRETCH {
            return;
        }
        self.began = now;
        if self.is_confirmed || now.since(self.confirmed_at) > patience {
            self.previous = self.current.take();
            self.is_confirmed = false;
        } else {
            self.previous = self.least().map(|least| least.saturating_add(NOISE_NS as i64));
            self.current = None;
        }
    }
}

/// A way is another one if it is longer by this part and this much than it ever was, or by this much within two round trips; and
/// what it grew by stays, but for this part. The queue that we aim at may be that part of the round trip: only more is another way.
pub(super) const ROUTE_PART: f64 = TARGET_MOST;
pub(super) const ROUTE_MIN: Duration = Duration::from_millis(5);
/// Longer than over any satellite: a host that was stopped for a while measures hours. No queue and no path counts as
/// longer.
const DELAY_MAX: Duration = Duration::from_secs(3);
/// The base delay is the least of one to two such spans. Each holds a BBR's look at the round trip, and a refresh. With 10 s a
/// route that becomes four times longer is filled to 89 % (`share adaptive rate=50 rtt=20 newrtt=80 from=80 to=120`), but so it is
/// with other numbers changed by a billionth.
const STRETCH: Duration = RTT_AGE.saturating_add(REFRESH_EVERY);
/// Below this share of the target the queue counts as empty: half a target counts as a queue, and little of that as none. With a
/// tenth a policer of 50 Mb/s drops up to 12 % in five orders of twelve (`sharing`).
const EMPTY_SHARE: f64 = LITTLE / 2.0;
/// Weight of a new difference: one to two round trips' worth of ticks do not move it much. With 1/64 a policer of 50 Mb/s drops up to
/// 9 % in four orders of twelve (`sharing`).
const NOISE_GAIN: f64 = 1.0 / 16.0;

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET_NS: f64 = 2e6;

    /// A tick of 50 ms whose least one-way delay is `ms`, on clocks that are far apart.
    fn tick(delay: &mut QueueDelay, i: u64, ms: f64) -> f64 {
        let ns = (ms * 1e6) as i64;
        delay.sample(Some(ns - 1_000_000_000_000), Some(Duration::from_nanos(2 * ns as u64)));
        delay.end_tick(Time::from_millis(50 * i), TARGET_NS, Duration::from_secs(40));
        delay.queue_ns / 1e6
    }

    #[test]
    fn what_is_above_the_least_is_queue() {
        let mut delay = QueueDelay::default();
        assert_eq!(tick(&mut delay, 1, 20.0), 0.0);
        assert!((tick(&mut delay, 2, 23.0) - 3.0).abs() < 1e-9);
        assert_eq!(delay.empty_at, Time::from_millis(50));
    }

    /// What was on its way when a host was stopped comes in hours later.
    #[test]
    fn hours_on_the_way_are_no_queue_of_hours() {
        let mut delay = QueueDelay::default();
        tick(&mut delay, 1, 20.0);
        assert_eq!(tick(&mut delay, 2, 3.6e6), DELAY_MAX.as_secs_f64() * 1e3);
        assert_eq!(delay.path_rtt(Duration::from_secs(3600)), DELAY_MAX);
    }

    /// The way back fills up, or the clocks drift apart: only what both measures see is queue.
    #[test]
    fn the_way_back_and_drifting_clocks_are_not_queue() {
        let mut delay = QueueDelay::default();
        tick(&mut delay, 1, 20.0);
        delay.sample(Some(20_000_000 - 1_000_000_000_000), Some(Duration::from_millis(90)));
        delay.end_tick(Time::from_millis(100), TARGET_NS, Duration::from_secs(40));
        assert_eq!(delay.queue_ns, 0.0);
        delay.sample(Some(50_000_000 - 1_000_000_000_000), Some(Duration::from_millis(40)));
        delay.end_tick(Time::from_millis(150), TARGET_NS, Duration::from_secs(40));
        assert_eq!(delay.queue_ns, 0.0);
    }

    #[test]
    fn a_full_queue_does_not_become_the_base_until_patience_ends() {
        let mut delay = QueueDelay::default();
        tick(&mut delay, 1, 20.0);
        let at = |delay: &mut QueueDelay, from: u64, to: u64| (from..to).map(|i| tick(delay, i, 60.0)).last();
        assert!(at(&mut delay, 2, 600).is_some_and(|queue_ms| queue_ms > 35.0), "after 30 s");
        assert!(at(&mut delay, 600, 1600).is_some_and(|queue_ms| queue_ms < 1.0), "after 80 s");
    }

    #[test]
    fn a_longer_way_is_found_and_a_pause_of_the_host_is_none() {
        for (lately, expected) in [(24, 20), (80, 80), (3_600_000, 20)] {
            let mut delay = QueueDelay::default();
            delay.sample(None, Some(Duration::from_millis(lately)));
            delay.end_tick(Time::from_millis(50), TARGET_NS, Duration::from_secs(40));
            assert_eq!(delay.path_rtt(Duration::from_millis(20)), Duration::from_millis(expected));
        }
    }

    #[test]
    fn steady_growth_is_no_noise_and_chance_is() {
        let (mut steady, mut chance) = (QueueDelay::default(), QueueDelay::default());
        for i in 1..200 {
            tick(&mut steady, i, 20.0 + 0.1 * i as f64);
            tick(&mut chance, i, 20.0 + (i * i % 7) as f64);
        }
        assert!(steady.noise_ns < 1e5, "{}", steady.noise_ns);
        assert!(chance.noise_ns > 1e6, "{}", chance.noise_ns);
    }
}
