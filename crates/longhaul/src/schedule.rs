//! Rates that count at certain hours of certain days.

use longhaul_proto::units::Rate;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

/// How fast, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// At any time.
    pub always: Option<Rate>,
    /// At these hours.
    pub hours: Vec<Hours>,
}

/// A rate and when it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hours {
    /// From this minute of the day on.
    pub from: u16,
    /// Up to this one, on the next day if it comes earlier than `from`.
    pub to: u16,
    /// The days on which it begins.
    pub days: Days,
    /// How fast.
    pub rate: Rate,
}

/// Days of the week: bit 0 is Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(u8);

impl Days {
    /// Every day.
    pub const ALL: Days = Days(0x7f);
    /// None.
    pub const NONE: Days = Days(0);

    /// These as well, from the first to the last, counted from Monday, which is 0. They may go over the end of the week.
    pub fn with(self, first: u8, last: u8) -> Days {
        let (first, last) = (first % 7, last % 7);
        Days((0..=(last + 7 - first) % 7).fold(self.0, |bits, n| bits | 1 << ((first + n) % 7)))
    }

    /// Whether this day is among them: Monday is 0.
    pub fn has(self, day: u8) -> bool {
        self.0 >> (day % 7) & 1 == 1
    }
}

/// A moment of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Monday is 0.
    pub day: u8,
    /// Of that day.
    pub minute: u16,
}

impl Moment {
    /// Now, by this host's clock and time zone; `None` where it does not tell.
    pub fn now() -> Option<Moment> {
        local_time(SystemTime::now()).ok()
    }
}

impl Hours {
    fn count_at(&self, at: Moment) -> bool {
        let (from, to, minute) = (self.from, self.to, at.minute);
        let today = self.days.has(at.day);
        if from < to {
            return today && (from..to).contains(&minute);
        }
        today && minute >= from || self.days.has((at.day + 6) % 7) && minute < to
    }
}

impl Schedule {
    /// Always the same.
    pub fn always(rate: Option<Rate>) -> Schedule {
        Schedule { always: rate, hours: vec![] }
    }

    /// The lowest rate that counts at that moment.
    pub fn rate_at(&self, at: Option<Moment>) -> Option<Rate> {
        let hours = self.hours.iter().filter(|hours| at.is_none_or(|at| hours.count_at(at)));
        self.always.into_iter().chain(hours.map(|hours| hours.rate)).min()
    }

    /// The rate of the first hours that count at that moment, or else the one at any other time. Without a clock the lowest.
    pub fn first_at(&self, at: Option<Moment>) -> Option<Rate> {
        let Some(at) = at else { return self.rate_at(None) };
        let hours = self.hours.iter().find(|hours| hours.count_at(at));
        hours.map(|hours| hours.rate).or(self.always)
    }

    /// The same now.
    pub fn first_now(&self) -> Option<Rate> {
        if self.hours.is_empty() { self.always } else { self.first_at(Moment::now()) }
    }

    /// The rate that counts now.
    pub fn rate_now(&self) -> Option<Rate> {
        if self.hours.is_empty() { self.always } else { self.rate_at(Moment::now()) }
    }
}

fn local_time(time: SystemTime) -> io::Result<Moment> {
    let seconds = time.duration_since(UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
    let seconds = seconds.try_into().map_err(io::Error::other)?;
    // SAFETY: all fields of `tm` may be zero.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to what lives through the call, and nothing keeps them.
    if unsafe { libc::localtime_r(&seconds, &mut tm) }.is_null() {
        return Err(io::Error::last_os_error());
    }
    // The C library counts from Sunday.
    let day = (tm.tm_wday + 6).rem_euclid(7) as u8;
    Ok(Moment { day, minute: (tm.tm_hour * 60 + tm.tm_min) as u16 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(day: u8, hour: u16, minute: u16) -> Option<Moment> {
        Some(Moment { day, minute: hour * 60 + minute })
    }

    #[test]
    fn the_lowest_rate_that_counts_is_taken() {
        let office = Hours { from: 8 * 60, to: 18 * 60, days: Days::NONE.with(0, 4), rate: Rate(200) };
        let noon = Hours { from: 12 * 60, to: 13 * 60, days: Days::ALL, rate: Rate(100) };
        let plan = Schedule { always: Some(Rate(1000)), hours: vec![office, noon] };
        for (moment, rate) in [
            (at(0, 7, 59), 1000),
            (at(0, 8, 0), 200),
            (at(4, 17, 59), 200),
            (at(4, 18, 0), 1000),
            (at(5, 9, 0), 1000),
            (at(5, 12, 30), 100),
            (at(2, 12, 30), 100),
        ] {
            assert_eq!(plan.rate_at(moment), Some(Rate(rate)), "{moment:?}");
        }
        assert_eq!(Schedule::default().rate_at(at(0, 0, 0)), None);
        assert_eq!(plan.rate_at(None), Some(Rate(100)), "without a clock every rate counts");
    }

    #[test]
    fn the_first_hours_that_count_come_before_the_rest_of_the_day() {
        let office = Hours { from: 8 * 60, to: 18 * 60, days: Days::ALL, rate: Rate(2000) };
        let noon = Hours { from: 12 * 60, to: 13 * 60, days: Days::ALL, rate: Rate(100) };
        let plan = Schedule { always: Some(Rate(300)), hours: vec![noon, office] };
        for (moment, rate) in
            [(at(0, 7, 59), 300), (at(0, 8, 0), 2000), (at(6, 12, 59), 100), (at(6, 18, 0), 300)]
        {
            assert_eq!(plan.first_at(moment), Some(Rate(rate)), "{moment:?}");
        }
        assert_eq!(plan.first_at(None), Some(Rate(100)), "without a clock the lowest");
    }

    #[test]
    fn hours_may_go_past_midnight_and_days_past_the_week() {
        let night = Hours { from: 22 * 60, to: 6 * 60, days: Days::NONE.with(4, 0), rate: Rate(1) };
        let plan = Schedule { always: None, hours: vec![night] };
        for (moment, counts) in [
            (at(4, 21, 59), false),
            (at(4, 22, 0), true),
            (at(5, 5, 59), true),
            (at(5, 6, 0), false),
            (at(1, 3, 0), true),
            (at(1, 23, 0), false),
            (at(4, 3, 0), false),
        ] {
            assert_eq!(plan.rate_at(moment).is_some(), counts, "{moment:?}");
        }
    }

    #[test]
    fn the_clock_tells_a_moment_of_the_week() {
        let moment = Moment::now().unwrap();
        assert!(moment.day < 7 && moment.minute < 24 * 60);
    }
}
