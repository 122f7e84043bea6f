//! The receiver's buffer: puts the stream's bytes in order and hands them to the sink.

use super::segment::{BLOCKS_MAX, Blocks};
use crate::endpoint::Sink;
use rangemap::RangeSet;
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes wait here for those before them, and for a sink that is full.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// Bytes that it may hold.
    capacity: u64,
    /// Everything before is with the sink.
    taken: u64,
    /// Everything before has come in.
    next: u64,
    /// The stream from `taken` on, as far as anything beyond is known; gaps hold zeros.
    bytes: VecDeque<u8>,
    /// What came in beyond `next`.
    beyond: RangeSet<u64>,
    /// Places in stretches of `beyond`, the latest arrival first.
    latest: VecDeque<u64>,
}

/// What became of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placed {
    /// It was the next in order.
    InOrder,
    /// The next in order, and others beyond it are there already.
    FillsGap,
    /// Something before it is missing.
    Beyond,
    /// All of it was there already.
    Repeated,
    /// There is no room.
    Outside,
}

impl Reassembly {
    /// Holds up to `capacity` bytes.
    pub fn new(capacity: u64) -> Reassembly {
        Reassembly {
            capacity,
            taken: 0,
            next: 0,
            bytes: VecDeque::new(),
            beyond: RangeSet::new(),
            latest: VecDeque::new(),
        }
    }

    /// Bytes that the sink has.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Different bytes that came in, with and without a gap before them.
    pub fn arrived(&self) -> u64 {
        self.next + self.beyond.iter().map(|stretch| stretch.end - stretch.start).sum::<u64>()
    }

    /// Bytes that came in without a gap.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// End of what there is room for. Never moves back.
    pub fn edge(&self) -> u64 {
        self.taken.saturating_add(self.capacity)
    }

    /// Whether the sink did not take all that it could have.
    pub fn is_held_up(&self) -> bool {
        self.taken < self.next
    }

    /// Take in bytes that belong at `start`, and hand on what is in order.
    pub fn place(&mut self, start: u64, data: &[u8], sink: &mut impl Sink) -> Placed {
        let end = start.saturating_add(data.len() as u64);
        if end <= self.next {
            return Placed::Repeated;
        }
        let range = start.max(self.next)..end.min(self.edge());
        if range.is_empty() || (range.start > self.next && self.beyond.len() >= STRETCHES_MAX) {
            return Placed::Outside;
        }
        if self.beyond.gaps(&range).next().is_none() {
            self.note(range.start);
            return Placed::Repeated;
        }
        let data = &data[(range.start - start) as usize..(range.end - start) as usize];
        if range.start > self.next {
            self.store(range.start, data);
            self.note(range.start);
            self.beyond.insert(range);
            return Placed::Beyond;
        }
        if self.taken == self.next && sink.write_at(self.taken, data).is_ok() {
            self.taken = range.end;
            self.bytes.drain(..data.len().min(self.bytes.len()));
        } else {
            self.store(range.start, data);
        }
        let had_beyond = !self.beyond.is_empty();
        self.beyond.remove(range.clone());
        self.next = range.end;
        if let Some(first) = self.beyond.first().filter(|first| first.start == range.end).cloned() {
            self.next = first.end;
            self.beyond.remove(first);
        }
        self.hand_on(sink);
        if had_beyond { Placed::FillsGap } else { Placed::InOrder }
    }

    /// Hand on what is in order, as far as the sink takes it.
    pub fn hand_on(&mut self, sink: &mut impl Sink) {
        while self.taken < self.next {
            let in_order = (self.next - self.taken) as usize;
            let piece = self.bytes.as_slices().0;
            let piece = &piece[..in_order.min(piece.len()).min(PIECE_LEN)];
            if sink.write_at(self.taken, piece).is_err() {
                return;
            }
            let len = piece.len();
            self.taken += len as u64;
            self.bytes.drain(..len);
        }
    }

    /// What came in beyond the first gap, the latest first (RFC 2018 §4), after `repeated`, if that came in twice
    /// (RFC 2883 §4). What reaches the stream's `end` includes the end itself.
    pub fn blocks(&mut self, repeated: Option<Range<u64>>, end: Option<u64>) -> Blocks {
        let mut blocks = Blocks::default();
        if let Some(range) = repeated {
            blocks.push(range.start, range.end);
        }
        let mut told: Vec<u64> = vec![];
        let beyond = &self.beyond;
        self.latest.retain(|place| match beyond.get(place) {
            Some(range) if !told.contains(&range.start) => {
                told.push(range.start);
                blocks.push(range.start, range.end + u64::from(end == Some(range.end)));
                true
            }
            _ => false,
        });
        blocks
    }

    fn note(&mut self, place: u64) {
        self.latest.push_front(place);
        self.latest.truncate(LATEST_KEPT);
    }

    fn store(&mut self, start: u64, data: &[u8]) {
        let from = (start - self.taken) as usize;
        let end = from + data.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let (front, back) = self.bytes.as_mut_slices();
        let len = front.len();
        let split = len.saturating_sub(from).min(data.len());
        let (to_front, to_back) = data.split_at(split);
        front[from.min(len)..][..split].copy_from_slice(to_front);
        let from_back = (from + split).saturating_sub(len);
        back[from_back..][..to_back.len()].copy_from_slice(to_back);
    }
}

/// Stretches beyond the first gap that are kept apart at most: a peer that sends every second byte gets no more memory.
const STRETCHES_MAX: usize = 1 << 16;
/// More than the blocks of an acknowledgement, since stretches grow together.
const LATEST_KEPT: usize = 4 * BLOCKS_MAX;
/// Bytes handed to the sink in one piece at most.
const PIECE_LEN: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Full;
    use proptest::prelude::*;

    /// A sink in order that is full now and then.
    #[derive(Default)]
    struct Picky {
        bytes: Vec<u8>,
        refusals: Vec<bool>,
    }

    impl Sink for Picky {
        fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
            assert_eq!(offset, self.bytes.len() as u64);
            if self.refusals.pop().unwrap_or(false) {
                return Err(Full);
            }
            self.bytes.extend_from_slice(data);
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn any_pieces_in_any_order_make_the_stream(
            pieces in prop::collection::vec((0u64..300, 0usize..40), 0..200),
            refusals in prop::collection::vec(any::<bool>(), 0..200),
            capacity in 20u64..400,
        ) {
            let stream: Vec<u8> = (0..400u32).map(|at| (at * 7) as u8).collect();
            let (mut store, mut sink) = (Reassembly::new(capacity), Picky { refusals, ..Picky::default() });
            let mut there = vec![false; 400];
            for (start, len) in pieces {
                let edge = store.edge();
                store.place(start, &stream[start as usize..start as usize + len], &mut sink);
                (start..(start + len as u64).min(edge)).for_each(|at| there[at as usize] = true);
                let gap = there.iter().position(|is_there| !is_there).unwrap_or(400) as u64;
                prop_assert_eq!(store.next(), gap);
                prop_assert_eq!(store.taken(), sink.bytes.len() as u64);
                prop_assert!(store.edge() >= edge);
                prop_assert!(store.bytes.len() as u64 <= capacity);
                for (start, end) in store.blocks(None, None).unwrap(gap) {
                    prop_assert!(start > gap && there[start as usize..end as usize].iter().all(|at| *at));
                    prop_assert!(!there[start as usize - 1] && !there.get(end as usize).unwrap_or(&false));
                }
            }
            sink.refusals.clear();
            store.hand_on(&mut sink);
            prop_assert!(!store.is_held_up());
            prop_assert_eq!(&sink.bytes[..], &stream[..store.next() as usize]);
        }
    }

    #[test]
    fn the_latest_stretch_is_told_first() {
        let (mut store, mut sink) = (Reassembly::new(1000), Picky::default());
        let told = |store: &mut Reassembly| {
            store.blocks(None, None).unwrap(0).map(|block| block.0).collect::<Vec<_>>()
        };
        for (start, expected) in
            [(10, vec![10]), (30, vec![30, 10]), (50, vec![50, 30, 10]), (70, vec![70, 50, 30])]
        {
            assert_eq!(store.place(start, &[1; 10], &mut sink), Placed::Beyond);
            assert_eq!(told(&mut store), expected);
        }
        // Two stretches become one, which is now the latest.
        assert_eq!(store.place(20, &[1; 10], &mut sink), Placed::Beyond);
        assert_eq!(told(&mut store), [10, 70, 50]);
        assert_eq!(store.place(12, &[1; 10], &mut sink), Placed::Repeated);
        assert_eq!(store.place(0, &[1; 10], &mut sink), Placed::FillsGap);
        assert_eq!((store.next(), told(&mut store)), (40, vec![70, 50]));
        assert_eq!(store.place(5, &[1; 20], &mut sink), Placed::Repeated);
        let repeated = store.blocks(Some(5..25), Some(80)).unwrap(40).collect::<Vec<_>>();
        assert_eq!(repeated, [(5, 25), (70, 81), (50, 60)]);
        assert_eq!(store.place(2000, &[1; 20], &mut sink), Placed::Outside);
    }
}
