//! A hand on a copy while it runs.

use crate::schedule::Schedule;
use longhaul_proto::session::message::Pace;
use longhaul_proto::units::Rate;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How fast a copy may go, and whether it pauses, which whoever holds this may change while it runs. In a copy from another host
/// that one is told.
#[derive(Debug, Default)]
pub struct LiveControl {
    wish: Mutex<Wish>,
}

#[derive(Debug, Default)]
struct Wish {
    rates: Schedule,
    paused: bool,
    cannot_pause: bool,
}

/// It cannot be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the other host, which sends, has an earlier longhaul and cannot be told to pause")]
pub struct CannotPause;

impl LiveControl {
    /// With these rates, of which the first that counts at a moment is kept to, and no pause.
    pub fn new(rates: Schedule) -> LiveControl {
        LiveControl { wish: Mutex::new(Wish { rates, ..Wish::default() }) }
    }

    /// How fast it may go at this moment.
    pub fn pace(&self) -> Pace {
        let wish = self.lock();
        Pace { rate: wish.rates.first_now(), paused: wish.paused }
    }

    /// The rates.
    pub fn rates(&self) -> Schedule {
        self.lock().rates.clone()
    }

    /// Keep to these from now on.
    pub fn set_rates(&self, rates: Schedule) {
        self.lock().rates = rates;
    }

    /// Send nothing from now on.
    pub fn pause(&self) -> Result<(), CannotPause> {
        let mut wish = self.lock();
        if wish.cannot_pause {
            return Err(CannotPause);
        }
        wish.paused = true;
        Ok(())
    }

    /// Go on.
    pub fn resume(&self) {
        self.lock().paused = false;
    }

    /// As the other side is told.
    pub(crate) fn set(&self, pace: Pace) {
        let mut wish = self.lock();
        (wish.rates, wish.paused) = (Schedule::always(pace.rate), pace.paused && !wish.cannot_pause);
    }

    /// Whether the side that sends understands pauses. Where it does not, one that had begun is over.
    pub(crate) fn allow_pauses(&self, allowed: bool) {
        let mut wish = self.lock();
        wish.cannot_pause = !allowed;
        wish.paused &= allowed;
    }

    fn lock(&self) -> MutexGuard<'_, Wish> {
        self.wish.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A cap for who knows none.
pub(crate) const UNLIMITED: Rate = Rate(u64::MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_refused_where_the_other_side_would_not_heed_it() {
        let live = LiveControl::new(Schedule::always(Some(Rate(5))));
        live.pause().unwrap();
        assert_eq!(live.pace(), Pace { rate: Some(Rate(5)), paused: true });
        live.allow_pauses(false);
        assert!(!live.pace().paused);
        assert_eq!(live.pause(), Err(CannotPause));
        live.allow_pauses(true);
        live.pause().unwrap();
        live.resume();
        live.set_rates(Schedule::default());
        assert_eq!(live.pace(), Pace::default());
    }
}
