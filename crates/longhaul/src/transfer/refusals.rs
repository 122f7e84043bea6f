//! What the log says of peers that have shown no key. They are as many as they like to be, and must not fill a disk: the first
//! of each kind gets a line at once, the others are counted, and the counts get a line a minute.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why somebody was turned away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    WrongToken,
    OtherVersion,
    NotLonghaul,
    /// An offer that was recorded can be sent again by whoever recorded it.
    Unconfirmed,
    /// All that can go wrong before somebody has said who he is.
    BrokenOff,
    /// More came than are heard.
    GaveWay,
    /// The system had no thread or no descriptor to give.
    NotServed,
}

/// All that were turned away.
#[derive(Default)]
pub struct Refusals(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    kinds: [Count; KINDS.len()],
    /// The addresses of those that were counted, at most [`ADDRESSES_MAX`].
    addresses: HashSet<IpAddr>,
    /// When the first of them was counted.
    since: Option<Instant>,
}

#[derive(Clone, Copy, Default)]
struct Count {
    /// Counted since this kind's last line in the log.
    unreported: u64,
    told: Option<Instant>,
}

impl Refusals {
    /// Somebody was turned away; this line would tell of it.
    pub fn note(&self, kind: Kind, from: Option<IpAddr>, line: impl FnOnce() -> String) {
        if self.lock().note(kind, from, Instant::now()) {
            tracing::warn!("{}", line());
        }
    }

    /// To be called more often than once a minute.
    pub fn tell(&self) {
        let line = self.lock().due(Instant::now());
        line.iter().for_each(|line| tracing::warn!("{line}"));
    }

    /// Nobody comes any more.
    pub fn tell_last(&self) {
        let line = self.lock().summary(Instant::now());
        line.iter().for_each(|line| tracing::warn!("{line}"));
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Whether this one gets a line of its own: there was none of its kind for a while. Otherwise it is counted.
    fn note(&mut self, kind: Kind, from: Option<IpAddr>, now: Instant) -> bool {
        let count = &mut self.kinds[kind as usize];
        if count.unreported == 0 && count.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            count.told = Some(now);
            return true;
        }
        count.unreported += 1;
        self.since.get_or_insert(now);
        if self.addresses.len() < ADDRESSES_MAX {
            self.addresses.extend(from.map(network));
        }
        false
    }

    fn due(&mut self, now: Instant) -> Option<String> {
        self.since.filter(|since| now.duration_since(*since) >= TELL_EVERY)?;
        self.summary(now)
    }

    fn summary(&mut self, now: Instant) -> Option<String> {
        let since = self.since.take()?;
        let (mut all, mut parts) = (0, vec![]);
        for (count, what) in self.kinds.iter_mut().zip(KINDS) {
            let unreported = std::mem::take(&mut count.unreported);
            if unreported > 0 {
                (all, count.told) = (all + unreported, Some(now));
                parts.push(format!("{unreported} {what}"));
            }
        }
        let addresses = match std::mem::take(&mut self.addresses).len() {
            0 => String::new(),
            1 => ", from 1 address".into(),
            ADDRESSES_MAX => format!(", from {ADDRESSES_MAX} addresses or more"),
            many => format!(", from {many} addresses"),
        };
        let seconds = now.duration_since(since).as_secs();
        let parts = parts.join(", ");
        Some(format!("{all} more were turned away within {seconds} s{addresses}: {parts}"))
    }
}

/// As the log names them, in the order of [`Kind`].
const KINDS: [&str; 7] = [
    "with a wrong token",
    "of another version",
    "that are no longhaul client",
    "with an offer that was refused or not confirmed, and may be a replay",
    "that broke off",
    "gave way to newer ones without having shown a key",
    "could not be served",
];

/// A line of a hundred bytes a minute is 50 MB a year.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// More are not counted: each takes memory.
const ADDRESSES_MAX: usize = 1024;

/// What one host can have addresses in.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> Option<IpAddr> {
        Some([10, 0, (n / 256) as u8, n as u8].into())
    }

    #[test]
    fn the_first_of_each_kind_is_told_and_the_others_are_counted() {
        let (mut counts, began) = (Counts::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        assert!(counts.note(Kind::WrongToken, address(1), began));
        assert_eq!(counts.summary(at(90)), None, "all has been told");
        for n in 0..2000 {
            assert!(!counts.note(Kind::WrongToken, address(n % 3), at(1)));
        }
        assert!(counts.note(Kind::NotLonghaul, address(1), at(2)));
        assert!(!counts.note(Kind::NotLonghaul, address(9), at(3)));
        assert_eq!(counts.due(at(60)), None);
        let line = "2001 more were turned away within 60 s, from 4 addresses: 2000 with a wrong token, \
                    1 that are no longhaul client";
        assert_eq!(counts.due(at(61)).as_deref(), Some(line));
        // While it goes on there is a line a minute, and none in between.
        assert!(!counts.note(Kind::WrongToken, address(1), at(62)));
        assert_eq!((counts.due(at(100)), counts.due(at(122)).is_some()), (None, true));
        assert!(counts.note(Kind::WrongToken, address(1), at(200)), "it was quiet for a minute");
    }

    #[test]
    fn memory_does_not_follow_how_many_addresses_there_are() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        for n in 0..5000 {
            counts.note(Kind::GaveWay, address(n), now);
        }
        assert_eq!(counts.addresses.len(), ADDRESSES_MAX);
        assert!(counts.summary(now).is_some_and(|line| line.contains("1024 addresses or more")));
    }

    #[test]
    fn every_kind_has_its_words() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        for _ in 0..2 {
            counts.note(Kind::NotServed, None, now);
        }
        assert!(counts.summary(now).is_some_and(|line| line.ends_with("1 could not be served")));
    }
}
