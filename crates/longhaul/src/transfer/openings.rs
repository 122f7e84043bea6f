//! The first messages of clients at a daemon: one that came by datagrams is answered once, and the same message over TCP, where the
//! answer got lost, with the same words. One that TCP has brought first is not looked at again.

use crate::net::control::rejoin::ResumableStream;
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A client's whole first message.
pub struct Opening {
    /// The message.
    pub first: Vec<u8>,
    /// Who sent it, as its datagrams have it.
    pub from: SocketAddr,
    /// The address of this host that it came to.
    pub local: SocketAddr,
}

impl Opening {
    /// Of datagrams from somebody to this host's address and port.
    pub fn new(first: Vec<u8>, from: SocketAddr, (to, port): (IpAddr, u16)) -> Opening {
        let local = match (to, from) {
            // The address of a link counts on that link only.
            (IpAddr::V6(to), SocketAddr::V6(from)) => SocketAddrV6::new(to, port, 0, from.scope_id()).into(),
            _ => SocketAddr::new(to, port),
        };
        Opening { first, from, local }
    }
}

/// The messages that have been met, by their hashes, while what came of them lasts.
#[derive(Default)]
pub struct Known {
    met: Mutex<HashMap<[u8; 32], Option<Decided>>>,
    changed: Condvar,
}

/// What came of one.
#[derive(Clone)]
pub struct Decided {
    answer: Vec<u8>,
    control: Arc<ResumableStream>,
}

impl Decided {
    /// Say the same over TCP: this is the control stream's first connection.
    pub fn go_on_over(&self, mut socket: TcpStream) -> io::Result<()> {
        socket.write_all(&self.answer)?;
        self.control.connect_from(socket, 0)
    }
}

/// Keeps a message known until it is dropped.
pub struct Note<'a> {
    known: &'a Known,
    hash: [u8; 32],
}

impl Known {
    /// A message came, and is looked at for as long as the note is kept. `None`: it is known already.
    pub fn begin(&self, first: &[u8]) -> Option<Note<'_>> {
        let hash = *blake3::hash(first).as_bytes();
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.contains_key(&hash) {
            return None;
        }
        met.insert(hash, None);
        Some(Note { known: self, hash })
    }

    /// A message came over TCP and is known: what came of it, if it came by datagrams before. Waits for that a little.
    pub fn decided(&self, first: &[u8]) -> Option<Decided> {
        let hash = blake3::hash(first);
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |met: &mut HashMap<_, Option<_>>| met.get(hash.as_bytes()).is_some_and(Option::is_none);
        let waited = self.changed.wait_timeout_while(met, DECIDING, is_open);
        waited.unwrap_or_else(PoisonError::into_inner).0.get(hash.as_bytes()).cloned().flatten()
    }
}

impl Note<'_> {
    /// This is the answer to it.
    pub fn decide(&self, answer: &[u8], control: &Arc<ResumableStream>) {
        let decided = Decided { answer: answer.to_vec(), control: control.clone() };
        self.known.met.lock().unwrap_or_else(PoisonError::into_inner).insert(self.hash, Some(decided));
        self.known.changed.notify_all();
    }
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        self.known.met.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.hash);
        self.known.changed.notify_all();
    }
}

/// Openings that are looked at and not known to come from somebody with a key: each costs a thread, for microseconds.
pub const OPENINGS_MAX: usize = 32;
/// It takes microseconds, unless a session for the same copy is in the way.
const DECIDING: Duration = Duration::from_secs(6);
