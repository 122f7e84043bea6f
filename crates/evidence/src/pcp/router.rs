//! The comparator of the PCP paper's simulations (§4.2), packet by packet: a router that serves the flows' packets in turn, and
//! writes the flow's fair share and the length of its queue into each control packet that passes. A flow sends a control
//! packet once a round trip, and its data at the share told last, less what drains its queue in a round trip.
//!
//! The router stands beside the senders, so that what it writes is a round trip old when it is used, and the first control
//! packet is the connection's set-up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// A flow through the router.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoutedFlow {
    /// When its set-up begins, seconds.
    pub start_s: f64,
    /// Its round trip, seconds.
    pub rtt_s: f64,
    /// Packets that it sends.
    pub packets: u64,
}

/// Seconds from the beginning of each flow's set-up until its receiver has its last packet, where the router's link takes
/// `packet_s` for a packet.
pub fn responses(flows: &[RoutedFlow], packet_s: f64) -> Vec<f64> {
    Router::new(flows, packet_s).run()
}

struct Router<'a> {
    flows: &'a [RoutedFlow],
    ends: Vec<End>,
    packet_s: f64,
    /// In nanoseconds and then by flow.
    coming: BinaryHeap<Reverse<(u64, usize, Event)>>,
    /// Flows with packets that wait, the next one first.
    turns: VecDeque<usize>,
    /// Whose packet is on the link.
    on_link: Option<usize>,
    /// Flows that have a share.
    active: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A packet has left the link.
    Passed,
    /// A control packet has come back, or the flow begins, if it is the first.
    Control { is_first: bool },
    /// A packet of data comes, unless the rate was told anew since: told so many times.
    Data { told: u64 },
}

/// One flow's state at both of its ends and in the router.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// Times that it was told a rate.
    told: u64,
    /// What is being told, packets per second, and what was told last.
    tagged: f64,
    rate: f64,
    last_sent_ns: Option<u64>,
    sent: u64,
    waiting: u64,
    passed: u64,
    done_ns: u64,
}

impl<'a> Router<'a> {
    fn new(flows: &'a [RoutedFlow], packet_s: f64) -> Router<'a> {
        let first = Event::Control { is_first: true };
        let begin = |(at, flow): (usize, &RoutedFlow)| Reverse((nanos(flow.start_s), at, first));
        Router {
            flows,
            ends: vec![End::default(); flows.len()],
            packet_s,
            coming: flows.iter().enumerate().map(begin).collect(),
            turns: VecDeque::new(),
            on_link: None,
            active: 0,
        }
    }

    fn run(mut self) -> Vec<f64> {
        while let Some(Reverse((now, flow, event))) = self.coming.pop() {
            match event {
                Event::Control { is_first } => self.on_control(now, flow, is_first),
                Event::Data { told } if told == self.ends[flow].told => self.on_data(now, flow),
                Event::Data { .. } => {}
                Event::Passed => self.on_passed(now, flow),
            }
        }
        let response =
            |(flow, end): (&RoutedFlow, &End)| end.done_ns as f64 / 1e9 - flow.start_s + flow.rtt_s / 2.0;
        self.flows.iter().zip(&self.ends).map(response).collect()
    }

    fn at(&mut self, now: u64, after_s: f64, flow: usize, event: Event) {
        self.coming.push(Reverse((now + nanos(after_s), flow, event)));
    }

    fn on_control(&mut self, now: u64, flow: usize, is_first: bool) {
        let RoutedFlow { rtt_s, packets, .. } = self.flows[flow];
        if is_first {
            self.active += 1;
        } else {
            let end = &mut self.ends[flow];
            (end.rate, end.told) = (end.tagged, end.told + 1);
            self.schedule_data(now, flow);
        }
        let end = &mut self.ends[flow];
        if end.sent < packets {
            let share = 1.0 / self.packet_s / self.active as f64;
            // At least a packet in a round trip, lest it never ends.
            end.tagged = (share - end.waiting as f64 / rtt_s).max(1.0 / rtt_s);
            self.at(now, rtt_s, flow, Event::Control { is_first: false });
        }
    }

    /// The next packet, as long after the last as the rate says.
    fn schedule_data(&mut self, now: u64, flow: usize) {
        let End { rate, last_sent_ns, sent, told, .. } = self.ends[flow];
        if sent < self.flows[flow].packets {
            let due = last_sent_ns.map_or(now, |last| now.max(last + nanos(1.0 / rate)));
            self.coming.push(Reverse((due, flow, Event::Data { told })));
        }
    }

    fn on_data(&mut self, now: u64, flow: usize) {
        let end = &mut self.ends[flow];
        (end.last_sent_ns, end.sent, end.waiting) = (Some(now), end.sent + 1, end.waiting + 1);
        if end.waiting == 1 {
            self.turns.push_back(flow);
        }
        if self.on_link.is_none() {
            self.serve(now);
        }
        self.schedule_data(now, flow);
    }

    /// A packet of the flow whose turn it is goes onto the link.
    fn serve(&mut self, now: u64) {
        self.on_link = self.turns.pop_front();
        let Some(flow) = self.on_link else { return };
        self.ends[flow].waiting -= 1;
        if self.ends[flow].waiting > 0 {
            self.turns.push_back(flow);
        }
        self.at(now, self.packet_s, flow, Event::Passed);
    }

    fn on_passed(&mut self, now: u64, flow: usize) {
        let end = &mut self.ends[flow];
        (end.passed, end.done_ns) = (end.passed + 1, now);
        self.active -= u64::from(end.passed == self.flows[flow].packets);
        self.serve(now);
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1000 packets a second.
    const PACKET_S: f64 = 0.001;

    fn flow(start_s: f64, packets: u64) -> RoutedFlow {
        RoutedFlow { start_s, rtt_s: 0.02, packets }
    }

    #[test]
    fn alone_it_takes_the_set_up_the_link_and_half_a_round_trip() {
        let [response] = responses(&[flow(3.0, 100)], PACKET_S)[..] else { panic!("one flow") };
        assert!((response - 0.13).abs() < 1e-6, "{response}");
        assert!(responses(&[], PACKET_S).is_empty());
    }

    #[test]
    fn a_newcomer_gets_its_half_and_what_is_left_is_taken_a_round_trip_later() {
        let both = responses(&[flow(0.0, 400), flow(0.1, 100)], PACKET_S);
        // 100 packets at half the rate, after the set-up, and some of the other's queue in turn.
        assert!((0.22..0.26).contains(&both[1]), "{both:?}");
        // All 500 packets have passed, and a part of two round trips passed unused.
        assert!((0.53..0.56).contains(&both[0]), "{both:?}");
    }

    proptest! {
        /// Nobody is done sooner than alone, and the last one not before all packets can have passed.
        #[test]
        fn nothing_passes_faster_than_the_link(
            mut flows in proptest::collection::vec((0.0..1.0f64, 0.001..0.1f64, 1..60u64), 1..40),
        ) {
            flows.sort_by(|a, b| a.0.total_cmp(&b.0));
            let flows: Vec<RoutedFlow> = flows.into_iter()
                .map(|(start_s, rtt_s, packets)| RoutedFlow { start_s, rtt_s, packets })
                .collect();
            let took = responses(&flows, PACKET_S);
            for (flow, took) in flows.iter().zip(&took) {
                prop_assert!(took + 1e-6 >= 1.5 * flow.rtt_s + flow.packets as f64 * PACKET_S);
            }
            let packets: u64 = flows.iter().map(|flow| flow.packets).sum();
            let end = |(flow, took): (&RoutedFlow, &f64)| flow.start_s + took - flow.rtt_s / 2.0;
            let last = flows.iter().zip(&took).map(end).fold(0.0, f64::max);
            prop_assert!(last - flows[0].start_s + 1e-6 >= packets as f64 * PACKET_S);
        }
    }
}
