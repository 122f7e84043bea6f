//! What goes with each controller: the rest of the protocol that it comes from.

use super::{AckKind, DEFAULT_EVERY, SelectorKind};
use crate::control::{ControllerKind, SYN};

/// What goes with a controller where the user names nothing else: the protocol that it comes from, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Companions {
    /// Which packet next.
    pub selector: SelectorKind,
    /// When to acknowledge.
    pub ack: AckKind,
}

impl Companions {
    /// What suits most.
    pub const USUAL: Companions =
        Companions { selector: SelectorKind::Circular, ack: AckKind::Every(DEFAULT_EVERY) };

    /// With what the user names in their place. Both sides must come to the same.
    pub fn with(self, select: Option<SelectorKind>, ack_every: Option<u32>) -> Companions {
        let selector = select.unwrap_or(self.selector);
        let ack = match (ack_every, self.ack) {
            (Some(packets), _) => AckKind::Every(packets),
            // Only a sender that works in rounds asks.
            (None, AckKind::OnRequest) if selector != SelectorKind::Rounds => Companions::USUAL.ack,
            (None, ack) => ack,
        };
        Companions { selector, ack }
    }
}

impl ControllerKind {
    /// Its selector and acknowledgements where the user names none.
    pub fn companions(self) -> Companions {
        match self {
            // FOBS §3.1: "in circular order, unacknowledged".
            ControllerKind::Greedy => {
                Companions { selector: SelectorKind::CircularStrict, ..Companions::USUAL }
            }
            ControllerKind::Rbudp => Companions { selector: SelectorKind::Rounds, ack: AckKind::OnRequest },
            ControllerKind::Sabul | ControllerKind::Udt => {
                Companions { ack: AckKind::Timed(SYN), ..Companions::USUAL }
            }
            // A burst that an acknowledgement of many sets free is a queue, and marked as one.
            ControllerKind::Prague => Companions { ack: AckKind::Every(PRAGUE_EVERY), ..Companions::USUAL },
            _ => Companions::USUAL,
        }
    }
}

/// New packets per acknowledgement with `prague`: with 32 it has 81 % of 50 Mb/s, with four all of it.
const PRAGUE_EVERY: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_user_names_takes_the_place_of_what_goes_with_a_controller() {
        let rbudp = ControllerKind::Rbudp.companions();
        assert_eq!(rbudp.with(None, None), rbudp);
        assert_eq!(rbudp.with(None, Some(8)).ack, AckKind::Every(8));
        let circular = rbudp.with(Some(SelectorKind::Circular), None);
        assert_eq!(circular, Companions::USUAL, "a sender that never asks would hear nothing");
        assert_eq!(Companions::USUAL.with(Some(SelectorKind::Rounds), None).ack, Companions::USUAL.ack);
    }
}
