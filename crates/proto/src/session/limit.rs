//! What limits a transfer, since when, and for how long.

use crate::units::Time;
use core::fmt;
use core::time::Duration;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// A policer on the path: it drops what exceeds its rate.
    Policer,
    /// The user has it pause. Told from version 14 on.
    Paused,
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
            Limit::Policer => "policer",
            Limit::Paused => "paused",
        }
    }
}

impl Limit {
    /// All of them, in the order of the table.
    pub const ALL: [Limit; 10] = [
        Limit::None,
        Limit::Path,
        Limit::Loss,
        Limit::Source,
        Limit::Target,
        Limit::Receiver,
        Limit::Cpu,
        Limit::RateCap,
        Limit::Policer,
        Limit::Paused,
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
            Limit::Policer => "the path drops what exceeds a rate, and lets nothing wait",
            Limit::Paused => "it pauses, as its user wishes",
        }
    }
}

/// For how long each limit held. Serialised, a map from each that did to milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitSpans {
    /// Of all but [`Limit::None`], in the order of the table.
    ns: [u64; Limit::ALL.len() - 1],
}

impl LimitSpans {
    /// Add time in which `limit` held. Of [`Limit::None`] no account is kept.
    pub fn add(&mut self, limit: Limit, span: Duration) {
        let Some(index) = (limit as usize).checked_sub(1) else { return };
        let sum = &mut self.ns[index];
        *sum = sum.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Each limit that held, and how long.
    pub fn iter(&self) -> impl Iterator<Item = (Limit, Duration)> {
        let all = Limit::ALL.into_iter().skip(1).zip(self.ns.map(Duration::from_nanos));
        all.filter(|(_, span)| !span.is_zero())
    }

    /// What has been added since they were `earlier`.
    pub fn since(&self, earlier: &LimitSpans) -> LimitSpans {
        let mut ns = self.ns;
        ns.iter_mut().zip(earlier.ns).for_each(|(sum, before)| *sum = sum.saturating_sub(before));
        LimitSpans { ns }
    }

    /// The limit that held longest; none where nothing could be told.
    pub fn longest(&self) -> Limit {
        self.iter().max_by_key(|(_, span)| *span).map_or(Limit::None, |(limit, _)| limit)
    }
}

impl Serialize for LimitSpans {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let held: Vec<_> = self.iter().collect();
        let ms = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        serializer.collect_map(held.into_iter().map(|(limit, span)| (limit, ms(span))))
    }
}

impl<'de> Deserialize<'de> for LimitSpans {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LimitSpans, D::Error> {
        /// Takes one entry at a time: a peer's map costs no memory.
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = LimitSpans;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a map from limits to milliseconds")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<LimitSpans, A::Error> {
                let mut spans = LimitSpans::default();
                while let Some((limit, ms)) = map.next_entry()? {
                    spans.add(limit, Duration::from_millis(ms));
                }
                Ok(spans)
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Adds up for how long each limit held.
#[derive(Clone, Debug)]
pub struct LimitMeter {
    total: LimitSpans,
    window: LimitSpans,
    window_began: Time,
    last: Time,
    current: Limit,
}

impl LimitMeter {
    /// From `now` on.
    pub fn new(now: Time) -> LimitMeter {
        LimitMeter {
            total: LimitSpans::default(),
            window: LimitSpans::default(),
            window_began: now,
            last: now,
            current: Limit::None,
        }
    }

    /// Since the last call `limit` held. Returns the new dominant limit of the last second when it changes.
    pub fn note(&mut self, now: Time, limit: Limit) -> Option<Limit> {
        let span = now.since(self.last);
        self.last = now;
        self.total.add(limit, span);
        self.window.add(limit, span);
        if now.since(self.window_began) < WINDOW {
            return None;
        }
        let dominant = self.window.longest();
        self.window = LimitSpans::default();
        self.window_began = now;
        let changed = dominant != self.current && dominant != Limit::None;
        self.current = if dominant == Limit::None { self.current } else { dominant };
        changed.then_some(dominant)
    }

    /// What held in the last full second.
    pub fn current(&self) -> Limit {
        if self.current == Limit::None { self.window.longest() } else { self.current }
    }

    /// Since the beginning.
    pub fn total(&self) -> LimitSpans {
        self.total
    }
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
        assert_eq!(meter.total().longest(), Limit::Path);
    }

    #[test]
    fn spans_travel_as_a_map_of_milliseconds() {
        let mut spans = LimitSpans::default();
        spans.add(Limit::None, Duration::from_secs(9));
        spans.add(Limit::Target, Duration::from_millis(1500));
        spans.add(Limit::Path, Duration::from_micros(700_400));
        assert_eq!(spans.longest(), Limit::Target);
        let read: LimitSpans = postcard::from_bytes(&postcard::to_allocvec(&spans).unwrap()).unwrap();
        let expected =
            [(Limit::Path, Duration::from_millis(700)), (Limit::Target, Duration::from_millis(1500))];
        assert_eq!(read.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_peer_that_names_a_limit_again_and_again_is_bounded() {
        let endless: Vec<(Limit, u64)> = vec![(Limit::Cpu, u64::MAX); 1000];
        // A map travels as its length and its entries, as a list of pairs does.
        let read: LimitSpans = postcard::from_bytes(&postcard::to_allocvec(&endless).unwrap()).unwrap();
        assert_eq!(read.longest(), Limit::Cpu);
        assert_eq!(read.iter().count(), 1);
    }

    #[test]
    fn order_of_the_table_is_the_enums() {
        Limit::ALL.iter().enumerate().for_each(|(i, limit)| assert_eq!(*limit as usize, i));
    }
}
