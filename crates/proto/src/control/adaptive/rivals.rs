//! Others that fill the queue: how to notice them, how to hold one's own beside them, how to notice that they left.

use crate::units::{Time, nanos};
use core::time::Duration;

/// A queue that stays although we send less.
#[derive(Clone, Copy, Debug)]
struct Stuck {
    since: Time,
    /// The longest it was.
    queue_ns: f64,
    /// What we carried before it began.
    bandwidth: f64,
    rounds: u32,
}

/// Notices that the queue stays while we yield: somebody else fills it, who does not mind delay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vigil {
    stuck: Option<Stuck>,
    /// Bandwidth of the last round with a queue of our own making.
    calm_bandwidth: f64,
}

impl Vigil {
    /// End of a round in which the queue was never shorter than `least_ns`. If rivals are there: what we carried before.
    pub fn end_round(&mut self, now: Time, least_ns: f64, own_ns: f64, bandwidth: f64) -> Option<f64> {
        if least_ns < own_ns {
            *self = Vigil { stuck: None, calm_bandwidth: bandwidth };
            return None;
        }
        let bandwidth_before = self.calm_bandwidth.max(bandwidth);
        let stuck = self.stuck.get_or_insert(Stuck {
            since: now,
            queue_ns: least_ns,
            bandwidth: bandwidth_before,
            rounds: 0,
        });
        stuck.queue_ns = stuck.queue_ns.max(least_ns);
        if least_ns < STILL_THERE * stuck.queue_ns {
            // It drains, if slowly.
            (stuck.queue_ns, stuck.rounds, stuck.since) = (least_ns, 0, now);
        }
        stuck.rounds += 1;
        let is_long = stuck.rounds >= ROUNDS && now.since(stuck.since) >= SPAN;
        (is_long && bandwidth < YIELDED * stuck.bandwidth).then_some(stuck.bandwidth)
    }
}

/// A window that moves as CUBIC's (RFC 9438) does, so that a CUBIC flow finds in us one more of its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compete {
    /// Datagrams on their way.
    window: f64,
    /// The window that last met a loss.
    window_max: f64,
    epoch: Time,
    valley: Option<Valley>,
    /// The valley of this epoch is behind us.
    is_tried: bool,
}

/// A while of sending much less, to see whether the queue was only ours.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Valley {
    is_low: bool,
    until: Time,
    judged_at: Time,
    queue_ns: f64,
    least_ns: f64,
}

impl Compete {
    /// Begin with `window` datagrams on their way.
    pub fn new(now: Time, window: f64) -> Compete {
        let window = window.max(WINDOW_MIN);
        Compete { window, window_max: window, epoch: now, valley: None, is_tried: false }
    }

    /// Datagrams that a whole round trip carries, at the moment.
    pub fn window(&self) -> f64 {
        self.window
    }

    /// What to pace at, bit/s.
    pub fn rate(&self, rtt: Duration, queue_ns: f64, datagram_len: f64) -> f64 {
        let round_ns = nanos(rtt) as f64 + queue_ns;
        let rate = self.window * datagram_len * 8e9 / round_ns.max(1.0);
        if self.valley.is_some_and(|valley| valley.is_low) { rate * VALLEY_FACTOR } else { rate }
    }

    /// A loss, at most one a round trip.
    pub fn on_loss(&mut self, now: Time) {
        // Fast convergence (RFC 9438 §4.7).
        self.window_max =
            if self.window < self.window_max { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(WINDOW_MIN);
        self.epoch = now;
        self.is_tried = false;
    }

    /// A tick ends, with a queue of `queue_ns`. True: the rivals are gone.
    pub fn end_tick(&mut self, now: Time, rtt: Duration, queue_ns: f64, own_ns: f64) -> bool {
        if let Some(valley) = &mut self.valley {
            valley.is_low &= now < valley.until;
            valley.least_ns = valley.least_ns.min(queue_ns);
            if now < valley.judged_at {
                return false;
            }
            let gone = valley.least_ns < own_ns.max(valley.queue_ns * GONE);
            self.valley = None;
            return gone;
        }
        self.grow(now, rtt, queue_ns);
        let plateau = self.window >= PLATEAU * self.window_max;
        if !self.is_tried && plateau && now.since(self.epoch) > rtt * 4 {
            self.is_tried = true;
            let drain_ns = (queue_ns + nanos(rtt) as f64 * VALLEY_MARGIN) / (1.0 - VALLEY_FACTOR);
            let until = now + Duration::from_nanos(drain_ns as u64);
            let judged_at = until + rtt + rtt / 4;
            self.valley = Some(Valley { is_low: true, until, judged_at, queue_ns, least_ns: queue_ns });
        }
        false
    }

    /// W(t) = C·(t − K)³ + Wmax, or what Reno would have, if that is more (RFC 9438 §4.2, §4.3).
    fn grow(&mut self, now: Time, rtt: Duration, queue_ns: f64) {
        let round_s = (nanos(rtt) as f64 + queue_ns) / 1e9;
        let elapsed_s = now.since(self.epoch).as_secs_f64();
        let k_s = (self.window_max * (1.0 - BETA) / SCALE).cbrt();
        let cubic = SCALE * (elapsed_s + round_s - k_s).powi(3) + self.window_max;
        let reno_step = 3.0 * (1.0 - BETA) / (1.0 + BETA);
        let reno = BETA * self.window_max + reno_step * elapsed_s / round_s.max(1e-6);
        self.window = self.window.max(cubic.max(reno).min(self.window * STEP_MAX));
    }
}

/// Rounds with a queue that stays, and time that they take, after which it is not ours: more than a newcomer of our
/// like takes to find its place.
const ROUNDS: u32 = 8;
const SPAN: Duration = Duration::from_secs(1);
/// A queue that is still this share of what it was, stays.
const STILL_THERE: f64 = 0.6;
/// We must have gone down to this share to say that we yielded.
const YIELDED: f64 = 0.6;
/// RFC 9438's C, in datagrams per s³, and β.
const SCALE: f64 = 0.4;
const BETA: f64 = 0.7;
/// Growth from one tick to the next at most: RFC 9438 §4.2 allows half as much again in a round trip.
const STEP_MAX: f64 = 1.15;
const WINDOW_MIN: f64 = 4.0;
/// Share of our rate that is sent in a valley.
const VALLEY_FACTOR: f64 = 0.3;
/// How far below an empty queue the valley would bring us if we were alone, in round trips.
const VALLEY_MARGIN: f64 = 0.1;
/// The valley comes when the window is back at this share of what it was: rivals that lost with us are back too.
const PLATEAU: f64 = 0.9;
/// A queue that shrinks to this share in a valley was ours.
const GONE: f64 = 0.1;
