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
    reach: Reach,
}

/// What those can be told that have to keep to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Whatever is wished.
    #[default]
    All,
    /// To send slower than at first, and no more: the host that sends has an earlier longhaul.
    Slower,
    /// Nothing: in a copy between two others, the one that begins it has an earlier longhaul.
    Nothing,
}

/// It cannot be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host of this copy has an earlier longhaul and cannot be told to pause")]
pub struct CannotPause;

/// It keeps to the rate that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host of this copy has an earlier longhaul, and keeps to the rate that the copy began with")]
pub struct CannotChangeRate;

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

    /// Keep to these from now on, if whoever has to can be told.
    pub fn change_rates(&self, rates: Schedule) -> Result<(), CannotChangeRate> {
        let mut wish = self.lock();
        if wish.reach == Reach::Nothing {
            return Err(CannotChangeRate);
        }
        wish.rates = rates;
        Ok(())
    }

    /// Keep to these from now on.
    pub fn set_rates(&self, rates: Schedule) {
        self.lock().rates = rates;
    }

    /// Send nothing from now on.
    pub fn pause(&self) -> Result<(), CannotPause> {
        let mut wish = self.lock();
        if wish.reach != Reach::All {
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
        (wish.rates, wish.paused) = (Schedule::always(pace.rate), pace.paused && wish.reach == Reach::All);
    }

    /// Now it is known what can be told. Where that is not all, a pause that had begun is over, which is an error.
    pub(crate) fn set_reach(&self, reach: Reach) -> Result<(), CannotPause> {
        let mut wish = self.lock();
        wish.reach = reach;
        match reach != Reach::All && std::mem::take(&mut wish.paused) {
            true => Err(CannotPause),
            false => Ok(()),
        }
    }

    pub(crate) fn reach(&self) -> Reach {
        self.lock().reach
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
        assert_eq!(live.set_reach(Reach::Slower), Err(CannotPause), "it was told that the copy pauses");
        assert!(!live.pace().paused);
        assert_eq!(live.pause(), Err(CannotPause));
        assert_eq!(live.set_reach(Reach::Slower), Ok(()));
        live.set_reach(Reach::All).unwrap();
        live.pause().unwrap();
        assert_eq!(live.set_reach(Reach::All), Ok(()));
        assert!(live.pace().paused);
        live.resume();
        live.set_rates(Schedule::default());
        assert_eq!(live.pace(), Pace::default());
    }

    #[test]
    fn a_rate_is_refused_where_nobody_would_keep_to_it() {
        let live = LiveControl::new(Schedule::always(Some(Rate(5))));
        let slower = Schedule::always(Some(Rate(3)));
        live.set_reach(Reach::Slower).unwrap();
        live.change_rates(slower.clone()).unwrap();
        live.set_reach(Reach::Nothing).unwrap();
        assert_eq!(live.change_rates(Schedule::default()), Err(CannotChangeRate));
        assert_eq!((live.rates(), live.pause()), (slower, Err(CannotPause)));
    }
}
