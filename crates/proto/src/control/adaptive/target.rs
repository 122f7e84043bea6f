//! How long a queue is aimed at, and how long ours may be.

use super::{Adaptive, GROWTH_FIRST, LITTLE};
use crate::units::nanos;

impl Adaptive {
    /// The queue aimed at: long enough that the bottleneck never idles, short against a round trip, and shorter the
    /// more we carry.
    pub(super) fn target_ns(&self) -> f64 {
        let base = self.target_base_ns().min(self.ceiling.room_ns);
        let most_ns = (TARGET_MOST * nanos(self.rtt) as f64).max(base);
        (base * self.target_share()).min(most_ns) + self.noise_ns().min(NOISE_TARGETS * base)
    }

    /// The target at [`TARGET_RATE`], if the queue has room for it.
    pub(super) fn target_base_ns(&self) -> f64 {
        (TARGET_SHARE * nanos(self.rtt) as f64 + TARGET_MIN_NS).min(TARGET_MAX_NS)
    }

    /// What a flow of our rate makes of it.
    pub(super) fn target_share(&self) -> f64 {
        if self.is_background {
            return LITTLE;
        }
        (TARGET_RATE / self.bandwidth).sqrt().min(TARGET_FACTOR_MAX)
    }

    /// The queue that is ours or that of our like, at most.
    pub(super) fn own_queue_ns(&self) -> f64 {
        let target = self.target_base_ns() * self.target_share();
        OWN_QUEUE_TARGETS * target + GROWTH_FIRST * nanos(self.rtt) as f64 + TARGET_MAX_NS
    }
}

/// The queue aimed at: this share of the round trip and this much, so that targets span the same factor by path as by rate …
const TARGET_SHARE: f64 = 0.09;
const TARGET_MIN_NS: f64 = TARGET_MAX_NS / TARGET_FACTOR_MAX;
/// … up to this, the same for all but the shortest paths, so that a longer round trip earns no larger share …
pub(super) const TARGET_MAX_NS: f64 = 2_000_000.0;
/// … by a flow that carries so much (bit/s); by the square root less by one that carries more: twice the rate at a
/// target three tenths lower. Steeper would share more firmly, and leave no target that can be measured at 10 Gb/s.
const TARGET_RATE: f64 = 1e8;
/// A slower flow's target grows no further than this: without it thirty flows on 10 Mb/s lose half a point more …
const TARGET_FACTOR_MAX: f64 = 10.0;
/// … and not beyond this share of the round trip. Without both, one CUBIC on 20 Mb/s is left 32 % (`sharing`).
pub(super) const TARGET_MOST: f64 = 0.25;
/// What the measured delay strays by goes on top, up to so many bases: without a bound one CUBIC on 20 Mb/s is left 14 % (`sharing`).
const NOISE_TARGETS: f64 = 0.5;
/// A queue longer than so many targets by the longest base, and by what a rate that is too high by [`GROWTH_FIRST`] adds in a round
/// trip, is not the work of our like. Without what it adds `rough.toml` carries 65 instead of 75 %.
const OWN_QUEUE_TARGETS: f64 = 1.5;
