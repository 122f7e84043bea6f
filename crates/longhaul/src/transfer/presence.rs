//! Whether this side was there to hear: who was asleep does not take the others for dead.

use longhaul_proto::units::Time;
use std::time::Duration;

/// When this side was there.
#[derive(Clone, Copy, Debug)]
pub struct Presence {
    /// When the last turn began.
    turned_at: Time,
    /// Since when there has been a turn again and again.
    since: Time,
}

impl Presence {
    /// There from now on.
    pub fn new(now: Time) -> Presence {
        Presence { turned_at: now, since: now }
    }

    /// A turn begins. They come much more often than every `patience`, unless the processor is not to be had, or the process
    /// was stopped for a while.
    pub fn begin_turn(&mut self, now: Time, patience: Duration) {
        if now.since(self.turned_at) > patience / 2 {
            self.since = now;
        }
        self.turned_at = now;
    }

    /// How long it has been silent since `last`, as far as this side was there to hear. It ends with the beginning of this turn:
    /// the process may have been stopped since.
    pub fn silence(&self, last: Time) -> Duration {
        self.turned_at.since(last.max(self.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(3);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_silence_is_counted_while_turns_come() {
        let mut presence = Presence::new(at(0));
        (1..=50).for_each(|turn| presence.begin_turn(at(turn * 100), PATIENCE));
        assert_eq!(presence.silence(at(1000)), Duration::from_secs(4));
        assert_eq!(presence.silence(at(6000)), Duration::ZERO);
    }

    #[test]
    fn who_was_stopped_in_the_middle_of_a_turn_or_between_two_heard_no_silence() {
        let mut presence = Presence::new(at(0));
        presence.begin_turn(at(100), PATIENCE);
        // Stopped until 4.1 s.
        assert!(presence.silence(at(90)) < PATIENCE);
        presence.begin_turn(at(4100), PATIENCE);
        assert_eq!(presence.silence(at(90)), Duration::ZERO);
        presence.begin_turn(at(4200), PATIENCE);
        assert_eq!(presence.silence(at(90)), Duration::from_millis(100));
    }
}
