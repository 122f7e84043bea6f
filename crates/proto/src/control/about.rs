//! What there is to say of each controller.

use super::ControllerKind;
use crate::ecn::Ecn;

impl ControllerKind {
    /// What it is, in a line of a help text.
    pub fn summary(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "Fill the path, tell loss from congestion, leave room for others",
            ControllerKind::Fixed => "Exactly the rate given",
            ControllerKind::Greedy => "As fast as the host can (FOBS); only where the path is yours",
            ControllerKind::Rbudp => "The rate given, in rounds: blast all, ask what is missing, again",
            ControllerKind::Sabul => "By the clock: slower with loss, else faster (SABUL)",
            ControllerKind::Udt => "By the clock, towards what packet pairs say of the link (UDT4)",
            ControllerKind::Bbr => "At the largest delivery rate seen lately (BBRv1)",
            ControllerKind::Pcp => {
                "By probing: faster only after a train of data showed that it passes (PCP)"
            }
            ControllerKind::Switch => "Adaptive, and TCP while others' traffic lasts (FOBS, future work)",
            ControllerKind::NewReno => "TCP NewReno: a segment a round trip, half after a loss",
            ControllerKind::Scalable => "Scalable TCP: grows by a share of the window",
            ControllerKind::HighSpeed => "HighSpeed TCP: the larger the window the bolder (RFC 3649)",
            ControllerKind::HTcp => "H-TCP: the longer without loss the bolder",
            ControllerKind::Cubic => "TCP CUBIC, as most of the Internet",
            ControllerKind::Bic => "BIC TCP, CUBIC's forerunner",
            ControllerKind::MulTcp => "One flow with the share of four TCP ones",
            ControllerKind::Ledbat => "Yields to all that fills the queue (RFC 6817)",
            ControllerKind::Prague => "L4S: a queue of a millisecond where it marks (RFC 9331), else CUBIC",
        }
    }

    /// What its datagrams say of queues on the way, if the path shows that marks survive: only who answers marks may ask for
    /// them.
    pub fn ecn(self) -> Ecn {
        match self {
            ControllerKind::Fixed
            | ControllerKind::Greedy
            | ControllerKind::Switch
            | ControllerKind::Rbudp
            | ControllerKind::Sabul
            | ControllerKind::Udt
            | ControllerKind::Pcp
            | ControllerKind::Bbr => Ecn::NotEct,
            ControllerKind::Prague => Ecn::Ect1,
            ControllerKind::Adaptive
            | ControllerKind::NewReno
            | ControllerKind::Scalable
            | ControllerKind::HighSpeed
            | ControllerKind::HTcp
            | ControllerKind::Cubic
            | ControllerKind::Bic
            | ControllerKind::MulTcp
            | ControllerKind::Ledbat => Ecn::Ect0,
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

    /// The names of those that can yield, as an error gives them: "a or b".
    pub fn yielding() -> String {
        let names: Vec<&str> =
            Self::ALL.iter().filter(|kind| kind.yields()).map(|kind| kind.name()).collect();
        names.join(" or ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_summaries_fit_a_line() {
        for kind in ControllerKind::ALL.iter().copied() {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(kind.summary().len() < 75, "{}", kind.name());
        }
    }
}
