//! Sessions whose clients are away. A client that was killed does not come back, and shows it when its user asks for the same
//! copy once more: the session that waits for it gives way then, with what it holds.

use crate::net::control::rejoin::ResumableStream;
use longhaul_proto::session::message::{CopyId, Offer, Operation};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Which copy a session makes. Another one to the same place is not in its way: nothing ends that is not run again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyKey {
    user: String,
    operation: Operation,
    copy: CopyId,
}

impl CopyKey {
    /// That which a user asks for.
    pub fn of(user: &str, offer: &Offer) -> CopyKey {
        CopyKey { user: user.into(), operation: offer.operation.clone(), copy: offer.copy }
    }

    fn is_push(&self) -> bool {
        matches!(self.operation, Operation::Push { .. })
    }
}

/// The sessions of a server, each with whose it is and what it copies.
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

    /// A user asks for a copy: sessions for the same one whose client is away end. Waits a little for what they hold, and
    /// until it is clear whether a client is away that was killed a moment ago.
    pub fn give_way(&self, key: &CopyKey) {
        let began = Instant::now();
        // Of any number of clients that fetch the same none is in the other's way.
        let is_push = key.is_push();
        loop {
            let is_unclear = |control: &ResumableStream| {
                control.is_broken() || is_push && control.quiet() > began.elapsed()
            };
            let patience = match self.end_absent(key, is_unclear) {
                Waiting::Done => return,
                Waiting::ToEnd => ENDING,
                Waiting::ToSpeak => AWAY_AFTER,
            };
            if began.elapsed() >= patience {
                return;
            }
            sleep(LOOK_EVERY);
        }
    }

    /// The same once more, of sessions whose client may have vanished with its host: nothing but silence tells that.
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

/// A client that is there sends data or acknowledges it, connection or not, and says over its connection three times a second
/// that it is there.
fn is_away(control: &ResumableStream) -> bool {
    control.quiet() >= if control.is_broken() { AWAY_AFTER } else { SILENT_AFTER }
}

/// More than a round trip, which is the longest that what a client sent before it was killed still comes.
const AWAY_AFTER: Duration = Duration::from_secs(1);
/// A connection that brought nothing for so long belongs to nobody: its client would have come back over another one.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// For a session to end. The new client waits meanwhile.
const ENDING: Duration = Duration::from_secs(5);
/// Until a client has spoken again, or its session is given up and has ended.
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
