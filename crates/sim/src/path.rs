//! Builds both directions of a path from a scenario.

use crate::impair::{Impairments, mix};
use crate::link::LinkConfig;
use crate::policer::PolicerConfig;
use crate::quantities::{both_ways, millis, rate};
use crate::scenario::Scenario;
use longhaul_proto::units::Rate;
use std::time::Duration;

/// A path: two directions, and the hosts' devices at their ends.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// From left to right.
    pub forward: LinkConfig,
    /// From right to left.
    pub reverse: LinkConfig,
    /// Rate of every host's device.
    pub device_rate: Rate,
    /// Largest IP packet that passes, in bytes.
    pub mtu: u32,
}

impl PathConfig {
    /// The path that a scenario describes. The scenario's values are taken as valid.
    ///
    /// Where the scenario names no `nic_mbit`, the devices run at ten times the bottleneck, at least at 10 Gb/s:
    /// nothing that a well-behaved flow notices, and a sender without any control still comes to an end of what it can
    /// send at one moment.
    pub fn new(scenario: &Scenario) -> PathConfig {
        let rate = rate(scenario.bottleneck_mbit);
        let [forward_delay, reverse_delay] = both_ways(scenario.rtt_ms);
        let packet = rate.time_for(u64::from(scenario.mtu));
        let policer = scenario.policer_mbit.map(|mbit| PolicerConfig {
            rate: self::rate(mbit),
            burst_bytes: scenario.policer_burst_bytes(mbit),
        });
        let link = |loss: f64, delay: Duration, direction: u64| LinkConfig {
            rate,
            delay,
            policer,
            queue_bytes: scenario.queue_bytes(),
            discipline: scenario.queue_discipline,
            mark_after: millis(scenario.mark_ms.unwrap_or(MARK_MS)),
            mtu: scenario.mtu,
            marks: scenario.marks,
            impairments: Impairments {
                loss,
                burst: scenario.burst,
                corrupt: scenario.corrupt,
                duplicate: scenario.duplicate,
                reorder: scenario.reorder,
                hold: packet * HOLD_MIN_PACKETS..=packet * HOLD_MAX_PACKETS,
                jitter: millis(scenario.jitter_ms),
            },
            steps: scenario.steps.iter().filter_map(|step| step.link_step(direction == FORWARD)).collect(),
            seed: mix(scenario.seed ^ mix(direction)),
        };
        PathConfig {
            forward: link(scenario.loss, forward_delay, FORWARD),
            reverse: link(scenario.loss_reverse, reverse_delay, REVERSE),
            device_rate: match scenario.nic_mbit {
                Some(nic_mbit) => self::rate(nic_mbit),
                None => rate.scale(10.0).max(Rate::from_mbps(10_000.0)),
            },
            mtu: scenario.mtu,
        }
    }
}

/// As L4S queues mark (RFC 9332 §A.1, and the step of the first implementations).
const MARK_MS: f64 = 1.0;
/// Directions, as they are mixed into the seed.
const FORWARD: u64 = 1;
const REVERSE: u64 = 2;
/// A packet held back by less than two packet times need not be overtaken.
const HOLD_MIN_PACKETS: u32 = 2;
/// More than the three packets after which TCP takes a gap for a loss (RFC 5681).
const HOLD_MAX_PACKETS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directions_share_all_but_loss_and_randomness() {
        let mut scenario = Scenario::new(622.08, 65.000_001);
        (scenario.loss, scenario.loss_reverse) = (0.1, 0.2);
        let path = PathConfig::new(&scenario);
        assert_eq!(path.forward.rate, Rate(622_080_000));
        assert_eq!(path.forward.delay, Duration::from_nanos(32_500_000));
        assert_eq!(path.reverse.delay, Duration::from_nanos(32_500_001));
        assert_eq!((path.forward.impairments.loss, path.reverse.impairments.loss), (0.1, 0.2));
        assert_eq!(path.forward.queue_bytes, path.reverse.queue_bytes);
        assert_ne!(path.forward.seed, path.reverse.seed);
    }

    #[test]
    fn devices() {
        let mut scenario = Scenario::new(100.0, 10.0);
        assert_eq!(PathConfig::new(&scenario).device_rate, Rate::from_mbps(10_000.0));
        scenario.bottleneck_mbit = 10_000.0;
        assert_eq!(PathConfig::new(&scenario).device_rate, Rate::from_mbps(100_000.0));
        scenario.nic_mbit = Some(50.0);
        assert_eq!(PathConfig::new(&scenario).device_rate, Rate::from_mbps(50.0));
    }
}
