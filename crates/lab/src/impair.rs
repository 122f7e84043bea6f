//! What befalls packets beyond the queue: loss, corruption, duplication, reordering, jitter.

use crate::End;
use fastrand::Rng;
use longhaul_sim::impair::Dice;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;

/// What becomes of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fate {
    /// It never arrives.
    pub lost: bool,
    /// A byte of it arrives changed.
    pub corrupt: Option<Flip>,
    /// It arrives twice.
    pub duplicated: bool,
    /// It is held back by this many packet times, so that later ones overtake it.
    pub held_packets: Option<u32>,
    /// It takes this much longer, 0 to 1 of the scenario's jitter.
    pub jitter: f64,
}

/// Where and how a byte changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Flip {
    /// Where in the payload, 0 to 1.
    pub place: f64,
    /// The bits that change: at least one.
    pub bits: u8,
}

/// Decides the fate of one packet after the other. Each kind of impairment has random numbers of its own and draws
/// equally many for every packet: the fate of the *n*-th packet follows from the scenario's seed, the direction and
/// *n*, and what one impairment decides does not depend on the others. The packets lost are those that the simulator
/// loses.
#[derive(Debug)]
pub struct Impairments {
    loss: Dice,
    corrupt: Chance,
    duplicate: Chance,
    reorder: Chance,
    jitter: Rng,
}

impl Impairments {
    /// For the packets that `from` sends.
    pub fn new(scenario: &Scenario, from: End) -> Impairments {
        let path = PathConfig::new(scenario);
        let link = match from {
            End::Left => path.forward,
            End::Right => path.reverse,
        };
        let rng = |kind: u64| Rng::with_seed(scramble(scenario.seed ^ scramble(kind * 2 + from as u64)));
        Impairments {
            loss: Dice::new(link.impairments, link.seed),
            corrupt: Chance { share: scenario.corrupt, rng: rng(2) },
            duplicate: Chance { share: scenario.duplicate, rng: rng(3) },
            reorder: Chance { share: scenario.reorder, rng: rng(4) },
            jitter: rng(5),
        }
    }

    /// From now on this share is lost.
    pub fn set_loss(&mut self, share: f64) {
        self.loss.set_loss(share);
    }

    /// The fate of the next packet.
    pub fn next_fate(&mut self) -> Fate {
        let (lost, duplicated) = (self.loss.roll().lost, self.duplicate.next_hit());
        let corrupt = self.corrupt.next_hit();
        let flip = Flip { place: self.corrupt.rng.f64(), bits: self.corrupt.rng.u8(1..) };
        let reorder = self.reorder.next_hit();
        let held = self.reorder.rng.u32(HELD_PACKETS);
        Fate {
            lost,
            corrupt: corrupt.then_some(flip),
            duplicated,
            held_packets: reorder.then_some(held),
            jitter: self.jitter.f64(),
        }
    }
}

#[derive(Clone, Debug)]
struct Chance {
    share: f64,
    rng: Rng,
}

impl Chance {
    fn next_hit(&mut self) -> bool {
        self.rng.f64() < self.share
    }
}

/// Every bit of the result depends on every bit of `x` (the finaliser of MurmurHash3).
fn scramble(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// As in the simulator.
const HELD_PACKETS: std::ops::RangeInclusive<u32> = 2..=8;

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 400_000;

    fn scenario() -> Scenario {
        Scenario { loss: 0.02, loss_reverse: 0.02, seed: 7, ..Scenario::new(100.0, 10.0) }
    }

    fn fates(scenario: &Scenario, from: End) -> Vec<Fate> {
        let mut impairments = Impairments::new(scenario, from);
        (0..PACKETS).map(|_| impairments.next_fate()).collect()
    }

    fn share(fates: &[Fate], what: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|fate| what(fate)).count() as f64 / fates.len() as f64
    }

    /// Mean number of packets lost in a row.
    fn mean_burst(fates: &[Fate]) -> f64 {
        let lost = fates.iter().filter(|fate| fate.lost).count();
        let bursts = fates.windows(2).filter(|pair| !pair[0].lost && pair[1].lost).count();
        lost as f64 / bursts as f64
    }

    fn near(found: f64, asked: f64) {
        assert!((found / asked - 1.0).abs() < 0.05, "{found} instead of {asked}");
    }

    #[test]
    fn independent_loss_has_its_share() {
        let fates = fates(&scenario(), End::Left);
        near(share(&fates, |fate| fate.lost), 0.02);
        near(mean_burst(&fates), 1.0 / 0.98);
    }

    #[test]
    fn bursts_have_their_share_and_length() {
        let fates = fates(&Scenario { burst: Some(5.0), ..scenario() }, End::Left);
        near(share(&fates, |fate| fate.lost), 0.02);
        near(mean_burst(&fates), 5.0);
    }

    #[test]
    fn all_or_nothing() {
        let fates_at = |loss| fates(&Scenario { loss, ..scenario() }, End::Left);
        assert!(fates_at(1.0).iter().all(|fate| fate.lost));
        assert!(fates_at(0.0).iter().all(|fate| !fate.lost));
    }

    #[test]
    fn seeds_and_directions_decide() {
        let left = fates(&scenario(), End::Left);
        assert_eq!(left, fates(&scenario(), End::Left));
        assert_ne!(left, fates(&scenario(), End::Right));
        assert_ne!(left, fates(&Scenario { seed: 8, ..scenario() }, End::Left));
    }

    #[test]
    fn impairments_do_not_disturb_each_other() {
        let plain = fates(&scenario(), End::Left);
        let all = Scenario { reorder: 0.1, duplicate: 0.03, corrupt: 0.05, jitter_ms: 3.0, ..scenario() };
        let all = fates(&all, End::Left);
        assert!(plain.iter().zip(&all).all(|(a, b)| a.lost == b.lost));
        near(share(&all, |fate| fate.held_packets.is_some()), 0.1);
        near(share(&all, |fate| fate.duplicated), 0.03);
        near(share(&all, |fate| fate.corrupt.is_some()), 0.05);
    }
}
