//! Which datagram numbers came in: for acknowledgements, and to refuse replays.

use crate::units::DatagramNumber;
use std::collections::VecDeque;

/// Which datagram numbers came in lately: a ring of bits below the largest.
#[derive(Clone, Debug)]
pub struct Seen {
    bits: Box<[u64; SEEN_WORDS]>,
    largest: DatagramNumber,
    any: bool,
    /// Largest number at each of the last acknowledgements: the runs reach back to the oldest of them, so that each
    /// stretch is told several times.
    acked: VecDeque<DatagramNumber>,
}

const SEEN_WORDS: usize = 1024;
const SEEN_BITS: u64 = SEEN_WORDS as u64 * 64;
/// Acknowledgements that repeat a stretch of numbers.
const REPEATS: usize = 12;

impl Default for Seen {
    fn default() -> Seen {
        Seen { bits: Box::new([0; SEEN_WORDS]), largest: 0, any: false, acked: VecDeque::new() }
    }
}

impl Seen {
    /// Whether `number` is new; one too old to tell counts as not.
    pub fn is_new(&self, number: DatagramNumber) -> bool {
        !self.any || number > self.largest || (self.largest - number < SEEN_BITS && !self.get(number))
    }

    /// The largest number that came in (0 if none did).
    pub fn largest(&self) -> DatagramNumber {
        self.largest
    }

    /// `number` came in.
    pub fn insert(&mut self, number: DatagramNumber) {
        if !self.any || number > self.largest {
            let from = if self.any { self.largest + 1 } else { number.saturating_sub(SEEN_BITS) };
            // Bits of numbers passed over are cleared, at most one turn of the ring.
            (from.max(number.saturating_sub(SEEN_BITS - 1))..number).for_each(|n| self.set(n, false));
            (self.largest, self.any) = (number, true);
        }
        if self.largest - number < SEEN_BITS {
            self.set(number, true);
        }
    }

    /// `number` is to count as not come in.
    pub fn remove(&mut self, number: DatagramNumber) {
        if self.largest - number < SEEN_BITS {
            self.set(number, false);
        }
    }

    fn set(&mut self, number: DatagramNumber, on: bool) {
        let (word, bit) = ((number / 64) as usize % SEEN_WORDS, number % 64);
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(on) << bit;
    }

    fn get(&self, number: DatagramNumber) -> bool {
        self.bits[(number / 64) as usize % SEEN_WORDS] >> (number % 64) & 1 == 1
    }

    /// An acknowledgement goes out.
    pub fn note_ack(&mut self) {
        self.acked.push_back(self.largest);
        if self.acked.len() > REPEATS {
            self.acked.pop_front();
        }
    }

    /// Runs from the largest number downwards, for [`Ack::runs`](crate::wire::Ack::runs).
    pub fn runs(&self) -> Vec<u64> {
        let repeated = if self.acked.len() < REPEATS { 0 } else { self.acked[0] };
        let floor = repeated
            .min(self.largest.saturating_sub(RUNS_MIN))
            .max((self.largest + 1).saturating_sub(SEEN_BITS));
        let mut runs = vec![];
        let (mut state, mut run, mut at) = (true, 0, self.largest + 1);
        while at > floor {
            at -= 1;
            // A word at a time while nothing changes.
            let word = self.bits[(at / 64) as usize % SEEN_WORDS];
            if at % 64 == 63 && at - floor >= 63 && word == if state { u64::MAX } else { 0 } {
                run += 64;
                at -= 63;
                continue;
            }
            if self.get(at) != state {
                runs.push(run);
                (state, run) = (!state, 0);
            }
            run += 1;
        }
        runs.push(run);
        runs
    }
}

/// Numbers below the largest that the runs cover at least.
const RUNS_MIN: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Ack;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_tell_what_came_in(numbers in prop::collection::vec(0u64..1500, 1..400), jump in 0u64..200_000) {
            let mut seen = Seen::default();
            let mut model = BTreeSet::new();
            for n in numbers {
                seen.insert(n + jump);
                model.insert(n + jump);
            }
            let ack = Ack { largest: seen.largest, runs: seen.runs(), ..Ack::default() };
            let told: BTreeSet<u64> = ack.received_ranges().flatten().collect();
            let floor = ack.runs_floor();
            prop_assert!(seen.largest < RUNS_MIN || floor <= seen.largest - RUNS_MIN + 1);
            let expected: BTreeSet<u64> = model.range(floor..).copied().collect();
            prop_assert_eq!(told, expected);
        }
    }

    proptest! {
        #[test]
        fn a_number_is_new_once(numbers in prop::collection::vec(0u64..100_000, 1..300)) {
            let mut seen = Seen::default();
            let mut model = BTreeSet::new();
            for n in numbers {
                let too_old = seen.largest() >= n + SEEN_BITS;
                prop_assert_eq!(seen.is_new(n), !too_old && !model.contains(&n));
                seen.insert(n);
                model.insert(n);
            }
        }
    }

    #[test]
    fn numbers_far_apart_leave_no_ghosts() {
        let mut seen = Seen::default();
        (0..70_000).for_each(|n| seen.insert(n));
        seen.insert(400_000);
        let ack = Ack { largest: seen.largest, runs: seen.runs(), ..Ack::default() };
        assert!(ack.received_ranges().eq(std::iter::once(400_000..400_001)));
    }
}
