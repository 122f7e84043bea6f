//! Sessions that wait for clients which are away. A client that was killed does not come back. When its user starts the same
//! copy again, the session that still waits for it ends, and releases the files that it holds.

use crate::net::control::rejoin::ResumableStream;
use longhaul_proto::session::message::{CopyId, Offer, Operation};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Which copy a session makes. Only the same copy started again ends a session, not another copy to the same place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyKey {
    user: String,
    operation: Operation,
    copy: CopyId,
}

impl CopyKey {
    /// Of a user's offer.
    pub fn of(user: &str, offer: &Offer) -> CopyKey {
        CopyKey { user: user.into(), operation: offer.operation.clone(), copy: offer.copy }
    }

    fn is_push(&self) -> bool {
        self.operation.dest().is_some()
    }
}

/// The sessions of a server that may wait for their clients.
#[derive(Default)]
pub struct Absent(Mutex<Vec<Known>>);

/// What a new session waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing.
    Done,
    /// One whose client is away is about to end.
    ToEnd,
    /// It is not clear whether the client of one is away.
    ToSpeak,
}

struct Known {
    key: CopyKey,
    control: Weak<ResumableStream>,
}

impl Absent {
    /// A session may wait for its client from now on.
    pub fn note(&self, key: CopyKey, control: &Arc<ResumableStream>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|known| known.control.strong_count() > 0);
        let control = Arc::downgrade(control);
        known.push(Known { key, control });
    }

    /// A user starts this copy: sessions of the same copy whose client is away end. Waits a little until they have released
    /// their files, and until it is clear whether the client of one is away.
    pub fn give_way(&self, key: &CopyKey) {
        let began = Instant::now();
        // Clients that pull the same files do not disturb each other.
        let is_push = key.is_push();
        loop {
            // However long the look takes, the last one comes after the time is up.
            let waited = began.elapsed();
            let is_unclear = |control: &ResumableStream| {
                control.is_broken() || is_push && control.quiet() > began.elapsed()
            };
            let patience = match self.end_absent(key, is_unclear) {
                Waiting::Done => return,
                Waiting::ToEnd => ENDING,
                Waiting::ToSpeak => AWAY_AFTER,
            };
            if waited >= patience {
                return;
            }
            sleep(LOOK_EVERY);
        }
    }

    /// The same for clients that vanished with their host, which only their silence shows.
    pub fn awaits_vanished(&self, key: &CopyKey) -> Waiting {
        self.end_absent(key, |control| key.is_push() && control.quiet() >= AWAY_AFTER)
    }

    fn end_absent(&self, key: &CopyKey, is_unclear: impl Fn(&ResumableStream) -> bool) -> Waiting {
        let same = self.same(key);
        same.iter().filter(|control| is_away(control)).for_each(|control| control.end());
        if same.iter().any(|control| control.is_over()) {
            Waiting::ToEnd
        } else if same.iter().any(|control| is_unclear(control)) {
            Waiting::ToSpeak
        } else {
            Waiting::Done
        }
    }

    fn same(&self, key: &CopyKey) -> Vec<Arc<ResumableStream>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = known.iter().filter(|known| known.key == *key);
        same.filter_map(|known| known.control.upgrade()).collect()
    }
}

/// A client that is there sends or acknowledges data even while it has no control connection, and sends a keep-alive three
/// times a second while it has one.
fn is_away(control: &ResumableStream) -> bool {
    control.quiet() >= if control.is_broken() { AWAY_AFTER } else { SILENT_AFTER }
}

/// More than a round trip: for so long packets may arrive that a killed client had sent.
const AWAY_AFTER: Duration = Duration::from_secs(1);
/// After so long a silence the client is gone: if it were there, it would have connected anew.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// For a session to end. The new client waits meanwhile.
const ENDING: Duration = Duration::from_secs(5);
/// Long enough for a client to be heard again, or for its session to be given up and to end.
pub const VANISHED_PATIENCE: Duration = Duration::from_secs(SILENT_AFTER.as_secs() + ENDING.as_secs());
const LOOK_EVERY: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::control::rejoin::ResumableReader;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    fn push(user: &str, dest: &str, copy: u8) -> CopyKey {
        CopyKey { user: user.into(), operation: Operation::Push { dest: dest.into() }, copy: [copy; 16] }
    }

    /// A session with a thread that waits for its client's words, and the client's end.
    fn session(absent: &Absent, key: CopyKey) -> (Weak<ResumableStream>, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let control = ResumableStream::new(listener.accept().unwrap().0);
        control.allow(Duration::from_secs(60));
        absent.note(key, &control);
        let weak = Arc::downgrade(&control);
        thread::spawn(move || while ResumableReader(control.clone()).read(&mut [0; 9]).is_ok() {});
        (weak, client)
    }

    fn await_break(control: &Weak<ResumableStream>) {
        assert!(control.upgrade().unwrap().await_need());
    }

    #[test]
    fn the_session_of_a_killed_client_gives_way_to_the_same_copy_alone() {
        let absent = Absent::default();
        let (killed, client) = session(&absent, push("alice", "data", 1));
        let others = [("bob", "data", 1), ("alice", "other", 1), ("alice", "data", 2)];
        let others = others.map(|(user, dest, copy)| session(&absent, push(user, dest, copy)));
        let (alive, mut speaker) = session(&absent, push("alice", "data", 1));
        let gone: Vec<_> = others.into_iter().map(|(control, client)| (control, drop(client))).collect();
        drop(client);
        await_break(&killed);
        gone.iter().for_each(|(control, ())| await_break(control));
        let speaking = thread::spawn(move || while speaker.write_all(b"here").is_ok() {});
        absent.give_way(&push("alice", "data", 1));
        assert!(killed.upgrade().is_none(), "it has ended, and holds nothing");
        assert!(alive.upgrade().is_some_and(|control| !control.is_over()), "its client is there");
        assert!(gone.iter().all(|(control, ())| control.upgrade().is_some_and(|control| !control.is_over())));
        alive.upgrade().unwrap().end();
        speaking.join().unwrap();
    }

    #[test]
    fn a_client_that_lost_its_connection_and_sends_data_keeps_its_session() {
        let absent = Absent::default();
        let (alive, client) = session(&absent, push("alice", "data", 1));
        drop(client);
        await_break(&alive);
        let control = alive.clone();
        let sending = thread::spawn(move || {
            let until = Instant::now() + AWAY_AFTER * 2;
            while Instant::now() < until {
                control.upgrade().unwrap().note_life();
                sleep(LOOK_EVERY);
            }
        });
        absent.give_way(&push("alice", "data", 1));
        assert!(alive.upgrade().is_some_and(|control| control.is_broken()));
        sending.join().unwrap();
    }
}
