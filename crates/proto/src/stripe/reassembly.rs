//! Putting a stream together from pieces that come in any order, within bounded memory.

use super::Violation;
use super::frame::{Ack, RANGES_MAX};
use super::outgoing::EQUAL_MIN;
use std::collections::BTreeMap;

/// What has come in and was not read yet.
///
/// The other side may send as far as the *limit*: so many bytes beyond what was read. So what is held never exceeds the
/// bound, whatever the peer does: data beyond the limit is a [`Violation`].
#[derive(Debug)]
pub struct Reassembly {
    /// Pieces by their offset: disjoint, not empty, none below `read`.
    pieces: BTreeMap<u64, Vec<u8>>,
    /// All below it was handed to the reader.
    read: u64,
    /// All below it is in.
    received: u64,
    bound: u64,
    /// Up to where the other side was told that it may send.
    told_limit: u64,
    /// Where the stream ends, if that is known.
    end: Option<u64>,
    /// Data is thrown away, as nobody reads it.
    discarding: bool,
    /// Bytes that came in since the last acknowledgement.
    unacked: u64,
    /// Something must be told at once.
    urgent: bool,
    /// Buffers that were emptied, to be used again.
    spare: Vec<Vec<u8>>,
}

impl Reassembly {
    /// To hold at most so many bytes, which is also how far the other side may go at first.
    pub fn new(bound: u64) -> Reassembly {
        Reassembly {
            pieces: BTreeMap::new(),
            read: 0,
            received: 0,
            bound,
            told_limit: bound,
            end: None,
            discarding: false,
            unacked: 0,
            urgent: false,
            spare: vec![],
        }
    }

    /// The other side was told to go no further than this at first, and hears more as soon as it is heard.
    pub fn told(mut self, limit: u64) -> Reassembly {
        (self.urgent, self.told_limit) = (limit < self.bound, limit.min(self.bound));
        self
    }

    /// Take in a piece. Bytes that are there already are left as they are.
    pub fn insert(&mut self, offset: u64, bytes: Vec<u8>) -> Result<(), Violation> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(Violation::Malformed)?;
        if end > self.told_limit {
            return Err(Violation::BeyondLimit { end, limit: self.told_limit });
        }
        if self.end.is_some_and(|last| end > last) {
            return Err(Violation::BeyondEnd);
        }
        // What the stream waits for is taken in any case: it closes gaps.
        let is_ahead = offset > self.received;
        if is_ahead && self.pieces.len() as u64 >= self.bound / EQUAL_MIN as u64 + GAPS_MAX {
            return Err(Violation::Scattered);
        }
        if end <= self.received {
            // It was sent again although it had come in: the other side has not been told.
            self.urgent = true;
            self.recycle(bytes);
            return Ok(());
        }
        self.unacked += end - offset;
        self.insert_new(offset, bytes);
        self.advance();
        if self.end == Some(self.received) {
            self.urgent = true;
        }
        if self.discarding {
            self.discard();
        }
        Ok(())
    }

    /// The stream ends here.
    pub fn finish(&mut self, end: u64) -> Result<(), Violation> {
        let highest = self.pieces.last_key_value().map_or(self.read, |(at, piece)| at + piece.len() as u64);
        if self.end.is_some_and(|known| known != end) || end < highest.max(self.received) {
            return Err(Violation::BeyondEnd);
        }
        self.end = Some(end);
        self.urgent = true;
        Ok(())
    }

    /// The next bytes of the stream, if they are in. A buffer that is done with can be given to
    /// [`Reassembly::recycle`].
    pub fn pop(&mut self) -> Option<Vec<u8>> {
        let entry = self.pieces.first_entry().filter(|entry| *entry.key() == self.read)?;
        let bytes = entry.remove();
        self.read += bytes.len() as u64;
        Some(bytes)
    }

    /// Keep a buffer for later.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && buffer.capacity() > MERGE_LEN {
            self.spare.push(buffer);
        }
    }

    /// Buffers to read into.
    pub fn spare(&mut self) -> &mut Vec<Vec<u8>> {
        &mut self.spare
    }

    /// Whether the next bytes are in.
    pub fn is_readable(&self) -> bool {
        self.received > self.read
    }

    /// Everything up to the end was read.
    pub fn is_at_end(&self) -> bool {
        self.end == Some(self.read)
    }

    /// Everything up to the end has come in.
    pub fn is_complete(&self) -> bool {
        self.end == Some(self.received)
    }

    /// Throw away what is there and what comes: nobody will read it.
    pub fn stop(&mut self) {
        self.discarding = true;
        self.discard();
    }

    /// Bytes held, waiting to be read or for bytes before them.
    pub fn held(&self) -> u64 {
        self.pieces.values().map(|piece| piece.len() as u64).sum()
    }

    /// Bytes of the stream that came in without a gap.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether an acknowledgement should leave now.
    pub fn wants_ack(&self) -> bool {
        let moved = self.limit() - self.told_limit;
        // Nothing follows what is complete, so its limit is of no interest.
        self.urgent || self.unacked >= ACK_BYTES || moved >= self.bound / LIMIT_STEP && !self.is_complete()
    }

    /// Whether one should leave soon.
    pub fn owes_ack(&self) -> bool {
        self.unacked > 0 || self.wants_ack()
    }

    /// An acknowledgement must leave: the last one may be lost.
    pub fn ask_ack(&mut self) {
        self.urgent = true;
    }

    /// What to tell the other side.
    pub fn ack(&mut self) -> Ack {
        (self.urgent, self.unacked) = (false, 0);
        self.told_limit = self.limit();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (&start, piece) in self.pieces.range(self.received..) {
            let end = start + piece.len() as u64;
            let full = ranges.len() == RANGES_MAX;
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ if full => break,
                _ => ranges.push((start, end)),
            }
        }
        Ack { received: self.received, limit: self.told_limit, complete: self.is_complete(), ranges }
    }

    fn limit(&self) -> u64 {
        self.told_limit.max(self.read.saturating_add(self.bound))
    }

    fn discard(&mut self) {
        while self.pop().is_some() {}
    }

    /// Put in what is not there yet of a piece that ends above `received`.
    fn insert_new(&mut self, offset: u64, mut bytes: Vec<u8>) {
        let end = offset + bytes.len() as u64;
        let mut at = offset.max(self.received);
        let before = self.pieces.range(..=at).next_back().map(|(start, piece)| start + piece.len() as u64);
        at = at.max(before.unwrap_or(0));
        if at >= end {
            return self.recycle(bytes);
        }
        let overlaps = self.pieces.range(at..end).next().is_some();
        if at == offset && !overlaps {
            return self.put(offset, bytes);
        }
        // Sent again and cut otherwise: fill the gaps one by one.
        while at < end {
            let next =
                self.pieces.range(at..).next().map(|(start, piece)| (*start, start + piece.len() as u64));
            let (gap_end, resume) = next.filter(|next| next.0 < end).unwrap_or((end, end));
            if at < gap_end {
                let part = bytes[(at - offset) as usize..(gap_end - offset) as usize].to_vec();
                self.put(at, part);
            }
            at = resume.max(gap_end);
        }
        bytes.clear();
        self.recycle(bytes);
    }

    /// Put in a piece that overlaps nothing. Small ones are joined with small neighbours, so that a stream of tiny
    /// pieces takes little more memory than its bytes.
    fn put(&mut self, offset: u64, bytes: Vec<u8>) {
        let (mut offset, mut bytes) = (offset, bytes);
        if bytes.len() > MERGE_LEN {
            self.pieces.insert(offset, bytes);
            return;
        }
        if let Some((&start, piece)) = self.pieces.range_mut(..offset).next_back()
            && start + piece.len() as u64 == offset
            && piece.len() + bytes.len() <= MERGE_LEN
        {
            piece.extend_from_slice(&bytes);
            self.recycle(bytes);
            (offset, bytes) = (start, self.pieces.remove(&start).unwrap_or_default());
        }
        if let Some(next) = self.pieces.get(&(offset + bytes.len() as u64))
            && next.len() + bytes.len() <= MERGE_LEN
        {
            let next_at = offset + bytes.len() as u64;
            let next = self.pieces.remove(&next_at).unwrap_or_default();
            bytes.extend_from_slice(&next);
        }
        if bytes.capacity() > bytes.len().max(SMALL_LEN) * 2 {
            // A large buffer is not held for a few bytes.
            let small = bytes.as_slice().into();
            self.recycle(std::mem::replace(&mut bytes, small));
        }
        self.pieces.insert(offset, bytes);
    }

    /// Move `received` over what is in without a gap.
    fn advance(&mut self) {
        let before = self.pieces.range(..=self.received).next_back();
        let from = before.map_or(self.received, |(start, _)| *start);
        for (&start, piece) in self.pieces.range(from..) {
            if start > self.received {
                break;
            }
            self.received = self.received.max(start + piece.len() as u64);
        }
    }
}

/// Pieces up to this size are joined with their neighbours: the records about them would otherwise be larger than they.
const MERGE_LEN: usize = 16 << 10;
/// What a piece takes in memory beside its bytes: a buffer of this length is no waste.
const SMALL_LEN: usize = 256;
/// With one for each [`EQUAL_MIN`] bytes, more gaps than an honest sender leaves: lanes that are behind the others leave one
/// for each frame.
const GAPS_MAX: u64 = 4096;
/// An acknowledgement at least for so many bytes: seldom enough to cost nothing, often enough that the sender's copies
/// stay few.
const ACK_BYTES: u64 = 1 << 20;
/// The limit is told when it has moved by such a part of the bound.
const LIMIT_STEP: u64 = 4;
/// Buffers kept for use again.
const SPARE_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte_at(offset: u64) -> u8 {
        (offset.wrapping_mul(0x9e37_79b9) >> 7) as u8
    }

    fn piece(range: std::ops::Range<u64>) -> Vec<u8> {
        range.map(byte_at).collect()
    }

    fn read_all(reassembly: &mut Reassembly) -> Vec<u8> {
        std::iter::from_fn(|| reassembly.pop()).flatten().collect()
    }

    proptest! {
        #[test]
        fn any_pieces_in_any_order_give_the_stream(
            pieces in proptest::collection::vec((0..6000u64, 1..4000u64), 1..40),
            reads in proptest::collection::vec(any::<bool>(), 40),
        ) {
            let mut reassembly = Reassembly::new(1 << 20);
            let (mut model, mut got) = (std::collections::BTreeSet::new(), vec![]);
            for ((start, len), read) in pieces.into_iter().zip(reads) {
                reassembly.insert(start, piece(start..start + len)).unwrap();
                model.extend(start..start + len);
                let whole = (0..).take_while(|at| model.contains(at)).count() as u64;
                prop_assert_eq!(reassembly.received(), whole);
                let ack = reassembly.ack();
                for (start, end) in ack.ranges {
                    prop_assert!((start..end).all(|at| model.contains(&at)));
                    prop_assert!(start > ack.received);
                }
                if read {
                    got.extend(read_all(&mut reassembly));
                }
            }
            got.extend(read_all(&mut reassembly));
            prop_assert_eq!(got.len() as u64, reassembly.received());
            prop_assert!(got.iter().enumerate().all(|(at, byte)| *byte == byte_at(at as u64)));
        }
    }

    /// Lanes far ahead of one that stands still leave many gaps; what it brings at last must be taken.
    #[test]
    fn what_the_stream_waits_for_is_taken_however_scattered_the_rest_is() {
        let mut reassembly = Reassembly::new(1 << 20);
        let scattered =
            (0..).map(|n| 2 * n + 1).take_while(|at| reassembly.insert(*at, vec![7]).is_ok()).count();
        assert!(scattered as u64 >= GAPS_MAX, "{scattered}");
        for at in (0..2 * scattered as u64).step_by(2) {
            assert_eq!(reassembly.insert(at, vec![7]), Ok(()));
        }
        assert_eq!(reassembly.received(), 2 * scattered as u64);
    }

    #[test]
    fn a_piece_within_one_that_waits_changes_nothing() {
        let mut reassembly = Reassembly::new(1000);
        reassembly.insert(10, piece(10..100)).unwrap();
        reassembly.insert(20, piece(20..30)).unwrap();
        assert_eq!(reassembly.ack().ranges, [(10, 100)]);
    }

    #[test]
    fn data_beyond_the_limit_is_refused_and_reading_moves_the_limit() {
        let mut reassembly = Reassembly::new(100);
        assert_eq!(reassembly.insert(1, vec![0; 100]), Err(Violation::BeyondLimit { end: 101, limit: 100 }));
        assert_eq!(reassembly.insert(u64::MAX, vec![0; 2]), Err(Violation::Malformed));
        reassembly.insert(0, vec![0; 100]).unwrap();
        assert_eq!(read_all(&mut reassembly).len(), 100);
        assert!(reassembly.wants_ack());
        // Not before the other side was told.
        assert!(reassembly.insert(100, vec![0; 1]).is_err());
        assert_eq!(reassembly.ack().limit, 200);
        reassembly.insert(100, vec![0; 100]).unwrap();
    }

    #[test]
    fn nothing_comes_behind_the_end() {
        let mut reassembly = Reassembly::new(1000);
        reassembly.insert(0, vec![1; 10]).unwrap();
        assert_eq!(reassembly.finish(5), Err(Violation::BeyondEnd));
        reassembly.finish(20).unwrap();
        assert_eq!(reassembly.finish(21), Err(Violation::BeyondEnd));
        assert_eq!(reassembly.insert(15, vec![1; 6]), Err(Violation::BeyondEnd));
        assert!(!reassembly.is_complete());
        reassembly.insert(10, vec![1; 10]).unwrap();
        assert!(reassembly.is_complete() && !reassembly.is_at_end());
        assert!(reassembly.wants_ack());
        assert!(reassembly.ack().complete);
        read_all(&mut reassembly);
        assert!(reassembly.is_at_end() && !reassembly.owes_ack(), "nothing more is to be said");
    }

    #[test]
    fn a_stream_of_single_bytes_takes_few_pieces() {
        let mut reassembly = Reassembly::new(1 << 20);
        // Backwards, so that each joins the next.
        for at in (0..100_000).rev() {
            reassembly.insert(at, vec![byte_at(at)]).unwrap();
        }
        assert!(reassembly.pieces.len() < 20, "{}", reassembly.pieces.len());
        assert_eq!(read_all(&mut reassembly), piece(0..100_000));
    }

    #[test]
    fn scattered_bytes_are_refused_before_they_take_memory() {
        let mut reassembly = Reassembly::new(64 << 20);
        let refused = (0..).map(|n| 1 + n * 2).find(|at| reassembly.insert(*at, vec![0]).is_err());
        assert!(refused.is_some_and(|at| at < 150_000), "{refused:?}");
    }

    #[test]
    fn a_small_piece_does_not_hold_a_large_buffer() {
        let mut reassembly = Reassembly::new(64 << 20);
        let mut bytes = Vec::with_capacity(256 << 10);
        bytes.push(1);
        reassembly.insert(9, bytes).unwrap();
        assert!(reassembly.pieces[&9].capacity() <= MERGE_LEN);
    }

    #[test]
    fn what_nobody_reads_is_thrown_away_and_acknowledged() {
        let mut reassembly = Reassembly::new(1000);
        reassembly.insert(0, vec![1; 500]).unwrap();
        reassembly.stop();
        reassembly.insert(500, vec![1; 500]).unwrap();
        assert_eq!((reassembly.held(), reassembly.ack().limit), (0, 2000));
    }
}
