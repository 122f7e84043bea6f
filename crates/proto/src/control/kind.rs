//! The controllers there are, by name.

use super::window::{
    Bic, Cubic, HTcp, HighSpeed, Ledbat, MulTcp, NewReno, Prague, Scalable, Windowed, ledbat,
};
use super::{Adaptive, Bbr, ControlConfig, Controller, Fixed, Greedy, Pcp, Sabul, Switch, Udt};
use crate::suggest::UnknownName;
use crate::units::Rate;
use core::str::FromStr;

/// The controllers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ControllerKind {
    /// The default: finds the path's rate fast, keeps its queue short, does not take random loss for congestion.
    #[default]
    Adaptive,
    /// The rate that the user names.
    Fixed,
    /// The paper's FOBS: no control at all.
    Greedy,
    /// `adaptive`, and TCP windows in its place while others' traffic lasts (FOBS §7).
    Switch,
    /// Reliable Blast UDP: the rate that the user names, in rounds.
    Rbudp,
    /// SABUL: by the clock, a little faster without loss, slower by an eighth with it.
    Sabul,
    /// UDT, version 4: by the clock, towards what packet pairs say of the link.
    Udt,
    /// Raises the rate only after a train of data showed that the path carries it (PCP, NSDI 2006).
    Pcp,
    /// BBR, version 1: paces at the largest delivery rate seen lately.
    Bbr,
    /// One segment a round trip, half after a loss (RFC 5681).
    NewReno,
    /// Grows by a share of the window (Kelly's Scalable TCP).
    Scalable,
    /// AIMD with factors that depend on the window (RFC 3649).
    HighSpeed,
    /// Grows the faster the longer ago the last loss (Shorten and Leith).
    HTcp,
    /// A cubic function of the time since the last loss (RFC 9438).
    Cubic,
    /// Binary search for the window of the last loss (Xu, Harfoush and Rhee).
    Bic,
    /// One flow that takes the share of several (Crowcroft and Oechslin).
    MulTcp,
    /// A fixed delay in the queue, yielding to all that builds more (RFC 6817).
    Ledbat,
    /// Small answers to frequent marks (L4S, RFC 9331); without marks CUBIC.
    Prague,
}

impl ControllerKind {
    /// Every kind, in the order of a help text.
    pub const ALL: &'static [ControllerKind] = &[
        ControllerKind::Adaptive,
        ControllerKind::Fixed,
        ControllerKind::Greedy,
        ControllerKind::Switch,
        ControllerKind::Rbudp,
        ControllerKind::Sabul,
        ControllerKind::Udt,
        ControllerKind::Pcp,
        ControllerKind::Bbr,
        ControllerKind::NewReno,
        ControllerKind::Scalable,
        ControllerKind::HighSpeed,
        ControllerKind::HTcp,
        ControllerKind::Cubic,
        ControllerKind::Bic,
        ControllerKind::MulTcp,
        ControllerKind::Ledbat,
        ControllerKind::Prague,
    ];

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "adaptive",
            ControllerKind::Fixed => "fixed",
            ControllerKind::Greedy => "greedy",
            ControllerKind::Switch => "switch",
            ControllerKind::Rbudp => "rbudp",
            ControllerKind::Sabul => "sabul",
            ControllerKind::Udt => "udt",
            ControllerKind::Pcp => "pcp",
            ControllerKind::Bbr => "bbr",
            ControllerKind::NewReno => "newreno",
            ControllerKind::Scalable => "scalable",
            ControllerKind::HighSpeed => "hstcp",
            ControllerKind::HTcp => "htcp",
            ControllerKind::Cubic => "cubic",
            ControllerKind::Bic => "bic",
            ControllerKind::MulTcp => "multcp",
            ControllerKind::Ledbat => "ledbat",
            ControllerKind::Prague => "prague",
        }
    }

    /// Make one.
    pub fn build(self, config: ControlConfig) -> Box<dyn Controller> {
        match self {
            ControllerKind::Adaptive => Box::new(Adaptive::new(config)),
            ControllerKind::Fixed | ControllerKind::Rbudp => {
                Box::new(Fixed::new(config.rate.unwrap_or(FIXED_DEFAULT)))
            }
            ControllerKind::Greedy => Box::new(Greedy),
            ControllerKind::Switch => Box::new(Switch::new(config)),
            ControllerKind::Sabul => Box::new(Sabul::new(config)),
            ControllerKind::Udt => Box::new(Udt::new(config)),
            ControllerKind::Pcp => Box::new(Pcp::new(config)),
            ControllerKind::Bbr => Box::new(Bbr::new(config)),
            ControllerKind::NewReno => Box::new(Windowed::new(config, NewReno)),
            ControllerKind::Scalable => Box::new(Windowed::new(config, Scalable)),
            ControllerKind::HighSpeed => Box::new(Windowed::new(config, HighSpeed)),
            ControllerKind::HTcp => Box::new(Windowed::new(config, HTcp::new())),
            ControllerKind::Cubic => Box::new(Windowed::new(config, Cubic::default())),
            ControllerKind::Bic => Box::new(Windowed::new(config, Bic::default())),
            ControllerKind::MulTcp => Box::new(Windowed::new(config, MulTcp::new(config.streams))),
            ControllerKind::Ledbat => {
                let target = if config.background { ledbat::TARGET_BACKGROUND } else { ledbat::TARGET };
                Box::new(Windowed::new(config, Ledbat::new(target)))
            }
            ControllerKind::Prague => Box::new(Windowed::new(config, Prague::default())),
        }
    }
}

/// What `fixed` sends at when nobody named a rate.
const FIXED_DEFAULT: Rate = Rate(100_000_000);

impl FromStr for ControllerKind {
    type Err = UnknownName;
    fn from_str(name: &str) -> Result<ControllerKind, UnknownName> {
        ControllerKind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
            UnknownName::new("controller", name, ControllerKind::ALL.iter().map(|kind| kind.name()))
        })
    }
}
