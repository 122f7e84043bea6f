//! Which offers are surely no replays.
//!
//! Whoever has recorded an offer can send it again, and it is authentic. It gets him nowhere: without the key of the one
//! who made it he cannot say another word, and before that word nothing is done. So that a client need not wait for its own
//! word to arrive, a round trip, an offer is heeded at once if it was made lately and its salt was never seen (RFC 8446
//! §8.2). Where that cannot be told, be it that the clocks differ or that the server has begun since, the word is waited for.

use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment, by both clocks of this host.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// By the one that nobody sets.
    pub at: Instant,
    /// Seconds since 1970.
    pub wall_s: u64,
}

impl Moment {
    /// This one.
    pub fn now() -> Moment {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { at: Instant::now(), wall_s: since_1970.as_secs() }
    }
}

/// The offers that a server has seen lately.
pub struct Replays {
    seen: Mutex<Seen>,
    /// What was said before this server began it cannot know.
    began: Moment,
}

#[derive(Default)]
struct Seen {
    salts: HashSet<[u8; 32]>,
    /// The same with when they came, the oldest first.
    order: VecDeque<(Instant, [u8; 32])>,
}

impl Replays {
    /// Of a server that begins now.
    pub fn new(now: Moment) -> Replays {
        Replays { seen: Mutex::default(), began: now }
    }

    /// Whether an offer that comes now comes for the first time. `made_s` is when it was made, by the client's clock, in
    /// seconds since 1970. Remembers it.
    pub fn is_first(&self, salt: &[u8; 32], made_s: u64, now: Moment) -> bool {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = seen.order.pop_front_if(|(at, _)| now.at.duration_since(*at) > REMEMBERED)
        {
            seen.salts.remove(&old);
        }
        if now.wall_s.abs_diff(made_s) > APART_MAX_S || seen.salts.len() >= SEEN_MAX {
            return false;
        }
        if !seen.salts.insert(*salt) {
            return false;
        }
        seen.order.push_back((now.at, *salt));
        made_s >= self.began.wall_s || now.at.duration_since(self.began.at) > REMEMBERED
    }
}

/// Clocks that nobody sets differ by minutes.
const APART_MAX_S: u64 = 600;
/// From the first moment at which an offer may come, by a clock that is early, to the last.
const REMEMBERED: Duration = Duration::from_secs(2 * APART_MAX_S + 1);
/// Some 6 MB; as many offers in twenty minutes are more than 50 a second.
const SEEN_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn later(moment: Moment, seconds: u64) -> Moment {
        Moment { at: moment.at + Duration::from_secs(seconds), wall_s: moment.wall_s + seconds }
    }

    /// A server, and a moment when it has been there for an hour.
    fn long_running() -> (Replays, Moment) {
        let began = Moment::now();
        (Replays::new(began), later(began, 3600))
    }

    #[test]
    fn an_offer_comes_for_the_first_time_only_once() {
        let (replays, now) = long_running();
        for (salt, made_s) in
            [([1; 32], now.wall_s), ([2; 32], now.wall_s + 600), ([3; 32], now.wall_s - 600)]
        {
            assert!(replays.is_first(&salt, made_s, now));
            // For as long as its time is near enough.
            for seconds in [0, 1, 600, 1199, 1200, 1201, 1300, 5000] {
                assert!(!replays.is_first(&salt, made_s, later(now, seconds)), "{seconds}");
            }
        }
        let now = later(now, 5000);
        assert!(replays.is_first(&[4; 32], now.wall_s, now));
        assert_eq!(replays.seen.lock().unwrap().order.len(), 1, "the others are forgotten");
    }

    #[test]
    fn a_clock_that_differs_by_hours_tells_nothing() {
        let (replays, now) = long_running();
        assert!(!replays.is_first(&[1; 32], now.wall_s + 3 * 3600, now));
        assert!(!replays.is_first(&[1; 32], now.wall_s - 3 * 3600, now));
        assert!(!replays.is_first(&[1; 32], 0, now) && !replays.is_first(&[1; 32], u64::MAX, now));
    }

    #[test]
    fn what_was_made_before_the_server_began_may_have_been_heard_before() {
        let began = Moment::now();
        let replays = Replays::new(began);
        let now = later(began, 60);
        assert!(!replays.is_first(&[1; 32], began.wall_s - 1, now));
        assert!(replays.is_first(&[2; 32], began.wall_s, now));
        // Once that is too old to be heard at all.
        let now = later(began, 3600);
        assert!(replays.is_first(&[3; 32], now.wall_s, now));
    }

    #[test]
    fn memory_is_bounded() {
        let (replays, now) = long_running();
        let salt = |at: usize| *blake3::hash(&at.to_be_bytes()).as_bytes();
        for at in 0..SEEN_MAX {
            assert!(replays.is_first(&salt(at), now.wall_s, now));
        }
        assert!(!replays.is_first(&salt(SEEN_MAX), now.wall_s, now));
        assert_eq!(replays.seen.lock().unwrap().order.len(), SEEN_MAX);
    }
}
