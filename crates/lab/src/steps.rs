//! How a path changes in time: the scenario's steps, as one direction sees them. They mean what they mean in the
//! simulator: a rate is that of packets whose sending begins from then on, a share of loss, an outage and a round trip
//! concern what leaves the bottleneck from then on.

use crate::End;
use longhaul_sim::scenario::{Scenario, Step};
use std::collections::VecDeque;

/// The changes of one direction, and which of them are still to come.
pub(crate) struct Steps {
    first: AtFirst,
    /// In the order of time.
    all: Vec<Step>,
    rates: VecDeque<(u64, f64)>,
    losses: VecDeque<(u64, f64)>,
    /// From when and until when, in the order of their beginnings.
    outages: VecDeque<(u64, u64)>,
    delays: VecDeque<(u64, u64)>,
}

/// What holds until the first step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AtFirst {
    pub(crate) mbit: f64,
    pub(crate) loss: f64,
    pub(crate) delay_ns: u64,
}

impl Steps {
    /// For what `from` sends. Nothing changes before [`restart`](Self::restart).
    pub(crate) fn new(scenario: &Scenario, from: End) -> Steps {
        let mut all = scenario.steps.clone();
        if from == End::Right {
            all.iter_mut().for_each(|step| step.loss = None);
        }
        all.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
        let loss = if from == End::Left { scenario.loss } else { scenario.loss_reverse };
        Steps {
            first: AtFirst { mbit: scenario.bottleneck_mbit, loss, delay_ns: one_way_ns(scenario.rtt_ms) },
            all,
            rates: VecDeque::new(),
            losses: VecDeque::new(),
            outages: VecDeque::new(),
            delays: VecDeque::new(),
        }
    }

    /// Time zero is `now`.
    pub(crate) fn restart(&mut self, now: u64) -> AtFirst {
        let at = |step: &Step| now + nanos(step.at_s);
        let steps = || self.all.iter();
        self.rates = steps().filter_map(|step| Some((at(step), step.bottleneck_mbit?))).collect();
        self.losses = steps().filter_map(|step| Some((at(step), step.loss?))).collect();
        let outage = |step: &Step| Some((at(step), at(step) + nanos(step.outage_s?)));
        self.outages = steps().filter_map(outage).collect();
        self.delays = steps().filter_map(|step| Some((at(step), one_way_ns(step.rtt_ms?)))).collect();
        self.first
    }

    /// The rates to come, which the bottleneck keeps.
    pub(crate) fn take_rates(&mut self) -> VecDeque<(u64, f64)> {
        std::mem::take(&mut self.rates)
    }

    /// What share is lost of packets that leave the bottleneck from `sent` on, if that has changed since the packet
    /// before.
    pub(crate) fn new_loss(&mut self, sent: u64) -> Option<f64> {
        latest(&mut self.losses, sent)
    }

    /// How long packets propagate that leave the bottleneck from `sent` on, if that has changed since the packet before.
    pub(crate) fn new_delay_ns(&mut self, sent: u64) -> Option<u64> {
        latest(&mut self.delays, sent)
    }

    /// Whether a packet that leaves the bottleneck at that time leaves it in an outage. Packets leave in order.
    pub(crate) fn is_out(&mut self, sent: u64) -> bool {
        while self.outages.front().is_some_and(|outage| outage.1 <= sent) {
            self.outages.pop_front();
        }
        self.outages.iter().take_while(|outage| outage.0 <= sent).any(|outage| sent < outage.1)
    }
}

/// The last of what has come to pass.
fn latest<T>(steps: &mut VecDeque<(u64, T)>, now: u64) -> Option<T> {
    let mut last = None;
    while let Some(step) = steps.pop_front_if(|step| step.0 <= now) {
        last = Some(step.1);
    }
    last
}

fn one_way_ns(rtt_ms: f64) -> u64 {
    (rtt_ms * 1e6 / 2.0).round() as u64
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(from: End, text: &str) -> Steps {
        let scenario = Scenario::parse(&format!("bottleneck_mbit = 100\nrtt_ms = 10\n{text}")).unwrap();
        let mut steps = Steps::new(&scenario, from);
        steps.restart(1_000_000_000);
        steps
    }

    #[test]
    fn loss_changes_from_left_to_right_alone() {
        let text = "[[steps]]\nat_s = 2\nloss = 0.5\n[[steps]]\nat_s = 1\nloss = 0.25";
        let mut left = steps(End::Left, text);
        assert_eq!(left.new_loss(1_999_999_999), None);
        assert_eq!(left.new_loss(2_000_000_000), Some(0.25));
        assert_eq!(left.new_loss(2_500_000_000), None, "no change since");
        assert_eq!(left.new_loss(9_000_000_000), Some(0.5));
        left.restart(10_000_000_000);
        assert_eq!(left.new_loss(12_500_000_000), Some(0.5), "of two at once the later one");
        assert_eq!(steps(End::Right, text).new_loss(u64::MAX), None);
    }

    #[test]
    fn outages_may_overlap() {
        let text = "[[steps]]\nat_s = 1\noutage_s = 5\n[[steps]]\nat_s = 2\noutage_s = 1\n[[steps]]\nat_s = 7\noutage_s = 1";
        for end in [End::Left, End::Right] {
            let mut steps = steps(end, text);
            let out = [1.9, 2.0, 3.5, 4.5, 6.9, 7.0, 7.9, 8.0, 8.9, 9.0].map(|at| steps.is_out(nanos(at)));
            assert_eq!(out, [false, true, true, true, true, false, false, true, true, false]);
        }
    }

    #[test]
    fn routes_change_both_ways() {
        for end in [End::Left, End::Right] {
            let mut steps = steps(end, "[[steps]]\nat_s = 0.5\nrtt_ms = 80");
            assert_eq!(steps.new_delay_ns(1_499_999_999), None);
            assert_eq!(steps.new_delay_ns(1_500_000_000), Some(40_000_000));
            assert_eq!(steps.restart(0).delay_ns, 5_000_000);
        }
    }

    #[test]
    fn rates_change_both_ways() {
        for end in [End::Left, End::Right] {
            let mut steps = steps(end, "[[steps]]\nat_s = 0.5\nbottleneck_mbit = 20");
            assert_eq!(steps.take_rates(), [(1_500_000_000, 20.0)]);
        }
    }
}
