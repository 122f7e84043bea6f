//! What may carry an object's data, and what did.

use core::fmt;
use serde::{Deserialize, Serialize};

/// What may carry the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Whatever works best: packets over UDP unless that does not pass or is much slower than TCP.
    #[default]
    Auto,
    /// Object packets over UDP.
    Object,
    /// The packets as records on parallel TCP connections.
    Stripe,
    /// The packets as records on the ssh connection itself.
    Ssh,
}

impl Transport {
    /// Whether datagrams may carry the data.
    pub fn allows_udp(self) -> bool {
        matches!(self, Transport::Auto | Transport::Object)
    }
}

/// What carries the data at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carrier {
    /// UDP.
    #[default]
    Object,
    /// TCP connections of its own.
    Stripe,
    /// The control stream, where no connection of its own came about.
    Ssh,
}

impl Carrier {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Carrier::Object => "object",
            Carrier::Stripe => "stripe",
            Carrier::Ssh => "ssh",
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// In words.
impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.to {
            Carrier::Object => "over UDP",
            Carrier::Stripe => "over TCP",
            Carrier::Ssh => "inside ssh",
        };
        write!(f, "{}; the data goes on {by}", self.why)
    }
}

/// A change of what carries the data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Switch {
    /// Seconds after the data began to move.
    pub seconds: f64,
    /// What carries it from then on.
    pub to: Carrier,
    /// Why, in a line.
    pub why: String,
    /// It begins a trial, or ends one that brought nothing; or it is meant for as long as others' traffic lasts.
    pub trial: bool,
}
