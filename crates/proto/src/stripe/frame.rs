//! What travels on a lane: frames of a fixed header and what follows it.
//!
//! ```text
//! frame   kind u8 · zero u24 · length u32 · offset u64 · payload (length bytes) · tag (if sealed, 16 bytes)
//! ```
//! All integers are big-endian. The header travels in clear, also on sealed lanes, where it is authenticated.

use super::Violation;

/// Bytes of a header.
pub const HEADER_LEN: usize = 16;
/// The longest payload. Bounds what a lane can make its reader hold before anything is known of it; large enough that
/// the work per frame is small beside the work per byte.
pub const PAYLOAD_MAX: usize = 256 << 10;
/// Ranges in an acknowledgement: what else came in out of order is told by later ones.
pub const RANGES_MAX: usize = 32;
/// The longest reason in an [`Frame::Abort`].
pub const REASON_MAX: usize = 300;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A piece of the stream.
    Data,
    /// What has come in and how far the other side may send.
    Ack,
    /// Where the stream ends.
    End,
    /// Nobody reads the stream any more.
    Stop,
    /// Asks for an acknowledgement on this lane.
    Probe,
    /// So many lanes are wanted.
    Want,
    /// The stream has failed.
    Abort,
}

/// The front of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// Bytes that follow, the tag not counted. At most [`PAYLOAD_MAX`].
    pub len: u32,
    /// A position in the stream, or whatever number the kind goes with.
    pub offset: u64,
}

impl Header {
    /// As it travels.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = match self.kind {
            Kind::Data => 1,
            Kind::Ack => 2,
            Kind::End => 3,
            Kind::Stop => 4,
            Kind::Probe => 5,
            Kind::Want => 6,
            Kind::Abort => 7,
        };
        bytes[4..8].copy_from_slice(&self.len.to_be_bytes());
        bytes[8..].copy_from_slice(&self.offset.to_be_bytes());
        bytes
    }

    /// Read and check a header: afterwards its length can be trusted to be one that the kind can have.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, Violation> {
        let [kind, z0, z1, z2, l0, l1, l2, l3, offset @ ..] = *bytes;
        let (len, offset) = (u32::from_be_bytes([l0, l1, l2, l3]), u64::from_be_bytes(offset));
        let kind = match kind {
            1 => Kind::Data,
            2 => Kind::Ack,
            3 => Kind::End,
            4 => Kind::Stop,
            5 => Kind::Probe,
            6 => Kind::Want,
            7 => Kind::Abort,
            _ => return Err(Violation::Malformed),
        };
        let allowed = match kind {
            Kind::Data => 1..=PAYLOAD_MAX,
            Kind::Ack => ACK_FIXED_LEN..=ACK_FIXED_LEN + RANGES_MAX * RANGE_LEN,
            Kind::End | Kind::Stop | Kind::Probe | Kind::Want => 0..=0,
            Kind::Abort => 0..=REASON_MAX,
        };
        if [z0, z1, z2] != [0; 3] {
            return Err(Violation::Malformed);
        }
        if len as usize > *allowed.end() {
            return Err(Violation::TooLong(len));
        }
        if (len as usize) < *allowed.start() {
            return Err(Violation::Malformed);
        }
        Ok(Header { kind, len, offset })
    }
}

/// What has come in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// All bytes below it.
    pub received: u64,
    /// The other side may send up to here.
    pub limit: u64,
    /// The end of the stream is known, and everything before it is in.
    pub complete: bool,
    /// Start and end of further pieces, in order and apart from each other.
    pub ranges: Vec<(u64, u64)>,
}

/// A frame as it is understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A piece of the stream, never empty.
    Data {
        /// Where it belongs.
        offset: u64,
        /// What it holds.
        bytes: Vec<u8>,
    },
    /// What has come in and how far the other side may send.
    Ack(Ack),
    /// The stream has so many bytes.
    End(u64),
    /// Nobody reads the stream any more: what is sent is thrown away.
    Stop,
    /// Asks for an acknowledgement on this lane.
    Probe,
    /// The side that sends the data would like so many lanes.
    Want(u32),
    /// The stream has failed, and why.
    Abort(String),
}

impl Frame {
    /// Read the payload that belongs to a header. Both are as long as the header says.
    pub fn decode(header: &Header, payload: Vec<u8>) -> Result<Frame, Violation> {
        Ok(match header.kind {
            Kind::Data => {
                header.offset.checked_add(payload.len() as u64).ok_or(Violation::Malformed)?;
                Frame::Data { offset: header.offset, bytes: payload }
            }
            Kind::Ack => Frame::Ack(decode_ack(header.offset, &payload)?),
            Kind::End => Frame::End(header.offset),
            Kind::Stop => Frame::Stop,
            Kind::Probe => Frame::Probe,
            Kind::Want => Frame::Want(u32::try_from(header.offset).map_err(|_| Violation::Malformed)?),
            // It may stand in a log or on a terminal, in one line.
            Kind::Abort => {
                let line = String::from_utf8_lossy(&payload);
                Frame::Abort(line.chars().filter(|letter| !letter.is_control()).collect())
            }
        })
    }

    /// Header and payload of any frame but [`Frame::Data`], whose payload is not copied for this: see [`data_header`].
    pub fn encode(&self) -> (Header, Vec<u8>) {
        let (kind, offset, payload) = match self {
            Frame::Data { offset, bytes } => (Kind::Data, *offset, bytes.clone()),
            Frame::Ack(ack) => (Kind::Ack, ack.received, encode_ack(ack)),
            Frame::End(len) => (Kind::End, *len, vec![]),
            Frame::Stop => (Kind::Stop, 0, vec![]),
            Frame::Probe => (Kind::Probe, 0, vec![]),
            Frame::Want(lanes) => (Kind::Want, u64::from(*lanes), vec![]),
            Frame::Abort(reason) => {
                let mut end = reason.len().min(REASON_MAX);
                while !reason.is_char_boundary(end) {
                    end -= 1;
                }
                (Kind::Abort, 0, reason.as_bytes()[..end].to_vec())
            }
        };
        (Header { kind, len: payload.len() as u32, offset }, payload)
    }
}

/// The header of `len` bytes of data at `offset`.
pub fn data_header(offset: u64, len: usize) -> Header {
    Header { kind: Kind::Data, len: len as u32, offset }
}

fn encode_ack(ack: &Ack) -> Vec<u8> {
    let mut payload = Vec::with_capacity(ACK_FIXED_LEN + ack.ranges.len() * RANGE_LEN);
    payload.push(u8::from(ack.complete));
    payload.extend(ack.limit.to_be_bytes());
    for (start, end) in ack.ranges.iter().take(RANGES_MAX) {
        payload.extend(start.to_be_bytes());
        payload.extend(end.to_be_bytes());
    }
    payload
}

fn decode_ack(received: u64, payload: &[u8]) -> Result<Ack, Violation> {
    let (&[flags, ref limit @ ..], rest) =
        payload.split_first_chunk::<ACK_FIXED_LEN>().ok_or(Violation::Malformed)?;
    let (ranges, []) = rest.as_chunks::<RANGE_LEN>() else { return Err(Violation::Malformed) };
    if flags > 1 {
        return Err(Violation::Malformed);
    }
    let mut ack =
        Ack { received, limit: u64::from_be_bytes(*limit), complete: flags == 1, ranges: Vec::new() };
    let mut last_end = received;
    for range in ranges {
        let (start, end) = range.split_at(8);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        let (start, end) = (number(start), number(end));
        if start <= last_end || end <= start {
            return Err(Violation::Malformed);
        }
        last_end = end;
        ack.ranges.push((start, end));
    }
    Ok(ack)
}

/// Flags and limit.
const ACK_FIXED_LEN: usize = 9;
/// Start and end.
const RANGE_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ack() -> impl Strategy<Value = Ack> {
        let gaps = proptest::collection::vec((1..1000u64, 1..1000u64), 0..=RANGES_MAX);
        (any::<u32>(), any::<u64>(), any::<bool>(), gaps).prop_map(|(received, limit, complete, gaps)| {
            let mut at = u64::from(received);
            let ranges = gaps.into_iter().map(|(gap, len)| {
                let start = at + gap;
                at = start + len;
                (start, at)
            });
            Ack { received: u64::from(received), limit, complete, ranges: ranges.collect() }
        })
    }

    fn frames() -> impl Strategy<Value = Frame> {
        prop_oneof![
            (0..1u64 << 60, proptest::collection::vec(any::<u8>(), 1..100))
                .prop_map(|(offset, bytes)| Frame::Data { offset, bytes }),
            ack().prop_map(Frame::Ack),
            any::<u64>().prop_map(Frame::End),
            Just(Frame::Stop),
            Just(Frame::Probe),
            any::<u32>().prop_map(Frame::Want),
            "[a-z ]{0,300}".prop_map(Frame::Abort),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(frame in frames()) {
            let (header, payload) = frame.encode();
            prop_assert_eq!(payload.len(), header.len as usize);
            prop_assert_eq!(Header::decode(&header.encode()), Ok(header));
            prop_assert_eq!(Frame::decode(&header, payload), Ok(frame));
        }

        #[test]
        fn no_header_announces_more_than_the_longest_payload(bytes: [u8; HEADER_LEN]) {
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert!(header.len as usize <= PAYLOAD_MAX);
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }

    #[test]
    fn an_acknowledgement_of_overlapping_ranges_is_refused() {
        let ranges = vec![(10, 20), (15, 30)];
        let (header, payload) = Frame::Ack(Ack { ranges, ..Ack::default() }).encode();
        assert_eq!(Frame::decode(&header, payload), Err(Violation::Malformed));
    }

    #[test]
    fn a_long_reason_is_cut_between_letters() {
        let (header, payload) = Frame::Abort("é".repeat(REASON_MAX)).encode();
        assert_eq!(header.len as usize, REASON_MAX);
        assert!(String::from_utf8(payload).is_ok());
    }

    #[test]
    fn data_that_would_end_beyond_all_numbers_is_refused() {
        let header = data_header(u64::MAX - 1, 5);
        assert_eq!(Frame::decode(&header, vec![0; 5]), Err(Violation::Malformed));
    }
}
