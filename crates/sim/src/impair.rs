//! What happens to packets at random: loss, corruption, duplication, reordering, jitter.

use fastrand::Rng;
use longhaul_proto::units::nanos;
use std::ops::RangeInclusive;
use std::time::Duration;

/// The impairments of one direction of a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Impairments {
    /// Share of packets lost.
    pub loss: f64,
    /// Mean number of packets lost in a row, at least 1; absent: each loss is independent.
    pub burst: Option<f64>,
    /// Share of packets that arrive with wrong bytes.
    pub corrupt: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets held back so that later ones overtake them.
    pub reorder: f64,
    /// How long those are held back.
    pub hold: RangeInclusive<Duration>,
    /// Every packet takes up to this much longer; order is kept.
    pub jitter: Duration,
}

/// A direction that does nothing to packets.
impl Default for Impairments {
    fn default() -> Impairments {
        Impairments {
            loss: 0.0,
            burst: None,
            corrupt: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            hold: Duration::ZERO..=Duration::ZERO,
            jitter: Duration::ZERO,
        }
    }
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It never arrives; the rest does not matter then.
    pub lost: bool,
    /// It arrives with wrong bytes; the number says which.
    pub corrupt: Option<u64>,
    /// It arrives twice, the copy this much later.
    pub copy_after: Option<Duration>,
    /// It is held back by this much and may be overtaken.
    pub held_back: Option<Duration>,
    /// It takes this much longer.
    pub jitter: Duration,
}

/// Decides the fate of packet after packet.
///
/// Each kind of impairment has a random stream of its own: the fate of the *n*-th packet follows from the seed and
/// *n*, and one impairment more does not change what another does.
#[derive(Debug)]
pub struct Dice {
    config: Impairments,
    in_burst: bool,
    loss: Rng,
    corrupt: Rng,
    duplicate: Rng,
    reorder: Rng,
    jitter: Rng,
}

impl Dice {
    /// Equal seeds give equal fates.
    pub fn new(config: Impairments, seed: u64) -> Dice {
        let stream = |kind: u64| Rng::with_seed(mix(seed ^ mix(kind)));
        let mut loss = stream(1);
        let in_burst = loss.f64() < config.loss;
        Dice {
            config,
            in_burst,
            loss,
            corrupt: stream(2),
            duplicate: stream(3),
            reorder: stream(4),
            jitter: stream(5),
        }
    }

    /// From now on this share is lost.
    pub fn set_loss(&mut self, share: f64) {
        self.config.loss = share;
    }

    /// The fate of the next packet.
    pub fn roll(&mut self) -> Fate {
        let lost = self.roll_loss();
        let wrong = self.corrupt.u64(..);
        Fate {
            lost,
            corrupt: happens(&mut self.corrupt, self.config.corrupt).then_some(wrong),
            copy_after: happens(&mut self.duplicate, self.config.duplicate)
                .then(|| between(&mut self.duplicate, Duration::ZERO, *self.config.hold.end())),
            held_back: happens(&mut self.reorder, self.config.reorder)
                .then(|| between(&mut self.reorder, *self.config.hold.start(), *self.config.hold.end())),
            jitter: between(&mut self.jitter, Duration::ZERO, self.config.jitter),
        }
    }

    fn roll_loss(&mut self) -> bool {
        let share = self.config.loss;
        let Some(burst) = self.config.burst else { return happens(&mut self.loss, share) };
        // Gilbert–Elliott with states that lose nothing and everything: leaving the bad state with 1/burst gives the
        // mean length, and entering it so that the states balance gives the share.
        let leave = 1.0 / burst;
        let change = if self.in_burst { leave } else { share * leave / (1.0 - share) };
        self.in_burst ^= happens(&mut self.loss, change);
        self.in_burst
    }
}

/// A number that differs in about half its bits for inputs that differ in one (the finisher of SplitMix64).
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn happens(rng: &mut Rng, share: f64) -> bool {
    share > 0.0 && rng.f64() < share
}

fn between(rng: &mut Rng, from: Duration, to: Duration) -> Duration {
    if to <= from { from } else { Duration::from_nanos(rng.u64(nanos(from)..=nanos(to))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: u32 = 400_000;

    fn fates(config: Impairments, seed: u64) -> Vec<Fate> {
        let mut dice = Dice::new(config, seed);
        (0..PACKETS).map(|_| dice.roll()).collect()
    }

    fn share(fates: &[Fate], what: impl Fn(&Fate) -> bool) -> f64 {
        fates.iter().filter(|fate| what(fate)).count() as f64 / fates.len() as f64
    }

    /// `found` within five standard errors of a share seen in as many independent draws.
    fn assert_share(found: f64, expected: f64, draws: f64) {
        let error = (expected * (1.0 - expected) / draws).sqrt();
        assert!((found - expected).abs() <= 5.0 * error, "{found} instead of {expected} ± {error}");
    }

    #[test]
    fn nothing_happens_on_a_clean_path() {
        assert!(fates(Impairments::default(), 3).iter().all(|fate| *fate == Fate::default()));
    }

    #[test]
    fn shares_are_as_asked() {
        let config = Impairments {
            loss: 0.01,
            corrupt: 0.02,
            duplicate: 0.03,
            reorder: 0.04,
            hold: Duration::from_micros(1)..=Duration::from_micros(3),
            jitter: Duration::from_micros(10),
            ..Impairments::default()
        };
        for seed in 0..3 {
            let fates = fates(config.clone(), seed);
            let draws = f64::from(PACKETS);
            assert_share(share(&fates, |fate| fate.lost), 0.01, draws);
            assert_share(share(&fates, |fate| fate.corrupt.is_some()), 0.02, draws);
            assert_share(share(&fates, |fate| fate.copy_after.is_some()), 0.03, draws);
            assert_share(share(&fates, |fate| fate.held_back.is_some()), 0.04, draws);
            assert_share(share(&fates, |fate| fate.jitter < Duration::from_micros(5)), 0.5, draws);
            assert!(fates.iter().filter_map(|fate| fate.held_back).all(|held| config.hold.contains(&held)));
            assert!(fates.iter().all(|fate| fate.jitter <= config.jitter));
        }
    }

    #[test]
    fn bursts_have_their_share_and_length() {
        for (loss, burst) in [(0.01, 1.0), (0.01, 3.0), (0.05, 20.0), (0.3, 2.0), (0.6, 4.0)] {
            let config = Impairments { loss, burst: Some(burst), ..Impairments::default() };
            let fates = fates(config, 11);
            let lost = share(&fates, |fate| fate.lost) * f64::from(PACKETS);
            let bursts = fates.windows(2).filter(|pair| !pair[0].lost && pair[1].lost).count() as f64;
            assert_share(lost / f64::from(PACKETS), loss, f64::from(PACKETS) / (2.0 * burst));
            // a geometric length of mean b has the standard deviation √(b(b−1))
            let error = (burst * (burst - 1.0) / bursts).sqrt();
            assert!((lost / bursts - burst).abs() <= 5.0 * error + 1e-3, "{} for {burst}", lost / bursts);
        }
    }

    #[test]
    fn one_impairment_does_not_change_another() {
        let loss = Impairments { loss: 0.1, ..Impairments::default() };
        let both = Impairments { corrupt: 0.5, duplicate: 0.5, ..loss.clone() };
        let lost = |config| fates(config, 5).iter().map(|fate| fate.lost).collect::<Vec<_>>();
        assert_eq!(lost(loss.clone()), lost(both));
        assert_ne!(lost(loss.clone()), fates(loss, 6).iter().map(|fate| fate.lost).collect::<Vec<_>>());
    }
}
