//! Where on this host the next lane begins.

use longhaul_net::local::LocalEnd;
use longhaul_net::tcp::TcpOptions;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Local ends that take turns: the next lane begins where there are fewest. An end at which no lane can begin only loses its own
/// turns.
pub struct Turns {
    ends: Vec<Option<LocalEnd>>,
    /// Where the first lane begins.
    first: usize,
    uses: Mutex<Vec<Use>>,
}

/// What became of an end's turns.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    /// Lanes that begin there, or are about to.
    lanes: u32,
    /// Lanes in a row that could not begin there.
    failed: u32,
}

impl Turns {
    /// The end of number `first` begins.
    pub fn new(ends: Vec<Option<LocalEnd>>, first: usize) -> Turns {
        let uses = Mutex::new(vec![Use::default(); ends.len()]);
        Turns { ends, first, uses }
    }

    /// How many there are.
    pub fn ends(&self) -> usize {
        self.ends.len()
    }

    /// A connected socket from the end whose turn it is, and the number of that end. Either [`Turns::begun`] or
    /// [`Turns::failed`] is to follow.
    pub fn dial(
        &self,
        tcp: &TcpOptions,
        peer: SocketAddr,
        deadline: Instant,
    ) -> io::Result<(TcpStream, usize)> {
        let nth = self.next();
        let end = self.ends.get(nth).and_then(Option::as_ref);
        let dialled = tcp.dial(end, peer, deadline).inspect_err(|_| self.failed(nth));
        dialled.map(|socket| (socket, nth)).map_err(|error| match end {
            Some(end) => io::Error::new(error.kind(), format!("from {end}: {error}")),
            None => error,
        })
    }

    /// The end whose turn it is: the one with fewest lanes and failures together, of several the one with fewest lanes.
    fn next(&self) -> usize {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let count = uses.len();
        let in_turn = (0..count).map(|turn| (self.first + turn) % count);
        let Some(nth) = in_turn.min_by_key(|nth| (uses[*nth].lanes + uses[*nth].failed, uses[*nth].lanes))
        else {
            return 0;
        };
        uses[nth].lanes += 1;
        nth
    }

    /// A lane has begun at this end.
    pub fn begun(&self, nth: usize) {
        self.change(nth, |end| end.failed = 0);
    }

    /// None could.
    pub fn failed(&self, nth: usize) {
        self.change(nth, |end| (end.lanes, end.failed) = (end.lanes - 1, end.failed + 1));
    }

    /// A lane that had begun there is no more. Where none could begin, one may by now.
    pub fn ended(&self, nth: usize) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        for (at, end) in uses.iter_mut().enumerate() {
            (end.lanes, end.failed) = (end.lanes - u32::from(at == nth), 0);
        }
    }

    fn change(&self, nth: usize, change: impl FnOnce(&mut Use)) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        uses.get_mut(nth).map(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(ends: usize, first: usize) -> Turns {
        Turns::new(vec![None; ends], first)
    }

    /// The end of the next lane, which begins.
    fn begin(turns: &Turns) -> usize {
        let nth = turns.next();
        turns.begun(nth);
        nth
    }

    #[test]
    fn ends_take_turns_from_the_first_on() {
        let turns = turns(3, 1);
        assert_eq!([(); 6].map(|()| begin(&turns)), [1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn an_end_where_none_could_begin_has_its_turn_again_when_a_lane_dies() {
        let turns = turns(2, 0);
        for _ in 0..10 {
            let nth = turns.next();
            if nth == 0 { turns.begun(nth) } else { turns.failed(nth) }
        }
        turns.ended(0);
        assert_eq!(begin(&turns), 1);
    }

    #[test]
    fn the_lane_in_place_of_one_that_died_begins_where_that_did() {
        let turns = turns(3, 0);
        let _ = [(); 6].map(|()| begin(&turns));
        turns.ended(1);
        assert_eq!([(); 2].map(|()| begin(&turns)), [1, 0]);
    }

    #[test]
    fn an_end_at_which_one_lane_could_not_begin_has_one_before_others_have_two() {
        let turns = turns(3, 0);
        assert_eq!((begin(&turns), turns.next()), (0, 1));
        turns.failed(1);
        assert_eq!([(); 2].map(|()| begin(&turns)), [2, 1]);
    }

    #[test]
    fn an_end_at_which_none_can_begin_loses_only_its_own_turns() {
        let turns = turns(2, 0);
        let mut at_one = 0;
        for _ in 0..20 {
            match turns.next() {
                0 => turns.failed(0),
                nth => {
                    turns.begun(nth);
                    at_one += 1;
                }
            }
        }
        assert_eq!(at_one, 10);
    }
}
