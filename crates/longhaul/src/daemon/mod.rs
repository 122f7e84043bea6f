//! What makes a server one that can stand open to the world: who may come in, to which folders, how fast, and what is
//! noted of it. [`crate::serve`] asks here; nothing in here knows of sockets or of a copy's protocol.
//!
//! - [`policy`]: users, their folders and limits, as they are written down.
//! - [`admission`]: the same, ready to be asked, and to be replaced while copies run.
//! - `places`: how many copies run at a time.
//! - [`token`]: what a user is given.
//! - `throttle`: shares rates out among the copies under way; they may count at certain hours ([`crate::schedule`]).
//! - [`records`]: what is told of connections, sessions and files. `tally` knows the hashes of files.
//! - `supervision`: what of all this goes along with one session.

use crate::api::Collector;
use crate::error::PolicyError;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

pub mod admission;
pub mod mounts;
pub(crate) mod places;
pub mod policy;
pub mod records;
pub(crate) mod supervision;
mod tally;
pub(crate) mod throttle;
pub(crate) mod tickets;
pub mod token;

/// How to serve.
#[derive(Clone)]
pub struct ServeOptions {
    /// Address to listen at.
    pub listen: SocketAddr,
    /// Who may come in.
    pub admission: admission::Admission,
    /// Where it is told what happens.
    pub records: Arc<dyn records::Records>,
    /// The memory that all copies together may take, in bytes, beyond some 5 MB that each has in any case: for lists of files
    /// and for data on its way from and to the disk. At most half of the host's.
    pub memory_bytes: u64,
    /// Whether the server connects to hosts that its users name, for copies between it and those. Who may copy can then find out
    /// which hosts and ports the server reaches.
    pub third_party: bool,
    /// Whether owners, devices, set-user-ID bits and attributes of the system are kept for those who ask for it. Who may write can
    /// then make programs that run as anybody.
    pub may_set_all: bool,
    /// The addresses at which clients that look for further paths reach it; none: all of this host's, or the one that it listens at.
    pub announce: Vec<IpAddr>,
    /// Is told of the flows that carry data, if they have a tag.
    pub fireflies: Option<Collector>,
}

impl ServeOptions {
    /// Serve by this policy, and keep no records.
    pub fn new(listen: SocketAddr, policy: policy::Policy) -> Result<ServeOptions, PolicyError> {
        let admission = admission::Admission::new(policy)?;
        Ok(ServeOptions {
            listen,
            admission,
            records: Arc::new(()),
            memory_bytes: MEMORY_BYTES,
            third_party: false,
            may_set_all: false,
            announce: vec![],
            fireflies: None,
        })
    }
}

/// What a daemon's copies take together unless it is said: three at a time with as much data on its way as makes them faster, and
/// eight of very many files.
pub const MEMORY_BYTES: u64 = 128 << 20;
