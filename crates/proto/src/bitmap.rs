//! The bitmap of the object: one bit a packet, kept in chunks that hold bits only while they are mixed.

use crate::units::PacketNumber;
use std::ops::Range;

/// Packets in a chunk.
pub const CHUNK_PACKETS: u64 = 1 << 16;
const WORDS: usize = (CHUNK_PACKETS / 64) as usize;

/// A set of packet numbers below a fixed bound. A chunk that is wholly in or wholly out takes a few bytes, a mixed one
/// 8 KiB at most, so memory follows what is unsettled, not the object's size.
#[derive(Clone, Debug)]
pub struct Bitmap {
    chunks: Vec<Chunk>,
    len: u64,
    count: u64,
    /// Every packet below this is in the set.
    low: u64,
    /// So many chunks are mixed.
    mixed: usize,
}

#[derive(Clone, Debug)]
enum Chunk {
    Empty,
    Full,
    /// As many words as the chunk has packets for.
    Partial {
        bits: Box<[u64]>,
        count: u32,
    },
}

impl Bitmap {
    /// The empty set over packets `0..len`.
    pub fn new(len: u64) -> Bitmap {
        let chunks = vec![Chunk::Empty; len.div_ceil(CHUNK_PACKETS) as usize];
        Bitmap { chunks, len, count: 0, low: 0, mixed: 0 }
    }

    /// From now on there are `len` packets, no fewer than before; the new ones are not in the set.
    pub fn grow(&mut self, len: u64) {
        if len <= self.len {
            return;
        }
        let before = self.len;
        self.len = len;
        if let Some(last) = self.chunks.len().checked_sub(1) {
            self.lengthen(last, before - last as u64 * CHUNK_PACKETS);
        }
        self.chunks.resize(len.div_ceil(CHUNK_PACKETS) as usize, Chunk::Empty);
    }

    /// The last chunk, which had `before` packets, has got more.
    fn lengthen(&mut self, index: usize, before: u64) {
        let chunk_len = self.chunk_len(index);
        if before == chunk_len {
            return;
        }
        let mut longer = zeros(chunk_len);
        let held = match &self.chunks[index] {
            Chunk::Empty => return,
            Chunk::Full => {
                (0..)
                    .zip(longer.iter_mut())
                    .for_each(|(at, word)| *word = low_bits(before.saturating_sub(at * 64)));
                before as u32
            }
            Chunk::Partial { bits, count } => {
                longer[..bits.len()].copy_from_slice(bits);
                *count
            }
        };
        self.put(index, Chunk::Partial { bits: longer, count: held });
    }

    /// How many packets there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many are in the set.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether all are in the set.
    pub fn is_full(&self) -> bool {
        self.count == self.len
    }

    /// Whether `packet` is in the set.
    pub fn contains(&self, packet: PacketNumber) -> bool {
        match self.chunks.get((packet / CHUNK_PACKETS) as usize) {
            None | Some(Chunk::Empty) => false,
            Some(Chunk::Full) => packet < self.len,
            Some(Chunk::Partial { bits, .. }) => {
                let at = packet % CHUNK_PACKETS;
                bits.get((at / 64) as usize).is_some_and(|word| word >> (at % 64) & 1 == 1)
            }
        }
    }

    /// Put `packet` in. True if it was not there; a number out of range changes nothing.
    pub fn insert(&mut self, packet: PacketNumber) -> bool {
        self.merge_word(packet / 64, 1 << (packet % 64)) != 0
    }

    /// Put in the packets `64·word .. 64·word + 64` whose bits are set. Returns the bits that are new.
    pub fn merge_word(&mut self, word: u64, bits: u64) -> u64 {
        let first = word.saturating_mul(64);
        if first >= self.len {
            return 0;
        }
        let bits = bits & low_bits(self.len - first);
        let chunk_index = (first / CHUNK_PACKETS) as usize;
        let chunk_len = self.chunk_len(chunk_index);
        let new = match &mut self.chunks[chunk_index] {
            Chunk::Full => 0,
            Chunk::Empty if bits == 0 => 0,
            Chunk::Empty => {
                let mut words = zeros(chunk_len);
                words[(word as usize) % WORDS] = bits;
                self.put(chunk_index, Chunk::Partial { bits: words, count: bits.count_ones() });
                bits
            }
            Chunk::Partial { bits: words, count } => {
                let slot = &mut words[(word as usize) % WORDS];
                let new = bits & !*slot;
                *slot |= bits;
                *count += new.count_ones();
                new
            }
        };
        if matches!(&self.chunks[chunk_index], Chunk::Partial { count, .. } if u64::from(*count) == chunk_len)
        {
            self.put(chunk_index, Chunk::Full);
        }
        self.count += u64::from(new.count_ones());
        new
    }

    /// Take `packet` out. True if it was there.
    pub fn remove(&mut self, packet: PacketNumber) -> bool {
        if !self.contains(packet) {
            return false;
        }
        let index = (packet / CHUNK_PACKETS) as usize;
        if matches!(self.chunks[index], Chunk::Full) {
            let chunk_len = self.chunk_len(index);
            let mut bits = zeros(chunk_len);
            for (i, word) in bits.iter_mut().enumerate() {
                *word = low_bits(chunk_len.saturating_sub(i as u64 * 64));
            }
            self.put(index, Chunk::Partial { bits, count: chunk_len as u32 });
        }
        if let Chunk::Partial { bits, count } = &mut self.chunks[index] {
            let at = packet % CHUNK_PACKETS;
            bits[(at / 64) as usize] &= !(1 << (at % 64));
            *count -= 1;
            if *count == 0 {
                self.put(index, Chunk::Empty);
            }
        }
        self.count -= 1;
        self.low = self.low.min(packet);
        true
    }

    /// Put in a whole range (clipped to what exists).
    pub fn insert_range(&mut self, range: Range<PacketNumber>) {
        let end = range.end.min(self.len);
        let mut at = range.start;
        while at < end {
            let index = (at / CHUNK_PACKETS) as usize;
            let chunk_len = self.chunk_len(index);
            if at.is_multiple_of(CHUNK_PACKETS) && end - at >= chunk_len {
                self.count += chunk_len - self.count_in(index);
                self.put(index, Chunk::Full);
                at += chunk_len;
            } else {
                let stop = end.min((at / 64 + 1) * 64);
                self.merge_word(at / 64, low_bits(stop - at) << (at % 64));
                at = stop;
            }
        }
    }

    /// Take out a whole range (clipped to what exists).
    pub fn remove_range(&mut self, range: Range<PacketNumber>) {
        let end = range.end.min(self.len);
        let mut at = range.start;
        while at < end {
            let index = (at / CHUNK_PACKETS) as usize;
            let chunk_end = (index as u64 * CHUNK_PACKETS + self.chunk_len(index)).min(end);
            if at.is_multiple_of(CHUNK_PACKETS) && chunk_end - at == self.chunk_len(index) {
                self.count -= self.count_in(index);
                self.put(index, Chunk::Empty);
                self.low = self.low.min(at);
            } else {
                (at..chunk_end).for_each(|packet| {
                    self.remove(packet);
                });
            }
            at = chunk_end;
        }
    }

    /// The first packet from `from` on that is not in the set.
    pub fn next_missing(&self, from: PacketNumber) -> Option<PacketNumber> {
        let from = from.max(self.low);
        let mut index = (from / CHUNK_PACKETS) as usize;
        let mut at = from % CHUNK_PACKETS;
        while let Some(chunk) = self.chunks.get(index) {
            let base = index as u64 * CHUNK_PACKETS;
            match chunk {
                Chunk::Full => {}
                Chunk::Empty => return Some(base + at).filter(|p| *p < self.len),
                Chunk::Partial { bits, .. } => {
                    let first = (at / 64) as usize;
                    for (word, set) in bits.iter().enumerate().skip(first) {
                        let before = if word == first { low_bits(at % 64) } else { 0 };
                        let missing = !(set | before);
                        if missing != 0 {
                            let packet = base + word as u64 * 64 + u64::from(missing.trailing_zeros());
                            return Some(packet).filter(|p| *p < self.len);
                        }
                    }
                }
            }
            index += 1;
            at = 0;
        }
        None
    }

    /// What is in the set, as runs of packets, ascending and apart.
    pub fn runs(&self) -> impl Iterator<Item = Range<PacketNumber>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let start = self.next_present(at)?;
            at = self.next_missing(start).unwrap_or(self.len);
            Some(start..at)
        })
    }

    /// The first packet from `from` on that is in the set.
    fn next_present(&self, from: PacketNumber) -> Option<PacketNumber> {
        let mut at = from;
        while let Some(chunk) = self.chunks.get((at / CHUNK_PACKETS) as usize) {
            at = match chunk {
                Chunk::Full => return Some(at).filter(|packet| *packet < self.len),
                Chunk::Empty => (at / CHUNK_PACKETS + 1) * CHUNK_PACKETS,
                Chunk::Partial { .. } => match self.word(at / 64) >> (at % 64) {
                    0 => (at / 64 + 1) * 64,
                    bits => return Some(at + u64::from(bits.trailing_zeros())),
                },
            };
        }
        None
    }

    /// The first packet that is not in the set (`len` if all are). Remembered, so that asking often is cheap.
    pub fn low(&mut self) -> PacketNumber {
        self.low = self.next_missing(self.low).unwrap_or(self.len);
        self.low
    }

    /// The 64 bits of packets `64·word` and on.
    pub fn word(&self, word: u64) -> u64 {
        let first = word.saturating_mul(64);
        match self.chunks.get((first / CHUNK_PACKETS) as usize) {
            None | Some(Chunk::Empty) => 0,
            Some(Chunk::Full) => low_bits(self.len.saturating_sub(first)),
            Some(Chunk::Partial { bits, .. }) => {
                bits.get((word as usize) % WORDS).copied().unwrap_or_default()
            }
        }
    }

    /// Bytes of memory that this takes, or a little less.
    pub fn memory(&self) -> u64 {
        Bitmap::memory_of(self.len) + self.mixed as u64 * CHUNK_PACKETS / 8
    }

    /// What it takes at least for so many packets.
    pub fn memory_of(packets: u64) -> u64 {
        packets.div_ceil(CHUNK_PACKETS) * size_of::<Chunk>() as u64
    }

    fn put(&mut self, index: usize, chunk: Chunk) {
        let is_mixed = |chunk: &Chunk| matches!(chunk, Chunk::Partial { .. });
        self.mixed += usize::from(is_mixed(&chunk));
        self.mixed -= usize::from(is_mixed(&self.chunks[index]));
        self.chunks[index] = chunk;
    }

    fn chunk_len(&self, index: usize) -> u64 {
        (self.len - index as u64 * CHUNK_PACKETS).min(CHUNK_PACKETS)
    }

    fn count_in(&self, index: usize) -> u64 {
        match &self.chunks[index] {
            Chunk::Empty => 0,
            Chunk::Full => self.chunk_len(index),
            Chunk::Partial { count, .. } => u64::from(*count),
        }
    }
}

/// A word whose lowest `n` bits are set (all for 64 and more).
fn low_bits(n: u64) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// The words of a chunk of so many packets.
fn zeros(chunk_len: u64) -> Box<[u64]> {
    vec![0; chunk_len.div_ceil(64) as usize].into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Op {
        Insert(u64),
        Remove(u64),
        Range(u64, u64),
        RemoveRange(u64, u64),
        Word(u64, u64),
        Grow(u64),
    }

    fn op(len: u64) -> impl Strategy<Value = Op> {
        let p = 0..len + 70;
        prop_oneof![
            p.clone().prop_map(Op::Insert),
            p.clone().prop_map(Op::Remove),
            (p.clone(), 0..len + 9).prop_map(|(a, n)| Op::Range(a, a + n)),
            (p.clone(), 0..len + 9).prop_map(|(a, n)| Op::RemoveRange(a, a + n)),
            (0..len + 9).prop_map(|n| Op::RemoveRange(0, n)),
            (0..len / 64 + 2, any::<u64>()).prop_map(|(w, b)| Op::Word(w, b)),
            (0..70_000u64).prop_map(Op::Grow),
        ]
    }

    fn len_and_ops() -> impl Strategy<Value = (u64, Vec<Op>)> {
        // Lengths on both sides of a word's and a chunk's border.
        let len = prop_oneof![Just(0u64), 1..200u64, 65_530..65_540u64, 131_060..131_080u64];
        len.prop_flat_map(|len| (Just(len), prop::collection::vec(op(len), 0..40)))
    }

    proptest! {
        #[test]
        fn behaves_like_a_set((mut len, ops) in len_and_ops(), from in 0..140_000u64) {
            let mut blocks = Bitmap::new(len);
            let mut model = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Insert(p) => prop_assert_eq!(blocks.insert(p), p < len && model.insert(p)),
                    Op::Remove(p) => prop_assert_eq!(blocks.remove(p), model.remove(&p)),
                    Op::Range(a, b) => {
                        blocks.insert_range(a..b);
                        model.extend(a..b.min(len));
                    }
                    Op::RemoveRange(a, b) => {
                        blocks.remove_range(a..b);
                        model.retain(|p| !(a..b).contains(p));
                    }
                    Op::Word(w, bits) => {
                        let mut new = 0;
                        for i in (0..64).filter(|i| bits >> i & 1 == 1 && w * 64 + i < len) {
                            if model.insert(w * 64 + i) { new |= 1 << i; }
                        }
                        prop_assert_eq!(blocks.merge_word(w, bits), new);
                    }
                    Op::Grow(more) => {
                        len = (len + more).min(200_000);
                        blocks.grow(len);
                    }
                }
                let low = (0..len).find(|p| !model.contains(p)).unwrap_or(len);
                prop_assert_eq!(blocks.low(), low);
            }
            prop_assert_eq!(blocks.count(), model.len() as u64);
            let mixed = blocks.chunks.iter().filter(|chunk| matches!(chunk, Chunk::Partial { .. })).count();
            prop_assert_eq!(blocks.mixed, mixed);
            prop_assert_eq!(blocks.is_full(), model.len() as u64 == len);
            prop_assert_eq!(blocks.next_missing(from), (from..len).find(|p| !model.contains(p)));
            let word = from / 64;
            let expected = (0..64).filter(|i| model.contains(&(word * 64 + i))).fold(0u64, |w, i| w | 1 << i);
            prop_assert_eq!(blocks.word(word), expected);
            prop_assert_eq!(blocks.contains(from), model.contains(&from));
            let runs: Vec<_> = blocks.runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start), "they are apart: {:?}", runs);
            prop_assert!(runs.into_iter().flatten().eq(model));
        }
    }

    #[test]
    fn settled_chunks_hold_no_bits() {
        let mut blocks = Bitmap::new(1 << 30);
        blocks.insert_range(0..1 << 29);
        blocks.insert(1 << 29);
        assert!(blocks.memory() < 420_000, "{}", blocks.memory());
        assert_eq!(blocks.next_missing(0), Some((1 << 29) + 1));
    }
}
