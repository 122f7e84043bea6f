//! The controllers there are, by name.

use super::window::{Cubic, NewReno, Windowed};
use super::{Adaptive, Bbr, Controller, Fixed, Greedy, Pcp, Remembered, Sabul, Udt};
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
    pub remembered: Option<Remembered>,
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
    /// Reliable Blast UDP: the rate that the user names, in rounds.
    Rbudp,
    /// SABUL: by the clock, every loss is congestion.
    Sabul,
    /// UDT, version 4: by the clock, towards what packet pairs say of the link.
    Udt,
    /// BBR, version 1: paces at the largest delivery rate seen lately.
    Bbr,
    /// One segment a round trip, half after a loss (RFC 5681).
    NewReno,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Raises the rate only after a train of data showed that the path carries it (PCP, NSDI 2006).
    Pcp,
}

impl ControllerKind {
    /// Every kind, in the order of a help text.
    pub const ALL: &'static [ControllerKind] = &[
        ControllerKind::Adaptive,
        ControllerKind::Fixed,
        ControllerKind::Greedy,
        ControllerKind::Rbudp,
        ControllerKind::Sabul,
        ControllerKind::Udt,
        ControllerKind::Bbr,
        ControllerKind::Pcp,
        ControllerKind::NewReno,
        ControllerKind::Cubic,
    ];

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "adaptive",
            ControllerKind::Greedy => "greedy",
            ControllerKind::Fixed => "fixed",
            ControllerKind::Rbudp => "rbudp",
            ControllerKind::Sabul => "sabul",
            ControllerKind::Udt => "udt",
            ControllerKind::Bbr => "bbr",
            ControllerKind::NewReno => "newreno",
            ControllerKind::Cubic => "cubic",
            ControllerKind::Pcp => "pcp",
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
            ControllerKind::Sabul => Box::new(Sabul::new(config)),
            ControllerKind::Udt => Box::new(Udt::new(config)),
            ControllerKind::Bbr => Box::new(Bbr::new(config)),
            ControllerKind::NewReno => Box::new(Windowed::new(config, NewReno)),
            ControllerKind::Cubic => Box::new(Windowed::new(config, Cubic::default())),
            ControllerKind::Pcp => Box::new(Pcp::new(config)),
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
