//! How the first message of a handshake, and its answer, travel over UDP: in pieces, each once. What gets lost is not sent
//! again, as the same message goes over TCP when no answer comes.
//!
//! ```text
//! datagram   2 u8 · connection id u64 · at u16 · length u16 · bytes       all integers big-endian
//! ```
//! The message's `length` bytes are cut every [`PIECE_LEN`] bytes. The pieces travel in clear: the message is sealed as a whole,
//! and whoever changes a piece makes the handshake fail, as with TCP.

use std::collections::VecDeque;

/// The first byte of such a datagram. That of any other has this bit clear.
pub const OPENING: u8 = 2;
/// Bytes of a message in a piece, but for the last: the datagram passes everywhere (RFC 9000 §14).
pub const PIECE_LEN: usize = crate::wire::BASE_DATAGRAM_LEN as usize - PREFIX_LEN;
/// Bytes before a piece's own.
const PREFIX_LEN: usize = 13;

/// Part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Which transfer.
    pub connection_id: u64,
    /// Where in the message it belongs.
    pub at: u16,
    /// How long the message is.
    pub len: u16,
    /// The piece.
    pub bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Write it.
    pub fn encode(&self) -> Vec<u8> {
        let (at, len) = (self.at.to_be_bytes(), self.len.to_be_bytes());
        [&[OPENING][..], &self.connection_id.to_be_bytes(), &at, &len, self.bytes].concat()
    }

    /// Read it; `None` for anything else, and for what was not cut as messages are.
    pub fn decode(datagram: &'a [u8]) -> Option<Piece<'a>> {
        let (prefix, bytes) = datagram.split_first_chunk::<PREFIX_LEN>()?;
        let (at, len) = ([prefix[9], prefix[10]], [prefix[11], prefix[12]]);
        let (at, len) = (u16::from_be_bytes(at), u16::from_be_bytes(len));
        let is_cut = usize::from(at).is_multiple_of(PIECE_LEN) && at < len;
        let fits = is_cut && bytes.len() == PIECE_LEN.min(usize::from(len - at));
        let connection_id = prefix[1..9].iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
        (prefix[0] == OPENING && fits).then_some(Piece { connection_id, at, len, bytes })
    }
}

/// The datagrams of a message of 65 535 bytes at most.
pub fn cut(connection_id: u64, message: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let len = message.len().min(usize::from(u16::MAX)) as u16;
    message[..usize::from(len)].chunks(PIECE_LEN).enumerate().map(move |(index, bytes)| {
        Piece { connection_id, at: (index * PIECE_LEN) as u16, len, bytes }.encode()
    })
}

/// A message that comes in pieces.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    len: u16,
    pieces: Vec<Vec<u8>>,
    missing: usize,
}

impl Assembly {
    /// Take a piece. The message, if that was the last one that was missing. The first piece tells its length; those of
    /// another length count for nothing.
    pub fn take(&mut self, piece: &Piece<'_>) -> Option<Vec<u8>> {
        if self.pieces.is_empty() {
            self.len = piece.len;
            self.missing = usize::from(piece.len).div_ceil(PIECE_LEN);
            self.pieces = vec![vec![]; self.missing];
        }
        let place = self.pieces.get_mut(usize::from(piece.at) / PIECE_LEN)?;
        if piece.len != self.len || !place.is_empty() {
            return None;
        }
        *place = piece.bytes.to_vec();
        self.missing -= 1;
        (self.missing == 0).then(|| self.pieces.concat())
    }
}

/// The messages of many clients. Nothing is known of them yet, so their memory is bounded: the oldest incomplete one gives way.
/// `K` tells apart where they come from.
#[derive(Debug)]
pub struct Openings<K> {
    waiting: VecDeque<((K, u64), Assembly)>,
}

impl<K> Default for Openings<K> {
    fn default() -> Openings<K> {
        Openings { waiting: VecDeque::new() }
    }
}

impl<K: PartialEq> Openings<K> {
    /// Take a piece that came from there. The message, if it is complete.
    pub fn take(&mut self, from: K, piece: &Piece<'_>) -> Option<Vec<u8>> {
        let key = (from, piece.connection_id);
        let known = self.waiting.iter().position(|(other, _)| *other == key);
        let at = known.unwrap_or_else(|| {
            if self.waiting.len() >= WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back((key, Assembly::default()));
            self.waiting.len() - 1
        });
        let message = self.waiting[at].1.take(piece)?;
        self.waiting.remove(at);
        Some(message)
    }
}

/// Incomplete messages: 4 MiB of the longest ones.
const WAITING_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn message(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at / 7) as u8).collect()
    }

    #[test]
    fn a_message_is_whole_when_its_last_piece_came_in_whatever_order() {
        for len in [1, PIECE_LEN - 1, PIECE_LEN, PIECE_LEN + 1, 10 * PIECE_LEN + 3, 65_535] {
            let (message, mut openings) = (message(len), Openings::default());
            let mut datagrams: Vec<_> = cut(9, &message).collect();
            assert!(datagrams.iter().all(|datagram| datagram.len() <= 1200));
            Rng::with_seed(len as u64).shuffle(&mut datagrams);
            for (at, datagram) in datagrams.iter().enumerate() {
                let piece = Piece::decode(datagram).unwrap();
                assert_eq!(piece.encode(), *datagram);
                let whole = openings.take("a", &piece);
                assert_eq!(whole, (at + 1 == datagrams.len()).then(|| message.clone()), "{len} {at}");
            }
            assert!(openings.waiting.is_empty());
        }
    }

    #[test]
    fn pieces_of_others_and_pieces_that_come_twice_count_for_nothing() {
        let mut openings = Openings::default();
        let [first, second] =
            [cut(9, &message(1500)), cut(9, &message(1501))].map(|cut| cut.collect::<Vec<_>>());
        let mut take = |from, datagram: &[u8]| openings.take(from, &Piece::decode(datagram).unwrap());
        assert_eq!(take("a", &first[0]), None);
        assert_eq!(take("a", &first[0]), None);
        assert_eq!(take("a", &second[1]), None, "of a message of another length");
        assert_eq!(take("b", &first[1]), None, "from elsewhere");
        assert_eq!(take("a", &first[1]), Some(message(1500)));
    }

    #[test]
    fn who_knows_nothing_of_openings_takes_none_for_a_datagram_of_a_session() {
        for connection_id in [0, 9, u64::MAX] {
            for datagram in cut(connection_id, &message(3000)) {
                assert_eq!(crate::wire::Header::decode(&datagram), None);
            }
        }
    }

    #[test]
    fn what_is_not_cut_as_messages_are_is_no_piece() {
        let whole = cut(9, &message(1500)).next().unwrap();
        assert!(Piece::decode(&whole).is_some());
        assert_eq!(Piece::decode(&whole[..whole.len() - 1]), None);
        assert_eq!(Piece::decode(&[&whole[..], &[0]].concat()), None);
        for (at, byte) in [(0, 0), (10, 1), (11, 0)] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(Piece::decode(&other), None, "{at}");
        }
    }

    #[test]
    fn strangers_take_bounded_memory() {
        let mut openings = Openings::default();
        let first = cut(9, &message(1500)).next().unwrap();
        for from in 0..10 * WAITING_MAX {
            assert_eq!(openings.take(from, &Piece::decode(&first).unwrap()), None);
        }
        assert_eq!(openings.waiting.len(), WAITING_MAX);
    }
}
