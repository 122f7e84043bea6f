//! Tickets: what a daemon gives a client that it has let in, so that the data of its next copy can go before there is an answer.
//!
//! A ticket is a name and a secret, good once, for a day, and for the user who got it. It lives in memory alone: who comes with one
//! of before a restart is served as if he had none. What comes under a ticket's key was sealed by who was given it, is no replay
//! since the ticket is gone after the first use, and stays secret if the token leaks later. Nothing is done with it before
//! the client has shown that it is there.

use crate::net::random::random;
use longhaul_proto::session::message::{Ticket, TicketId};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Those that a daemon has given.
#[derive(Default)]
pub struct Tickets(Mutex<Given>);

#[derive(Default)]
struct Given {
    good: HashMap<TicketId, Owned>,
    /// The same with when they were given, the oldest first. Used ones may be among them.
    order: VecDeque<(Instant, TicketId)>,
}

struct Owned {
    user: String,
    secret: [u8; 32],
}

impl Tickets {
    /// A new one for a user.
    pub fn give(&self, user: &str, now: Instant) -> io::Result<Ticket> {
        let ticket = Ticket { id: random()?, secret: random()? };
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.forget(now);
        given.good.insert(ticket.id, Owned { user: user.into(), secret: ticket.secret });
        given.order.push_back((now, ticket.id));
        Ok(ticket)
    }

    /// The secret of a user's ticket, which is good no more.
    pub fn redeem(&self, id: &TicketId, user: &str, now: Instant) -> Option<[u8; 32]> {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.forget(now);
        given.good.remove(id).filter(|owned| owned.user == user).map(|owned| owned.secret)
    }
}

impl Given {
    fn forget(&mut self, now: Instant) {
        while let Some((at, id)) = self.order.front()
            && (now.duration_since(*at) > TICKET_LIFE || self.order.len() >= TICKETS_MAX)
        {
            self.good.remove(id);
            self.order.pop_front();
        }
    }
}

/// Paths change within a day, and what can be used for longer can be stolen for longer.
pub const TICKET_LIFE: Duration = Duration::from_secs(24 * 3600);
/// Some 8 MB.
const TICKETS_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once_for_a_day_and_for_its_user() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let [used, old, stolen] = [0; 3].map(|_| tickets.give("alice", now).unwrap());
        assert_eq!(tickets.redeem(&used.id, "alice", now + TICKET_LIFE), Some(used.secret));
        assert_eq!(tickets.redeem(&used.id, "alice", now), None);
        assert_eq!(tickets.redeem(&stolen.id, "mallory", now), None);
        assert_eq!(tickets.redeem(&stolen.id, "alice", now), None, "it is out");
        assert_eq!(tickets.redeem(&[0; 16], "alice", now), None);
        assert_eq!(tickets.redeem(&old.id, "alice", now + TICKET_LIFE * 2), None);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_go() {
        let (tickets, now) = (Tickets::default(), Instant::now());
        let given: Vec<_> = (0..TICKETS_MAX + 10).map(|_| tickets.give("alice", now).unwrap()).collect();
        let held = tickets.0.lock().unwrap();
        assert!(held.good.len() <= TICKETS_MAX && held.order.len() <= TICKETS_MAX);
        drop(held);
        assert_eq!(tickets.redeem(&given[0].id, "alice", now), None);
        let last = given.last().unwrap();
        assert_eq!(tickets.redeem(&last.id, "alice", now), Some(last.secret));
    }
}
