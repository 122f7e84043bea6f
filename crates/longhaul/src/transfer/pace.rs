//! How fast a session's data may go: as the client's user says, who may change his mind, and as the server's rules do.

use super::session::Session;
use crate::live::{CannotChangeRate, CannotPause, Reach, UNLIMITED};
use longhaul_proto::session::message::{Message, PACE_SINCE, Pace};
use longhaul_proto::units::Rate;
use std::sync::atomic::Ordering;

impl Session<'_> {
    /// The lowest of all rates that this side may send at, which sent at `used` of late.
    pub fn rate_cap(&self, used: Option<Rate>) -> Option<Rate> {
        let named = self.live.as_ref().map_or(self.options.rate_cap, |live| live.pace().rate);
        let by_rules = self.supervision.as_ref().and_then(|supervision| supervision.rate(used));
        let shared = self.shared_rate.as_ref().map(|rate| Rate(rate.load(Ordering::Relaxed)));
        [named, self.rate_told, shared, by_rules].into_iter().flatten().min().filter(|rate| *rate < UNLIMITED)
    }

    /// Whether nothing is to be sent for now.
    pub fn is_paused(&self) -> bool {
        self.live.as_ref().map_or(self.is_held, |live| live.pace().paused)
    }

    /// The server of a pull, or an end of a copy that somebody arranges, has another word from its client.
    pub fn take_pace(&mut self, pace: Pace) {
        if self.opener.is_none() {
            (self.options.rate_cap, self.is_held) = (pace.rate, pace.paused);
        }
    }

    /// What this side was told last.
    pub fn pace(&self) -> Pace {
        Pace { rate: self.options.rate_cap, paused: self.is_held }
    }

    /// The client of a server that sends, or the arranger of a copy: tell how fast it may go, if that is news.
    pub fn tell_pace(&mut self) {
        let Some(live) = &self.live else { return };
        let pace = live.pace();
        if std::mem::replace(&mut self.pace_told, pace) == pace {
            return;
        }
        if live.reach() == Reach::Nothing {
            self.warn(CannotChangeRate.to_string());
        } else if self.control.version() >= PACE_SINCE {
            self.control.send(Message::Pace(pace));
        } else {
            let rate = pace.rate.unwrap_or(UNLIMITED);
            self.control.send(Message::RateCap(rate));
            if let Some(first) = self.options.rate_cap.filter(|first| *first < rate) {
                self.warn(format!(
                    "the other host, which sends, has an earlier longhaul: it goes no faster than the {first} that the copy \
                     began with"
                ));
            }
        }
    }

    /// Tell the side that sends how fast it may, which sent at `used` of late: at once if it is less than before.
    pub fn tell_rate(&mut self, used: Option<Rate>) {
        let Some(rate) = self.supervision.as_ref().and_then(|supervision| supervision.rate(used)) else {
            // It may as fast as it likes, after having been told otherwise.
            if self.rate_told.take().is_some() {
                self.control.send(Message::RateCap(UNLIMITED));
            }
            return;
        };
        let is_news = self.rate_told.is_none_or(|told| rate < told || rate.0 > told.0 + told.0 / 16);
        if is_news {
            self.rate_told = Some(rate);
            self.control.send(Message::RateCap(rate));
        }
    }
}

/// What the user is told whose pause is over.
pub fn goes_on(error: CannotPause) -> String {
    format!("the copy does not pause: {error}")
}
