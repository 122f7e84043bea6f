//! Sessions whose clients have lost their connection. A client that was killed does not come back, and is told from one whose
//! connection broke by this: it asks for the same copy once more. The session that waits for it gives way then.

use crate::net::control::rejoin::Line;
use longhaul_proto::session::message::Direction;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The sessions of a server, each with whose it is and what it copies.
#[derive(Default)]
pub struct Absent(Mutex<Vec<Known>>);

struct Known {
    user: String,
    direction: Direction,
    line: Weak<Line>,
}

impl Absent {
    /// A session begins.
    pub fn note(&self, user: &str, direction: &Direction, line: &Arc<Line>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.line.strong_count() > 0);
        known.push(Known { user: user.into(), direction: direction.clone(), line: Arc::downgrade(line) });
    }

    /// The same user asks for the same copy: sessions that wait for a client of it end. Waits a little for what they hold.
    pub fn give_way(&self, user: &str, direction: &Direction) {
        let waiting: Vec<Weak<Line>> = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let same = known.iter().filter(|known| known.user == user && known.direction == *direction);
            let broken = same.filter(|known| known.line.upgrade().is_some_and(|line| line.is_broken()));
            broken.map(|known| known.line.clone()).collect()
        };
        waiting.iter().filter_map(Weak::upgrade).for_each(|line| line.end());
        let until = Instant::now() + PATIENCE;
        while waiting.iter().any(|line| line.strong_count() > 0) && Instant::now() < until {
            sleep(LOOK_EVERY);
        }
    }
}

/// For a session to end. Its client waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(5);
