//! The controllers there are, by name.

use super::window::{Cubic, NewReno, Windowed};
use super::{Adaptive, Controller, Fixed, Greedy, Switch};
use crate::object::{AckKind, DEFAULT_EVERY, SelectorKind};
use crate::path::PathRate;
use crate::suggest::unknown;
use crate::units::Rate;
use core::str::FromStr;
use core::time::Duration;

/// What a controller is told at its birth.
#[derive(Clone, Copy, Debug)]
pub struct ControlConfig {
    /// Whole bytes of a full datagram.
    pub datagram_len: u64,
    /// Round trip measured before the first datagram (handshake, path check).
    pub rtt: Duration,
    /// What a train of packets through the path said of its rate.
    pub path_rate: Option<PathRate>,
    /// The rate that the user named: `fixed` sends at it.
    pub rate: Option<Rate>,
    /// What an earlier transfer to the same destination found (PCP's history).
    pub remembered: Option<Rate>,
    /// Yield to all other traffic.
    pub background: bool,
    /// Windows are spread over the round trip; otherwise acknowledgements alone clock them out, as TCP's.
    pub paced: bool,
    /// How many flows `multcp` stands for.
    pub streams: u32,
    /// Seed of whatever the controller leaves to chance.
    pub seed: u64,
}

impl ControlConfig {
    /// Nothing known of the path but its round trip.
    pub fn new(datagram_len: u64, rtt: Duration) -> ControlConfig {
        ControlConfig {
            datagram_len,
            rtt,
            path_rate: None,
            rate: None,
            remembered: None,
            background: false,
            paced: true,
            streams: STREAMS_DEFAULT,
            seed: 1,
        }
    }
}

/// The controllers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ControllerKind {
    /// The default: finds the path's rate fast, keeps its queue short, does not take random loss for congestion.
    #[default]
    Adaptive,
    /// The paper's FOBS: no control at all.
    Greedy,
    /// The rate that the user names.
    Fixed,
    /// `adaptive`, and TCP windows in its place while others' traffic lasts (FOBS §7).
    Switch,
    /// One segment a round trip, half after a loss (RFC 5681).
    NewReno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Reliable Blast UDP: the rate that the user names, in rounds.
    Rbudp,
}

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
    /// Every kind, in the order of a help text.
    pub const ALL: &'static [ControllerKind] = &[
        ControllerKind::Adaptive,
        ControllerKind::Fixed,
        ControllerKind::Greedy,
        ControllerKind::Rbudp,
        ControllerKind::Switch,
        ControllerKind::NewReno,
        ControllerKind::Cubic,
    ];

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "adaptive",
            ControllerKind::Greedy => "greedy",
            ControllerKind::Fixed => "fixed",
            ControllerKind::Switch => "switch",
            ControllerKind::NewReno => "newreno",
            ControllerKind::Cubic => "cubic",
            ControllerKind::Rbudp => "rbudp",
        }
    }

    /// What it is, in a line of a help text.
    pub fn summary(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "fill the path, tell loss from congestion, leave room for others",
            ControllerKind::Greedy => "as fast as the host can (FOBS); only where the path is yours",
            ControllerKind::Fixed => "exactly --rate",
            ControllerKind::Rbudp => "exactly --rate, in rounds: blast all, ask what is missing, again",
            ControllerKind::Switch => "adaptive, and TCP while others' traffic lasts (FOBS, future work)",
            ControllerKind::NewReno => "TCP NewReno: a segment a round trip, half after a loss",
            ControllerKind::Cubic => "TCP CUBIC, as most of the Internet",
        }
    }

    /// Whether it makes no sense without a rate that the user names.
    pub fn needs_rate(self) -> bool {
        matches!(self, ControllerKind::Fixed | ControllerKind::Rbudp)
    }

    /// Its selector and acknowledgements where the user names none.
    pub fn companions(self) -> Companions {
        match self {
            // FOBS §3.1: "in circular order, unacknowledged".
            ControllerKind::Greedy => {
                Companions { selector: SelectorKind::CircularStrict, ..Companions::USUAL }
            }
            ControllerKind::Rbudp => Companions { selector: SelectorKind::Rounds, ack: AckKind::OnRequest },
            _ => Companions::USUAL,
        }
    }

    /// Make one.
    pub fn build(self, config: ControlConfig) -> Box<dyn Controller> {
        match self {
            ControllerKind::Adaptive => Box::new(Adaptive::new(config)),
            ControllerKind::Greedy => Box::new(Greedy),
            ControllerKind::Fixed | ControllerKind::Rbudp => {
                Box::new(Fixed::new(config.rate.unwrap_or(FIXED_DEFAULT)))
            }
            ControllerKind::Switch => Box::new(Switch::new(config)),
            ControllerKind::NewReno => Box::new(Windowed::new(config, NewReno)),
            ControllerKind::Cubic => Box::new(Windowed::new(config, Cubic::default())),
        }
    }
}

/// What `fixed` sends at when nobody named a rate.
const FIXED_DEFAULT: Rate = Rate(100_000_000);

/// How many flows `multcp` stands for unless told.
const STREAMS_DEFAULT: u32 = 4;

impl FromStr for ControllerKind {
    type Err = String;
    fn from_str(name: &str) -> Result<ControllerKind, String> {
        ControllerKind::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| unknown("controller", name, ControllerKind::ALL.iter().map(|kind| kind.name())))
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
    fn names_are_read_back() {
        for kind in ControllerKind::ALL.iter().copied() {
            assert_eq!(kind.name().parse(), Ok(kind));
            assert!(kind.summary().len() < 75, "{}: a line of help", kind.name());
        }
    }
}
