//! Datagrams that came in at a socket open to all, on their way to the session that they belong to. Whoever reaches the port
//! can send more than anybody takes: as in a socket's buffer, what there is no room for is lost.

use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::Time;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A datagram that came in at a socket open to all and belongs to a transfer.
#[derive(Debug)]
pub struct Stray {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// When it reached the host.
    pub time: Time,
    /// What its IP header said, if the kernel told.
    pub ecn: Option<Ecn>,
    /// Who sent it.
    pub from: SocketAddr,
    /// To which of this host's addresses, if the socket tells.
    pub to: Option<IpAddr>,
}

impl Stray {
    /// The memory that it takes.
    pub fn cost(&self) -> usize {
        size_of::<Stray>() + self.bytes.len()
    }
}

/// Those of one session.
#[derive(Debug, Default)]
pub struct Strays(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    strays: VecDeque<Stray>,
    cost: usize,
}

impl Strays {
    /// One more. `false`: there is no room for it.
    pub fn push(&self, stray: Stray) -> bool {
        let mut waiting = self.lock();
        let cost = waiting.cost + stray.cost();
        let fits = cost <= COST_MAX;
        if fits {
            waiting.cost = cost;
            waiting.strays.push_back(stray);
        }
        fits
    }

    /// The oldest.
    pub fn pop(&self) -> Option<Stray> {
        let mut waiting = self.lock();
        let stray = waiting.strays.pop_front()?;
        waiting.cost -= stray.cost();
        Some(stray)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().strays.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Some hundredths of a second of a fast path's data, or any first flight many times over.
const COST_MAX: usize = 2 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn stray(len: usize) -> Stray {
        let from = "127.0.0.1:9".parse().unwrap();
        Stray { bytes: vec![0; len], time: Time::ZERO, ecn: None, from, to: None }
    }

    #[test]
    fn memory_is_bounded_however_long_or_short_datagrams_are() {
        for len in [0, 15, 1472, 65_507] {
            let strays = Strays::default();
            let taken = (0..100_000).take_while(|_| strays.push(stray(len))).count();
            assert_eq!(taken, COST_MAX / stray(len).cost(), "{len}");
            assert!(strays.pop().is_some() && strays.push(stray(len)) && !strays.push(stray(len)));
            while strays.pop().is_some() {}
            assert!(strays.is_empty());
            assert_eq!(strays.lock().cost, 0);
        }
    }
}
