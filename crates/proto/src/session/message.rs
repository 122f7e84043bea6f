//! The messages of the control stream.
//!
//! A release understands what the one before it sends ([`Versions`]). So in a version that was
//! released nothing is taken away, moved or given another type. A new version adds fields at the end of a message (not of a
//! value inside it) and kinds after the last one. What is not in the version that the two sides have in common is not sent.

use super::attributes::Preserve;
use super::limit::{Limit, LimitSpans};
use super::manifest::{EntryIndex, Group};
use super::progress::Progress;
use super::reason::Reason;
use super::transport::{Carrier, Switch, Transport};
use super::truncated::{MemoryLen, Truncated};
use super::versions::Versions;
use crate::control::ControllerKind;
use crate::dscp::Dscp;
use crate::object::Companions;
use crate::ranges::{Ranges, read_ranges};
use crate::scitag::SciTag;
use crate::units::{Rate, Time};
use serde::{Deserialize, Serialize};
use several::{PathStatus, Paths, WantPaths};
use std::fmt;
use third_party::{ClientPart, Outcome, Ready, ServerPart, Whereabouts};

pub mod several;
pub mod third_party;

/// Bytes of a probe's object: more than any probe moves.
pub const PROBE_LEN: u64 = 1 << 42;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Client to server.
    Push {
        /// Where it goes, as the user wrote it.
        dest: Vec<u8>,
    },
    /// Server to client.
    Pull {
        /// What to fetch, as the user wrote it.
        sources: Vec<Vec<u8>>,
    },
    /// Client to server, [`PROBE_LEN`] bytes that nobody keeps, until the client has enough.
    Probe,
    /// Client to server: a step of a copy that was planned beforehand. From version 13 on.
    Planned {
        /// Where the copy goes, as the user wrote it.
        dest: Vec<u8>,
        /// What is to be done of it.
        step: PlanStep,
    },
    /// Client to server: bytes of which nobody knows how many will come, into one file. From version 13 on.
    PushPipe {
        /// The file, as the user wrote it.
        dest: Vec<u8>,
    },
    /// Server to client: the bytes of one file, in order. From version 13 on.
    PullPipe {
        /// The file, as the user wrote it.
        source: Vec<u8>,
    },
}

impl Operation {
    /// Where the client's files go to, if that is what it asks for.
    pub fn dest(&self) -> Option<&[u8]> {
        match self {
            Operation::Push { dest } | Operation::Planned { dest, .. } | Operation::PushPipe { dest } => {
                Some(dest)
            }
            Operation::Pull { .. } | Operation::PullPipe { .. } | Operation::Probe => None,
        }
    }

    /// The first version that knows it.
    pub fn since(&self) -> u8 {
        match self {
            Operation::Push { .. } | Operation::Pull { .. } | Operation::Probe => Versions::OURS.lowest(),
            Operation::Planned { .. } | Operation::PushPipe { .. } | Operation::PullPipe { .. } => 13,
        }
    }

    /// Whether the server sends files.
    pub fn is_pull(&self) -> bool {
        matches!(self, Operation::Pull { .. } | Operation::PullPipe { .. })
    }
}

/// Tells planned copies apart.
pub type PlanId = [u8; 8];

/// A step of a planned copy. Many hosts may take its parts at a time, each in a session of its own, and in any order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanStep {
    /// Which plan.
    pub plan: PlanId,
    /// The copy is of one file, which is given the name that the destination says.
    pub is_single: bool,
    /// What is to be done.
    pub task: PlanTask,
}

/// What a step of a planned copy does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanTask {
    /// Copy a part. Folders get no permissions and times, and nothing is removed.
    Part {
        /// Its number.
        number: u32,
        /// Files of which it holds a piece. They are listed with no data but that.
        pieces: Vec<Piece>,
    },
    /// Nothing is sent: put files in place that have come in pieces, finish folders, and remove what the source has not, if that
    /// is asked for. A file of which something is missing fails.
    Finish,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The file, among all entries of the session.
    pub entry: EntryIndex,
    /// The piece's first group, by its number in the file.
    pub first_group: u32,
}

/// How the files are to be treated, on whichever side has to act.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileOptions {
    /// Continue part files that an earlier run left.
    pub resume: bool,
    /// Compare contents, not only size and time, before a file counts as already there.
    pub checksum: bool,
    /// Whether equal parts of the file that is in place are taken over.
    pub delta: Delta,
    /// Remove what the destination folder has and the source has not.
    pub delete: bool,
    /// Report what would be done and do nothing.
    pub dry_run: bool,
    /// Leave out what matches (gitignore-like globs).
    pub exclude: Vec<String>,
    /// Nothing that is at the destination is compared, changed or replaced. The receiver's own wish: it does not travel.
    #[serde(skip)]
    pub new_only: bool,
    /// What the receiver brings to its disk.
    pub fsync: Fsync,
    /// What is kept of files beyond contents, permissions and times. It travels at the end of the offer.
    #[serde(skip)]
    pub preserve: Preserve,
}

/// Whether the receiver looks for parts of a file in the one that is to be replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delta {
    /// Where that one is large and older.
    #[default]
    Auto,
    /// In any case.
    Always,
    /// Never: all of the file is sent.
    Never,
}

/// What the receiver brings to its disk, and does not leave to its system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fsync {
    /// Each file of more than one group, before it gets its name: with little to pay, what was there before stays until the
    /// new one is safe.
    #[default]
    Auto,
    /// Each file before it gets its name, and all of the copy before it counts as finished.
    Always,
    /// Nothing.
    Never,
}

/// How the object is to be moved: chosen by the client, obeyed by whichever side sends or receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferOptions {
    /// Name of the controller.
    pub control: String,
    /// Name of the selector; `None`: the one that goes with the controller.
    pub select: Option<String>,
    /// Never faster than this.
    pub rate_cap: Option<Rate>,
    /// Yield to all other traffic.
    pub background: bool,
    /// FOBS's F: new packets per acknowledgement; `None`: as goes with the controller.
    pub ack_every: Option<u32>,
    /// FOBS's B: packets sent between two looks for an acknowledgement.
    pub batch: Option<u32>,
    /// Sizes of UDP payload per datagram that may be tried, ascending; the index is the size class.
    pub classes: Vec<u16>,
    /// How long a peer or path may be silent, in milliseconds.
    pub stall_timeout_ms: u64,
    /// What may carry the data.
    pub transport: Transport,
    /// TCP connections to carry it with; `None`: as many as turn out to be best.
    pub streams: Option<u16>,
    /// Name of the kernel's congestion control for them; `None`: CUBIC if the host gives it.
    pub congestion: Option<String>,
}

impl TransferOptions {
    /// The controller, and what goes with it: both sides come to the same. Names that nobody knows stand for what is
    /// usual; the client has refused them.
    pub fn protocol(&self) -> (ControllerKind, Companions) {
        let control: ControllerKind = self.control.parse().unwrap_or_default();
        let select = self.select.as_deref().and_then(|name| name.parse().ok());
        (control, control.companions().with(select, self.ack_every))
    }
}

/// Tells copies apart: a hash over what the client alone knows of one, such as its host and the paths there.
pub type CopyId = [u8; 16];

/// First words of the client, inside the first handshake message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Connection id that all datagrams of this transfer carry.
    pub connection_id: u64,
    /// Whether the client's processor has AES instructions.
    pub aes: bool,
    /// Random bytes from which, with the shared key, the keys of the client's probes are derived. No two offers have the
    /// same.
    pub early_salt: [u8; 32],
    /// When it was made, in seconds since 1970 by the client's clock.
    pub made_s: u64,
    /// Which way.
    pub operation: Operation,
    /// Which copy, of all of this user's with this operation: the same when it is run again.
    pub copy: CopyId,
    /// About the files.
    pub files: FileOptions,
    /// About the transfer.
    pub transfer: TransferOptions,
    /// How many compressed bytes the client's listing has in all; the first are in `listing_head`, the rest follow as
    /// [`Message::ListingPart`]. Push: the manifest, and what could not be listed. Pull: the names of the files wanted, if
    /// not all are.
    pub listing_len: u64,
    /// The first of these bytes, as many as fit the first flight.
    pub listing_head: Vec<u8>,
    /// A ticket of the server's, under whose key the first data goes together with the offer. From version 12 on.
    pub ticket: Option<TicketId>,
    /// The client only arranges the copy: the other end is a third host ([`third_party`]). The operation is what this side does,
    /// as in a copy with the client itself. From version 12 on.
    pub third_party: bool,
    /// What the packets of both sides ask of routers. From version 14 on.
    pub dscp: Option<Dscp>,
    /// What of `files` is not in there: what is kept beyond contents, permissions and times. From version 14 on.
    pub preserve: Option<Preserve>,
    /// Whose traffic this is, and what for. From version 14 on.
    pub scitag: Option<SciTag>,
}

impl Offer {
    /// What the packets of both sides ask of routers: in the background to be last, unless something else is said.
    pub fn service(&self) -> Dscp {
        self.dscp.unwrap_or(if self.transfer.background { Dscp::LE } else { Dscp::default() })
    }

    /// The first version that knows all that is asked for.
    pub fn since(&self) -> u8 {
        let preserve = self.preserve.and_then(|preserve| preserve.since());
        self.operation.since().max(preserve.unwrap_or_default())
    }

    /// As it has come, with all about the files in one place.
    pub fn gathered(self) -> Offer {
        Offer { files: FileOptions { preserve: self.preserve.unwrap_or_default(), ..self.files }, ..self }
    }
}

/// Names a ticket; no secret.
pub type TicketId = [u8; 16];

/// What a server gives a client that it has let in, for its next copy: with it data can go before there is an answer. It is good
/// once.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ticket {
    /// Its name.
    pub id: TicketId,
    /// Random bytes from which, with the shared key and the offer's salt, the keys of that data are derived.
    pub secret: [u8; 32],
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket(…)")
    }
}

/// The server's answer, inside the second handshake message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Go on.
    Accept {
        /// Whether the datagrams are sealed with AES-GCM (else ChaCha20-Poly1305).
        aes: bool,
        /// Fresh secret for the datagrams' keys.
        udp_secret: [u8; 32],
        /// UDP port to send to; the host is the control stream's.
        udp_port: u16,
        /// Addresses at which the server believes to be reachable (ssh: from its own view of the connection).
        udp_hosts: Vec<std::net::IpAddr>,
        /// Whether the offer's ticket was good: what came under its key counts. From version 12 on.
        honours_ticket: bool,
    },
    /// Not possible.
    Refuse(Reason),
}

/// BLAKE3 chaining value of a group (the root hash for a file of one group).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupHash {
    /// Which group.
    pub group: Group,
    /// Its hash.
    pub hash: [u8; 32],
}

/// A file that could not be copied, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFailure {
    /// Its path below the destination (or as given, where it never got an entry).
    pub path: Vec<u8>,
    /// Why.
    pub reason: Reason,
}

impl MemoryLen for FileFailure {
    fn memory_len(&self) -> usize {
        size_of::<FileFailure>() + self.path.len() + self.reason.line.len()
    }
}

impl fmt::Display for FileFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path of what is copied itself is empty.
        let path = if self.path.is_empty() { b".".as_slice() } else { &self.path };
        write!(f, "{}: {}", String::from_utf8_lossy(path), self.reason)
    }
}

/// What a receiver had before a transfer began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Already {
    /// Files and links that are there as a whole.
    pub skipped: u64,
    /// Data bytes of these.
    pub skipped_bytes: u64,
    /// Bytes taken over from an interrupted run.
    pub resumed_bytes: u64,
}

impl Already {
    /// What was there of a further part.
    pub fn add(&mut self, next: Already) {
        self.skipped += next.skipped;
        self.skipped_bytes += next.skipped_bytes;
        self.resumed_bytes += next.resumed_bytes;
    }
}

/// What the receiving side has to say at the end of a part, or of all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Files that are in place and verified by this run (not those skipped).
    pub files_done: u64,
    /// Files that were already there.
    pub files_skipped: u64,
    /// Data bytes of the files that were already there.
    pub skipped_bytes: u64,
    /// Of `skipped_bytes`, those whose hashes were compared with the sender's; the others have the same size and time.
    pub compared_bytes: u64,
    /// Bytes taken over from an interrupted run.
    pub resumed_bytes: u64,
    /// Bytes taken over from files that were replaced.
    pub delta_bytes: u64,
    /// Those that failed.
    pub failed: Truncated<FileFailure>,
    /// Data bytes of those that failed.
    pub failed_bytes: u64,
    /// Datagrams that the receiving host dropped for want of buffer.
    pub receiver_drops: u64,
    /// What was removed because the source has it not (`delete`), folders with all in them; in a dry run what would be.
    pub removed: Truncated<Vec<u8>>,
    /// There was something to remove, and it stayed because not everything could be copied.
    pub removal_put_off: bool,
    /// In a dry run: files and links that would be copied.
    pub to_copy: Truncated<Vec<u8>>,
    /// All that is in place is on the disk itself, as was asked for.
    pub durable: bool,
}

impl Report {
    /// What there is to say of a further part.
    pub fn add(&mut self, next: Report) {
        self.files_done += next.files_done;
        self.files_skipped += next.files_skipped;
        self.skipped_bytes += next.skipped_bytes;
        self.compared_bytes += next.compared_bytes;
        self.resumed_bytes += next.resumed_bytes;
        self.delta_bytes += next.delta_bytes;
        self.failed.append(next.failed);
        self.failed_bytes += next.failed_bytes;
        self.receiver_drops += next.receiver_drops;
        self.removed.append(next.removed);
        self.removal_put_off |= next.removal_put_off;
        self.to_copy.append(next.to_copy);
        self.durable &= next.durable;
    }
}

/// What only the sending side knows of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SenderStatus {
    /// What holds it back now.
    pub limited_by: Limit,
    /// For how long each limit has held since data moves.
    pub limits: LimitSpans,
    /// Packets that this run had to deliver.
    pub packets_required: u64,
    /// Data datagrams sent.
    pub packets_sent: u64,
    /// Of those, carrying a packet sent before.
    pub packets_resent: u64,
    /// Share of datagrams lost on the path, 0 to 1: lately or over all.
    pub loss: f64,
    /// Round trips in ns: shortest, mean, latest smoothed.
    pub rtt_ns: [u64; 3],
    /// Lines of the copy's story since the last status.
    pub remarks: Vec<String>,
    /// Of the datagrams sent, those that went over TCP connections of their own.
    pub packets_by_stripe: u64,
    /// Of the datagrams sent, those that went over the control stream.
    pub packets_by_ssh: u64,
    /// TCP connections that carried data: the number used last.
    pub streams: u16,
    /// Changes of what carries the data.
    pub switches: Vec<Switch>,
}

impl SenderStatus {
    /// What carried most of the data.
    pub fn carrier(&self) -> Carrier {
        let by_streams = self.packets_by_stripe + self.packets_by_ssh;
        let by = [
            (self.packets_sent.saturating_sub(by_streams), Carrier::Object),
            (self.packets_by_stripe, Carrier::Stripe),
            (self.packets_by_ssh, Carrier::Ssh),
        ];
        // Of equals the first: nothing was sent.
        by.into_iter()
            .rev()
            .max_by_key(|(packets, _)| *packets)
            .map_or(Carrier::Object, |(_, carrier)| carrier)
    }
}

/// A message after the handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Message {
    /// The next piece of a compressed listing, of the first part of a copy or of a further one. Where no offer did, the first
    /// one's `total` says how many bytes there are.
    ListingPart {
        /// Where in the object the part's data begins.
        base: u64,
        /// Compressed bytes in all.
        total: u64,
        /// The next of them.
        bytes: Vec<u8>,
    },
    /// Receiver to sender: begin with the next part that was listed. Everything in `have` is not needed. The ranges count from
    /// the part's first byte.
    Start {
        /// Bytes that the receiver has or does not want.
        #[serde(deserialize_with = "read_ranges")]
        have: Ranges,
        /// Bytes, whole groups, that the receiver claims to have as well. The sender reads them and gives their
        /// hashes, as it does for what it sends, but sends nothing that touches them until they are settled.
        #[serde(deserialize_with = "read_ranges")]
        claimed: Ranges,
        /// What of that was there before.
        already: Already,
    },
    /// Sender to receiver: hashes of groups that have been read.
    Hashes(Vec<GroupHash>),
    /// Sender to receiver: this file cannot be read to its end; do not wait for it.
    SourceFailed {
        /// Which.
        entry: EntryIndex,
        /// Why.
        reason: Reason,
    },
    /// Receiver to sender: send these object bytes again; they failed verification. Raises the epoch.
    Resend {
        /// The epoch from now on.
        epoch: u16,
        /// Which bytes.
        #[serde(deserialize_with = "read_ranges")]
        ranges: Ranges,
    },
    /// Receiver to sender: an entry cannot be stored; its bytes are not needed any more.
    Unwanted {
        /// Object bytes.
        #[serde(deserialize_with = "read_ranges")]
        ranges: Ranges,
    },
    /// Receiver to sender: what came of claims, as the sender's hashes have shown.
    Settled {
        /// Object bytes that the receiver has as the sender read them.
        #[serde(deserialize_with = "read_ranges")]
        confirmed: Ranges,
        /// Object bytes that differ: send them.
        #[serde(deserialize_with = "read_ranges")]
        refused: Ranges,
    },
    /// Receiver to sender: all that could be done about the oldest part is done. With the last one the copy is.
    Finished(Report),
    /// Sender to receiver, twice a second: how it goes, for the other side's display.
    Status(SenderStatus),
    /// Sender to receiver: understood, going; how it went.
    Bye(SenderStatus),
    /// Either side gives up. What has arrived stays resumable.
    Abort(Reason),
    /// Still there.
    KeepAlive {
        /// Bytes of the other side's stream that were taken: they need not be kept for another connection.
        taken: u64,
    },
    /// Either side: is anybody there? At once answered by the one who moves the data, and therefore not the same as
    /// [`Message::KeepAlive`].
    Ask {
        /// When that was asked, on the asker's clock.
        at: Time,
    },
    /// Here.
    Here {
        /// The question's.
        at: Time,
    },
    /// Sender to a receiver that is the client: have so many TCP streams open to me.
    Streams {
        /// How many in all.
        wanted: u16,
    },
    /// The client to a sender that asked for TCP streams: there are none. Why, in a line.
    NoStreams(String),
    /// Datagrams, as records, where the control stream itself carries them.
    Bytes(Vec<u8>),
    /// The server to the client: a line that its user should know.
    Warning(String),
    /// The server to a client that sends: no faster than this from now on.
    RateCap(Rate),
    /// Either side's last message: what ends without it was cut.
    Over,
    /// The server to the client: for its next copy. From [`TICKETS_SINCE`] on.
    Ticket(Ticket),
    /// An end to the arranger, in what follows too: it is ready. All these are from [`third_party::SINCE`] on.
    Ready(Ready),
    /// The arranger to an end: does a TCP connection to one of these come about?
    Reach(Whereabouts),
    /// The answer: why not, if it does not.
    Reached(Option<String>),
    /// The arranger to an end: be the server.
    BeServer(ServerPart),
    /// The arranger to an end: be the client.
    BeClient(Box<ClientPart>),
    /// The end that is the client: how far it is.
    Progress(Box<Progress>),
    /// The same: a line of the copy's story.
    Remark(String),
    /// The same: it is done.
    Copied(Box<Outcome>),
    /// The client to the server: is there more than one path between us? From [`several::SINCE`] on, as what follows.
    WantPaths(WantPaths),
    /// The answer.
    Paths(Paths),
    /// Sender to receiver, where it sends over several: how each does, the first one first.
    PathStatus(Vec<PathStatus>),
    /// Receiver to sender, for its display: so many regular files are in place, with those that were there. From
    /// [`FILES_DONE_SINCE`] on.
    FilesDone(u64),
    /// The client to a server that sends, and an arranger to the end that is the client: how fast from now on, in place of what
    /// the offer said. From [`PACE_SINCE`] on.
    Pace(Pace),
}

/// How fast a copy's user lets it go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// No faster than this; `None`: as fast as the path takes it.
    pub rate: Option<Rate>,
    /// Not at all, until another word comes.
    pub paused: bool,
}

/// The first version with [`Message::Pace`].
pub const PACE_SINCE: u8 = 14;

/// The first version whose receivers tell how many files are in place.
pub const FILES_DONE_SINCE: u8 = 14;

/// The first version with tickets.
pub const TICKETS_SINCE: u8 = 12;

impl Message {
    /// How many bytes a message may have whose first one is this, its kind. As much as an honest side says at a time.
    pub fn len_max(kind: u8) -> usize {
        match kind {
            // Which of a million pieces are there, every other one if it comes to the worst.
            KIND_START | KIND_RESEND | KIND_UNWANTED | KIND_SETTLED => 16 << 20,
            // Three lists of as many paths as are told, with reasons.
            KIND_FINISHED | KIND_COPIED => 32 << 20,
            _ => 1 << 20,
        }
    }

    /// How much memory a message of this kind and length may take while it is read and used, if that is more than any session has
    /// at hand.
    pub fn memory_max(kind: u8, len: usize) -> u64 {
        let (at_hand, times) = match kind {
            KIND_START | KIND_RESEND | KIND_UNWANTED | KIND_SETTLED => (RANGES_AT_HAND, RANGES_TIMES),
            _ => (1 << 20, 2),
        };
        if len > at_hand { len as u64 * times } else { 0 }
    }
}

const KIND_START: u8 = 1;
const KIND_RESEND: u8 = 4;
const KIND_UNWANTED: u8 = 5;
const KIND_SETTLED: u8 = 6;
const KIND_FINISHED: u8 = 7;
const KIND_COPIED: u8 = 28;
/// Ten thousand ranges.
const RANGES_AT_HAND: usize = 64 << 10;
/// A range of six bytes takes some 32 in a set, and what is made of a set is another.
const RANGES_TIMES: u64 = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_that_may_be_long_are_those_meant() {
        let kind = |message: &Message| postcard::to_allocvec(message).unwrap()[0];
        let none = Ranges::new;
        let start = Message::Start { have: none(), claimed: none(), already: Already::default() };
        assert_eq!(kind(&start), KIND_START);
        assert_eq!(kind(&Message::Resend { epoch: 1, ranges: none() }), KIND_RESEND);
        assert_eq!(kind(&Message::Unwanted { ranges: none() }), KIND_UNWANTED);
        assert_eq!(kind(&Message::Settled { confirmed: none(), refused: none() }), KIND_SETTLED);
        assert_eq!(kind(&Message::Finished(Report::default())), KIND_FINISHED);
        assert_eq!(kind(&Message::Copied(Box::default())), KIND_COPIED);
        assert!(Message::len_max(kind(&Message::KeepAlive { taken: 0 })) < Message::len_max(KIND_FINISHED));
    }
}
