//! The first rate: from the path check, or from a train of our own.

use super::loss::RANDOM_MAX;
use super::pairs::RATE_MOST;
use super::{ALIKE, ALONE_SHARE, Adaptive, GROWTH_MAX, State};
use crate::control::bbr::WINDOW_FIRST;
use crate::control::{AckSample, RATE_MIN};
use crate::units::Rate;
use core::time::Duration;

impl Adaptive {
    /// A train came in at `rate`, what of it was not lost at `passed`. The path may be in use by others, so less than that is sent
    /// first. A train that the path did not stretch tells only that there is at least so much: go on doubling then.
    pub(super) fn start_up(&mut self, rate: f64, passed: f64, is_bottleneck: bool) {
        self.state = State::Cruise;
        self.met_full = passed < rate * (1.0 - RANDOM_MAX);
        self.growth = GROWTH_MAX;
        self.link = is_bottleneck.then_some(rate);
        self.bandwidth = (passed * ALONE_SHARE / (1.0 + GROWTH_MAX)).max(RATE_MIN);
        self.startup = Some(if is_bottleneck { rate } else { f64::INFINITY });
    }

    /// The train's acknowledgements: from the second on, their spacing is the path's.
    pub(super) fn read_train(&mut self, ack: &AckSample) {
        let span = ack.arrival.since(self.tick.arrival);
        let bytes = ack.received_bytes.saturating_sub(self.tick.received);
        if bytes > 0 && span > Duration::ZERO {
            self.bandwidth = Rate::measured(bytes, span).0 as f64;
        }
        if bytes as f64 >= ALONE_SHARE * TRAIN_LEN * self.datagram_len {
            let missing = ack.covered_bytes.saturating_sub(ack.received_bytes) as f64;
            if missing > RANDOM_MAX * ack.covered_bytes as f64 {
                self.lose_train();
            } else {
                self.leave_train();
            }
            self.begin_tick(ack);
            self.begin_round(ack);
        }
    }

    /// Most of the train was lost: what came of it says nothing. Begin as a TCP does where nothing is known (RFC 6928 §2), as BBR
    /// does, too.
    pub(super) fn lose_train(&mut self) {
        let tcp = WINDOW_FIRST as f64 * self.datagram_len * 8.0 / self.rtt.as_secs_f64();
        let rate = tcp.min(RATE_MOST);
        self.start_up(rate, rate, false);
        self.met_full = true;
    }

    /// Begin with what the train said until now.
    pub(super) fn leave_train(&mut self) {
        let rate = self.bandwidth.min(RATE_MOST);
        self.start_up(rate, rate, self.bandwidth < RATE_MOST * (1.0 - ALIKE));
    }
}

/// The first train: so many datagrams back to back; read when seven tenths of them have come in after its first: with ten
/// datagrams a policer of 20 Mb/s drops up to 7 % (`sharing`).
pub(super) const TRAIN_LEN: f64 = 16.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::testing::ack;
    use crate::control::{ControlConfig, Controller};
    use crate::path::PathRate;

    fn begin(passed_mbps: f64) -> Adaptive {
        let (rate, passed) = (Rate::from_mbps(100.0), Rate::from_mbps(passed_mbps));
        let path_rate = Some(PathRate { rate, passed, is_bottleneck: true });
        Adaptive::new(ControlConfig { path_rate, ..ControlConfig::new(1000, Duration::from_millis(40)) })
    }

    #[test]
    fn who_loses_a_tenth_of_less_than_the_link_while_it_looks_for_a_rate_has_met_others() {
        let meets = |control: &Adaptive, received_bytes: u64, delivered_mbps: f64| {
            let ack = AckSample { covered_bytes: 100_000, received_bytes, ..ack(40, 40) };
            control.meets_others(&ack, delivered_mbps * 1e6)
        };
        let mut control = begin(50.0);
        assert!(meets(&control, 85_000, 20.0));
        assert!(!meets(&control, 95_000, 20.0), "so much may be chance");
        assert!(!meets(&control, 85_000, 65.0), "so much more may be its own doing");
        assert!(!meets(&begin(100.0), 30_000, 20.0), "a policer lets the train pass");
        control.startup = None;
        assert!(!meets(&control, 85_000, 20.0));
    }

    #[test]
    fn who_lost_half_of_the_train_begins_at_half_and_knows_the_link() {
        let mbps = |control: &Adaptive| control.pacing_rate().unwrap().as_mbps();
        let (all, half) = (begin(100.0), begin(50.0));
        assert!((69.0..71.0).contains(&mbps(&all)), "{}", mbps(&all));
        assert!((34.0..36.0).contains(&mbps(&half)), "{}", mbps(&half));
        assert_eq!(all.link_rate(), half.link_rate());
    }
}
