//! Protocols by the names that the command line uses.

use crate::flow::{ObjectFlow, Protocol};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Rate;
use std::fmt;
use std::str::FromStr;

/// A way to move bytes: a controller over the object transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contestant {
    control: ControllerKind,
}

impl Contestant {
    /// A controller over the object transfer.
    pub fn object(control: ControllerKind) -> Contestant {
        Contestant { control }
    }

    /// Everything that the program offers.
    pub fn all() -> Vec<Contestant> {
        ControllerKind::ALL.iter().copied().map(Contestant::object).collect()
    }

    /// The protocol, for a path that carries `payload` of object bytes a second: what must be told a rate is told
    /// nine tenths of that.
    pub fn protocol(self, payload: Rate) -> Protocol {
        Protocol::Object(ObjectFlow {
            rate: Some(payload.scale(TOLD_SHARE)),
            ..ObjectFlow::new(self.control)
        })
    }

    /// The default of the program.
    pub fn is_default(self) -> bool {
        self == Contestant::object(ControllerKind::default())
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.control.name())
    }
}

impl FromStr for Contestant {
    type Err = String;

    fn from_str(name: &str) -> Result<Contestant, String> {
        name.parse().map(Contestant::object)
    }
}

/// What a user who knows the path's rate would name.
const TOLD_SHARE: f64 = 0.9;
