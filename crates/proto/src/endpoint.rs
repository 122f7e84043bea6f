//! The contract between a protocol and its driver.

use crate::ecn::Ecn;
use crate::units::{DatagramNumber, Time};
use crate::wire::SEAL_OVERHEAD;

/// How a datagram came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it reached this host (the kernel's receive timestamp where there is one), on this host's clock.
    pub time: Time,
    /// Its number, read from the authenticated header. The driver has refused replays.
    pub number: DatagramNumber,
    /// What its IP header said of queues on the way; `None` where nobody can tell: it came over a TCP connection.
    pub ecn: Option<Ecn>,
}

impl Arrival {
    /// At `time`, with that number, and nothing known of its IP header.
    pub fn new(time: Time, number: DatagramNumber) -> Arrival {
        Arrival { time, number, ecn: None }
    }
}

/// A datagram to send: `len` bytes of the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Its number; becomes the nonce, so it is never given out twice.
    pub number: DatagramNumber,
    /// Bytes of body written to the buffer.
    pub len: usize,
}

/// One side of a protocol.
///
/// Call order, always: one `handle_*`, then drain `poll_transmit` until `None`, then read `poll_timeout`, then drain
/// `poll_event`. A *body* is what is inside the AEAD seal; drivers that encrypt add the header and the tag around it.
pub trait Endpoint {
    /// What it tells its owner.
    type Event;

    /// A datagram's body came in. Hostile input is counted, never an error and never a panic.
    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]);

    /// The moment that `poll_timeout` named has come (being early or late does no harm).
    fn handle_timeout(&mut self, now: Time);

    /// Write the next datagram's body to `buf`, if one may go now. `buf` must hold the largest body negotiated.
    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit>;

    /// When to call `handle_timeout` (and then `poll_transmit`) at the latest.
    fn poll_timeout(&self) -> Option<Time>;

    /// The next event.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// Bytes that go around each body on the wire, IP and UDP headers not counted: header and tag of the AEAD seal,
    /// unless the protocol goes in clear.
    fn framing(&self) -> usize {
        SEAL_OVERHEAD
    }

    /// What the IP header of its next datagrams is to say. It changes in `handle_*` only.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }
}

/// Endpoints of different protocols that tell the same things can share a driver.
impl<E: Endpoint + ?Sized> Endpoint for Box<E> {
    type Event = E::Event;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        (**self).handle_datagram(now, arrival, body);
    }

    fn handle_timeout(&mut self, now: Time) {
        (**self).handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        (**self).poll_transmit(now, buf)
    }

    fn poll_timeout(&self) -> Option<Time> {
        (**self).poll_timeout()
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        (**self).poll_event()
    }

    fn framing(&self) -> usize {
        (**self).framing()
    }

    fn ecn(&self) -> Ecn {
        (**self).ecn()
    }
}

/// Where a sender takes the object's bytes from.
pub trait Source {
    /// Fill `buf` with the object's bytes from `offset` on; `Err(NotReady)` if they are still on their way from the
    /// disk (the driver is woken when they are there).
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady>;
}

/// The bytes asked for are not in memory yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotReady;

/// Where a receiver puts the object's bytes.
pub trait Sink {
    /// Take `data` for `offset`; `Err(Full)` if there is no room now: the packet is then not acknowledged and comes
    /// again.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full>;
}

/// No room to take data now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// An object in memory.
impl Source for Vec<u8> {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let start = offset as usize;
        buf.copy_from_slice(&self[start..start + buf.len()]);
        Ok(())
    }
}

/// An object in memory.
impl Sink for Vec<u8> {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        let start = offset as usize;
        self[start..start + data.len()].copy_from_slice(data);
        Ok(())
    }
}
