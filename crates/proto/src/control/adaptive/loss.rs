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

    /// Datagrams that must have come by since, and the share of them that the path lost, without what the receiving
    /// host dropped itself.
    pub fn until(&self, ack: &AckSample, datagram_len: f64) -> (f64, f64) {
        let covered = ack.covered_bytes.saturating_sub(self.covered) as f64;
        let received = ack.received_bytes.saturating_sub(self.received) as f64;
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
}

impl LossWatch {
    /// Measure anew from here on.
    pub fn restart(&mut self, ack: &AckSample) {
        self.stretches = [Counted::at(ack); STRETCHES.len()];
    }

    /// The share that is lost, if it is more than random loss and chance explain. The random share itself only falls
    /// here: if it followed what is measured while the bottleneck is full, it would take our own congestion for the
    /// path's nature, send more to make up for it, and so lose ever more.
    pub fn excess(&mut self, ack: &AckSample, datagram_len: f64) -> Option<f64> {
        for (begin, (datagrams_min, tolerated)) in self.stretches.iter_mut().zip(STRETCHES) {
            let (datagrams, loss) = begin.until(ack, datagram_len);
            if datagrams < datagrams_min {
                continue;
            }
            *begin = Counted::at(ack);
            if loss > self.random + tolerated + chance(self.random, datagrams) {
                return Some(loss);
            }
            if loss < self.random - chance(self.random, datagrams) {
                self.random = loss;
            }
        }
        None
    }

    /// Over how many datagrams loss must be measured again to tell a share of `loss` from the random one: until chance
    /// is half of the difference, and small.
    pub fn datagrams_to_judge(&self, loss: f64) -> f64 {
        let share = self.random.max(SHARE_MIN).max(loss / 2.0);
        let half = ((loss - self.random) / 2.0).clamp(1e-3, PRECISION);
        (9.0 * share * (1.0 - share) / (half * half)).clamp(JUDGE_MIN, JUDGE_MAX)
    }
}

/// How far a loss share of `share` measured over `datagrams` strays by chance: three standard deviations.
pub(super) fn chance(share: f64, datagrams: f64) -> f64 {
    let share = share.max(SHARE_MIN);
    3.0 * (share * (1.0 - share) / datagrams.max(1.0)).sqrt()
}

/// Loss is measured over so many datagrams, and so much above the random share is let pass beside chance: a short
/// stretch that notices a flood at once, and a long one that notices a trickle.
const STRETCHES: [(f64, f64); 2] = [(200.0, 0.02), (2000.0, 0.003)];
/// Where nothing seems to be lost, chance is reckoned with this share.
const SHARE_MIN: f64 = 0.003;
/// The random share is wanted at least this exactly: what it is taken for too much is wasted.
const PRECISION: f64 = 0.01;
/// Bounds of the datagrams that a judgement takes.
const JUDGE_MIN: f64 = 100.0;
const JUDGE_MAX: f64 = 3000.0;
