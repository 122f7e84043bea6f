//! Protocols by the names that the command line uses.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Rate;
use longhaul_sim::flow::{Protocol, TcpFlow, UnknownProtocol};
use std::fmt;
use std::str::FromStr;

/// A way to move bytes: a controller's name for the object transfer under it, `tcp:` and a name for a TCP.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    protocol: Protocol,
}

impl Contestant {
    /// Everything that the program offers, and the TCPs that matter on the Internet.
    pub fn all() -> Vec<Contestant> {
        let objects = ControllerKind::ALL.iter().map(|kind| kind.name().to_owned());
        let tcps = TCPS.iter().map(|kind| Protocol::Tcp(TcpFlow::new(*kind)).to_string());
        objects.chain(tcps).map(|name| name.parse().expect("a protocol is parsed from its name")).collect()
    }

    /// The protocol, for a path that carries `payload` of object bytes a second: what must be told a rate is told
    /// nine tenths of that.
    pub fn protocol(&self, payload: Rate) -> Protocol {
        let mut protocol = self.protocol.clone();
        match &mut protocol {
            Protocol::Object(flow) => flow.rate = Some(payload.scale(TOLD_SHARE)),
            Protocol::Tcp(flow) => flow.rate = Some(payload.scale(TOLD_SHARE)),
        }
        protocol
    }

    /// The default of the program.
    pub fn is_default(&self) -> bool {
        *self == Contestant::default()
    }
}

/// What `longhaul cp` does.
impl Default for Contestant {
    fn default() -> Contestant {
        let name = ControllerKind::default().name();
        name.parse().expect("a protocol is parsed from its name")
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.protocol.fmt(f)
    }
}

impl FromStr for Contestant {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Contestant, UnknownProtocol> {
        name.parse().map(|protocol| Contestant { protocol })
    }
}

/// TCPs that take part beside the object transfers.
const TCPS: [ControllerKind; 3] = [ControllerKind::NewReno, ControllerKind::Cubic, ControllerKind::Bbr];
/// What a user who knows the path's rate would name.
const TOLD_SHARE: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_near_matches_named() {
        for contestant in Contestant::all() {
            assert_eq!(contestant.to_string().parse(), Ok(contestant));
        }
        assert!(Contestant::default().is_default());
        let error = "tcp:cubci".parse::<Contestant>().unwrap_err().to_string();
        assert!(error.contains("did you mean tcp:cubic?"), "{error}");
    }
}
