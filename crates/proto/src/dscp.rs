//! Code points of differentiated services (RFC 2474): what routers that heed them do with a packet.

use crate::suggest::UnknownName;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// A code point, of six bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u8", into = "u8")]
pub struct Dscp(u8);

impl Dscp {
    /// Lower than best effort (RFC 8622).
    pub const LE: Dscp = Dscp(1);

    /// As it stands in the octet of the IP header, whose two low bits are ECN's.
    pub const fn service(self) -> u8 {
        self.0 << 2
    }

    fn named() -> impl Iterator<Item = (String, u8)> {
        let plain = [("df", 0), ("le", 1), ("va", 44), ("ef", 46)];
        let plain = plain.into_iter().map(|(name, value)| (name.to_owned(), value));
        // RFC 2474 §4.2.2, RFC 2597 §6.
        let selectors = (0..8).map(|class| (format!("cs{class}"), class << 3));
        let assured = (1..=4)
            .flat_map(|class| (1..=3).map(move |drop| (format!("af{class}{drop}"), class << 3 | drop << 1)));
        plain.chain(selectors).chain(assured)
    }
}

impl From<u8> for Dscp {
    /// Of six bits.
    fn from(value: u8) -> Dscp {
        Dscp(value & 0x3f)
    }
}

impl From<Dscp> for u8 {
    fn from(dscp: Dscp) -> u8 {
        dscp.0
    }
}

impl FromStr for Dscp {
    type Err = UnknownName;

    /// A number up to 63, or a name in IANA's registry.
    fn from_str(text: &str) -> Result<Dscp, UnknownName> {
        if let Some(value) = text.parse::<u8>().ok().filter(|value| *value < 64) {
            return Ok(Dscp(value));
        }
        let name = text.to_ascii_lowercase();
        let found = Dscp::named().find(|(known, _)| *known == name).map(|(_, value)| Dscp(value));
        found.ok_or_else(|| {
            let names: Vec<String> = Dscp::named().map(|(name, _)| name).collect();
            UnknownName::new("code point", text, names.iter().map(String::as_str))
        })
    }
}

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Dscp::named().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.write_str(&name),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_registry() {
        for (text, value) in [
            ("le", 1),
            ("EF", 46),
            ("df", 0),
            ("cs1", 8),
            ("cs7", 56),
            ("af11", 10),
            ("af23", 22),
            ("AF41", 34),
            ("va", 44),
            ("0", 0),
            ("63", 63),
        ] {
            assert_eq!(text.parse::<Dscp>().map(u8::from).ok(), Some(value), "{text}");
        }
        assert_eq!((Dscp::LE.service(), Dscp::from(46).service()), (0x04, 0xb8));
        for bad in ["", "64", "-1", "af51", "af14", "cs8", "0x2e", "best"] {
            bad.parse::<Dscp>().unwrap_err();
        }
    }

    #[test]
    fn what_is_shown_can_be_read_again() {
        for value in 0..64 {
            let dscp = Dscp::from(value);
            assert_eq!(dscp.to_string().parse::<Dscp>().ok(), Some(dscp), "{dscp}");
        }
        assert_eq!(Dscp::from(200), Dscp::from(8), "six bits");
    }
}
