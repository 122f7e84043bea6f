//! The FOBS object transfer (Dickens & Gropp, §3): numbered packets over one object, an acknowledgement window as
//! large as the object, and a sender that asks for nothing before it sends.
//!
//! Three plug points make the family of protocols: [`Selector`] (which packet next),
//! [`Controller`](crate::control::Controller) (how fast), [`AckPolicy`] (when to acknowledge).

mod ack;
mod asking;
mod companions;
mod flight;
mod receiver;
mod selector;
mod sender;
mod sending;

pub use ack::{AckKind, AckPolicy, DEFAULT_EVERY, MAX_DELAY, NEVER, STATUS_EVERY};
pub use companions::Companions;
pub use receiver::{Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats};
pub use selector::{Selector, SelectorKind, View};
pub use sender::{PathFigures, Sender};
pub use sending::{Blocked, SenderConfig, SenderEvent, SenderStats};

use crate::bitmap::Bitmap;
use crate::ranges::Ranges;
use crate::units::PacketNumber;
use std::ops::Range;

/// How an object is cut into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes in the object.
    pub object_len: u64,
    /// Bytes in every packet but the last.
    pub packet_len: u32,
}

impl Shape {
    /// Of an object that is going to grow: what its last packet lacks is filled up with bytes that nobody wants, so that what
    /// is added begins with a packet of its own.
    pub fn growing(object_len: u64, packet_len: u32) -> Shape {
        Shape { object_len: object_len.next_multiple_of(u64::from(packet_len)), packet_len }
    }

    /// How many packets there are.
    pub fn packets(&self) -> u64 {
        self.object_len.div_ceil(u64::from(self.packet_len))
    }

    /// The object bytes that a packet carries; empty for a packet that does not exist.
    pub fn range(&self, packet: PacketNumber) -> Range<u64> {
        let start = packet.saturating_mul(u64::from(self.packet_len)).min(self.object_len);
        start..start.saturating_add(u64::from(self.packet_len)).min(self.object_len)
    }

    /// The object bytes that a run of packets carries.
    pub fn bytes(&self, packets: Range<PacketNumber>) -> Range<u64> {
        if packets.is_empty() {
            return 0..0;
        }
        self.range(packets.start).start..self.range(packets.end - 1).end
    }

    /// The packets that lie wholly within a range of object bytes.
    pub fn packets_within(&self, bytes: &Range<u64>) -> Range<PacketNumber> {
        let len = u64::from(self.packet_len);
        let first = bytes.start.div_ceil(len);
        let end = if bytes.end >= self.object_len { self.packets() } else { bytes.end / len };
        first..end.max(first)
    }

    /// The packets that touch a range of object bytes.
    pub fn packets_touching(&self, bytes: &Range<u64>) -> Range<PacketNumber> {
        if bytes.is_empty() {
            return 0..0;
        }
        let len = u64::from(self.packet_len);
        bytes.start / len..bytes.end.div_ceil(len).min(self.packets())
    }

    /// A set of packets as it is after a cut into packets of another length: those that lie wholly within what was in the set or
    /// in `more`.
    fn recut(&self, packets: &Bitmap, before: &Shape, more: &Ranges) -> Bitmap {
        let mut bytes = more.clone();
        bytes.extend(packets.runs().map(|run| before.bytes(run)));
        let mut recut = Bitmap::new(self.packets());
        bytes.iter().for_each(|range| recut.insert_range(self.packets_within(range)));
        recut
    }
}
