//! What goes with each controller: a line of help, and the rest of the protocol that it comes from.

use super::{ControllerKind, SYN};
use crate::object::{AckKind, DEFAULT_EVERY, SelectorKind};

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
    /// What it is, in a line of a help text.
    pub fn summary(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "Fill the path, tell loss from congestion, leave room for others",
            ControllerKind::Fixed => "Exactly --rate",
            ControllerKind::Greedy => "As fast as the host can (FOBS); only where the path is yours",
            ControllerKind::Rbudp => "Exactly --rate, in rounds: blast all, ask what is missing, again",
            ControllerKind::Sabul => "By the clock: slower with loss, else faster (SABUL)",
            ControllerKind::Udt => "By the clock, towards what packet pairs say of the link (UDT4)",
            ControllerKind::Bbr => "At the largest delivery rate seen lately (BBRv1)",
            ControllerKind::Pcp => {
                "By probing: faster only after a train of data showed that it passes (PCP)"
            }
            ControllerKind::Switch => {
                "Adaptive, and TCP windows while others' traffic lasts (FOBS, future work)"
            }
            ControllerKind::NewReno => "TCP NewReno: a segment a round trip, half after a loss",
            ControllerKind::Scalable => "Scalable TCP: grows by a share of the window",
            ControllerKind::HighSpeed => "HighSpeed TCP: the larger the window the bolder (RFC 3649)",
            ControllerKind::HTcp => "H-TCP: the longer without loss the bolder",
            ControllerKind::Cubic => "TCP CUBIC, as most of the Internet",
            ControllerKind::Bic => "BIC TCP, CUBIC's forerunner",
            ControllerKind::MulTcp => "One flow with the share of four TCP ones",
            ControllerKind::Ledbat => "Yields to all that fills the queue (RFC 6817)",
        }
    }

    /// Whether it makes no sense without a rate that the user names.
    pub fn needs_rate(self) -> bool {
        matches!(self, ControllerKind::Fixed | ControllerKind::Rbudp)
    }

    /// Whether it can yield to all other traffic.
    pub fn yields(self) -> bool {
        matches!(self, ControllerKind::Adaptive | ControllerKind::Ledbat)
    }

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
            _ => Companions::USUAL,
        }
    }
}

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

    #[test]
    fn names_are_read_back_and_summaries_fit_a_line() {
        for kind in ControllerKind::ALL.iter().copied() {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(kind.summary().len() < 75, "{}", kind.name());
        }
    }
}
