//! Which size of datagrams passes while data moves: packetization layer path MTU discovery for datagrams (RFC 8899).
//!
//! The path check has found a size before the first data. When nothing of that size is acknowledged any more, or the host
//! refuses it, probes of it and of all smaller sizes go out together, again and again. Where smaller ones are answered and
//! those of the size in use are not, in one round after the other, the largest that was answered is used from then on. A path
//! on which nothing passes answers none, and one that merely loses much answers some of each: neither changes anything.
//! What has not carried data for a while is asked for before it does. Ten minutes after the last search larger sizes are tried.

use crate::path::PathCheck;
use crate::units::Time;
use core::time::Duration;
use std::ops::Range;

/// How it goes.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Now.
    pub now: Time,
    /// The round trip.
    pub rtt: Duration,
    /// An acknowledgement is overdue, or nothing of what was sent lately has come in.
    pub is_in_vain: bool,
    /// The host has refused a datagram as too long, or has been told by a router that it was.
    pub is_refused: bool,
    /// Before when the datagrams of data left that are known to have come in.
    pub proven: Time,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Plpmtud {
    /// The size in use, by its index, and the largest there is.
    class: u8,
    largest: u8,
    search: Option<Search>,
    /// No search for smaller sizes before.
    rests_until: Time,
    raise_at: Time,
}

/// A search for another size.
#[derive(Debug)]
struct Search {
    began: Time,
    is_upward: bool,
    /// When the latest rounds of probes left.
    rounds: Vec<Time>,
    next_at: Time,
}

impl Plpmtud {
    /// Of `classes` sizes, this one passes at `now`.
    pub fn new(class: u8, classes: usize, now: Time) -> Plpmtud {
        let largest = classes.saturating_sub(1) as u8;
        Plpmtud { class, largest, search: None, rests_until: now, raise_at: now + PMTU_RAISE_TIMER }
    }

    /// Look at how it goes: asks what is to be asked through `check`, and says from now on which size is to be used if that is
    /// another one.
    pub fn look(&mut self, look: &Look, check: &mut PathCheck) -> Option<u8> {
        if self.search.is_none() {
            let is_upward = look.now >= self.raise_at && self.class < self.largest;
            let is_in_doubt =
                (look.is_in_vain || look.is_refused) && self.class > 0 && look.now >= self.rests_until;
            if !is_upward && !is_in_doubt {
                return None;
            }
            // Silence matters more than what might be gained.
            let is_upward = is_upward && !is_in_doubt;
            self.search = Some(Search::new(look.now, is_upward));
        }
        let search = self.search.as_mut()?;
        let is_over = search.is_upward && search.rounds.len() >= PROBES_MAX && look.now >= search.next_at;
        let found = if search.is_upward {
            let found = search.largest(check, self.class + 1..self.largest + 1);
            found.filter(|class| is_over || *class == self.largest)
        } else {
            let passes = look.proven > search.began || check.passed(self.class, search.began..Time::MAX);
            if passes {
                self.search = None;
                self.rests_until = look.now + REST.max(look.rtt * REST_RTTS);
                return None;
            }
            search.largest(check, 0..self.class).filter(|_| search.missed(check, self.class) >= PROBES_MAX)
        };
        if found.is_some() || is_over {
            self.search = None;
            self.class = found.unwrap_or(self.class);
            self.raise_at = look.now + PMTU_RAISE_TIMER;
            self.rests_until = look.now + REST.max(look.rtt * REST_RTTS);
            return found;
        }
        if look.now >= search.next_at {
            search.ask(look, check, (self.class, self.largest));
        }
        None
    }

    /// The size in use may not pass any more: ask at the next look, however it goes.
    pub fn doubt(&mut self, now: Time) {
        if self.class > 0 {
            self.search = Some(Search::new(now, false));
        }
    }

    /// When to look again at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.search.as_ref().map(|search| search.next_at)
    }

    /// Something else carries the data: nothing is searched for.
    pub fn rest(&mut self) {
        self.search = None;
    }
}

impl Search {
    fn new(now: Time, is_upward: bool) -> Search {
        Search { began: now, is_upward, rounds: vec![], next_at: now }
    }

    /// A round of probes goes out.
    fn ask(&mut self, look: &Look, check: &mut PathCheck, (class, largest): (u8, u8)) {
        // The longest first: that a shorter one is answered which left after it means the more.
        let classes = if self.is_upward { class + 1..largest + 1 } else { 0..class + 1 };
        classes.rev().for_each(|class| check.probe_again(class));
        if self.rounds.len() == ROUNDS_KEPT {
            self.rounds.remove(0);
        }
        self.rounds.push(look.now);
        let pause = GAP.max(look.rtt / 2);
        let pause = match (self.is_upward, self.rounds.len()) {
            // Of the last round the answers are waited for.
            (true, PROBES_MAX) => pause + look.rtt * 2,
            (_, rounds) if rounds > PROBES_MAX * 2 => pause.max(GAP_MAX),
            _ => pause,
        };
        self.next_at = look.now + pause;
    }

    /// The largest of these sizes that passes.
    fn largest(&self, check: &PathCheck, mut classes: Range<u8>) -> Option<u8> {
        let from = self.rounds.first().copied().unwrap_or(self.began);
        classes.rfind(|class| check.passed(*class, from..Time::MAX))
    }

    /// In how many rounds a smaller size passed and this one did not.
    fn missed(&self, check: &PathCheck, class: u8) -> usize {
        let ends = self.rounds.iter().skip(1).copied().chain([Time::MAX]);
        let spans = self.rounds.iter().zip(ends).map(|(start, end)| *start..end);
        let is_missed = |span: &Range<Time>| {
            !check.passed(class, span.clone())
                && (0..class).any(|smaller| check.passed(smaller, span.clone()))
        };
        spans.filter(is_missed).count()
    }
}

/// RFC 8899 §5.1.1: larger sizes are tried so long after the last search.
pub const PMTU_RAISE_TIMER: Duration = Duration::from_secs(600);
/// RFC 8899 §5.1.2, MAX_PROBES: a size does not pass of which so many probes in a row are not answered.
const PROBES_MAX: usize = 3;
/// Between two rounds of probes, but half a round trip at least: what is lost in one burst of losses is not lost in the next.
const GAP: Duration = Duration::from_millis(10);
/// Between two rounds where nothing at all is answered.
const GAP_MAX: Duration = Duration::from_millis(250);
/// Rounds whose answers count.
const ROUNDS_KEPT: usize = 8;
/// A size that was found to pass is not doubted anew for so long.
const REST: Duration = Duration::from_millis(200);
const REST_RTTS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{Arrival, Endpoint};
    use crate::wire;

    const CLASSES: [u16; 3] = [1200, 1452, 1472];
    const RTT: Duration = Duration::from_millis(40);

    /// Look every millisecond while data is lost, from 1 s on; `passes` says which length does at a moment. When another size was
    /// found, and which.
    fn search(class: u8, until_ms: u64, passes: impl Fn(u64, usize) -> bool) -> Vec<(u64, u8)> {
        let mut plpmtud = Plpmtud::new(class, CLASSES.len(), Time::ZERO);
        let mut check = PathCheck::new(CLASSES.to_vec(), false, 7);
        let (mut buf, mut replies, mut found) = (vec![0; 1500], vec![], vec![]);
        while check.poll_transmit(Time::ZERO, &mut buf).is_some() {}
        for ms in 1000..until_ms {
            let now = Time::from_millis(ms);
            replies.retain(|(at, number)| {
                if *at <= now {
                    let len = wire::encode_reply(&mut buf, *number, now, 7);
                    check.handle_datagram(now, Arrival::new(now, 0), &buf[..len]);
                }
                *at > now
            });
            let is_in_vain = class > 0 && found.is_empty();
            let look = Look { now, rtt: RTT, is_in_vain, is_refused: false, proven: Time::ZERO };
            found.extend(plpmtud.look(&look, &mut check).map(|class| (ms, class)));
            while let Some(sent) = check.poll_transmit(now, &mut buf) {
                if passes(ms, sent.len + wire::SEAL_OVERHEAD) {
                    replies.push((now + RTT, sent.number));
                }
            }
        }
        found
    }

    #[test]
    fn the_largest_that_passes_is_found_after_three_rounds() {
        assert_eq!(search(2, 2000, |_, len| len <= 1460), [(1080, 1)]);
        assert_eq!(search(2, 2000, |_, len| len <= 1300), [(1080, 0)]);
        assert_eq!(search(1, 2000, |_, len| len <= 1300), [(1080, 0)]);
    }

    #[test]
    fn nothing_is_concluded_where_all_or_nothing_passes_or_did_not_for_a_while() {
        assert_eq!(search(2, 20_000, |_, _| true), []);
        assert_eq!(search(2, 20_000, |_, _| false), []);
        for end in 1000..1600 {
            assert_eq!(search(2, 3000, |ms, _| ms >= end), [], "nothing passed until {end} ms");
        }
        // The first two of the size in use are lost, by chance.
        assert_eq!(search(2, 3000, |ms, len| len < 1472 || ms > 1030), []);
    }

    #[test]
    fn a_size_that_is_doubted_is_asked_for_before_anything_was_lost() {
        for (longest, found) in [(1472, None), (1300, Some(0))] {
            let mut plpmtud = Plpmtud::new(2, CLASSES.len(), Time::ZERO);
            let mut check = PathCheck::new(CLASSES.to_vec(), false, 7);
            let (mut buf, mut last) = (vec![0; 1500], None);
            while check.poll_transmit(Time::ZERO, &mut buf).is_some() {}
            plpmtud.doubt(Time::ZERO);
            for ms in 0..100 {
                let now = Time::from_millis(ms);
                let look = Look { now, rtt: RTT, is_in_vain: false, is_refused: false, proven: Time::ZERO };
                last = last.or(plpmtud.look(&look, &mut check));
                while let Some(sent) = check.poll_transmit(now, &mut buf) {
                    if sent.len + wire::SEAL_OVERHEAD <= longest {
                        let len = wire::encode_reply(&mut buf, sent.number, now, 7);
                        check.handle_datagram(now, Arrival::new(now, 0), &buf[..len]);
                    }
                }
            }
            assert_eq!((last, plpmtud.poll_timeout()), (found, None), "{longest}");
        }
        let mut smallest = Plpmtud::new(0, CLASSES.len(), Time::ZERO);
        smallest.doubt(Time::ZERO);
        assert_eq!(smallest.poll_timeout(), None);
    }

    #[test]
    fn there_is_nothing_smaller_than_the_smallest() {
        let mut check = PathCheck::new(vec![1200, 1472], false, 7);
        let look = Look { now: Time::ZERO, rtt: RTT, is_in_vain: true, is_refused: true, proven: Time::ZERO };
        let mut plpmtud = Plpmtud::new(0, 2, Time::ZERO);
        assert_eq!((plpmtud.look(&look, &mut check), plpmtud.poll_timeout()), (None, None));
    }

    #[test]
    fn larger_ones_are_asked_for_after_ten_minutes_and_the_largest_that_passes_is_taken() {
        assert_eq!(search(0, 700_000, |_, _| true), [(600_040, 2)]);
        // For the largest is waited to the end.
        let [(at, class)] = search(0, 700_000, |_, len| len <= 1460)[..] else { panic!("it was not tried") };
        assert!(class == 1 && (600_100..600_300).contains(&at), "{class} at {at}");
        assert_eq!(search(0, 1_000_000, |_, len| len <= 1300), []);
    }
}
