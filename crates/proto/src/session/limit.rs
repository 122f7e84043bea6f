//! What limits a transfer, and since when.

use crate::units::Time;
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// What holds a transfer back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Nothing long enough to tell.
    #[default]
    None,
    /// The path's bottleneck.
    Path,
    /// Loss that is not congestion.
    Loss,
    /// Reading at the sender.
    Source,
    /// Writing at the receiver.
    Target,
    /// The receiving host: its buffers overflow or its processor is busy.
    Receiver,
    /// The sending host's processor.
    Cpu,
    /// The rate that was asked for.
    RateCap,
}

impl Limit {
    /// As in the JSON.
    pub fn name(self) -> &'static str {
        match self {
            Limit::None => "none",
            Limit::Path => "path",
            Limit::Loss => "loss",
            Limit::Source => "source",
            Limit::Target => "target",
            Limit::Receiver => "receiver",
            Limit::Cpu => "cpu",
            Limit::RateCap => "rate_cap",
        }
    }
}

impl Limit {
    const ALL: [Limit; 8] = [
        Limit::None,
        Limit::Path,
        Limit::Loss,
        Limit::Source,
        Limit::Target,
        Limit::Receiver,
        Limit::Cpu,
        Limit::RateCap,
    ];

    /// A sentence for people.
    pub fn explain(self) -> &'static str {
        match self {
            Limit::None => "nothing for long enough to tell",
            Limit::Path => "the path's bottleneck is full",
            Limit::Loss => "the path loses datagrams whatever the rate",
            Limit::Source => "the sender waits for its source to be read",
            Limit::Target => "the receiver waits for its target to be written",
            Limit::Receiver => {
                "the receiving host drops datagrams: too busy, or its socket buffer is too small"
            }
            Limit::Cpu => "the sender's processor is busy",
            Limit::RateCap => "the rate cap that was asked for",
        }
    }
}

/// Adds up for how long each limit held.
#[derive(Clone, Debug)]
pub struct LimitMeter {
    total: [Duration; Limit::ALL.len()],
    window: [Duration; Limit::ALL.len()],
    window_began: Time,
    last: Time,
    current: Limit,
}

impl LimitMeter {
    /// From `now` on.
    pub fn new(now: Time) -> LimitMeter {
        LimitMeter {
            total: Default::default(),
            window: Default::default(),
            window_began: now,
            last: now,
            current: Limit::None,
        }
    }

    /// Since the last call `limit` held. Returns the new dominant limit of the last second when it changes.
    pub fn note(&mut self, now: Time, limit: Limit) -> Option<Limit> {
        let span = now.since(self.last);
        self.last = now;
        self.total[limit as usize] += span;
        self.window[limit as usize] += span;
        if now.since(self.window_began) < WINDOW {
            return None;
        }
        let dominant = dominant(&self.window);
        self.window = Default::default();
        self.window_began = now;
        let changed = dominant != self.current && dominant != Limit::None;
        self.current = if dominant == Limit::None { self.current } else { dominant };
        changed.then_some(dominant)
    }

    /// What held in the last full second.
    pub fn current(&self) -> Limit {
        if self.current == Limit::None { dominant(&self.window) } else { self.current }
    }

    /// What held for most of the time.
    pub fn overall(&self) -> Limit {
        dominant(&self.total)
    }

    /// How long each limit held, those that did.
    pub fn shares(&self) -> Vec<(Limit, Duration)> {
        Limit::ALL
            .into_iter()
            .zip(self.total)
            .filter(|(limit, span)| *limit != Limit::None && !span.is_zero())
            .collect()
    }
}

/// The longest span; time in which nothing can be told counts only when there is nothing else.
fn dominant(spans: &[Duration]) -> Limit {
    let known =
        Limit::ALL.into_iter().zip(spans).filter(|(limit, span)| *limit != Limit::None && !span.is_zero());
    known.max_by_key(|(_, span)| **span).map_or(Limit::None, |(limit, _)| limit)
}

/// Changes faster than this are not worth a word.
const WINDOW: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_limit_wins_and_changes_are_told_once() {
        let mut meter = LimitMeter::new(Time::ZERO);
        assert_eq!(meter.note(Time::from_millis(600), Limit::Path), None);
        assert_eq!(meter.note(Time::from_millis(1000), Limit::Source), Some(Limit::Path));
        assert_eq!(meter.note(Time::from_millis(2100), Limit::Path), None);
        assert_eq!(meter.note(Time::from_millis(3200), Limit::Source), Some(Limit::Source));
        assert_eq!(meter.overall(), Limit::Path);
    }

    #[test]
    fn order_of_the_table_is_the_enums() {
        Limit::ALL.iter().enumerate().for_each(|(i, limit)| assert_eq!(*limit as usize, i));
    }
}
