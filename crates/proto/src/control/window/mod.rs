//! Window controllers: the machine that they share, and one rule each.
//!
//! [`Windowed`] keeps the window, counts what is acknowledged, and knows the phases; a [`Rule`] says how fast the
//! window grows and what is left of it after a loss.
//!
//! ```text
//! slow start ──window ≥ ssthresh, or the rule has enough──▶ avoidance
//!     │  ▲                                                   │   ▲
//!     │  └─────timeout: window 1, ssthresh by the rule───────┤   │ a datagram sent after
//!     └──loss: window by the rule──▶ repair ◀──loss──────────┘   │ the loss came in
//!                                      └─────────────────────────┘
//! ```
//!
//! Windows are in segments (full datagrams); a segment acknowledged is a segment that came in at the receiver,
//! however many acknowledgements tell of it.

mod bic;
mod cubic;
mod hstcp;
mod htcp;
pub mod ledbat;
mod multcp;
mod newreno;
mod prague;
mod scalable;
mod slow_start;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use bic::Bic;
pub use cubic::Cubic;
pub(super) use cubic::{BETA, BETA_GENTLE};
pub use hstcp::HighSpeed;
pub use htcp::HTcp;
pub use ledbat::Ledbat;
pub use multcp::MulTcp;
pub use newreno::NewReno;
pub use prague::Prague;
pub use scalable::Scalable;
pub use slow_start::{HyStart, SlowStart};

use super::{AckSample, BURST, ControlConfig, Controller, LossSample, Sent, Snapshot};
use crate::rtt::Rtt;
use crate::units::{DatagramNumber, Rate, Time, nanos};
use core::fmt;
use core::time::Duration;

/// What a rule learns from an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Acked {
    /// When the acknowledgement was handled.
    pub now: Time,
    /// Segments that came in since the last one; never more than the window, however many got lost on the way back.
    pub segments: f64,
    /// Of those, that a queue had marked.
    pub marked: f64,
    /// The window, in segments.
    pub window: f64,
    /// The smoothed round trip.
    pub rtt_smoothed: Duration,
    /// Round trip of the latest datagram.
    pub rtt: Option<Duration>,
    /// Shortest round trip so far.
    pub rtt_min: Duration,
    /// Arrival minus departure of the latest datagram in ns, up to an unknown constant.
    pub one_way_ns: Option<i64>,
    /// The first acknowledgement of something sent after the last time this was true.
    pub new_round: bool,
}

/// What a rule learns from a loss, once for each episode.
#[derive(Clone, Copy, Debug)]
pub struct Lost {
    /// When.
    pub now: Time,
    /// What was in use of the window, in segments.
    pub window: f64,
    /// Found by a timeout: slow start follows.
    pub by_timeout: bool,
    /// Nothing was lost: a queue that marks said that it is too long (RFC 3168 §5).
    pub by_mark: bool,
}

/// How a window grows and shrinks.
pub trait Rule: fmt::Debug + Send {
    /// How to begin.
    fn slow_start(&self) -> SlowStart {
        SlowStart::Standard
    }

    /// Every acknowledgement, whatever the phase, before anything else is asked.
    fn observe(&mut self, _acked: &Acked) {}

    /// The window at which slow start is to end, though nothing was lost.
    fn ends_slow_start(&self, _acked: &Acked) -> Option<f64> {
        None
    }

    /// The window after an acknowledgement in congestion avoidance, all of the window being in use.
    fn grow(&mut self, acked: &Acked) -> f64;

    /// Whether it goes on growing while marks are answered, by what came in without one (RFC 9331 §4.3): it is to answer
    /// each round trip.
    fn grows_beside_marks(&self) -> bool {
        false
    }

    /// Datagrams that fall due within this span may leave together.
    fn burst(&self) -> Duration {
        BURST
    }

    /// The same where it may not grow: it is not used, or a loss is being repaired.
    fn hold(&mut self, acked: &Acked) -> f64 {
        acked.window
    }

    /// What is left of the window after a loss. The machine keeps at least [`SSTHRESH_MIN`].
    fn reduce(&mut self, lost: &Lost) -> f64;
}

/// A window controller; see the [module](self).
#[derive(Debug)]
pub struct Windowed<R> {
    rule: R,
    slow_start: SlowStart,
    /// Bytes of a segment.
    segment: f64,
    /// Segments.
    window: f64,
    /// Segments; below it slow start is on.
    ssthresh: f64,
    rtt: Rtt,
    rtt_latest: Duration,
    /// Bytes that had come in by the last acknowledgement, and of those the marked ones.
    received: u64,
    marked: u64,
    /// The next datagram to be sent.
    next_number: DatagramNumber,
    /// A loss is being repaired until this datagram or a later one comes in.
    repair: Option<DatagramNumber>,
    /// Nothing is missing: it was a mark.
    is_by_mark: bool,
    /// A timeout went by, and nothing came in since.
    is_silent: bool,
    round: Round,
    paced: bool,
    /// At most one segment is counted for each acknowledgement.
    classic: bool,
}

/// What tells that the path is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Loss,
    Timeout,
    Mark,
}

/// A round trip, told by datagram numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    /// It is over when this one comes in.
    end: DatagramNumber,
    /// Most that was on its way, in segments.
    in_flight: f64,
    /// The same of the round before.
    in_flight_before: f64,
}

impl Round {
    /// What the sender made use of lately.
    fn peak(&self) -> f64 {
        self.in_flight.max(self.in_flight_before)
    }
}

impl<R: Rule> Windowed<R> {
    /// Start with the initial window.
    pub fn new(config: ControlConfig, rule: R) -> Windowed<R> {
        let segment = config.datagram_len.max(1) as f64;
        Windowed {
            slow_start: rule.slow_start(),
            rule,
            segment,
            window: if config.classic { 1.0 } else { initial_window(segment) },
            ssthresh: f64::INFINITY,
            rtt: Rtt::new(config.rtt),
            rtt_latest: config.rtt,
            received: 0,
            marked: 0,
            next_number: 0,
            repair: None,
            is_by_mark: false,
            is_silent: false,
            round: Round::default(),
            paced: config.paced,
            classic: config.classic,
        }
    }

    /// Go on in congestion avoidance with a window of so many segments.
    pub fn resumed(config: ControlConfig, rule: R, window: f64) -> Windowed<R> {
        let mut resumed = Windowed::new(config, rule);
        resumed.set_window(window.max(SSTHRESH_MIN));
        resumed.ssthresh = resumed.window;
        resumed
    }

    /// Whether a loss is being repaired: further ones belong to the same episode.
    pub fn is_repairing(&self) -> bool {
        self.repair.is_some()
    }

    fn is_slow_starting(&self) -> bool {
        self.window < self.ssthresh
    }

    /// Whether the window, and not the sender, bounds what is on its way: only then has the path shown that it
    /// carries the window, and more may be tried.
    fn is_window_limited(&self) -> bool {
        let used = if self.is_slow_starting() { USED_IN_SLOW_START } else { USED_IN_AVOIDANCE };
        // One more was about to go.
        self.round.peak() + 1.0 >= self.window * used
    }

    fn in_segments(&self, bytes: u64) -> f64 {
        bytes as f64 / self.segment
    }

    /// Count what an acknowledgement tells.
    fn take(&mut self, ack: &AckSample) -> Acked {
        let bytes = ack.received_bytes.saturating_sub(self.received);
        self.received = ack.received_bytes;
        self.next_number = ack.next_number;
        if let Some(rtt) = ack.rtt {
            self.rtt_latest = rtt.min(RTT_MAX);
            self.rtt.sample(self.rtt_latest);
        }
        let segments = self.in_segments(bytes).min(self.window.max(1.0));
        let marked = self.in_segments(ack.ce_bytes.saturating_sub(self.marked)).min(segments);
        self.marked = self.marked.max(ack.ce_bytes);
        let before = self.in_segments(ack.in_flight) + segments;
        self.round.in_flight = self.round.in_flight.max(before);
        let new_round = is_reached(self.round.end, ack);
        if new_round {
            self.round = Round {
                end: ack.next_number,
                in_flight: self.in_segments(ack.in_flight),
                in_flight_before: self.round.in_flight,
            };
        }
        Acked {
            now: ack.now,
            segments: if self.classic { segments.min(1.0) } else { segments },
            marked,
            window: self.window,
            rtt_smoothed: self.rtt.smoothed(),
            rtt: ack.rtt,
            rtt_min: ack.rtt_min,
            one_way_ns: ack.one_way_ns,
            new_round,
        }
    }

    fn start_slowly(&mut self, acked: &Acked, may_grow: bool) {
        if let Some(window) = self.rule.ends_slow_start(acked) {
            self.set_window(window.max(SSTHRESH_MIN));
            self.ssthresh = self.window;
            return;
        }
        // RFC 9406 §4.3: only the first slow start looks at delay; later ones know where to stop.
        let is_first = self.ssthresh == f64::INFINITY;
        let (window, is_over) = self.slow_start.grow(acked, is_first);
        if may_grow {
            self.window = window.min(self.ssthresh);
        }
        if is_over {
            self.ssthresh = self.window;
        }
    }

    fn reduce(&mut self, now: Time, by: Sign) {
        let window = self.window.min(self.round.peak() + 1.0);
        let (by_timeout, by_mark) = (by == Sign::Timeout, by == Sign::Mark);
        let left = self.rule.reduce(&Lost { now, window, by_timeout, by_mark });
        self.ssthresh = left.clamp(SSTHRESH_MIN, WINDOW_MAX);
        (self.repair, self.is_by_mark) = (Some(self.next_number), by_mark);
    }

    /// A mark says what a loss says, once a round trip (RFC 3168 §6.1.2), and nothing is missing.
    fn heed_marks(&mut self, now: Time) {
        if self.repair.is_none() && !self.is_silent {
            self.reduce(now, Sign::Mark);
            self.set_window(self.ssthresh);
        }
    }

    fn is_held(&self) -> bool {
        self.repair.is_some() && !(self.is_by_mark && self.rule.grows_beside_marks())
    }

    fn set_window(&mut self, window: f64) {
        self.window = window.clamp(1.0, WINDOW_MAX);
    }
}

impl<R: Rule> Controller for Windowed<R> {
    fn on_sent(&mut self, sent: &Sent) {
        self.next_number = sent.number.saturating_add(1);
        self.round.in_flight = self.round.in_flight.max(self.in_segments(sent.in_flight));
    }

    fn on_ack(&mut self, ack: &AckSample) {
        let mut acked = self.take(ack);
        self.rule.observe(&acked);
        self.is_silent &= acked.segments <= 0.0;
        if self.repair.is_some_and(|until| is_reached(until, ack)) {
            self.repair = None;
        }
        if acked.marked > 0.0 {
            self.heed_marks(ack.now);
        }
        acked.window = self.window;
        let may_grow =
            acked.segments > 0.0 && !ack.app_limited && !self.is_held() && self.is_window_limited();
        if self.is_slow_starting() {
            self.start_slowly(&acked, may_grow);
        } else {
            let window = if may_grow { self.rule.grow(&acked) } else { self.rule.hold(&acked) };
            self.ssthresh = self.ssthresh.min(window);
            self.set_window(window);
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        // What a timeout gives up was answered by the timeout.
        if loss.new_episode && !self.is_silent {
            self.reduce(loss.now, Sign::Loss);
            self.set_window(self.ssthresh);
        }
    }

    fn on_timeout(&mut self, now: Time) {
        // RFC 5681 §3.1: further timeouts, and one within an episode that cost its share already, leave ssthresh.
        if !self.is_silent && self.repair.is_none() {
            self.reduce(now, Sign::Timeout);
        }
        self.repair = Some(self.next_number);
        self.is_silent = true;
        self.window = 1.0;
    }

    fn pacing_rate(&self) -> Option<Rate> {
        if !self.paced {
            return None;
        }
        let ratio = if self.is_slow_starting() { PACE_IN_SLOW_START } else { PACE_IN_AVOIDANCE };
        // A mean that a stall has spoilt must not outlast it: the window is there to hold back.
        let round_trip = self.rtt.smoothed().min(self.rtt_latest).clamp(RTT_PACED_MIN, RTT_PACED_MAX);
        let round_trip = nanos(round_trip) as f64 / 1e9;
        Some(Rate((self.window * self.segment * 8.0 * ratio / round_trip) as u64))
    }

    fn window(&self) -> Option<u64> {
        Some((self.window * self.segment) as u64)
    }

    fn burst(&self) -> Duration {
        self.rule.burst()
    }

    fn snapshot(&self) -> Snapshot {
        let phase = match (self.is_slow_starting(), self.repair) {
            (_, Some(_)) => "repair",
            (true, None) => "slow start",
            (false, None) => "avoidance",
        };
        Snapshot {
            pacing_rate: self.pacing_rate(),
            window: self.window(),
            queue_delay: self.rtt.smoothed().saturating_sub(self.rtt.min()),
            phase,
            ..Snapshot::default()
        }
    }
}

/// Whether this datagram or a later one has come in, or none such can: numbers that went back are a new count.
fn is_reached(number: DatagramNumber, ack: &AckSample) -> bool {
    ack.largest >= number || number > ack.next_number
}

/// RFC 6928 §2, in segments.
fn initial_window(segment: f64) -> f64 {
    (10.0 * segment).min((2.0 * segment).max(14_600.0)) / segment
}

/// RFC 5681 (4): ssthresh is two segments at least.
pub const SSTHRESH_MIN: f64 = 2.0;

/// More than 1 GB of the smallest datagrams; beyond what any sender records as being on its way.
const WINDOW_MAX: f64 = 1_048_576.0;

/// Linux's rule: in slow start a window counts as used if half of it was, so that pacing does not hold it back.
const USED_IN_SLOW_START: f64 = 0.5;

/// Pacing at 1.2 × window / round trip leaves 1/1.2 of the window on its way where no queue builds.
const USED_IN_AVOIDANCE: f64 = 0.75;

/// Linux's `tcp_pacing_ss_ratio`, 200 %: the window may double within the round trip.
const PACE_IN_SLOW_START: f64 = 2.0;

/// Linux's `tcp_pacing_ca_ratio`, 120 %: the window, not the pacer, decides.
const PACE_IN_AVOIDANCE: f64 = 1.2;

/// RFC 6298 (2.5): no timeout need be longer, nor what it is made from.
const RTT_MAX: Duration = Duration::from_secs(60);

/// Windows are spread over this at least, so that a rate is finite, and at most, so that a sender that was asleep comes
/// back at once.
const RTT_PACED_MIN: Duration = Duration::from_micros(1);
const RTT_PACED_MAX: Duration = Duration::from_secs(1);
