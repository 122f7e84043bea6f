//! Whether datagrams are sent so that queues may mark them instead of dropping them (ECN), and whether what comes back of
//! marks is to be believed (after RFC 9000 §13.4.2).
//!
//! ```text
//! Testing ──ten have gone──▶ Waiting ──one came in as it was sent──▶ Sound ──nothing comes back──▶ Waiting
//!    ▲                          │
//!    └── later, if it was not seen how any came in, or all that was seen was marked
//! any ──one came in as it was not sent──▶ Off
//! Sound ──all was marked for eight round trips──▶ Off
//! ```
//!
//! An acknowledgement says how its latest datagram came in: a path that takes marks off some of many datagrams is found out
//! as surely as by counting all, and the usual one costs no byte. Until a datagram came in as it was sent, ten at most are
//! at stake: a path that drops what could be marked loses these, and one on which everything is marked moves no controller.
//!
//! A queue that marks all although we send less each time belongs to others who do not heed marks: from then on it is to drop
//! ours as it drops theirs (RFC 9331 §4.3 asks as much of L4S).

use crate::ecn::Ecn;
use crate::units::DatagramNumber;
use crate::wire::Ack;
use std::ops::Range;

/// See the [module](self).
#[derive(Clone, Debug)]
pub(super) struct Marking {
    wanted: Ecn,
    state: State,
    /// The latest stretch of datagrams that could be marked.
    stretch: Range<DatagramNumber>,
    /// Datagrams of a test.
    test: u64,
    /// When to test once more, and whether there is reason to.
    again_at: DatagramNumber,
    is_doubtful: bool,
    /// A round trip ends with this datagram.
    round_end: DatagramNumber,
    /// Whether all that was seen of it was marked, as in so many before.
    is_all_marked: bool,
    marked_rounds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first few that can be marked go.
    Testing,
    /// What became of them is not known; nothing can be marked.
    Waiting,
    /// Marks are queues' doing.
    Sound,
    /// Nothing can be marked any more.
    Off,
}

impl Marking {
    /// From the first datagram on.
    pub fn new(wanted: Ecn) -> Marking {
        Marking::from(wanted, 0)
    }

    /// From datagram `next` on, whatever was known of another path.
    pub fn from(wanted: Ecn, next: DatagramNumber) -> Marking {
        let state = if wanted.is_capable() { State::Testing } else { State::Off };
        let again_at = next.saturating_add(AGAIN);
        let stretch = next..DatagramNumber::MAX;
        Marking {
            wanted,
            state,
            stretch,
            test: TEST,
            again_at,
            is_doubtful: false,
            round_end: next,
            is_all_marked: false,
            marked_rounds: 0,
        }
    }

    /// What the next datagrams are to say.
    pub fn ecn(&self) -> Ecn {
        if matches!(self.state, State::Testing | State::Sound) { self.wanted } else { Ecn::NotEct }
    }

    /// Whether what is told of marks is to be believed.
    pub fn is_sound(&self) -> bool {
        self.state == State::Sound
    }

    /// `next` will be the next datagram.
    pub fn advance(&mut self, next: DatagramNumber) {
        if self.state == State::Testing && next >= self.stretch.start.saturating_add(self.test) {
            self.leave(State::Waiting, next);
        } else if self.state == State::Waiting && self.is_doubtful && next >= self.again_at {
            (self.state, self.is_doubtful) = (State::Testing, false);
            self.stretch = next..DatagramNumber::MAX;
            // So long in the end that one of it is seen; that much came in the last time.
            self.test = self.test.saturating_mul(LONGER);
            self.again_at = next.saturating_mul(2);
        }
    }

    /// An acknowledgement came; `next` will be the next datagram.
    pub fn heard(&mut self, ack: &Ack, next: DatagramNumber) {
        if self.state == State::Off {
            return;
        }
        if !self.stretch.contains(&ack.latest) {
            // That some of it came in is told, but not how.
            self.is_doubtful |=
                self.state == State::Waiting && ack.received_ranges().any(|range| self.overlaps(&range));
            return;
        }
        if ack.latest_ecn == self.wanted {
            if self.state == State::Waiting {
                // What went meanwhile could not be marked.
                self.stretch = next..DatagramNumber::MAX;
            }
            self.state = State::Sound;
        } else if ack.latest_ecn == Ecn::Ce {
            self.is_doubtful = true;
        } else {
            self.state = State::Off;
        }
        self.count_marked(ack, next);
    }

    fn count_marked(&mut self, ack: &Ack, next: DatagramNumber) {
        if ack.latest >= self.round_end {
            self.marked_rounds = if self.is_all_marked { self.marked_rounds + 1 } else { 0 };
            (self.round_end, self.is_all_marked) = (next, true);
        }
        self.is_all_marked &= ack.latest_ecn == Ecn::Ce;
        if self.state == State::Sound && self.marked_rounds >= MARKED_ROUNDS {
            self.leave(State::Off, next);
        }
    }

    /// Nothing comes back: perhaps because what could be marked is dropped.
    pub fn doubt(&mut self, next: DatagramNumber) {
        if matches!(self.state, State::Testing | State::Sound) {
            self.is_doubtful = true;
            self.test = TEST / LONGER;
            self.again_at = self.again_at.max(next.saturating_add(AGAIN));
            self.leave(State::Waiting, next);
        }
    }

    /// Datagrams by themselves go no more.
    pub fn stop(&mut self, next: DatagramNumber) {
        self.leave(State::Off, next);
    }

    fn overlaps(&self, numbers: &Range<DatagramNumber>) -> bool {
        numbers.start < self.stretch.end && self.stretch.start < numbers.end
    }

    fn leave(&mut self, to: State, next: DatagramNumber) {
        self.state = to;
        self.stretch.end = self.stretch.end.min(next);
    }
}

/// So many are at stake (RFC 9000 §A.4).
const TEST: u64 = 10;
/// After so many more the test is made again, then after twice as many each time …
const AGAIN: u64 = 1000;
/// … with so many times as many.
const LONGER: u64 = 4;
/// A queue that is full of what heeds marks is shorter sooner.
const MARKED_ROUNDS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a path makes of what could be marked.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum PathKind {
        Keeps,
        /// Some are marked.
        Congested,
        Clears,
        Forges,
        Drops,
    }

    fn arrives(path: PathKind, number: DatagramNumber, sent: Ecn) -> Option<Ecn> {
        match path {
            _ if !sent.is_capable() => Some(sent),
            PathKind::Keeps => Some(sent),
            PathKind::Congested => Some(if number.is_multiple_of(7) { Ecn::Ce } else { sent }),
            PathKind::Clears => Some(Ecn::NotEct),
            PathKind::Forges => Some(Ecn::Ce),
            PathKind::Drops => None,
        }
    }

    /// Send so many at a time over a path, and hear of one of the last few after each; what datagrams said, and the end.
    fn run(path: PathKind, wanted: Ecn, steps: &[(u64, u64)]) -> (Marking, Vec<Ecn>) {
        let (mut marking, mut sent) = (Marking::new(wanted), vec![]);
        for (count, back) in steps {
            sent.extend((0..*count).map(|_| marking.ecn()));
            let next = sent.len() as u64;
            marking.advance(next);
            let latest = next.saturating_sub(1 + back);
            let latest_ecn = sent.get(latest as usize).and_then(|sent| arrives(path, latest, *sent));
            if let Some(latest_ecn) = latest_ecn {
                let came = |number: u64| arrives(path, number, sent[number as usize]).is_some();
                // As far back as any of them is in doubt.
                let told = latest.saturating_sub(1000)..=latest;
                let runs = told.rev().map(came).collect::<Vec<_>>();
                let runs = runs.chunk_by(|a, b| a == b).map(|run| run.len() as u64).collect();
                marking.heard(&Ack { latest, largest: latest, latest_ecn, runs, ..Ack::default() }, next);
            }
        }
        (marking, sent)
    }

    fn steps() -> impl Strategy<Value = Vec<(u64, u64)>> {
        prop::collection::vec((1..40u64, 0..30u64), 600..700)
    }

    proptest! {
        #[test]
        fn a_path_that_keeps_marks_is_trusted_and_one_that_takes_them_off_is_not(
            steps in steps(), wanted in prop_oneof![Just(Ecn::Ect0), Just(Ecn::Ect1)]
        ) {
            for path in [PathKind::Keeps, PathKind::Congested] {
                let (marking, sent) = run(path, wanted, &steps);
                prop_assert!(marking.is_sound() && marking.ecn() == wanted, "{:?}: {:?}", path, marking);
                let silent = sent.iter().filter(|sent| **sent == Ecn::NotEct).count();
                prop_assert!(silent < 5000, "{:?}: {} could not be marked", path, silent);
            }
            for path in [PathKind::Clears, PathKind::Drops] {
                let (marking, sent) = run(path, wanted, &steps);
                prop_assert_eq!(marking.ecn(), Ecn::NotEct, "{:?}", path);
                let tried = sent.iter().filter(|sent| sent.is_capable()).count();
                prop_assert!(tried < 100, "{:?}: {}", path, tried);
            }
        }

        #[test]
        fn a_path_that_marks_everything_is_tried_now_and_then(steps in steps()) {
            let (marking, sent) = run(PathKind::Forges, Ecn::Ect0, &steps);
            prop_assert!(!marking.is_sound());
            let tried = sent.iter().filter(|sent| sent.is_capable()).count();
            prop_assert!(tried > 40 && tried < sent.len() / 2, "{} of {}", tried, sent.len());
        }

        #[test]
        fn whatever_is_claimed_is_survived(
            words in prop::collection::vec((any::<u64>(), 0..4u8, any::<u64>()), 0..50)
        ) {
            let mut marking = Marking::new(Ecn::Ect0);
            for (latest, ecn, next) in words {
                marking.advance(next);
                marking.heard(&Ack { latest, latest_ecn: Ecn::from_bits(ecn), marked: latest, ..Ack::default() }, next);
                marking.doubt(next);
            }
        }
    }

    #[test]
    fn a_queue_that_marks_all_for_eight_round_trips_is_to_drop_instead() {
        let (mut marking, sent) = run(PathKind::Keeps, Ecn::Ect0, &[(100, 0); 3]);
        let mut next = sent.len() as u64;
        let mut hear = |marking: &mut Marking, latest_ecn| {
            // Two acknowledgements in each round trip, and as much is sent.
            for _ in 0..2 {
                next += 1;
                marking
                    .heard(&Ack { latest: next - 2, largest: next - 2, latest_ecn, ..Ack::default() }, next);
            }
            marking.ecn()
        };
        for _ in 0..MARKED_ROUNDS - 1 {
            assert_eq!(hear(&mut marking, Ecn::Ce), Ecn::Ect0);
        }
        assert_eq!(hear(&mut marking, Ecn::Ect0), Ecn::Ect0, "one that was not marked");
        for _ in 0..MARKED_ROUNDS {
            assert_eq!(hear(&mut marking, Ecn::Ce), Ecn::Ect0);
        }
        hear(&mut marking, Ecn::Ce);
        assert_eq!(marking.ecn(), Ecn::NotEct);
        assert_eq!(hear(&mut marking, Ecn::Ect0), Ecn::NotEct, "what was on its way");
    }

    #[test]
    fn a_path_that_begins_to_drop_what_could_be_marked_is_noticed_and_tried_later() {
        let (mut marking, sent) = run(PathKind::Keeps, Ecn::Ect0, &[(100, 0); 3]);
        let next = sent.len() as u64;
        assert!(marking.is_sound());
        marking.doubt(next);
        assert_eq!(marking.ecn(), Ecn::NotEct);
        marking.heard(&Ack { latest: next + 5, ..Ack::default() }, next + 10);
        marking.advance(next + AGAIN - 1);
        assert_eq!(marking.ecn(), Ecn::NotEct, "what was not to be marked came in so");
        marking.advance(next + AGAIN);
        assert_eq!(marking.ecn(), Ecn::Ect0);
    }
}
