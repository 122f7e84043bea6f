//! Formats of datagrams. All integers are big-endian; `varint` is LEB128 of at most 10 bytes.
//!
//! ```text
//! datagram   flags u8 · connection id u64 · number u48 · sealed body · tag 16      (the first 15 bytes authenticated)
//! body       kind u8 · …
//!   DATA     0x10 + size class · packet u48 · the packet's bytes                    (+ 8: tell its arrival at once)
//!   ACK      0x01 · fixed fields · runs · slice                                     (see [`Ack`])
//!   PROBE    0x02 · size class u8 · token u64 · zeros up to the class's size        (path check)
//!   REPLY    0x03 · probe number u48 · arrival u64 · token u64                      (path check)
//!   REQUEST  0x04 · size class u8 · round u32 · from packet u48                     (tell me your map)
//!   WORDS    0x05 · position u64 · bytes                                            (of a control stream without connection)
//! ```

use crate::ecn::Ecn;
use crate::units::{DatagramNumber, PacketNumber, Time};
use core::time::Duration;
use std::ops::Range;

/// Bytes before the sealed body.
pub const HEADER_LEN: usize = 15;
/// Bytes of the AEAD tag behind it.
pub const TAG_LEN: usize = 16;
/// What sealing adds to a body.
pub const SEAL_OVERHEAD: usize = HEADER_LEN + TAG_LEN;
/// Body bytes of a DATA datagram before the packet's own: kind and packet number.
pub const DATA_PREFIX: usize = 7;
/// What a datagram of data carries beside the data.
pub const DATA_OVERHEAD: usize = SEAL_OVERHEAD + DATA_PREFIX;
/// Bytes of IPv4 and UDP header.
pub const IPV4_UDP_LEN: usize = 28;
/// Bytes of IPv6 and UDP header.
pub const IPV6_UDP_LEN: usize = 48;

/// UDP payload that passes everywhere (RFC 9000 §14, RFC 8899 BASE_PLPMTU).
pub const BASE_DATAGRAM_LEN: u16 = 1200;
/// Smallest UDP payload that a transfer may be told to use.
pub const MIN_DATAGRAM_LEN: u16 = 200;
/// Largest: what an IPv4 packet holds.
pub const MAX_DATAGRAM_LEN: u16 = 65_507;
/// Numbers of datagrams and packets stay below this.
pub const MAX_NUMBER: u64 = 1 << 48;

/// Which keys a datagram is under: the flags of its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyPhase {
    /// Those of the session, which the handshake has brought.
    Main = 0,
    /// Those of the offer: the path check.
    Early = 1,
    /// Those of a ticket: the client's first data, before it has an answer. The flag 2 is [`OPENING`](crate::session::opening::OPENING).
    Ticket = 4,
}

impl KeyPhase {
    /// All of them.
    pub const ALL: [KeyPhase; 3] = [KeyPhase::Main, KeyPhase::Early, KeyPhase::Ticket];
}

/// What stands in clear (but authenticated) before the sealed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The keys that seal it.
    pub phase: KeyPhase,
    /// Which transfer.
    pub connection_id: u64,
    /// Number of the datagram.
    pub number: DatagramNumber,
}

impl Header {
    /// Write it.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0] = self.phase as u8;
        out[1..9].copy_from_slice(&self.connection_id.to_be_bytes());
        out[9..15].copy_from_slice(&self.number.to_be_bytes()[2..]);
        out
    }

    /// Read it; `None` if the datagram is too short to hold a header and a tag, or has unknown flags.
    pub fn decode(datagram: &[u8]) -> Option<Header> {
        if datagram.len() < SEAL_OVERHEAD {
            return None;
        }
        Some(Header {
            phase: KeyPhase::ALL.into_iter().find(|phase| *phase as u8 == datagram[0])?,
            connection_id: u64::from_be_bytes(datagram[1..9].try_into().ok()?),
            number: u48(&datagram[9..15])?,
        })
    }
}

/// A body, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Bytes of the object.
    Data {
        /// Which of the negotiated datagram sizes numbers the packets.
        class: u8,
        /// The sender wants to know at once when it came in.
        timed: bool,
        /// Which packet.
        packet: PacketNumber,
        /// Its bytes.
        data: &'a [u8],
    },
    /// What the receiver has.
    Ack(Ack),
    /// Does this size pass?
    Probe {
        /// Index of the size tried.
        class: u8,
        /// What the reply is to repeat: it shows that the probe reached who replies.
        token: u64,
        /// Whole body length, to be compared with the size tried.
        len: usize,
    },
    /// It did.
    Reply {
        /// Number of the probe's datagram.
        probe: DatagramNumber,
        /// When it came in, on the replier's clock.
        arrival: Time,
        /// The probe's.
        token: u64,
    },
    /// All packets were sent that were missing: which still are?
    Request(Request),
    /// Bytes of the server's control stream, whose connection is not there yet.
    Words {
        /// Where in the stream they belong.
        position: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// A sender's question for the receiver's map, at the end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Which of the negotiated datagram sizes numbers the packets.
    pub class: u8,
    /// Which round has ended, counted from 1; the answer repeats it.
    pub round: u32,
    /// The answer may leave out what lies below.
    pub from: PacketNumber,
}

const KIND_ACK: u8 = 1;
const KIND_PROBE: u8 = 2;
const KIND_REPLY: u8 = 3;
const KIND_REQUEST: u8 = 4;
const KIND_WORDS: u8 = 5;
const KIND_DATA: u8 = 0x10;
const DATA_TIMED: u8 = MAX_CLASSES as u8;

/// Most size classes that a transfer may try.
pub const MAX_CLASSES: usize = 8;

impl Body<'_> {
    /// Read a body; `None` for anything malformed.
    pub fn decode(body: &[u8]) -> Option<Body<'_>> {
        let (&kind, rest) = body.split_first()?;
        match kind {
            KIND_ACK => Ack::decode(rest).map(Body::Ack),
            KIND_PROBE => Some(Body::Probe {
                class: *rest.first()?,
                token: u64::from_be_bytes(rest.get(1..9)?.try_into().ok()?),
                len: body.len(),
            }),
            KIND_REPLY if rest.len() == REPLY_LEN - 1 => Some(Body::Reply {
                probe: u48(rest)?,
                arrival: Time(u64::from_be_bytes(rest[6..14].try_into().ok()?)),
                token: u64::from_be_bytes(rest[14..].try_into().ok()?),
            }),
            KIND_REQUEST if rest.len() == REQUEST_LEN - 1 => Some(Body::Request(Request {
                class: rest[0],
                round: u32::from_be_bytes(rest[1..5].try_into().ok()?),
                from: u48(&rest[5..])?,
            })),
            KIND_WORDS if rest.len() > 8 => Some(Body::Words {
                position: u64::from_be_bytes(rest[..8].try_into().ok()?),
                bytes: &rest[8..],
            }),
            _ if (KIND_DATA..KIND_DATA + 2 * DATA_TIMED).contains(&kind) && rest.len() > 6 => {
                Some(Body::Data {
                    class: (kind - KIND_DATA) % DATA_TIMED,
                    timed: kind - KIND_DATA >= DATA_TIMED,
                    packet: u48(rest)?,
                    data: &rest[6..],
                })
            }
            _ => None,
        }
    }
}

/// Write a DATA body's first bytes; the packet's own follow at [`DATA_PREFIX`].
pub fn encode_data_prefix(buf: &mut [u8], class: u8, timed: bool, packet: PacketNumber) {
    buf[0] = KIND_DATA + class + if timed { DATA_TIMED } else { 0 };
    buf[1..7].copy_from_slice(&packet.to_be_bytes()[2..]);
}

/// Length of the shortest PROBE body: one that asks for nothing but its token.
pub const PROBE_LEN_MIN: usize = 10;

/// Write a PROBE body of exactly `buf`'s length.
pub fn encode_probe(buf: &mut [u8], class: u8, token: u64) {
    buf.fill(0);
    buf[..2].copy_from_slice(&[KIND_PROBE, class]);
    buf[2..PROBE_LEN_MIN].copy_from_slice(&token.to_be_bytes());
}

/// Length of a REPLY body.
pub const REPLY_LEN: usize = 23;

/// Write a REPLY body.
pub fn encode_reply(buf: &mut [u8], probe: DatagramNumber, arrival: Time, token: u64) -> usize {
    buf[0] = KIND_REPLY;
    buf[1..7].copy_from_slice(&probe.to_be_bytes()[2..]);
    buf[7..15].copy_from_slice(&arrival.0.to_be_bytes());
    buf[15..REPLY_LEN].copy_from_slice(&token.to_be_bytes());
    REPLY_LEN
}

/// Bytes of a WORDS body before the stream's own.
pub const WORDS_PREFIX: usize = 9;

/// Write a WORDS body. Returns the length.
pub fn encode_words(buf: &mut [u8], position: u64, bytes: &[u8]) -> usize {
    buf[0] = KIND_WORDS;
    buf[1..WORDS_PREFIX].copy_from_slice(&position.to_be_bytes());
    buf[WORDS_PREFIX..WORDS_PREFIX + bytes.len()].copy_from_slice(bytes);
    WORDS_PREFIX + bytes.len()
}

/// Length of a REQUEST body.
pub const REQUEST_LEN: usize = 12;

impl Request {
    /// Write it. Returns the length.
    pub fn encode(&self, buf: &mut [u8]) -> usize {
        buf[..2].copy_from_slice(&[KIND_REQUEST, self.class]);
        buf[2..6].copy_from_slice(&self.round.to_be_bytes());
        buf[6..REQUEST_LEN].copy_from_slice(&self.from.to_be_bytes()[2..]);
        REQUEST_LEN
    }
}

/// What makes an acknowledgement part of the answer to a [`Request`]: its slice goes on where the last one ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The round that was asked about.
    pub round: u32,
    /// Nothing above the slice has come in.
    pub last: bool,
}

/// An acknowledgement. It fits one datagram whatever the object's size, and losing it does no harm: counters are
/// cumulative, and what the runs of lost acknowledgements told, later runs and slices tell again (FOBS §3.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Raised whenever the receiver takes back packets it had acknowledged.
    pub epoch: u16,
    /// Everything has arrived.
    pub complete: bool,
    /// How full the sink is, 0 to 255.
    pub pressure: u8,
    /// Number of the datagram that came in last.
    pub latest: DatagramNumber,
    /// When it came in, on the receiver's clock.
    pub latest_time: Time,
    /// What its IP header said of queues on the way.
    pub latest_ecn: Ecn,
    /// How long ago that was when this was written (71 min at most), in µs on the wire.
    pub delay: Duration,
    /// Data datagrams that came in, repeats included.
    pub received: u64,
    /// Different packets that the receiver has.
    pub distinct: u64,
    /// Datagrams that the receiving host dropped for want of buffer.
    pub dropped: u64,
    /// Packets refused because the sink was full.
    pub refused: u64,
    /// Datagrams that came in marked ([`Ecn::Ce`]).
    pub marked: u64,
    /// All packets below this are in.
    pub low: PacketNumber,
    /// It was asked for.
    pub answer: Option<Answer>,
    /// Largest datagram number that came in; base of `runs`.
    pub largest: DatagramNumber,
    /// From `largest` downwards: so many came in, so many did not, so many did, …
    pub runs: Vec<u64>,
    /// Datagrams of trains that came in lately, and when, on the receiver's clock; newest first.
    pub timed: Vec<(DatagramNumber, Time)>,
    /// First packet of `slice`, a multiple of 64.
    pub slice_start: PacketNumber,
    /// Bits of the object's map, 64 packets a word.
    pub slice: Vec<u64>,
}

const ACK_COMPLETE: u8 = 1;
const ACK_ANSWER: u8 = 2;
const ACK_LAST: u8 = 4;
const ACK_MARKED: u8 = 8;
/// Where the two bits of the latest datagram's IP header stand.
const ACK_ECN_SHIFT: u32 = 4;
/// Runs in an acknowledgement at most.
pub const MAX_RUNS: usize = 256;
/// Arrivals told one by one in an acknowledgement at most.
pub const MAX_TIMED: usize = 24;
/// Words of the object's map in an acknowledgement at most.
pub const MAX_SLICE_WORDS: usize = 128;
/// Words of the object's map in an acknowledgement that was not asked for: the runs tell the news.
pub const SLICE_WORDS: usize = 32;

impl Ack {
    /// Write kind and all, as much of runs and slice as fits `buf` (which must hold 137 bytes). Returns the length.
    pub fn encode(&self, buf: &mut [u8]) -> usize {
        let mut w = Writer { buf, at: 0 };
        w.bytes(&[KIND_ACK, self.flags(), self.pressure]);
        w.bytes(&self.epoch.to_be_bytes());
        w.bytes(&self.latest_time.0.to_be_bytes());
        w.bytes(&u32::try_from(self.delay.as_micros()).unwrap_or(u32::MAX).to_be_bytes());
        for value in [self.received, self.distinct, self.dropped, self.refused, self.low, self.largest] {
            w.varint(value);
        }
        w.varint(self.largest.saturating_sub(self.latest));
        if let Some(answer) = self.answer {
            w.varint(answer.round.into());
        }
        if self.marked > 0 {
            w.varint(self.marked);
        }
        let timed =
            self.timed.len().min(MAX_TIMED).min(w.left().saturating_sub(TIMED_RESERVE) / TIMED_LEN_MAX);
        w.bytes(&[timed as u8]);
        for (number, time) in &self.timed[..timed] {
            w.varint(self.largest.saturating_sub(*number));
            w.varint(self.latest_time.0.saturating_sub(time.0));
        }
        let count_at = w.at;
        w.bytes(&[0, 0]);
        let slice_bytes = if self.slice.is_empty() { 0 } else { 10 + 8 * self.slice.len() };
        let mut count = 0u16;
        for run in self.runs.iter().take(MAX_RUNS) {
            // Runs go before the slice, but the slice always keeps room for a few words.
            if w.left() < 10 + slice_bytes.min(10 + 8 * 4) + 1 {
                break;
            }
            w.varint(*run);
            count += 1;
        }
        w.buf[count_at..count_at + 2].copy_from_slice(&count.to_be_bytes());
        let words = (w.left().saturating_sub(11) / 8).min(self.slice.len()).min(MAX_SLICE_WORDS);
        w.bytes(&[words as u8]);
        if words > 0 {
            w.varint(self.slice_start / 64);
            self.slice[..words].iter().for_each(|word| w.bytes(&word.to_be_bytes()));
        }
        if words < self.slice.len() {
            w.buf[FLAGS_AT] &= !ACK_LAST;
        }
        w.at
    }

    fn flags(&self) -> u8 {
        let answer = match self.answer {
            None => 0,
            Some(Answer { last: false, .. }) => ACK_ANSWER,
            Some(Answer { last: true, .. }) => ACK_ANSWER | ACK_LAST,
        };
        let complete = if self.complete { ACK_COMPLETE } else { 0 };
        let marked = if self.marked > 0 { ACK_MARKED } else { 0 };
        answer | complete | marked | self.latest_ecn.bits() << ACK_ECN_SHIFT
    }

    /// How many words of the map an acknowledgement without runs holds for certain in a body of `room` bytes.
    pub fn words_in(room: usize) -> usize {
        (room.saturating_sub(HEAD_LEN_MAX) / 8).clamp(1, MAX_SLICE_WORDS)
    }

    /// Read what stands behind the kind byte.
    fn decode(rest: &[u8]) -> Option<Ack> {
        let mut r = Reader { buf: rest };
        let [flags, pressure] = r.array()?;
        let mut ack = Ack {
            complete: flags & ACK_COMPLETE != 0,
            latest_ecn: Ecn::from_bits(flags >> ACK_ECN_SHIFT),
            pressure,
            epoch: u16::from_be_bytes(r.array()?),
            latest_time: Time(u64::from_be_bytes(r.array()?)),
            delay: Duration::from_micros(u64::from(u32::from_be_bytes(r.array()?))),
            received: r.varint()?,
            distinct: r.varint()?,
            dropped: r.varint()?,
            refused: r.varint()?,
            low: r.varint()?,
            largest: r.varint()?,
            ..Ack::default()
        };
        ack.latest = ack.largest.checked_sub(r.varint()?)?;
        if flags & ACK_ANSWER != 0 {
            ack.answer =
                Some(Answer { round: u32::try_from(r.varint()?).ok()?, last: flags & ACK_LAST != 0 });
        }
        if flags & ACK_MARKED != 0 {
            ack.marked = r.varint()?;
        }
        let [timed] = r.array()?;
        if usize::from(timed) > MAX_TIMED {
            return None;
        }
        for _ in 0..timed {
            let number = ack.largest.checked_sub(r.varint()?)?;
            let time = Time(ack.latest_time.0.checked_sub(r.varint()?)?);
            ack.timed.push((number, time));
        }
        let runs = usize::from(u16::from_be_bytes(r.array()?));
        if runs > MAX_RUNS {
            return None;
        }
        ack.runs = (0..runs).map(|_| r.varint()).collect::<Option<_>>()?;
        let [words] = r.array()?;
        if usize::from(words) > MAX_SLICE_WORDS {
            return None;
        }
        if words > 0 {
            ack.slice_start = r.varint()?.checked_mul(64)?;
            ack.slice = (0..words).map(|_| r.array().map(u64::from_be_bytes)).collect::<Option<_>>()?;
        }
        r.buf.is_empty().then_some(ack)
    }

    /// The ranges of datagram numbers that came in, highest first.
    pub fn received_ranges(&self) -> impl Iterator<Item = Range<DatagramNumber>> + '_ {
        let mut end = Some(self.largest.saturating_add(1));
        let mut came_in = false;
        self.runs.iter().filter_map(move |run| {
            came_in = !came_in;
            let high = end?;
            let low = high.checked_sub(*run);
            end = low;
            (came_in && *run > 0).then_some(low.unwrap_or(0)..high)
        })
    }

    /// Below this number the runs say nothing.
    pub fn runs_floor(&self) -> DatagramNumber {
        self.runs.iter().fold(self.largest.saturating_add(1), |at, run| at.saturating_sub(*run))
    }
}

/// Where the flags of an acknowledgement stand.
const FLAGS_AT: usize = 1;
/// Bytes before the slice's words where there are neither runs nor timed arrivals: 17 fixed, eight counters, the
/// answer's round, three counts, and the slice's place.
const HEAD_LEN_MAX: usize = 17 + 8 * 10 + 5 + 4 + 11;
/// Two varints: a datagram's distance below 2⁴⁸ and a span of time.
const TIMED_LEN_MAX: usize = 7 + 10;
/// Room that runs and slice need behind them.
const TIMED_RESERVE: usize = 64;

struct Writer<'a> {
    buf: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.buf[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.bytes(&[value as u8]);
    }

    fn left(&self) -> usize {
        self.buf.len() - self.at
    }
}

struct Reader<'a> {
    buf: &'a [u8],
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.buf.split_first_chunk()?;
        self.buf = rest;
        Some(*head)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

pub(crate) fn u48(bytes: &[u8]) -> Option<u64> {
    let b: [u8; 6] = bytes.get(..6)?.try_into().ok()?;
    Some(b.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_ack() -> impl Strategy<Value = Ack> {
        let counters = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let answer = proptest::option::of((any::<u32>(), any::<bool>()));
        let head = (any::<u16>(), any::<bool>(), any::<u8>(), any::<u64>(), any::<u32>(), answer);
        let marks = (0..4u8, prop_oneof![Just(0), any::<u64>()]);
        let tail = (
            prop::collection::vec(any::<u64>(), 0..30),
            prop::collection::vec((0..1000u64, 0..1u64 << 40), 0..MAX_TIMED),
            prop::collection::vec(any::<u64>(), 0..32),
            0..1u64 << 40,
        );
        (head, counters, (0..MAX_NUMBER, 0..1000u64), marks, tail).prop_map(
            |(h, c, (largest, back), (ecn, marked), (runs, timed, slice, word))| Ack {
                latest_ecn: Ecn::from_bits(ecn),
                marked,
                timed: timed
                    .iter()
                    .map(|(n, t)| (largest.saturating_sub(*n), Time(h.3.saturating_sub(*t))))
                    .collect(),
                epoch: h.0,
                complete: h.1,
                pressure: h.2,
                latest: largest.saturating_sub(back),
                latest_time: Time(h.3),
                delay: Duration::from_micros(h.4.into()),
                received: c.0,
                distinct: c.1,
                dropped: c.2,
                refused: c.3,
                low: c.4,
                answer: h.5.map(|(round, last)| Answer { round, last }),
                largest,
                runs,
                slice_start: if slice.is_empty() { 0 } else { word * 64 },
                slice,
            },
        )
    }

    proptest! {
        #[test]
        fn acks_survive_the_wire(ack in any_ack()) {
            let mut buf = [0; 1400];
            let len = ack.encode(&mut buf);
            prop_assert_eq!(Body::decode(&buf[..len]), Some(Body::Ack(ack)));
        }

        #[test]
        fn acks_fit_small_datagrams(ack in any_ack()) {
            let mut buf = [0; 169];
            let len = ack.encode(&mut buf);
            let Some(Body::Ack(read)) = Body::decode(&buf[..len]) else { panic!("unreadable") };
            prop_assert!(ack.runs.starts_with(&read.runs) && ack.slice.starts_with(&read.slice));
            let whole = read.slice.len() == ack.slice.len();
            prop_assert_eq!(read.answer.is_some_and(|a| a.last), whole && ack.answer.is_some_and(|a| a.last));
        }

        #[test]
        fn an_answer_fills_its_body_and_none_of_it_is_cut(ack in any_ack(), room in 137usize..1400) {
            let slice = vec![u64::MAX; Ack::words_in(room)];
            let answer = Some(Answer { round: u32::MAX, last: true });
            let counters =
                Ack { received: u64::MAX, distinct: u64::MAX, low: u64::MAX, marked: u64::MAX, ..ack };
            let ack = Ack { slice, slice_start: 64 << 40, answer, runs: vec![], timed: vec![], ..counters };
            let mut buf = vec![0; room];
            let len = ack.encode(&mut buf);
            prop_assert_eq!(Body::decode(&buf[..len]), Some(Body::Ack(ack)));
        }

        #[test]
        fn requests_survive_the_wire(class: u8, round: u32, from in 0..MAX_NUMBER) {
            let request = Request { class, round, from };
            let mut buf = [0; REQUEST_LEN];
            prop_assert_eq!(request.encode(&mut buf), REQUEST_LEN);
            prop_assert_eq!(Body::decode(&buf), Some(Body::Request(request)));
            prop_assert_eq!(Body::decode(&buf[..REQUEST_LEN - 1]), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(Body::Ack(ack)) = Body::decode(&bytes) {
                let floor = ack.runs_floor();
                for range in ack.received_ranges() {
                    prop_assert!(range.start >= floor && range.end <= ack.largest.saturating_add(1));
                }
            }
            let _ = Header::decode(&bytes);
        }

        #[test]
        fn headers_survive_the_wire(at in 0..3usize, connection_id: u64, number in 0..MAX_NUMBER) {
            let header = Header { phase: KeyPhase::ALL[at], connection_id, number };
            let mut datagram = header.encode().to_vec();
            datagram.extend([0; TAG_LEN]);
            prop_assert_eq!(Header::decode(&datagram), Some(header));
        }
    }

    #[test]
    fn runs_name_ranges_from_the_top() {
        let ack = Ack { largest: 99, runs: vec![10, 5, 2, 3], ..Ack::default() };
        assert_eq!(ack.received_ranges().collect::<Vec<_>>(), [90..100, 83..85]);
        assert_eq!(ack.runs_floor(), 80);
    }
}
