//! Others that fill the queue: how to notice them, how to hold one's own beside them, how to notice that they left.

use super::loss::Counted;
use crate::control::window::{Cubic, Windowed};
use crate::control::{AckSample, Bbr, ControlConfig, Controller, LossSample, Sent};
use crate::units::{Rate, Time, nanos};
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

/// Rivals are thought to be gone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Left {
    pub at: Time,
    /// Datagrams that were on their way beside them.
    pub window: f64,
    /// How often that was wrong before, in a row.
    pub relapses: u32,
}

/// What a round says of rivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    /// Nothing.
    Calm,
    /// The queue stays: time to empty it together.
    Suspect,
    /// The queue stays though we yield; so much was carried before.
    Stuck(f64),
    /// Those who were thought to be gone are there.
    Relapse(Left),
}

/// Notices that the queue stays while we yield: somebody else fills it, who does not mind delay.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Vigil {
    stuck: Option<Stuck>,
    pub left: Option<Left>,
    /// Bandwidth of the last round with a queue of our own making.
    calm_bandwidth: f64,
}

impl Vigil {
    /// Rivals are thought to be gone.
    pub fn after(left: Left) -> Vigil {
        Vigil { left: Some(left), ..Vigil::default() }
    }

    /// End of a round in which the queue was never shorter than `least_ns`.
    pub fn end_round(&mut self, now: Time, least_ns: f64, own_ns: f64, bandwidth: f64) -> Verdict {
        if least_ns < own_ns {
            *self = Vigil { stuck: None, calm_bandwidth: bandwidth, ..*self };
            return Verdict::Calm;
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
        let (rounds, since, before) = (stuck.rounds, stuck.since, stuck.bandwidth);
        if let Some(left) = self.left
            && rounds >= RELAPSE_ROUNDS
            && now.since(left.at) < RELAPSE
        {
            return Verdict::Relapse(left);
        }
        if rounds % SUSPECT_ROUNDS == 0 && rounds < ROUNDS {
            return Verdict::Suspect;
        }
        let is_long = rounds >= ROUNDS && now.since(since) >= SPAN;
        if is_long && bandwidth < YIELDED * before {
            self.stuck = None;
            return Verdict::Stuck(before);
        }
        Verdict::Calm
    }
}

/// What rivals do, we do: a CUBIC flow finds in us one more of its kind (RFC 9438).
///
/// After each loss much less is sent for a moment. Where only our like compete, all do so at once, and the queue runs
/// empty: the rivals have gone.
#[derive(Debug)]
pub(super) struct Compete {
    window: Windowed<Cubic>,
    /// bit/s: never less, unless so much is lost that even rivals who do not mind must feel it.
    floor: f64,
    floor_most: f64,
    /// Counters at the beginning of the round.
    counted: Option<Counted>,
    low: Option<Low>,
    /// When the last low ended, or this began.
    since: Time,
    /// How often that has been wrong, or the full rate has.
    relapses: u32,
    /// Rounds in a row that delivered what the path carries.
    alone: u32,
    alone_since: Time,
    is_over: bool,
    config: ControlConfig,
    /// Beside rivals whom loss does not move, we do not mind it either.
    bbr: Option<Box<Bbr>>,
    bbr_since: Time,
    /// Since when we have got little although much is lost.
    poor_since: Time,
    /// Not before is it tried again: the last time they yielded.
    try_at: Time,
    tries: u32,
    counted_long: Option<Counted>,
    loss: f64,
    /// The longest queue of late, and since when it is far shorter though we do nothing.
    most_ns: f64,
    dip_at: Option<Time>,
    /// When a queue vanished for a moment and was back at once: BBR's look at the round trip.
    dipped_at: Option<Time>,
}

/// A while of sending much less, to see whether the queue was only ours.
#[derive(Clone, Copy, Debug)]
struct Low {
    until: Time,
    judged_at: Time,
    least_ns: f64,
    /// What is seen now was sent after it.
    is_past: bool,
}

impl Compete {
    /// Begin with `window` datagrams on their way; send at `floor` bit/s at least.
    pub fn new(now: Time, config: ControlConfig, window: f64, floor: f64, relapses: u32) -> Compete {
        Compete {
            window: Windowed::resumed(ControlConfig { paced: true, ..config }, Cubic::default(), window),
            floor,
            floor_most: floor,
            counted: None,
            low: None,
            since: now,
            relapses,
            alone: 0,
            alone_since: now,
            is_over: false,
            config,
            bbr: None,
            bbr_since: now,
            poor_since: now,
            try_at: now,
            tries: 0,
            counted_long: None,
            loss: 0.0,
            most_ns: 0.0,
            dip_at: None,
            dipped_at: None,
        }
    }

    /// How often rivals were thought gone that were not, in a row.
    pub fn relapses(&self) -> u32 {
        self.relapses
    }

    /// Bytes that may be on their way over a round trip of `round_ns`, queue included.
    pub fn window_bytes(&self, round_ns: f64) -> f64 {
        if let Some(bbr) = &self.bbr {
            return bbr.window().unwrap_or(0) as f64;
        }
        let floor = self.floor * FLOOR_ROOM * round_ns / 8e9;
        self.window.window().map_or(f64::INFINITY, |bytes| bytes as f64).max(floor)
    }

    pub fn phase(&self) -> &'static str {
        if self.bbr.is_some() { "compete-b" } else { "compete" }
    }

    /// What to pace at, bit/s.
    pub fn rate(&self) -> f64 {
        let rate = self.window.pacing_rate().map_or(f64::INFINITY, |rate| rate.0 as f64);
        let rate = rate.max(self.floor);
        let rate = self.bbr.as_ref().and_then(|bbr| bbr.pacing_rate()).map_or(rate, |rate| rate.0 as f64);
        if self.low.is_some_and(|low| !low.is_past) { rate * LOW_FACTOR } else { rate }
    }

    pub fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
    }

    pub fn on_ack(&mut self, ack: &AckSample) {
        self.window.on_ack(ack);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_ack(ack);
        }
    }

    /// A loss.
    pub fn on_loss(&mut self, loss: &LossSample) {
        self.window.on_loss(loss);
        if let Some(bbr) = &mut self.bbr {
            bbr.on_loss(loss);
        }
    }

    /// Send little for a moment, with a queue of `queue_ns`; when what comes of it will have been seen.
    pub fn begin_low(&mut self, now: Time, rtt: Duration, queue_ns: f64) -> Time {
        let round = rtt + Duration::from_nanos(queue_ns as u64);
        let drain_ns = (queue_ns + nanos(rtt) as f64 * LOW_MARGIN) / (1.0 - LOW_FACTOR);
        let until = now + Duration::from_nanos(drain_ns as u64).min(round * 2);
        let judged_at = until + rtt + rtt / 4;
        self.low = Some(Low { until, judged_at, least_ns: queue_ns, is_past: false });
        judged_at
    }

    /// A tick ends, with a queue of `queue_ns`. True: the rivals are gone.
    pub fn end_tick(&mut self, now: Time, queue_ns: f64, own_ns: f64) -> bool {
        if self.low.is_none() && now > self.since {
            self.most_ns = (self.most_ns * 0.998).max(queue_ns);
            match self.dip_at {
                None if queue_ns < DIP * self.most_ns => self.dip_at = Some(now),
                Some(at) if now.since(at) > DIP_SPAN => {
                    (self.dip_at, self.most_ns) = (None, queue_ns);
                }
                Some(at) if queue_ns > BACK * self.most_ns => {
                    if now.since(at) > DIP_SPAN / 6 {
                        self.dipped_at = Some(now);
                    }
                    self.dip_at = None;
                }
                _ => {}
            }
        } else {
            self.dip_at = None;
        }
        if let Some(low) = &mut self.low {
            low.is_past |= now >= low.until;
            low.least_ns = low.least_ns.min(queue_ns);
            if now >= low.judged_at {
                self.is_over |= low.least_ns < own_ns;
                (self.low, self.since) = (None, now);
            }
        }
        self.is_over
    }

    /// Beside rivals whom loss does not move CUBIC's window starves. Try not to mind loss, and look whether they yield.
    pub fn match_rivals(&mut self, ack: &AckSample, link: f64, delivered: f64, datagram_len: f64, rtt: Duration) {
        let now = ack.now;
        let (datagrams, loss) = self.counted_long.get_or_insert(Counted::at(ack)).until(ack, datagram_len);
        if datagrams >= 200.0 {
            (self.loss, self.counted_long) = (loss, Some(Counted::at(ack)));
        }
        let share = delivered / link.max(1.0);
        if self.bbr.is_some() {
            if share < RICH {
                self.bbr_since = now;
            }
            if now.since(self.bbr_since) > RICH_SPAN.max(rtt * 40) {
                // They yield: they mind loss. Back to what they do.
                self.bbr = None;
                self.tries += 1;
                self.try_at = now + TRY_EVERY * (1 << self.tries.min(4));
                self.poor_since = now;
            }
            return;
        }
        let is_poor = false && share < POOR;
        let is_wide = link * POOR * nanos(rtt) as f64 / 8e9 / datagram_len > 32.0;
        let dipped = self.dipped_at.is_some_and(|at| now.since(at) < DIPPED_LATELY);
        if !is_poor || !is_wide || !dipped {
            self.poor_since = now;
        }
        if now.since(self.poor_since) > POOR_SPAN.max(rtt * 50) && now >= self.try_at {
            let config = ControlConfig { rtt, ..self.config };
            self.bbr = Some(Box::new(Bbr::resumed(config, now, Rate((link * TRY_SHARE) as u64))));
            self.bbr_since = now;
        }
    }

    /// A round ends that delivered the share `share` of what the path has carried: if it goes on delivering all of it,
    /// whoever filled the queue is gone.
    pub fn end_round(&mut self, ack: &AckSample, share: f64, datagram_len: f64) {
        let now = ack.now;
        let (datagrams, loss) = self.counted.get_or_insert(Counted::at(ack)).until(ack, datagram_len);
        if datagrams >= FLOOR_DATAGRAMS {
            let factor = if loss > FLOOR_LOSS { FLOOR_CUT } else { FLOOR_GROWTH };
            self.floor = (self.floor * factor).min(self.floor_most);
            self.counted = Some(Counted::at(ack));
        }
        if share < ALONE || self.relapses > 0 {
            (self.alone, self.alone_since) = (0, now);
            return;
        }
        self.alone += 1;
        self.is_over |= self.alone >= ALONE_ROUNDS && now.since(self.alone_since) >= ALONE_SPAN;
    }
}

const DIP: f64 = 0.3;
const BACK: f64 = 0.6;
const DIP_SPAN: Duration = Duration::from_millis(600);
const DIPPED_LATELY: Duration = Duration::from_secs(25);
const POOR: f64 = 0.25;
const POOR_SPAN: Duration = Duration::from_secs(1);
const RICH: f64 = 0.58;
const RICH_SPAN: Duration = Duration::from_secs(3);
const TRY_SHARE: f64 = 0.25;
const TRY_EVERY: Duration = Duration::from_secs(20);
/// Rounds with a queue that stays, and time that they take, after which it is not ours: more than a newcomer of our
/// like takes to find its place.
const ROUNDS: u32 = 14;
const SPAN: Duration = Duration::from_millis(1500);
/// Until then, every so many rounds, the queue is emptied by all who find it long: a newcomer who took it for the path
/// sees the true delay.
const SUSPECT_ROUNDS: u32 = 4;
/// A queue that is still this share of what it was, stays.
const STILL_THERE: f64 = 0.6;
/// We must have gone down to this share to say that we yielded.
const YIELDED: f64 = 0.6;
/// For so long after rivals were thought gone, so many rounds with a queue mean that they are not.
pub(super) const RELAPSE: Duration = Duration::from_secs(10);
const RELAPSE_ROUNDS: u32 = 3;
/// Each time this happens the next low comes half as soon, so many times.
const RELAPSES_MAX: u32 = 4;
/// Share of our rate that is sent in a low.
const LOW_FACTOR: f64 = 0.3;
/// How far below an empty queue it would bring us if we were alone, in round trips.
const LOW_MARGIN: f64 = 0.1;
/// Not more often than this.
const LOW_EVERY: Duration = Duration::from_secs(1);
const LOW_ROUNDS: u32 = 10;
/// Over so many datagrams a loss share is measured; above this one the floor shrinks, below it grows again.
const FLOOR_DATAGRAMS: f64 = 40.0;
const FLOOR_LOSS: f64 = 0.15;
const FLOOR_CUT: f64 = 0.8;
const FLOOR_GROWTH: f64 = 1.05;
/// At the floor, the window leaves so much room for late acknowledgements.
const FLOOR_ROOM: f64 = 1.25;
/// This share of what the path has carried is all of it.
const ALONE: f64 = 0.88;
const ALONE_ROUNDS: u32 = 8;
const ALONE_SPAN: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::{ack, loss};

    const RTT: Duration = Duration::from_millis(100);
    const MS: f64 = 1e6;

    /// What comes of a vigil over forty rounds: in which round, and what was carried before.
    fn watch(queue_ms: fn(f64) -> f64, yields: f64) -> Option<(i32, f64)> {
        let mut vigil = Vigil::default();
        assert_eq!(vigil.end_round(Time::ZERO, 0.0, 5.0 * MS, 1e8), Verdict::Calm);
        (1..40).find_map(|round| {
            let now = Time::from_millis(200 * round as u64);
            let queue_ns = queue_ms(f64::from(round)) * MS;
            match vigil.end_round(now, queue_ns, 5.0 * MS, 1e8 * yields.powi(round)) {
                Verdict::Stuck(before) => Some((round, before)),
                _ => None,
            }
        })
    }

    #[test]
    fn only_a_queue_that_stays_while_we_yield_is_a_rivals() {
        assert_eq!(watch(|_| 30.0, 0.8), Some((ROUNDS as i32, 1e8)));
        assert_eq!(watch(|_| 30.0, 0.999), None, "nobody yielded");
        assert_eq!(watch(|_| 4.0, 0.8), None, "as long as our own may be");
        assert_eq!(watch(|round| 60.0 * 0.85f64.powf(round), 0.9), None, "it drains");
    }

    #[test]
    fn a_queue_that_stays_is_first_emptied_together() {
        let mut vigil = Vigil::default();
        let verdicts: Vec<Verdict> =
            (1..=4).map(|n| vigil.end_round(Time::from_millis(100 * n), 30.0 * MS, 5.0 * MS, 1e8)).collect();
        assert_eq!(verdicts, [Verdict::Calm, Verdict::Calm, Verdict::Calm, Verdict::Suspect]);
    }

    fn compete() -> Compete {
        let config = ControlConfig::new(1000, RTT);
        Compete::new(Time::ZERO, config, 100.0, 1e6, 0)
    }

    #[test]
    fn a_loss_costs_what_it_costs_cubic_and_the_floor_stays() {
        let mut compete = compete();
        assert_eq!(compete.window_bytes(0.0), 100_000.0);
        for ms in 1..40 {
            compete.on_sent(&Sent {
                now: Time::from_millis(ms),
                number: ms,
                bytes: 1000,
                in_train: false,
                in_flight: 100_000,
            });
        }
        compete.on_loss(&loss(40, 1, true), RTT, 50.0 * MS);
        assert!((compete.window_bytes(0.0) - 70_000.0).abs() < 1500.0, "{}", compete.window_bytes(0.0));
        (1..60).for_each(|n| compete.on_loss(&loss(40 + 200 * n, 1, true), RTT, 50.0 * MS));
        assert!(compete.window_bytes(0.0) < 10_000.0);
        assert!((compete.window_bytes(200.0 * MS) - 1e6 * FLOOR_ROOM * 0.2 / 8.0).abs() < 1.0);
    }

    #[test]
    fn a_low_tells_whether_rivals_are_there() {
        for (queue_left_ms, gone) in [(1.0, true), (40.0, false)] {
            let mut compete = compete();
            compete.on_loss(&loss(3000, 1, true), RTT, 50.0 * MS);
            let low = compete.rate();
            let mut left = false;
            for ms in (3000..6000).step_by(50) {
                let queue_ns = if ms < 3100 { 50.0 * MS } else { queue_left_ms * MS };
                left |= compete.end_tick(Time::from_millis(ms), queue_ns, 3.0 * MS);
            }
            assert!(compete.rate() > 2.0 * low, "it was low for a moment only");
            assert_eq!(left, gone);
        }
    }

    #[test]
    fn who_delivers_all_of_the_path_has_no_rivals_unless_that_was_wrong_before() {
        for (share, relapses, gone) in [(0.95, 0, true), (0.8, 0, false), (0.95, 1, false)] {
            let mut compete = Compete { relapses, ..compete() };
            (0..20).for_each(|n| compete.end_round(&ack(100 * n, n), share, 1000.0));
            assert_eq!(compete.is_over, gone, "{share} {relapses}");
        }
    }

    #[test]
    fn rivals_that_are_still_there_are_noticed_sooner() {
        let left = Left { at: Time::ZERO, window: 80.0, relapses: 0 };
        let mut vigil = Vigil::after(left);
        let round =
            |vigil: &mut Vigil, n: u64| vigil.end_round(Time::from_millis(100 * n), 30.0 * MS, 5.0 * MS, 1e8);
        assert_eq!(round(&mut vigil, 1), Verdict::Calm);
        assert_eq!(round(&mut vigil, 2), Verdict::Calm);
        assert_eq!(round(&mut vigil, 3), Verdict::Relapse(left));
    }
}
