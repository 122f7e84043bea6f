//! Connections of which nothing is known yet. They are many where a daemon is open to the world, and must not keep
//! out those who have a key: they have a pool of their own, and in it the oldest one that has said nothing gives
//! way.

use super::refusals::{Kind, Refusals, network};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All strangers of a daemon, the oldest first.
#[derive(Default)]
pub struct Strangers {
    inner: Mutex<Inner>,
    /// What the log says of them.
    pub refusals: Refusals,
}

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Arc<Stranger>>,
}

struct Stranger {
    /// An IPv6 host has all of its network's addresses.
    from: IpAddr,
    socket: TcpStream,
    has_spoken: AtomicBool,
}

/// A stranger's place in the pool, until it is dropped.
pub struct Guest<'a> {
    pool: &'a Strangers,
    stranger: Arc<Stranger>,
}

impl Strangers {
    /// Give a connection a place, and send another away if there are too many, in all or of one address.
    pub fn admit(&self, socket: &TcpStream, from: IpAddr) -> io::Result<Guest<'_>> {
        let (socket, from) = (socket.try_clone()?, network(from));
        let stranger = Arc::new(Stranger { from, socket, has_spoken: AtomicBool::new(false) });
        let mut inner = self.lock();
        let mut gone = None;
        if inner.waiting.iter().filter(|other| other.from == from).count() >= ADDRESS_MAX {
            gone = inner.send_one_away(|other| other.from == from);
        } else if inner.waiting.len() >= STRANGERS_MAX {
            gone = inner.send_one_away(|_| true);
        }
        inner.waiting.push_back(stranger.clone());
        drop(inner);
        if let Some(gone) = gone {
            let line = || format!("{gone}: gave way to a newer connection without having shown a key");
            self.refusals.note(Kind::GaveWay, Some(gone), line);
        }
        Ok(Guest { pool: self, stranger })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// The oldest that has said nothing, or else the oldest. Whoever looks after it finds its connection closed. Says where it
    /// came from.
    fn send_one_away(&mut self, may: impl Fn(&Stranger) -> bool) -> Option<IpAddr> {
        let silent = |other: &Arc<Stranger>| may(other) && !other.has_spoken.load(Ordering::Relaxed);
        let oldest =
            self.waiting.iter().position(silent).or_else(|| self.waiting.iter().position(|other| may(other)));
        let stranger = self.waiting.remove(oldest?)?;
        // It may have left by itself.
        let _ = stranger.socket.shutdown(Shutdown::Both);
        Some(stranger.from)
    }
}

impl Guest<'_> {
    /// It has said what it wants.
    pub fn speaks(&self) {
        self.stranger.has_spoken.store(true, Ordering::Relaxed);
    }
}

impl Drop for Guest<'_> {
    fn drop(&mut self) {
        self.pool.lock().waiting.retain(|other| !Arc::ptr_eq(other, &self.stranger));
    }
}

/// Each costs a thread and two descriptors for ten seconds at most.
const STRANGERS_MAX: usize = 512;

/// Twice the connections that one copy opens at once.
const ADDRESS_MAX: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    /// Both ends of a connection.
    fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (listener.accept().unwrap().0, far)
    }

    fn is_closed(far: &mut TcpStream) -> bool {
        far.set_nonblocking(true).unwrap();
        matches!(far.read(&mut [0]), Ok(0))
    }

    #[test]
    fn the_oldest_silent_one_of_an_address_gives_way() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = Strangers::default();
        let [one, other] = [[127, 0, 0, 1], [127, 0, 0, 2]].map(IpAddr::from);
        let (near, mut elsewhere) = connection(&listener);
        let _elsewhere = pool.admit(&near, other).unwrap();
        let mut ends: Vec<_> = (0..ADDRESS_MAX + 2).map(|_| connection(&listener)).collect();
        let mut guests = vec![];
        for (at, (near, _)) in ends.iter().enumerate() {
            guests.push(pool.admit(near, one).unwrap());
            if at == 0 {
                guests[0].speaks();
            }
        }
        let closed: Vec<_> = (0..ends.len()).filter(|at| is_closed(&mut ends[*at].1)).collect();
        assert_eq!(closed, [1, 2], "who has spoken stays");
        assert!(!is_closed(&mut elsewhere));
        drop(guests);
        assert_eq!(pool.lock().waiting.len(), 1);
    }

    #[test]
    fn many_addresses_together_have_no_more_than_the_pool() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let pool = Strangers::default();
        let (near, _far) = connection(&listener);
        let from = |n: usize| IpAddr::from([10, 0, (n / 256) as u8, n as u8]);
        let _guests: Vec<_> = (0..STRANGERS_MAX + 9).map(|n| pool.admit(&near, from(n)).unwrap()).collect();
        assert_eq!(pool.lock().waiting.len(), STRANGERS_MAX);
    }

    #[test]
    fn a_hosts_addresses_in_one_network_are_one() {
        let [a, b, c] = ["2001:db8::1", "2001:db8::f00:2", "2001:db8:0:1::1"].map(|a| a.parse().unwrap());
        assert_eq!(network(a), network(b));
        assert_ne!(network(a), network(c));
        assert_eq!(network("::ffff:192.0.2.7".parse().unwrap()), network("192.0.2.7".parse().unwrap()));
    }
}
