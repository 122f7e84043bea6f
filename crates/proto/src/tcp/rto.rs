//! The retransmission timer (RFC 6298).

use super::Config;
use crate::rtt::Rtt;
use crate::units::Time;
use core::time::Duration;

/// The timer, and the round trip that it goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct RetransmitTimer {
    rtt: Rtt,
    min: Duration,
    floor: Duration,
    initial: Duration,
    /// How often it ran out in a row.
    runs_out: u32,
    started: Option<Time>,
}

impl RetransmitTimer {
    /// Not running.
    pub fn new(config: &Config) -> RetransmitTimer {
        RetransmitTimer {
            rtt: Rtt::new(config.rto_initial),
            min: config.rto_min,
            floor: config.rto_floor,
            initial: config.rto_initial,
            runs_out: 0,
            started: None,
        }
    }

    /// The round trip.
    pub fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// A measured round trip.
    pub fn sample(&mut self, rtt: Duration) {
        self.rtt.sample(rtt);
    }

    /// Something new was acknowledged: the timer begins anew, or stops if nothing `is_out`.
    pub fn on_progress(&mut self, now: Time, is_out: bool) {
        self.runs_out = 0;
        self.started = is_out.then_some(now);
    }

    /// Begin if not running.
    pub fn start(&mut self, now: Time) {
        self.started.get_or_insert(now);
    }

    /// Begin anew.
    pub fn restart(&mut self, now: Time) {
        self.started = Some(now);
    }

    /// Not needed any more.
    pub fn stop(&mut self) {
        self.started = None;
    }

    /// It ran out: twice as long next time (RFC 6298 (5.5)).
    pub fn on_run_out(&mut self) {
        self.runs_out += 1;
        self.started = None;
    }

    /// When it runs out.
    pub fn deadline(&self) -> Option<Time> {
        self.started.map(|started| started + self.span())
    }

    /// As Linux does, the minimum bounds what is added to the smoothed round trip: on a path with a long and steady
    /// one, the bare minimum of RFC 6298 (2.4) would bound nothing, and a delayed acknowledgement would be late.
    fn span(&self) -> Duration {
        let base = if self.rtt.is_measured() {
            (self.rtt.smoothed() + (self.rtt.deviation() * 4).max(self.min)).max(self.floor)
        } else {
            self.initial
        };
        base.saturating_mul(1u32.checked_shl(self.runs_out).unwrap_or(u32::MAX)).min(MAX)
    }
}

/// RFC 6298 (2.5) allows no less.
const MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_and_recovers() {
        let mut timer = RetransmitTimer::new(&Config::default());
        timer.start(Time::ZERO);
        assert_eq!(timer.deadline(), Some(Time::from_millis(1000)));
        timer.on_run_out();
        assert_eq!(timer.deadline(), None);
        timer.start(Time::from_millis(1000));
        timer.start(Time::from_millis(1500));
        assert_eq!(timer.deadline(), Some(Time::from_millis(3000)));
        timer.sample(Duration::from_millis(40));
        timer.on_progress(Time::from_millis(2000), true);
        assert_eq!(timer.deadline(), Some(Time::from_millis(2240)));
        (0..40).for_each(|_| timer.on_run_out());
        timer.start(Time::ZERO);
        assert_eq!(timer.deadline(), Some(Time::from_millis(60_000)));
    }

    #[test]
    fn the_timer_of_rfc_2988_waits_longer() {
        let mut timer = RetransmitTimer::new(&Config::default().rfc_2988());
        timer.start(Time::ZERO);
        assert_eq!(timer.deadline(), Some(Time::from_millis(3000)));
        timer.sample(Duration::from_millis(40));
        timer.restart(Time::ZERO);
        assert_eq!(timer.deadline(), Some(Time::from_millis(1000)));
        timer.sample(Duration::from_secs(4));
        timer.restart(Time::ZERO);
        assert!(timer.deadline() > Some(Time::from_millis(2000)));
    }
}
