//! Move big data over long fat networks as fast as the path allows.
//!
//! [`copy`] moves files to or from another host, over the user's own ssh or to a daemon that [`serve`] runs there. The
//! data travels as one object over UDP (FOBS); `longhaul-proto` holds the protocols, this crate the sockets, files and
//! keys. [`stripe`] is a byte stream over several TCP connections, for other programs to use (PSockets).

pub mod api;
pub mod clock;
pub mod errno;
pub mod files;
pub mod history;
mod net;
pub mod stripe;
mod transfer;

pub use api::*;
pub use net::plain;
pub use transfer::client::copy;
pub use transfer::probe::{ProbeReport, probe};
pub use transfer::server::{agent, serve};
