//! Which versions of the protocol a program speaks, and which one two programs speak with each other.

use std::fmt;

/// A range of protocol versions, ends included. Both sides tell theirs in the handshake, which binds them: whoever changes
/// one on the way makes the handshake fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    lowest: u8,
    highest: u8,
}

impl Versions {
    /// Those of this program. What older ones send is still understood down to the lowest.
    pub const OURS: Versions = Versions { lowest: 11, highest: 14 };

    /// A range. A lowest version above the highest, as only a broken program tells it, is taken for the highest.
    pub fn new(lowest: u8, highest: u8) -> Versions {
        Versions { lowest: lowest.min(highest), highest }
    }

    /// The range of a program whose highest version is this; `lowest` gives what it told beside it. Programs from before
    /// [`FIRST_RANGE`] told no more than one version, and spoke no other.
    pub fn told(highest: u8, lowest: Option<u8>) -> Versions {
        match lowest {
            Some(lowest) if highest >= FIRST_RANGE => Versions::new(lowest, highest),
            _ => Versions::new(highest, highest),
        }
    }

    /// The lowest version in it.
    pub const fn lowest(self) -> u8 {
        self.lowest
    }

    /// The highest version in it.
    pub const fn highest(self) -> u8 {
        self.highest
    }

    /// The highest version in both. Both sides come to the same.
    pub fn common(self, other: Versions) -> Option<u8> {
        let highest = self.highest.min(other.highest);
        (highest >= self.lowest.max(other.lowest)).then_some(highest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.lowest == self.highest {
            true => write!(f, "version {}", self.highest),
            false => write!(f, "versions {} to {}", self.lowest, self.highest),
        }
    }
}

/// The first version whose programs tell a range.
pub const FIRST_RANGE: u8 = 11;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_in_both_ranges_is_spoken() {
        let common = |a: (u8, u8), b: (u8, u8)| {
            let (a, b) = (Versions::new(a.0, a.1), Versions::new(b.0, b.1));
            assert_eq!(a.common(b), b.common(a));
            a.common(b)
        };
        assert_eq!(common((11, 11), (11, 11)), Some(11));
        assert_eq!(common((11, 12), (12, 13)), Some(12));
        assert_eq!(common((11, 14), (12, 13)), Some(13));
        assert_eq!(common((11, 12), (13, 14)), None);
        assert_eq!(common((10, 10), (11, 12)), None);
    }

    #[test]
    fn programs_from_before_ranges_speak_one_version() {
        assert_eq!(Versions::told(10, Some(3)), Versions::new(10, 10));
        assert_eq!(Versions::told(10, None), Versions::new(10, 10));
        assert_eq!(Versions::told(13, Some(11)), Versions::new(11, 13));
        assert_eq!(Versions::told(13, Some(15)), Versions::new(13, 13));
        assert_eq!(Versions::new(11, 13).to_string(), "versions 11 to 13");
        assert_eq!(Versions::OURS.common(Versions::told(10, None)), None);
    }
}
