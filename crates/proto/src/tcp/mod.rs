//! A TCP of user level: one stream of bytes from one side to the other, in clear, in datagrams as long as TCP's
//! segments. It is what the papers compare with, under any [`Controller`](crate::control::Controller) as its
//! congestion control.
//!
//! | what | by |
//! |---|---|
//! | set-up in three steps, window scaling, timestamps | RFC 9293 §3.5, RFC 7323 |
//! | loss found and repaired by selective acknowledgements | RFC 2018, RFC 2883, RFC 6675, RFC 9937 |
//! | or without them | RFC 5681, RFC 6582, RFC 3042 |
//! | retransmission timer | RFC 6298 |
//! | marks of queues counted and told | RFC 3168, RFC 9768 |
//! | acknowledgements delayed, windows closed and probed | RFC 1122 §4.2.3, RFC 9293 §3.8.6 |
//!
//! Not there: data in the other direction, urgent data, path MTU discovery, loss found by time (RFC 8985), undoing a
//! reduction that turns out wrong, and a word of the receiver's own end: whoever drives a receiver keeps it for a
//! while after [`ReceiverEvent::Complete`], so that a lost last acknowledgement can be said again. A controller's
//! probe trains are not sent: no acknowledgement tells the arrival of each segment.

mod congestion;
mod prr;
mod reassembly;
mod receiver;
mod rto;
mod scoreboard;
mod segment;
mod sender;

pub use receiver::{Receiver, ReceiverEvent, ReceiverStats};
pub use sender::{Sender, SenderEvent, SenderStats};

use crate::ecn::Ecn;
use crate::units::Time;
use core::time::Duration;
use segment::{HEADER_LEN, SCALE_MAX};

/// What a side can do, and how it goes about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Stream bytes in a full segment; the less of both sides' counts.
    pub mss: u16,
    /// Selective acknowledgements, if both sides can.
    pub sack: bool,
    /// Windows above 65 535 bytes, if both sides can.
    pub window_scaling: bool,
    /// Receiver: bytes that it keeps until the sink takes them or what is missing before them has come; the window that
    /// it advertises. At least two segments, at most 1 GiB.
    pub receive_buffer: u64,
    /// Receiver: how long a segment in order waits for a second one before it is acknowledged.
    pub delayed_ack: Duration,
    /// Sender: the least that the retransmission timer adds to the round trip.
    pub rto_min: Duration,
    /// Sender: the whole retransmission timer is no shorter than this.
    pub rto_floor: Duration,
    /// Sender: what the retransmission timer is before the first measured round trip.
    pub rto_initial: Duration,
    /// Sender: what the IP headers of its data say; queues mark it instead of dropping it unless that is
    /// [`Ecn::NotEct`].
    pub ecn: Ecn,
    /// Sender: tells this connection from an earlier one between the same addresses.
    pub connection: u32,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            mss: MSS_ETHERNET,
            sack: true,
            window_scaling: true,
            receive_buffer: RECEIVE_BUFFER,
            delayed_ack: DELAYED_ACK,
            rto_min: RTO_MIN,
            rto_floor: Duration::ZERO,
            rto_initial: RTO_INITIAL,
            ecn: Ecn::NotEct,
            connection: 0,
        }
    }
}

impl Config {
    /// With the retransmission timer of RFC 2988, in force from 2000 to 2011: 3 s at first (2.1), never less than a
    /// second (2.4).
    pub fn rfc_2988(self) -> Config {
        Config { rto_floor: Duration::from_secs(1), rto_initial: Duration::from_secs(3), ..self }
    }

    /// Whole bytes of a full segment as a datagram, in which a controller counts.
    pub fn datagram_len(&self) -> u64 {
        u64::from(self.mss) + HEADER_LEN as u64
    }

    /// The receive buffer within its bounds.
    fn buffer(&self) -> u64 {
        self.receive_buffer.clamp(2 * u64::from(self.mss), WINDOW_MAX << SCALE_MAX)
    }

    /// By how much windows are shifted so that the whole buffer can be advertised.
    fn scale(&self) -> Option<u8> {
        let fits = |scale: &u8| self.buffer() >> scale <= WINDOW_MAX;
        self.window_scaling.then(|| (0..SCALE_MAX).find(fits).unwrap_or(SCALE_MAX))
    }
}

/// A clock as segments tell it.
fn stamp_us(now: Time) -> u32 {
    (now.0 / 1000) as u32
}

/// What an Ethernet frame holds: 1500 − 52.
const MSS_ETHERNET: u16 = 1448;
/// Above the bandwidth-delay product of 1 Gb/s and half a second, or 10 Gb/s and 50 ms.
const RECEIVE_BUFFER: u64 = 64 << 20;
/// What common systems wait (RFC 1122 §4.2.3.2 allows 500 ms).
const DELAYED_ACK: Duration = Duration::from_millis(200);
/// As Linux; RFC 6298 (2.4) recommends a second.
const RTO_MIN: Duration = Duration::from_millis(200);
/// RFC 6298 (2.1).
const RTO_INITIAL: Duration = Duration::from_secs(1);
/// What 16 bits hold.
const WINDOW_MAX: u64 = 65_535;
