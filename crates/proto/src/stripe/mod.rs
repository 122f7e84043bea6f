//! An ordered, reliable byte stream over several ordered, reliable *lanes* (PSockets).
//!
//! Sivakumar, Bailey and Grossman's PSockets opens n TCP connections instead of one, cuts what is to be sent into n
//! equal partitions and sends them at the same time. The parts here do that without touching a socket:
//!
//! - [`frame`]: what travels on a lane, and [`lane`]: taking it apart as the bytes come.
//! - [`outgoing`]: what was written and is not acknowledged yet, and which lane takes which of it.
//! - [`notices`]: what the other side must be told once.
//! - [`reassembly`]: putting the stream together again within bounded memory.
//! - [`hello`]: how a stream is opened and how further lanes join it.
//!
//! How many lanes there should be, and which of them stalls, is found out as for other TCP connections: see
//! [`streams`](crate::streams).
//!
//! A driver moves the bytes of each lane, in order, and says when a lane has died: what it carried and nobody
//! acknowledged goes out again on the others.

pub mod frame;
pub mod hello;
pub mod lane;
pub mod notices;
pub mod outgoing;
pub mod reassembly;

#[cfg(test)]
mod tests;

/// Name of a lane, given by each side as it likes: never sent.
pub type LaneId = u32;

/// What a peer must not do. The lane on which it came is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Bytes that are no frame.
    #[error("sent what is no frame of this protocol")]
    Malformed,
    /// A frame that is longer than any may be.
    #[error("announced a frame of {0} bytes, more than any may have")]
    TooLong(u32),
    /// A frame that was changed on its way, or comes from somebody else.
    #[error("sent a frame that is not authentic")]
    Forged,
    /// Data beyond what it was allowed to send.
    #[error("sent data up to byte {end} of the stream, but only {limit} bytes were asked for")]
    BeyondLimit {
        /// Where its data ends.
        end: u64,
        /// Up to where it may send.
        limit: u64,
    },
    /// Data beyond the end that it had announced, or two different ends.
    #[error("sent data beyond the end of the stream that it announced")]
    BeyondEnd,
    /// Too many pieces with gaps between them.
    #[error("sent data in more scattered pieces than any sender would")]
    Scattered,
    /// An acknowledgement of what was never sent.
    #[error("acknowledged data that was never sent")]
    NeverSent,
}
