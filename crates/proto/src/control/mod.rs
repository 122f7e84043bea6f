//! Rate control: how fast to send, and how much may be on its way.

mod about;
mod adaptive;
mod bbr;
mod config;
mod fixed;
mod greedy;
pub mod handover;
mod kind;
mod pair_spans;
mod pcp;
mod pcp_part;
mod sabul;
mod switch;
#[cfg(test)]
mod testing;
mod udt;
pub mod window;

pub use adaptive::Adaptive;
pub use bbr::Bbr;
pub use config::ControlConfig;
pub use fixed::Fixed;
pub use greedy::Greedy;
pub use kind::ControllerKind;
pub use pcp::Pcp;
pub use pcp_part::PcpPart;
pub use sabul::Sabul;
pub use switch::Switch;
pub use udt::Udt;

pub use crate::pacer::BURST;
use crate::units::{DatagramNumber, Rate, Time};
use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use serde::{Deserialize, Serialize};

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
    /// Bytes that came in with a mark of a queue that is too long ([`Ecn::Ce`](crate::ecn::Ecn::Ce)): the receiver has them.
    pub ce_bytes: u64,
    /// How full the receiver's sink is, 0 to 1.
    pub pressure: f64,
    /// Number of the datagram that came in last: `arrival`, `one_way_ns` and `rtt` are its.
    pub latest: DatagramNumber,
    /// Largest datagram number that came in.
    pub largest: DatagramNumber,
    /// Number of the next datagram to be sent.
    pub next_number: DatagramNumber,
    /// Bytes on their way.
    pub in_flight: u64,
    /// The sender had nothing to send for part of the time since the last acknowledgement.
    pub app_limited: bool,
    /// How much time the sending host has lost so far because it was late.
    pub time_lost: Duration,
}

/// What was found lost with one acknowledgement or timeout.
#[derive(Clone, Copy, Debug)]
pub struct LossSample {
    /// When.
    pub now: Time,
    /// How much.
    pub lost_bytes: u64,
    /// The first loss among what was sent since the last time this was true: one congestion episode, one reduction.
    pub new_episode: bool,
    /// Bytes still on their way.
    pub in_flight: u64,
}

/// A datagram that goes out.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When.
    pub now: Time,
    /// Its number.
    pub number: DatagramNumber,
    /// Its whole length.
    pub bytes: u64,
    /// It belongs to the train that [`Controller::poll_probe`] asked for last.
    pub in_train: bool,
    /// Bytes on their way, with it.
    pub in_flight: u64,
}

/// A short run of datagrams at a rate of its own: they carry data like all others, but leave one by one, each at its
/// time, and the receiver tells when each came in (PCP's probe, UDT's packet pair).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeTrain {
    /// How many.
    pub datagrams: u32,
    /// Their spacing; [`Rate`]`(u64::MAX)`: back to back.
    pub rate: Rate,
}

/// When a datagram of a train left and came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedArrival {
    /// Which.
    pub number: DatagramNumber,
    /// When it left, on this host's clock.
    pub sent: Time,
    /// When it came in, on the receiver's clock.
    pub arrival: Time,
}

/// What a transfer found of a path, for a later one to the same destination to begin with (PCP §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// What the path carried in the end.
    pub rate: Rate,
    /// The share of it to try first, at most [`Remembered::SHARE_MAX`]: less after guesses that were wrong.
    pub share: f64,
}

impl Remembered {
    /// Several senders that remember the same must not fill the path with their first tests (PCP §3.4).
    pub const SHARE_MAX: f64 = 1.0 / 3.0;

    /// A rate that nothing is known against.
    pub fn new(rate: Rate) -> Remembered {
        Remembered { rate, share: Remembered::SHARE_MAX }
    }
}

/// A limit on what passes that drops instead of letting it wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policed {
    /// What it lets pass, counting datagrams as the endpoint does.
    pub rate: Rate,
    /// What it lets pass beyond that at once.
    pub burst_bytes: u64,
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
    /// What it takes to drop all that is faster.
    pub policer: Option<Policed>,
    /// What it is doing, in a word of its own; empty where there is only one thing it does.
    pub phase: &'static str,
}

/// How fast to send. One of the three plug points of the object transfer.
pub trait Controller: fmt::Debug + Send {
    /// A datagram was sent.
    fn on_sent(&mut self, _sent: &Sent) {}
    /// An acknowledgement brought something new.
    fn on_ack(&mut self, ack: &AckSample);
    /// Datagrams were found lost.
    fn on_loss(&mut self, _loss: &LossSample) {}
    /// The receiver told when datagrams of a train came in; called before `on_ack` for the same acknowledgement. A
    /// datagram may be told again.
    fn on_timed(&mut self, _now: Time, _arrivals: &[TimedArrival]) {}
    /// Nothing was acknowledged for a whole timeout.
    fn on_timeout(&mut self, _now: Time) {}
    /// The rate that the user named is another one from now on. Of those that look for a rate of their own it is a cap, which
    /// the sender sees to.
    fn on_named_rate(&mut self, _rate: Rate) {}
    /// The pacer obeys this; `None`: as fast as the socket takes it.
    fn pacing_rate(&self) -> Option<Rate>;
    /// Bytes that may be on their way; `None`: no bound.
    fn window(&self) -> Option<u64> {
        None
    }
    /// A train to send now, if one is wanted. Asked whenever something may be sent, even ahead of the pacer; while a
    /// train is on its way out nothing else is sent. A train ends early where there is nothing more to send.
    fn poll_probe(&mut self, _now: Time) -> Option<ProbeTrain> {
        None
    }
    /// When [`Controller::poll_probe`] is to be asked at the latest, though nothing may be due to be sent.
    fn probe_at(&self) -> Option<Time> {
        None
    }
    /// What a later transfer to the same destination may begin with.
    fn remember(&self) -> Option<Remembered> {
        None
    }
    /// Datagrams that fall due within this span may leave together; zero spaces each by itself.
    fn burst(&self) -> Duration {
        BURST
    }
    /// For traces and displays.
    fn snapshot(&self) -> Snapshot {
        Snapshot { pacing_rate: self.pacing_rate(), window: self.window(), ..Snapshot::default() }
    }
}

/// The interval at which SABUL and UDT acknowledge and think.
pub const SYN: Duration = Duration::from_millis(10);

/// bit/s: never slower, which is a datagram every 120 ms. A rate of nothing could never be measured to be more.
const RATE_MIN: f64 = 100_000.0;

/// By how much SABUL and UDT lengthen the gap between packets when they take a loss for congestion.
const DECREASE: f64 = 1.125;
/// Their gap is never shorter, which is a packet of 1500 bytes at 12 Tb/s, nor longer: ten packets a second get a
/// transfer to its end however many are lost.
const GAP_S: RangeInclusive<f64> = 1e-9..=0.1;
