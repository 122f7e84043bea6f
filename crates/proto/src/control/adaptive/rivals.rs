//! How to hold one's own beside others that fill the queue, and how to tell that one of them is a BBR.

use super::{ALIKE, ALONE_SHARE, LITTLE, TICK_MAX};
use crate::control::bbr::{CYCLE, PROBE_RTT_SPAN, RTT_AGE};
use crate::control::window::ledbat::BASE_SLOT;
use crate::control::window::{Cubic, Windowed};
use crate::control::{AckSample, Bbr, ControlConfig, Controller, LossSample, Sent};
use crate::units::{Rate, Time, nanos};
use core::time::Duration;

/// What rivals do, we do: a CUBIC flow finds in us one more of its kind (RFC 9438), a BBR one of its own.
#[derive(Debug)]
pub(super) struct Compete {
    window: Windowed<Cubic>,
    /// Beside one that loss does not move.
    bbr: Option<Box<AsBbr>>,
    config: ControlConfig,
    low: Option<Low>,
    /// Rounds in a row that delivered what the link carries.
    alone: u32,
}

/// What a BBR does, within bounds.
#[derive(Debug)]
struct AsBbr {
    control: Bbr,
    /// What is left to us, bit/s.
    most: f64,
}

/// A while of sending much less, to see whether the queue is only our like's.
#[derive(Clone, Copy, Debug)]
struct Low {
    until: Time,
    judged_at: Time,
    /// What is sent now is sent after it.
    is_past: bool,
}

impl Compete {
    /// Begin with `window` datagrams on their way.
    pub fn new(config: ControlConfig, window: f64) -> Compete {
        let config = ControlConfig { paced: true, ..config };
        Compete {
            window: Windowed::resumed(config, Cubic::paced(), window),
            bbr: None,
            config,
            low: None,
            alone: 0,
        }
    }

    /// Bytes that may be on their way.
    pub fn window_bytes(&self) -> f64 {
        let window = self.bbr.as_ref().map_or(self.window.window(), |bbr| bbr.control.window());
        window.map_or(f64::INFINITY, |bytes| bytes as f64)
    }

    /// What to pace at, bit/s.
    pub fn rate(&self) -> f64 {
        let (rate, most) = match &self.bbr {
            Some(bbr) => (bbr.control.pacing_rate(), bbr.most),
            None => (self.window.pacing_rate(), f64::INFINITY),
        };
        let rate = rate.map_or(most, |rate| most.min(rate.0 as f64));
        if self.low.is_some_and(|low| !low.is_past) { rate * LITTLE } else { rate }
    }

    pub fn phase(&self) -> &'static str {
        if self.bbr.is_some() { "as BBR" } else { "compete" }
    }

    pub fn on_sent(&mut self, sent: &Sent) {
        self.window.on_sent(sent);
        if let Some(bbr) = &mut self.bbr {
            bbr.control.on_sent(sent);
        }
    }

    pub fn on_ack(&mut self, ack: &AckSample) {
        self.window.on_ack(ack);
        if let Some(bbr) = &mut self.bbr {
            bbr.control.on_ack(ack);
        }
        self.low = self.low.filter(|low| ack.now < low.judged_at);
        if let Some(low) = &mut self.low {
            low.is_past |= ack.now >= low.until;
        }
    }

    pub fn on_loss(&mut self, loss: &LossSample) {
        self.window.on_loss(loss);
        if let Some(bbr) = &mut self.bbr {
            bbr.control.on_loss(loss);
        }
    }

    pub fn on_timeout(&mut self, now: Time) {
        self.window.on_timeout(now);
        if let Some(bbr) = &mut self.bbr {
            bbr.control.on_timeout(now);
        }
    }

    /// What comes in now was, or may have been, sent in a low.
    pub fn is_low(&self) -> bool {
        self.low.is_some()
    }

    pub fn is_bbr(&self) -> bool {
        self.bbr.is_some()
    }

    /// Do as a BBR does on a link of `link` bit/s, of which `delivered` are ours, or no longer; [`Compete::leave_half`] bounds it.
    pub fn match_bbr(&mut self, now: Time, is_bbr: bool, link: f64, delivered: f64, rtt: Duration) {
        if !is_bbr {
            self.bbr = None;
        } else if self.bbr.is_none() {
            let config = ControlConfig { rtt, ..self.config };
            let rate = delivered.max(link * LITTLE);
            let control = Bbr::resumed(config, now, Rate(rate as u64));
            self.bbr = Some(Box::new(AsBbr { control, most: f64::INFINITY }));
        }
    }

    /// A round on a link of `link` bit/s, in which the queue was as deep as a BBR's, or was not. While it is, there is another at
    /// least, and half of the link is the most that is ours: who took others for a BBR leaves them as much.
    pub fn leave_half(&mut self, is_deep: bool, link: f64) {
        if let Some(bbr) = &mut self.bbr {
            bbr.most = if is_deep { link / 2.0 } else { f64::INFINITY };
        }
    }

    /// Send little for a moment, with a queue of `queue_ns`; when what comes of it will have been seen.
    pub fn begin_low(&mut self, now: Time, rtt: Duration, queue_ns: f64) -> Time {
        let round = rtt + Duration::from_nanos(queue_ns as u64);
        // If all of our like do the same, it goes below an empty queue by the smallest part of a round trip that shows.
        let drain_ns = (queue_ns + nanos(rtt) as f64 * ALIKE) / (1.0 - LITTLE);
        // Those with longer round trips begin theirs less exactly (`sharing`: for as long as the queue takes alone, one NewReno on 100
        // Mb/s leaves us 39 instead of 47 %).
        let until = now + Duration::from_nanos(drain_ns as u64).min(round * 2).max(TICK_MAX * 2);
        let judged_at = until + round + rtt / 4;
        self.low = Some(Low { until, judged_at, is_past: false });
        judged_at
    }

    /// A round ends that delivered the share `share` of what the link carries. True: so have all of late, and whoever
    /// filled the queue is gone.
    pub fn is_alone(&mut self, share: f64) -> bool {
        self.alone = if share < 1.0 - ALIKE { 0 } else { self.alone + 1 };
        self.alone >= ALONE_ROUNDS
    }
}

/// BBR's look at the round trip: every ten seconds it sends next to nothing for a moment
/// (draft-cardwell-iccrg-bbr-congestion-control-00 §4.3.5), and a queue that stood is gone. Nobody else's queue falls
/// so far at such intervals.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dips {
    /// The longest queue of late.
    most_ns: f64,
    /// It is long since the last dip.
    is_long: bool,
    last: Option<Time>,
    /// When two were last seen as far apart as BBR's are.
    seen: Option<Time>,
}

impl Dips {
    /// A tick with a queue of `queue_ns` on a path of this round trip, while we did not send less ourselves.
    pub fn end_tick(&mut self, now: Time, queue_ns: f64, rtt: Duration) {
        self.most_ns = (self.most_ns * MOST_DECAY).max(queue_ns);
        if !is_bbrs(self.most_ns, rtt) {
            return;
        }
        if queue_ns > 2.0 * ALIKE * self.most_ns {
            self.is_long = true;
        } else if self.is_long && queue_ns < ALIKE * self.most_ns {
            // A dip, and with its round trips and our ticks two more of them, passed in between.
            let since = self.last.map(|last| now.since(last));
            if since.is_some_and(|since| since > RTT_AGE && since < RTT_AGE + PROBE_RTT_SPAN * 3) {
                self.seen = Some(now);
            }
            (self.is_long, self.last) = (false, Some(now));
        }
    }

    /// The queue ran empty when we sent less, or what the link carries was ours: the last dip was our like's.
    pub fn forget_last(&mut self) {
        self.last = None;
    }

    /// A BBR was there of late.
    pub fn is_bbr(&self, now: Time) -> bool {
        self.seen.is_some_and(|seen| now.since(seen) < SEEN_LATELY)
    }
}

/// Whether a queue that is so long is a BBR's.
pub(super) fn is_bbrs(queue_ns: f64, rtt: Duration) -> bool {
    queue_ns >= BBR_QUEUE * nanos(rtt) as f64
}

/// Who delivers all of the link, but for a tenth, for so many rounds is alone: in a whole cycle of its gains a BBR beside us would
/// have sent more and less.
const ALONE_ROUNDS: u32 = CYCLE.len() as u32;
/// A queue's longest is forgotten by so much each tick, 4 to 50 ms.
const MOST_DECAY: f64 = 0.998;
/// A BBR's queue is at least so many round trips long, or as long as there is room. Its window is of two bandwidth-delay products,
/// so its queue is as many round trips long as its share of the link is large: this is half of that of one that is nearly alone.
/// What strays by less is chance: who came to a full queue takes that for an empty one (`sharing`: with 0.3 one of ten alike takes
/// the others for a BBR, and nearly all of the link, in one order of twelve; with 0.45 a BBR beside which there is half a product
/// of queue is never found).
const BBR_QUEUE: f64 = ALONE_SHARE / 2.0;
/// While we do as it does, its dips are hidden: it is looked for anew after so long. LEDBAT, too, takes a delay for the present one
/// for so long (RFC 6817): what was seen of a path is believed for one slot of that history.
pub(super) const SEEN_LATELY: Duration = BASE_SLOT;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::adaptive::Adaptive;
    use crate::control::testing::{ack, loss};
    use crate::path::PathRate;

    const RTT: Duration = Duration::from_millis(100);
    const MS: f64 = 1e6;

    fn compete() -> Compete {
        Compete::new(ControlConfig::new(1000, RTT), 100.0)
    }

    #[test]
    fn little_is_sent_in_a_low_for_as_long_as_the_queue_takes_to_drain() {
        let mut compete = compete();
        let judged_at = compete.begin_low(Time::ZERO, RTT, 60.0 * MS);
        compete.on_ack(&ack(90, 1));
        let low = compete.rate();
        compete.on_ack(&ack(110, 2));
        assert!(compete.rate() > 3.0 * low, "60 ms and a tenth of a round trip, at 0.7, are over");
        assert_eq!(judged_at, Time::from_millis(100 + 160 + 25));
        assert!(compete.is_low(), "until what was sent in it has come in");
        compete.on_ack(&ack(300, 3));
        assert!(!compete.is_low());
    }

    #[test]
    fn who_delivers_all_of_the_link_is_alone() {
        for (share, is_alone) in [(0.95, true), (0.8, false)] {
            let mut compete = compete();
            assert_eq!((0..20).any(|_| compete.is_alone(share)), is_alone, "{share}");
        }
    }

    #[test]
    fn beside_a_bbr_loss_does_not_move_us() {
        let mut compete = compete();
        compete.match_bbr(Time::ZERO, true, 1e8, 0.0, RTT);
        let (rate, window) = (compete.rate(), compete.window_bytes());
        assert!((2e7..6e7).contains(&rate), "{rate}");
        compete.on_loss(&LossSample { in_flight: window as u64, ..loss(40, 1, true) });
        assert_eq!(compete.rate(), rate);
        compete.match_bbr(Time::ZERO, false, 1e8, 0.0, RTT);
        assert!(compete.window_bytes() < 90_000.0, "CUBIC's, which minded");
    }

    #[test]
    fn who_does_as_a_bbr_does_leaves_half_of_a_link_with_a_deep_queue() {
        let mut compete = compete();
        compete.match_bbr(Time::ZERO, true, 1e8, 9e7, RTT);
        let mut rate = |queue_ms: f64, link: f64| {
            compete.leave_half(is_bbrs(queue_ms * MS, RTT), link);
            compete.rate()
        };
        assert_eq!(rate(50.0, 1e8), 5e7);
        assert_eq!(rate(50.0, 4e7), 2e7, "pairs tell that the link is slower");
        assert!(rate(20.0, 1e8) > 8e7, "its own probing makes such a queue");
    }

    #[test]
    fn who_does_as_a_bbr_does_leaves_the_look_at_the_round_trip_to_the_other() {
        let mut compete = compete();
        compete.match_bbr(Time::ZERO, true, 1e8, 0.0, RTT);
        for turn in 1..6000 {
            // A queue stands all the time.
            compete.on_ack(&AckSample { rtt: Some(RTT * 2), ..ack(10 * turn, 30 * turn) });
            assert!(compete.window_bytes() > 1e5, "{} ms", 10 * turn);
        }
    }

    #[test]
    fn who_is_marked_does_not_do_as_a_bbr_does() {
        let phase = |ce_bytes: u64| {
            let rate = Rate::from_mbps(100.0);
            let path_rate = Some(PathRate { rate, passed: rate, is_bottleneck: true });
            let mut control = Adaptive::new(ControlConfig { path_rate, ..ControlConfig::new(1000, RTT) });
            control.compete(100.0);
            control.dips.seen = Some(Time::from_millis(10));
            control.heed_marks(&AckSample { ce_bytes, ..ack(10, 10) });
            control.look_beside_rivals(Time::from_millis(20), 1e7);
            control.snapshot().phase
        };
        assert_eq!([phase(0), phase(1000)], ["as BBR", "compete"]);
    }

    /// Dips of a queue of 40 ms at these seconds.
    fn dips(at_s: &[f64], rtt: Duration) -> bool {
        let mut dips = Dips::default();
        (0..4000).any(|tick| {
            let at = 0.01 * f64::from(tick);
            let is_dip = at_s.iter().any(|dip| (*dip..dip + 0.25).contains(&at));
            let now = Time::from_millis(10 * tick as u64);
            dips.end_tick(now, if is_dip { 2.0 * MS } else { 40.0 * MS }, rtt);
            dips.is_bbr(now)
        })
    }

    #[test]
    fn only_dips_ten_seconds_apart_are_a_bbrs() {
        assert!(dips(&[5.0, 15.3, 25.6], RTT));
        assert!(!dips(&[5.0, 13.0, 25.0], RTT), "now and then");
        assert!(!dips(&[5.0, 10.0, 15.3, 20.0], RTT), "others come between");
    }

    #[test]
    fn what_strays_by_little_of_a_long_round_trip_is_no_bbrs_dip() {
        assert!(dips(&[5.0, 15.3], RTT));
        assert!(!dips(&[5.0, 15.3], RTT * 2));
    }
}
