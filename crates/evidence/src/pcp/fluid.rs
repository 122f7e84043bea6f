//! The comparator of the PCP paper's simulations: a router that shares its link equally among the flows that are
//! there and tells each its rate at once (fair queueing with a router's help), as a fluid.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A flow of the fluid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FluidFlow {
    /// When its first bit may pass, seconds.
    pub arrival_s: f64,
    /// How much it sends, bits.
    pub bits: f64,
}

/// When the last bit of each flow has passed, in seconds, if those that are there share `rate_bps` equally at all
/// times. `flows` come in the order of their arrival.
///
/// The virtual time is how many bits each flow that was there from the beginning would have sent: it passes at the rate
/// over the number of flows, and a flow is done when it has advanced by the flow's bits.
pub fn fair_shares(flows: &[FluidFlow], rate_bps: f64) -> Vec<f64> {
    let mut done = vec![0.0; flows.len()];
    let mut active: BinaryHeap<Active> = BinaryHeap::new();
    let (mut now_s, mut virtual_bits) = (0.0, 0.0);
    let mut coming = flows.iter().enumerate().peekable();
    loop {
        let next_end_s = active.peek().map(|first| {
            now_s + (first.ends_at_bits - virtual_bits).max(0.0) * active.len() as f64 / rate_bps
        });
        let next_arrival_s = coming.peek().map(|(_, flow)| flow.arrival_s);
        let arrives_first = match (next_arrival_s, next_end_s) {
            (None, None) => return done,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(arrival), Some(end)) => arrival <= end,
        };
        let at_s = if arrives_first { next_arrival_s } else { next_end_s }.unwrap_or(now_s);
        if !active.is_empty() {
            virtual_bits += (at_s - now_s).max(0.0) * rate_bps / active.len() as f64;
        }
        now_s = at_s.max(now_s);
        if arrives_first {
            if let Some((index, flow)) = coming.next() {
                active.push(Active { ends_at_bits: virtual_bits + flow.bits, index });
            }
        } else if let Some(first) = active.pop() {
            virtual_bits = virtual_bits.max(first.ends_at_bits);
            done[first.index] = now_s;
        }
    }
}

/// A flow that is there; the greatest is the one that is done first.
#[derive(Clone, Copy, Debug)]
struct Active {
    ends_at_bits: f64,
    index: usize,
}

impl Ord for Active {
    fn cmp(&self, other: &Active) -> Ordering {
        other.ends_at_bits.total_cmp(&self.ends_at_bits).then(other.index.cmp(&self.index))
    }
}

impl PartialOrd for Active {
    fn partial_cmp(&self, other: &Active) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Active {
    fn eq(&self, other: &Active) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Active {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(arrival_s: f64, bits: f64) -> FluidFlow {
        FluidFlow { arrival_s, bits }
    }

    #[test]
    fn flows_share_while_they_overlap() {
        // alone for 1 s, then half each: the second's 10 bits take until 3 s, the first has 10 left then
        assert_eq!(fair_shares(&[flow(0.0, 30.0), flow(1.0, 10.0)], 10.0), [4.0, 3.0]);
        assert_eq!(fair_shares(&[flow(2.0, 10.0), flow(9.0, 5.0)], 10.0), [3.0, 9.5]);
        assert_eq!(fair_shares(&[flow(0.0, 10.0), flow(0.0, 10.0), flow(0.0, 20.0)], 10.0), [3.0, 3.0, 4.0]);
        assert!(fair_shares(&[], 10.0).is_empty());
    }

    proptest! {
        /// The link is never idle while anybody waits, and nobody is done sooner than alone.
        #[test]
        fn work_is_conserved(gaps in proptest::collection::vec((0.0..3.0f64, 1.0..50.0f64), 1..60)) {
            let mut at = 0.0;
            let flows: Vec<FluidFlow> = gaps.iter().map(|&(gap, bits)| { at += gap; flow(at, bits) }).collect();
            let done = fair_shares(&flows, 10.0);
            for (flow, done) in flows.iter().zip(&done) {
                prop_assert!(*done + 1e-9 >= flow.arrival_s + flow.bits / 10.0);
            }
            // the busy periods of a queue of any work-conserving discipline end at the same times
            let (mut busy_until, mut last) = (0.0f64, 0.0f64);
            for flow in &flows {
                busy_until = busy_until.max(flow.arrival_s) + flow.bits / 10.0;
            }
            done.iter().for_each(|done| last = last.max(*done));
            prop_assert!((busy_until - last).abs() < 1e-6, "{busy_until} {last}");
        }
    }
}
