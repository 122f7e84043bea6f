//! Rate control: how fast to send, and how much may be on its way.

mod adaptive;
mod fixed;
mod greedy;

pub use adaptive::Adaptive;
pub use fixed::Fixed;
pub use greedy::Greedy;

use crate::path::PathRate;
use crate::units::{DatagramNumber, Rate, Time};
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

/// What the sender learns from one acknowledgement. All byte counts are whole datagrams, all totals cumulative, so
/// that a lost acknowledgement is made up for by the next.
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// When the acknowledgement was handled.
    pub now: Time,
    /// When the latest datagram reached the receiver, on the receiver's clock.
    pub arrival: Time,
    /// Arrival minus departure of that datagram, in ns. The two clocks differ by an unknown constant (and drift), so
    /// only differences between two of these mean anything.
    pub one_way_ns: Option<i64>,
    /// Round trip of that datagram without the receiver's own delay.
    pub rtt: Option<Duration>,
    /// Shortest round trip so far.
    pub rtt_min: Duration,
    /// Bytes that have come in at the receiver.
    pub received_bytes: u64,
    /// Bytes of different packets that the receiver took.
    pub accepted_bytes: u64,
    /// Bytes sent up to and including the largest datagram that came in.
    pub covered_bytes: u64,
    /// Bytes that the receiving host dropped or refused: its fault, not the path's.
    pub overrun_bytes: u64,
    /// How full the receiver's sink is, 0 to 1.
    pub pressure: f64,
    /// Largest datagram number that came in.
    pub largest: DatagramNumber,
    /// Number of the next datagram to be sent.
    pub next_number: DatagramNumber,
    /// Bytes on their way.
    pub in_flight: u64,
    /// The sender had nothing to send for part of the time since the last acknowledgement.
    pub app_limited: bool,
}

/// What was found lost with one acknowledgement or timeout.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// When.
    pub now: Time,
    /// How much.
    pub lost_bytes: u64,
    /// Bytes still on their way.
    pub in_flight: u64,
}

/// A datagram that goes out.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Its whole length.
    pub bytes: u64,
    /// Bytes on their way, with it.
    pub in_flight: u64,
}

/// State of a controller for traces and displays.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// What it paces at.
    pub pacing_rate: Option<Rate>,
    /// What it allows on its way, bytes.
    pub window: Option<u64>,
    /// What it takes the path to carry.
    pub bandwidth: Option<Rate>,
    /// What it takes to wait in the bottleneck's queue.
    pub queue_delay: Duration,
    /// What it takes to be lost whatever the rate, 0 to 1.
    pub random_loss: f64,
    /// The receiver, not the path, bounds the rate.
    pub receiver_bound: bool,
}

/// How fast to send. One of the three plug points of the object transfer.
pub trait Controller: fmt::Debug + Send {
    /// A datagram was sent.
    fn on_sent(&mut self, _sent: &Sent) {}
    /// An acknowledgement brought something new.
    fn on_ack(&mut self, ack: &AckSample);
    /// Datagrams were found lost.
    fn on_loss(&mut self, _loss: &LossSample) {}
    /// Nothing was acknowledged for a whole timeout.
    fn on_timeout(&mut self, _now: Time) {}
    /// The pacer obeys this; `None`: as fast as the socket takes it.
    fn pacing_rate(&self) -> Option<Rate>;
    /// Bytes that may be on their way; `None`: no bound.
    fn window(&self) -> Option<u64> {
        None
    }
    /// For traces and displays.
    fn snapshot(&self) -> Snapshot {
        Snapshot { pacing_rate: self.pacing_rate(), window: self.window(), ..Snapshot::default() }
    }
}

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
}

/// The controllers there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ControllerKind {
    /// The default: finds the path's rate fast, keeps its queue short, does not take random loss for congestion.
    #[default]
    Adaptive,
    /// The paper's FOBS: no control at all.
    Greedy,
    /// The rate that the user names, as RBUDP.
    Fixed,
}

impl ControllerKind {
    /// Every kind, in the order of a help text.
    pub const ALL: [ControllerKind; 3] =
        [ControllerKind::Adaptive, ControllerKind::Greedy, ControllerKind::Fixed];

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            ControllerKind::Adaptive => "adaptive",
            ControllerKind::Greedy => "greedy",
            ControllerKind::Fixed => "fixed",
        }
    }

    /// Make one.
    pub fn build(self, config: ControlConfig) -> Box<dyn Controller> {
        match self {
            ControllerKind::Adaptive => Box::new(Adaptive::new(config)),
            ControllerKind::Greedy => Box::new(Greedy),
            ControllerKind::Fixed => Box::new(Fixed::new(config.rate.unwrap_or(FIXED_DEFAULT))),
        }
    }
}

/// What `fixed` sends at when nobody named a rate.
const FIXED_DEFAULT: Rate = Rate(100_000_000);

impl FromStr for ControllerKind {
    type Err = String;
    fn from_str(name: &str) -> Result<ControllerKind, String> {
        ControllerKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = ControllerKind::ALL.map(ControllerKind::name).join(", ");
            format!("there is no controller {name:?}; choose one of {names}")
        })
    }
}
