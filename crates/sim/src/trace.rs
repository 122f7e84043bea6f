//! The record of all that happened, to compare two runs byte for byte.

use longhaul_proto::units::{DatagramNumber, Time};

/// How much of a run is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceMode {
    /// Nothing: a little faster.
    Off,
    /// A hash over all records: equal runs have equal hashes.
    #[default]
    Hash,
    /// The hash and the records themselves: [`RECORD_LEN`] bytes for each event.
    Keep,
}

/// What happened to a datagram, or to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TraceKind {
    /// A host handed it to its device.
    Sent = 1,
    /// It reached the other host's endpoint.
    Delivered,
    /// The bottleneck's queue had no room.
    QueueFull,
    /// Lost at random.
    Lost,
    /// Lost in an outage.
    Outage,
    /// It was larger than the MTU.
    Oversize,
    /// It arrived with wrong bytes and was dropped.
    Corrupt,
    /// Its number had been seen before.
    Replay,
    /// Its flow was removed before it arrived.
    Gone,
    /// A copy was made of it.
    Copied,
    /// A host's timer fired.
    Timer,
    /// A host was woken from outside.
    Wake,
    /// A queue had room, but dropped it to stay short.
    Managed,
    /// A policer dropped it.
    Policed,
}

/// One line of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: Time,
    /// What.
    pub kind: TraceKind,
    /// Serial number of the flow.
    pub flow: u32,
    /// Whether it concerns a datagram sent, or a timer kept, by the right host.
    pub from_right: bool,
    /// The datagram's number; 0 where there is none.
    pub number: DatagramNumber,
    /// Bytes of the whole IP packet; 0 where there is none.
    pub size: u32,
}

/// Collects records.
#[derive(Debug)]
pub struct Trace {
    mode: TraceMode,
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
    kept: Vec<u8>,
}

impl Trace {
    /// An empty trace.
    pub fn new(mode: TraceMode) -> Trace {
        let buffer = Vec::with_capacity(if mode == TraceMode::Off { 0 } else { BUFFER_LEN });
        Trace { mode, hasher: blake3::Hasher::new(), buffer, kept: Vec::new() }
    }

    /// Add a record.
    pub fn push(&mut self, record: &Record) {
        if self.mode == TraceMode::Off {
            return;
        }
        self.buffer.extend_from_slice(&record.encode());
        if self.buffer.len() >= BUFFER_LEN {
            self.flush();
        }
    }

    /// Hash of all records so far.
    pub fn hash(&mut self) -> blake3::Hash {
        self.flush();
        self.hasher.finalize()
    }

    /// All records so far, encoded one after another; empty unless they are kept.
    pub fn bytes(&mut self) -> &[u8] {
        self.flush();
        &self.kept
    }

    /// All records so far; none unless they are kept.
    pub fn records(&mut self) -> impl Iterator<Item = Record> + '_ {
        self.bytes().chunks_exact(RECORD_LEN).filter_map(|bytes| Record::decode(bytes.try_into().ok()?))
    }

    fn flush(&mut self) {
        self.hasher.update(&self.buffer);
        if self.mode == TraceMode::Keep {
            self.kept.extend_from_slice(&self.buffer);
        }
        self.buffer.clear();
    }
}

/// Length of a record: time u64 · flow u32 · size u32 · number u48 · side u8 · kind u8, little-endian.
pub const RECORD_LEN: usize = 24;

impl Record {
    /// As bytes.
    pub fn encode(&self) -> [u8; RECORD_LEN] {
        let mut out = [0; RECORD_LEN];
        out[0..8].copy_from_slice(&self.time.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.flow.to_le_bytes());
        out[12..16].copy_from_slice(&self.size.to_le_bytes());
        out[16..24].copy_from_slice(&self.number.to_le_bytes());
        out[22] = u8::from(self.from_right);
        out[23] = self.kind as u8;
        out
    }

    /// From bytes; `None` for an unknown kind.
    pub fn decode(bytes: &[u8; RECORD_LEN]) -> Option<Record> {
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Record {
            time: Time(word(0)),
            flow: word(8) as u32,
            size: (word(8) >> 32) as u32,
            number: word(16) & NUMBER_MASK,
            from_right: bytes[22] != 0,
            kind: *KINDS.get(usize::from(bytes[23]).checked_sub(1)?)?,
        })
    }
}

/// Numbers of datagrams have 48 bits.
const NUMBER_MASK: u64 = (1 << 48) - 1;

/// Hashing goes fastest in pieces of some 10 KB.
const BUFFER_LEN: usize = 512 * RECORD_LEN;

const KINDS: [TraceKind; 14] = [
    TraceKind::Sent,
    TraceKind::Delivered,
    TraceKind::QueueFull,
    TraceKind::Lost,
    TraceKind::Outage,
    TraceKind::Oversize,
    TraceKind::Corrupt,
    TraceKind::Replay,
    TraceKind::Gone,
    TraceKind::Copied,
    TraceKind::Timer,
    TraceKind::Wake,
    TraceKind::Managed,
    TraceKind::Policed,
];

#[cfg(test)]
mod tests {
    use super::*;

    fn record(n: u64) -> Record {
        Record {
            time: Time(n * 7),
            kind: KINDS[n as usize % KINDS.len()],
            flow: n as u32,
            from_right: n % 2 == 1,
            number: (n << 20) & NUMBER_MASK,
            size: 1500,
        }
    }

    #[test]
    fn records_are_read_back() {
        let mut trace = Trace::new(TraceMode::Keep);
        let records: Vec<Record> = (0..2000).map(record).collect();
        records.iter().for_each(|record| trace.push(record));
        assert_eq!(trace.records().collect::<Vec<_>>(), records);
        assert_eq!(trace.hash(), blake3::hash(trace.bytes()));
        assert_eq!(Record::decode(&[0; RECORD_LEN]), None);
        assert_eq!(Record::decode(&[255; RECORD_LEN]), None);
    }

    #[test]
    fn a_hash_needs_no_records() {
        let mut traces = [TraceMode::Off, TraceMode::Hash, TraceMode::Keep].map(Trace::new);
        for trace in &mut traces {
            (0..2000).for_each(|n| trace.push(&record(n)));
        }
        let [off, hashed, kept] = &mut traces;
        assert_eq!(hashed.hash(), kept.hash());
        assert_ne!(hashed.hash(), off.hash());
        assert!(off.bytes().is_empty() && hashed.bytes().is_empty());
    }
}
