//! Move big data over long fat networks as fast as the path allows.
//!
//! [`copy`] moves files to or from another host, over the user's own ssh or to a daemon that [`serve`] runs there.
//! The data travels as one object over UDP (FOBS); `longhaul-proto` holds the protocols, `longhaul-net` the sockets
//! and keys, this crate the files and the sessions. `longhaul-stripe` is a byte stream over several TCP
//! connections, for other programs to use (PSockets). [`forward`] takes other programs' TCP connections to another host by it.
//!
//! ```no_run
//! use longhaul::{Cause, CopyOptions, Location};
//!
//! let from = Location::parse(&"run7/".into())?;
//! let to = Location::parse(&"me@far.example.org:archive/run7".into())?;
//! // `()` ignores what happens; the flag would stop the copy.
//! match longhaul::copy(&[from], &to, &CopyOptions::default(), &mut (), Default::default()) {
//!     Ok(summary) if summary.ok => println!("{} files at {:.0} Mb/s", summary.files, summary.goodput_mbps),
//!     Ok(summary) => summary.failures.iter().for_each(|failure| println!("{failure}")),
//!     Err(error) if error.cause() == Cause::NoSpace => println!("make room: {error}"),
//!     Err(error) => println!("{error}"),
//! }
//! # Ok::<(), longhaul::LocationError>(())
//! ```

mod api;
mod authority;
pub mod daemon;
mod error;
// What measures the disk side alone uses it, and the fuzzer.
#[doc(hidden)]
pub mod files;
mod fireflies;
#[doc(hidden)]
pub mod listing;
mod live;
pub mod planned;
pub mod schedule;
pub mod trace;
mod transfer;

pub use api::*;
pub use daemon::ServeOptions;
pub use error::{DamagedToken, Error, LocationError, PlanError, PolicyError, RequestError, SshError};
pub use files::{FileError, PatternError, PatternProblem};
pub use listing::ListingError;
pub use live::{CannotChangeRate, CannotPause, LiveControl};
pub use longhaul_net::control::HandshakeError;
pub use longhaul_net::noise::Identity;
pub use longhaul_net::user::{host_name, state_folder};
pub use longhaul_proto::forward::{NoTarget, Target};
pub use transfer::client::copy;
pub use transfer::forward::{
    Answer, Ask, Connects, Far, ForwardAgentOptions, Forwarded, Forwarder, Opened, forward, forward_agent,
    standard_streams,
};
pub use transfer::probe::{ProbeReport, probe};
pub use transfer::server::{AgentOptions, agent, serve};

use longhaul_net as net;
use longhaul_net::{clock, history};
