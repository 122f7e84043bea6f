//! Which share of the datagrams is lost, and whether that is more than chance.

use crate::control::AckSample;

/// Counters where a stretch of measurement began.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Counted {
    covered: u64,
    received: u64,
    overrun: u64,
}

impl Counted {
    pub fn at(ack: &AckSample) -> Counted {
        Counted { covered: ack.covered_bytes, received: ack.received_bytes, overrun: ack.overrun_bytes }
    }

    /// Bytes that came in since.
    pub fn received_until(&self, ack: &AckSample) -> u64 {
        ack.received_bytes.saturating_sub(self.received)
    }

    /// Datagrams that must have come by since, and the share of them that the path lost, without what the receiving
    /// host dropped itself.
    pub fn until(&self, ack: &AckSample, datagram_len: f64) -> (f64, f64) {
        let covered = ack.covered_bytes.saturating_sub(self.covered) as f64;
        let received = self.received_until(ack) as f64;
        let overrun = ack.overrun_bytes.saturating_sub(self.overrun) as f64;
        (covered / datagram_len, ((covered - received - overrun) / covered.max(1.0)).clamp(0.0, 1.0))
    }
}

/// What is lost whatever the rate, and the measurements that go on to see more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossWatch {
    /// Share of datagrams that are lost whatever the rate.
    pub random: f64,
    stretches: [Counted; STRETCHES.len()],
    /// The share lost of late, and by how much what is lost of a few datagrams strays from it: the mean square, in
    /// datagrams.
    mean: f64,
    square: f64,
}

impl LossWatch {
    /// Measure anew from here on.
    pub fn restart(&mut self, ack: &AckSample) {
        self.stretches = [Counted::at(ack); STRETCHES.len()];
    }

    /// The share `loss` of `datagrams` in a row was lost.
    pub fn learn_dispersion(&mut self, datagrams: f64, loss: f64, is_crowded: bool) {
        if is_crowded {
            (self.mean, self.square) = (0.0, 0.0);
            return;
        }
        let stray = datagrams * (loss - self.mean);
        self.mean += (loss - self.mean) * SLOW_GAIN;
        self.square += (stray * stray / datagrams - self.square) * SLOW_GAIN;
    }

    /// How much more the number lost varies than if each datagram were lost by itself: its index of dispersion, that of
    /// bursts of four is seven.
    fn dispersion(&self) -> f64 {
        (self.square / self.mean.max(SHARE_MIN)).max(1.0)
    }

    /// How far a loss share of `share` measured over `datagrams` strays by chance: three standard deviations.
    pub fn chance(&self, share: f64, datagrams: f64) -> f64 {
        let share = share.max(SHARE_MIN);
        3.0 * (share * (1.0 - share) * self.dispersion() / datagrams.max(1.0)).sqrt()
    }

    /// The share that is lost, if it is more than random loss and chance explain. The random share itself only falls
    /// here: if it followed what is measured while the bottleneck is full, it would take our own congestion for the
    /// path's nature, send more to make up for it, and so lose ever more.
    pub fn excess(&mut self, ack: &AckSample, datagram_len: f64) -> Option<f64> {
        for (i, (datagrams_min, tolerated)) in STRETCHES.into_iter().enumerate() {
            let (datagrams, loss) = self.stretches[i].until(ack, datagram_len);
            if datagrams < datagrams_min {
                continue;
            }
            self.stretches[i] = Counted::at(ack);
            let chance = self.chance(self.random, datagrams);
            if loss > self.random + tolerated + chance {
                return Some(loss);
            }
            if loss < self.random - chance {
                self.random = loss;
            }
        }
        None
    }

    /// Over how many datagrams loss must be measured again to tell a share of `loss` from the random one: until chance
    /// is half of the difference, and at most half of what a short stretch lets pass above the random share, for what that is
    /// taken for too much is wasted.
    pub fn datagrams_to_judge(&self, loss: f64) -> f64 {
        let share = self.random.max(SHARE_MIN).max(loss / 2.0);
        let [(short, tolerated), (long, _)] = STRETCHES;
        let half = (loss - self.random).min(tolerated) / 2.0;
        (9.0 * share * (1.0 - share) * self.dispersion() / (half * half)).clamp(short, long)
    }
}

/// Loss is measured over so many datagrams, and so much above the random share is let pass beside chance: a short
/// stretch that notices a flood at once, and a long one that notices a trickle. A judgement takes no fewer and no more.
pub(super) const STRETCHES: [(f64, f64); 2] = [(200.0, 0.02), (2000.0, SHARE_MIN)];
/// No path that is worth using loses more at random: what does is overfull, and a first train met a full queue. Less can wait until
/// the first rate is found.
pub(super) const RANDOM_MAX: f64 = 0.2;
/// Weight of what is new in means that no burst is to move much.
const SLOW_GAIN: f64 = 1.0 / 64.0;
/// Where nothing seems to be lost, chance is reckoned with this share.
const SHARE_MIN: f64 = 0.003;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Time;
    use core::time::Duration;

    const LEN: f64 = 1000.0;

    fn ack(sent: u64, received: u64, overrun: u64) -> AckSample {
        AckSample {
            now: Time::ZERO,
            arrival: Time::ZERO,
            one_way_ns: None,
            rtt: None,
            rtt_min: Duration::ZERO,
            received_bytes: received * 1000,
            accepted_bytes: received * 1000,
            covered_bytes: sent * 1000,
            overrun_bytes: overrun * 1000,
            ce_bytes: 0,
            pressure: 0.0,
            latest: sent,
            largest: sent,
            next_number: sent + 1,
            in_flight: 0,
            app_limited: false,
            time_lost: Duration::ZERO,
        }
    }

    #[test]
    fn a_flood_is_noticed_at_once_and_a_trickle_later() {
        let mut watch = LossWatch::default();
        assert_eq!(watch.excess(&ack(199, 150, 0), LEN), None, "too few to say");
        assert!(watch.excess(&ack(200, 150, 0), LEN).is_some());
        let mut watch = LossWatch::default();
        let noticed = (1..30).find(|i| watch.excess(&ack(200 * i, 200 * i - 3 * i, 0), LEN).is_some());
        assert_eq!(noticed, Some(10), "1.5 % is no chance over 2000");
    }

    #[test]
    fn what_the_receiving_host_drops_is_not_the_paths_loss() {
        let mut watch = LossWatch::default();
        assert_eq!(watch.excess(&ack(1000, 700, 300), LEN), None);
    }

    #[test]
    fn the_random_share_falls_only_when_clearly_less_is_lost() {
        let mut watch = LossWatch { random: 0.05, ..LossWatch::default() };
        assert_eq!(watch.excess(&ack(200, 194, 0), LEN), None);
        assert_eq!(watch.random, 0.05, "3 % of 200 may be chance");
        assert_eq!(watch.excess(&ack(4000, 3994, 0), LEN), None);
        assert!(watch.random < 0.002);
    }

    #[test]
    fn what_is_lost_in_bursts_varies_more_by_chance() {
        let learnt = |losses: [f64; 4], is_crowded| {
            let mut watch = LossWatch::default();
            (0..400).for_each(|n| watch.learn_dispersion(40.0, losses[n % 4], is_crowded));
            watch
        };
        // One in forty each time, and four at once each fourth time.
        let (even, bursts) = (learnt([0.025; 4], false), learnt([0.0, 0.0, 0.0, 0.1], false));
        assert_eq!(even.dispersion(), 1.0);
        assert!((2.5..4.0).contains(&bursts.dispersion()), "{}", bursts.dispersion());
        assert!(bursts.chance(0.025, 1000.0) > 1.5 * even.chance(0.025, 1000.0));
        assert!(bursts.datagrams_to_judge(0.02) > 2.0 * even.datagrams_to_judge(0.02));
        assert_eq!(
            learnt([0.0, 0.0, 0.0, 0.1], true).dispersion(),
            1.0,
            "in a crowd it is the crowd that varies"
        );
    }

    #[test]
    fn the_smaller_the_difference_the_longer_the_judgement() {
        let watch = LossWatch::default();
        assert!(watch.datagrams_to_judge(0.01) > watch.datagrams_to_judge(0.3) / 2.0);
        assert!(watch.datagrams_to_judge(0.004) > 2.0 * watch.datagrams_to_judge(0.02));
    }
}
