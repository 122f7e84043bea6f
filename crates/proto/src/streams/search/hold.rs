//! A number of streams that was chosen, and whether it still does what it did.

use super::tally::{Try, is_full};
use super::{Interval, span_of};
use core::time::Duration;

/// What the search should do about the number that it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advice {
    Keep,
    /// Use so many from now on.
    Use(u32),
    /// See whether fewer are enough.
    Fewer,
    /// Try all anew: the path has changed.
    Anew,
}

/// How the number that is held does. Rates are in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    usual: f64,
    recent: f64,
    held_for: Duration,
    moved_for: Duration,
    sagged_for: Duration,
    /// For how long throughput may sag before streams are added: longer after some that did not help.
    patience: Duration,
    /// More were tried before, and these must take their windows back first: for how long they have been at it.
    recovering_for: Option<Duration>,
    /// It may be more than enough, which shows if the path stays full: for how long it has been.
    full_for: Option<Duration>,
    /// What there was before streams were added because throughput sagged, if they were.
    before: Option<Try>,
    fruitless: u32,
}

impl Hold {
    /// From now on; streams carried so much when they were chosen.
    pub(super) fn new(usual: f64, more_were_tried: bool) -> Hold {
        Hold {
            usual,
            recent: usual,
            held_for: Duration::ZERO,
            moved_for: Duration::ZERO,
            sagged_for: Duration::ZERO,
            patience: PATIENCE,
            recovering_for: more_were_tried.then_some(Duration::ZERO),
            full_for: None,
            before: None,
            fruitless: 0,
        }
    }

    /// The same with a number that may be more than enough.
    pub(super) fn for_now(usual: f64) -> Hold {
        Hold { full_for: Some(Duration::ZERO), ..Hold::new(usual, false) }
    }

    /// Take in what happened lately with so many streams, of at most so many.
    pub(super) fn on_interval(
        &mut self,
        interval: &Interval,
        ignores_queue: bool,
        streams: u32,
        streams_max: u32,
    ) -> Advice {
        let span = interval.span;
        if !interval.busy || span.is_zero() {
            // One that says nothing of the path, as a busy host has now and then, does not hide what others say.
            self.moved_for = self.moved_for.saturating_sub(span);
            self.sagged_for = self.sagged_for.saturating_sub(span);
            return Advice::Keep;
        }
        self.held_for += span;
        let rate = interval.acked as f64 / span.as_secs_f64();
        self.recent += (rate - self.recent) * (span.as_secs_f64() / RECENT.as_secs_f64()).min(1.0);
        let moved = (self.recent / self.usual.max(1.0) - 1.0).abs() > MOVED;
        self.moved_for = if moved { self.moved_for + span } else { Duration::ZERO };
        let is_full = is_full(interval.queue, interval.rtt) && !ignores_queue;
        let sags = self.recent < self.usual * SAGS && !is_full;
        // Saw teeth come up to the usual now and then.
        self.sagged_for = if sags { self.sagged_for + span } else { self.sagged_for.saturating_sub(span) };
        if let Some(recovering_for) = &mut self.recovering_for {
            *recovering_for += span;
            // Loss while the path has room is chance, and will not let them come back.
            let is_chance =
                interval.lost > 0 && !is_full && *recovering_for >= span_of(interval.rtt, CALM_AFTER);
            self.recovering_for = self.recovering_for.filter(|_| !is_chance);
        }
        if self.moved_for >= span_of(interval.rtt, MOVED_FOR) {
            return Advice::Anew;
        }
        if let Some(full_for) = &mut self.full_for {
            *full_for = if is_full { *full_for + span } else { full_for.saturating_sub(span) };
            if *full_for >= FULL_FOR {
                self.full_for = None;
                return Advice::Fewer;
            }
        }
        let least = if self.recovering_for.is_some() { RECOVERY } else { Duration::ZERO };
        if self.sagged_for < (interval.rtt * SAG_RTTS).max(self.patience).max(least) {
            return Advice::Keep;
        }
        self.sagged_for = Duration::ZERO;
        let more = self.add_to(streams).min(streams_max);
        if more != streams {
            // Before all is tried anew, these are to show what they do.
            (self.moved_for, self.full_for) = (Duration::ZERO, None);
            self.recovering_for = self.recovering_for.map(|_| Duration::ZERO);
        }
        Advice::Use(more)
    }

    /// Whether this is what came of the search, and not what is used until more is known.
    pub(super) fn is_settled(&self) -> bool {
        self.full_for.is_none() || self.held_for >= SETTLED_AFTER
    }

    /// Throughput has sagged for long: see whether more streams than these help.
    fn add_to(&mut self, streams: u32) -> u32 {
        let helped = self.before.is_none_or(|before| {
            let added = f64::from(streams) / f64::from(before.streams) - 1.0;
            self.recent / before.rate - 1.0 >= HELPED * added
        });
        self.fruitless = if helped { 0 } else { self.fruitless + 1 };
        if self.fruitless >= FRUITLESS_MAX {
            // So this is what there is.
            let fewer = self.before.map_or(streams, |before| before.streams);
            (self.usual, self.before, self.fruitless) = (self.recent, None, 0);
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
            return fewer;
        }
        self.before = Some(Try::unmeasured(streams, self.recent));
        // Squared, as throughput is still on its way down.
        let factor = ((self.usual / self.recent.max(1.0)).powi(2) * HEADROOM).clamp(ADDED_MIN, ADDED_MAX);
        (f64::from(streams) * factor).ceil() as u32
    }
}

/// Throughput below this share of the usual while the path is not full sags: its streams had a lucky start. More of
/// them are added.
pub(super) const SAGS: f64 = 0.95;
/// What is just enough by calculation is a little less than what it takes.
pub(super) const HEADROOM: f64 = 1.1;
/// Those that were added are of use if they gave this share of what they would give if all streams carried as much.
const HELPED: f64 = 0.25;
/// So many times in a row that they did not help the last are taken back.
const FRUITLESS_MAX: u32 = 2;
const ADDED_MIN: f64 = 1.2;
const ADDED_MAX: f64 = 2.0;
const SAG_RTTS: u32 = 6;
const PATIENCE: Duration = Duration::from_secs(1);
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// What was lost when more streams than enough filled the path has been sent again after so long.
const CALM_AFTER: Duration = Duration::from_secs(1);
/// CUBIC takes seconds to come back to a large window, but not so many.
const RECOVERY: Duration = Duration::from_secs(12);
/// Streams that keep the path full for so long have not lost the windows of their lucky start, and may be too many.
const FULL_FOR: Duration = Duration::from_secs(4);
/// Streams that neither sag nor fill the path for so long are what it takes.
const SETTLED_AFTER: Duration = Duration::from_secs(10);
/// A change of throughput by more than a quarter, for [`MOVED_FOR`], means that the path has changed.
const MOVED: f64 = 0.25;
const MOVED_FOR: Duration = Duration::from_secs(5);
/// Throughput now is averaged over about so long.
const RECENT: Duration = Duration::from_secs(1);
