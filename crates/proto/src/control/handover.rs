//! When an object is handed to TCP, and when it is taken back (Dickens & Gropp §7): TCP has it while others' traffic
//! lasts.
//!
//! *Congestion* is the traffic of others: for a second the queue does not empty, but for moments, and less is delivered
//! than the path has shown it can carry. Our own queue empties when we send less, and random loss fills none. It is over
//! when that much is delivered again, or when TCP's spell is over.

use crate::units::Time;
use core::time::Duration;

/// Told of how a transfer goes, a round trip at a time, it says who is to have it. It begins as an object.
#[derive(Debug)]
pub struct Handover {
    has_tcp: bool,
    /// When it last changed hands.
    turned: Time,
    /// How long a spell of TCP lasts where nothing ends it.
    spell: Duration,
    /// bit/s: most that was ever delivered in a round while TCP did not have it, and in the last of all.
    peak: f64,
    delivered: f64,
    /// When rounds looked contended, but for short gaps.
    contended: Option<Lasting>,
    /// When every round delivered what the path carries.
    alone: Option<Lasting>,
    /// TCP could not be had, or not be kept: it is not to have the object before.
    refused_until: Time,
}

/// Something that was so again and again.
#[derive(Clone, Copy, Debug)]
struct Lasting {
    since: Time,
    last: Time,
}

/// A round trip of a transfer, at least [`ROUND_MIN`], in which the path alone held it up.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// How long it was.
    pub span: Duration,
    /// What was delivered, bit/s.
    pub delivered: f64,
    /// Least round trip in it; of no meaning while TCP has the object.
    pub rtt: Option<Duration>,
    /// Least round trip of all.
    pub rtt_min: Duration,
}

/// Who is to have it from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// TCP.
    ToTcp,
    /// The object's own control.
    ToObject,
}

impl Default for Handover {
    fn default() -> Handover {
        Handover {
            has_tcp: false,
            turned: Time::ZERO,
            spell: SPELL_MIN,
            peak: 0.0,
            delivered: 0.0,
            contended: None,
            alone: None,
            refused_until: Time::ZERO,
        }
    }
}

impl Handover {
    /// When it last changed hands.
    pub fn turned(&self) -> Time {
        self.turned
    }

    /// The most that was delivered in a round while TCP did not have it, bit/s.
    pub fn peak(&self) -> f64 {
        self.peak
    }

    /// What was delivered in the last round, bit/s.
    pub fn delivered(&self) -> f64 {
        self.delivered
    }

    /// A round was measured.
    pub fn judge(&mut self, now: Time, round: Round) {
        self.delivered = round.delivered;
        // What TCP puts in order comes in heaps, the last of them when it has given the object back: they say nothing of the path.
        if !self.has_tcp && now.since(self.turned) >= SUSTAINED {
            self.peak = self.peak.max(round.delivered);
        }
        // Against the shortest round trip of all: a shorter memory would take a queue that others keep up for the path.
        let empty = round.rtt_min + round.rtt_min / STANDING_SHARE + STANDING_MIN;
        let standing = round.rtt.is_some_and(|rtt| rtt > empty);
        let is_contended = standing && round.delivered < CONTENDED * self.peak;
        let is_alone = round.delivered >= ALONE * self.peak;
        // The object's controller empties the queue now and then, to see what fills it.
        let gap = GAP.max(round.rtt_min * GAP_ROUNDS).max(round.span.mul_f64(1.5));
        self.contended = Lasting::note(self.contended, is_contended, now, gap);
        self.alone = Lasting::note(self.alone, is_alone, now, round.span.mul_f64(1.5)).filter(|_| is_alone);
    }

    /// A round is over, measured or not: whether it changes hands.
    pub fn review(&mut self, now: Time, rtt_min: Duration) -> Option<Turn> {
        let sustained = SUSTAINED.max(rtt_min * SUSTAINED_ROUNDS);
        // A sign of now: what was so before a pause says nothing.
        let lasts = |what: Option<Lasting>| {
            what.is_some_and(|what| what.last == now && now.since(what.since) >= sustained)
        };
        if !self.has_tcp {
            if !lasts(self.contended) || now < self.refused_until {
                return None;
            }
            self.turn(now, true);
            return Some(Turn::ToTcp);
        }
        let free = lasts(self.alone);
        if !free && now.since(self.turned) < self.spell {
            return None;
        }
        self.spell = if free { SPELL_MIN } else { (self.spell * 2).min(SPELL_MAX) };
        self.turn(now, false);
        Some(Turn::ToObject)
    }

    /// TCP was to have it and could not, or something else has it now. TCP is not asked again soon.
    pub fn keep_object(&mut self, now: Time) {
        self.turn(now, false);
        self.refused_until = now + SPELL_MIN;
    }

    /// So much time passed in which nothing was to be sent: it does not count.
    pub fn rest(&mut self, span: Duration) {
        self.turned = self.turned + span;
    }

    fn turn(&mut self, now: Time, has_tcp: bool) {
        (self.has_tcp, self.turned) = (has_tcp, now);
        (self.contended, self.alone) = (None, None);
    }
}

impl Lasting {
    /// Whether it is so now. It goes on over a gap, and begins anew after a longer one.
    fn note(what: Option<Lasting>, is_so: bool, now: Time, gap: Duration) -> Option<Lasting> {
        let goes_on = what.filter(|what| now.since(what.last) <= gap);
        if is_so {
            Some(Lasting { since: goes_on.map_or(now, |what| what.since), last: now })
        } else {
            goes_on
        }
    }
}

/// Rounds are a round trip, but long enough for a rate to mean something.
pub const ROUND_MIN: Duration = Duration::from_millis(100);
/// It changes hands when the signs for it have held for so long, and for so many round trips.
const SUSTAINED: Duration = Duration::from_secs(1);
const SUSTAINED_ROUNDS: u32 = 10;
/// So long, and so many round trips, without a sign of others' traffic do not end it.
const GAP: Duration = Duration::from_millis(300);
const GAP_ROUNDS: u32 = 6;
/// A queue of more than this part of a round trip, beside a little: more than our own control leaves standing.
const STANDING_SHARE: u32 = 5;
const STANDING_MIN: Duration = Duration::from_millis(1);
/// Delivering less than this part of the most ever is having to share, …
const CONTENDED: f64 = 0.8;
/// … and this much of it is having the path alone.
const ALONE: f64 = 0.92;
/// TCP's spell ends after so long in any case: on a path that loses at random, or has become slower for good, TCP
/// would never reach what the path once carried. Each spell that found no end is followed by one twice as long.
const SPELL_MIN: Duration = Duration::from_secs(20);
const SPELL_MAX: Duration = Duration::from_secs(80);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(40);

    /// A round of 100 ms, with what was delivered, Mb/s, and the queue.
    fn round(handover: &mut Handover, at_ms: u64, (delivered, queue_ms): (f64, u64)) -> Option<Turn> {
        let (now, rtt) = (Time::from_millis(at_ms), Some(RTT + Duration::from_millis(queue_ms)));
        handover.judge(now, Round { span: Duration::from_millis(100), delivered, rtt, rtt_min: RTT });
        handover.review(now, RTT)
    }

    /// Such rounds one after another: seconds after which it changed hands.
    fn turns(rounds: impl IntoIterator<Item = (f64, u64)>) -> Vec<f64> {
        let mut handover = Handover::default();
        let turned = (1..).zip(rounds).filter(|(n, seen)| round(&mut handover, 100 * n, *seen).is_some());
        turned.map(|(n, _)| n as f64 / 10.0).collect()
    }

    fn rounds(seconds: f64, delivered: f64, queue_ms: u64) -> Vec<(f64, u64)> {
        vec![(delivered, queue_ms); (seconds * 10.0) as usize]
    }

    #[test]
    fn others_traffic_hands_it_to_tcp_and_their_going_takes_it_back() {
        let story = [rounds(5.0, 95.0, 2), rounds(10.0, 40.0, 30), rounds(5.0, 94.0, 30)].concat();
        assert_eq!(turns(story), [6.1, 16.1]);
    }

    #[test]
    fn neither_a_queue_of_our_own_nor_loss_does() {
        assert!(turns([rounds(5.0, 95.0, 2), rounds(20.0, 90.0, 30)].concat()).is_empty());
        assert!(turns([rounds(5.0, 95.0, 2), rounds(20.0, 40.0, 0)].concat()).is_empty());
    }

    #[test]
    fn moments_without_a_queue_end_nothing_and_longer_ones_do() {
        let gaps = |gap_s| [rounds(0.5, 40.0, 30), rounds(gap_s, 40.0, 0)].concat().repeat(4);
        assert_eq!(turns([rounds(5.0, 95.0, 2), gaps(0.2)].concat()), [6.1]);
        assert!(turns([rounds(5.0, 95.0, 2), gaps(0.6)].concat()).is_empty());
    }

    #[test]
    fn what_was_so_before_a_pause_says_nothing() {
        let mut handover = Handover::default();
        (1..50).for_each(|n| assert_eq!(round(&mut handover, 100 * n, (95.0, 2)), None));
        assert_eq!(round(&mut handover, 5000, (40.0, 30)), None);
        assert_eq!(round(&mut handover, 65_000, (40.0, 30)), None, "a minute later");
        assert_eq!(handover.review(Time::from_millis(70_000), RTT), None, "nothing was measured");
    }

    #[test]
    fn tcp_that_could_not_be_had_is_not_asked_again_soon() {
        let mut handover = Handover::default();
        let mut asked = vec![];
        for n in 1..600 {
            let seen = if n < 50 { (95.0, 2) } else { (40.0, 30) };
            if round(&mut handover, 100 * n, seen).is_some() {
                asked.push(n / 10);
                handover.keep_object(Time::from_millis(100 * n));
            }
        }
        assert_eq!(asked, [6, 26, 46]);
    }

    #[test]
    fn spells_without_an_end_become_longer() {
        let turned = turns([rounds(5.0, 95.0, 2), rounds(75.0, 40.0, 30)].concat());
        let spells: Vec<f64> = turned.chunks_exact(2).map(|spell| (spell[1] - spell[0]).round()).collect();
        assert_eq!(spells, [20.0, 40.0]);
    }
}
