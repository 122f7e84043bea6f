//! Parallel TCP connections that carry one thing: the datagrams of an object, or a striped stream.
//!
//! - [`join`]: how one joins what is open. [`records`]: how a copy's datagrams travel on it.
//! - [`search`]: how many of them there should be, found by experiment.
//! - [`watch`]: telling one that stalls from one that is slow.

pub mod join;
pub mod records;
pub mod search;
pub mod watch;

/// TCP connections that one copy or striped stream may have.
pub const STREAMS_MAX: u32 = 64;

/// How many connections there are to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Streams {
    /// As many as turn out to be best while data flows.
    #[default]
    Auto,
    /// So many.
    Fixed(u32),
}
