//! Protocols of longhaul, free of I/O.
//!
//! Nothing here touches a socket, a file, a clock, a thread or a global random generator: a *driver* passes in
//! datagrams and the time, and takes out datagrams, the next deadline and events. The same code therefore runs over
//! real sockets (`longhaul-net`) and on virtual time (`longhaul-sim`), with equal results for equal inputs.
//!
//! - [`endpoint`]: the contract between a protocol and its driver.
//! - [`object`]: the FOBS object transfer (Dickens & Gropp): sender, receiver, selectors, ack policies.
//! - [`tcp`]: a TCP of user level, to compare with and to fall back to.
//! - [`control`]: how fast to send.
//! - [`path`]: what a few datagrams tell of a path before the transfer: does UDP pass, how large, how fast.
//! - [`plpmtud`]: which size of datagrams passes, while data moves (RFC 8899).
//! - [`session`]: what the two programs say to each other around a transfer: offer, manifest, resume, verify, done.
//! - [`forward`]: what is said at the beginning of a striped stream that carries another program's TCP connection.
//! - [`streams`]: parallel TCP connections: what carries an object's datagrams where UDP does not get on, how many
//!   are best, and which of them stalls.
//! - [`stripe`]: a byte stream over several lanes (PSockets, Sivakumar, Bailey & Grossman).
#![forbid(unsafe_code)]

pub mod bitmap;
pub mod control;
pub mod dscp;
pub mod ecn;
pub mod endpoint;
pub mod forward;
pub mod object;
pub mod pacer;
pub mod path;
pub mod plpmtud;
pub mod ranges;
pub mod rtt;
pub mod scitag;
pub mod seen;
pub mod session;
pub mod streams;
pub mod stripe;
pub mod suggest;
pub mod tcp;
pub mod units;
pub mod wire;
