//! What a queue that marks says (RFC 3168): that it is too long, before it has to drop.

use super::{Adaptive, State};
use crate::control::AckSample;
use crate::control::bbr::RTT_AGE;
use crate::control::window::BETA_GENTLE;
use crate::units::{DatagramNumber, Time};

/// Marks are answered once a round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// Bytes that came in marked.
    bytes: u64,
    /// What left before this one left before the last answer.
    answered: DatagramNumber,
    /// When one came last.
    at: Option<Time>,
}

impl Adaptive {
    /// A queue marked of late: that it runs empty now and then does not say that rivals have left, for marks keep it short.
    pub(super) fn is_marked(&self, now: Time) -> bool {
        self.marks.at.is_some_and(|at| now.since(at) < RTT_AGE)
    }

    pub(super) fn heed_marks(&mut self, ack: &AckSample) {
        let is_news = ack.ce_bytes > self.marks.bytes;
        self.marks.bytes = ack.ce_bytes;
        // Numbers that went back are a new count.
        let is_late = ack.largest < self.marks.answered && self.marks.answered <= ack.next_number;
        if !is_news || is_late {
            return;
        }
        (self.marks.answered, self.marks.at) = (ack.next_number, Some(ack.now));
        let carried = if self.startup.is_some() { self.round.delivered_max } else { self.bandwidth };
        (self.growth, self.startup) = (0.0, None);
        // A queue that was kept short enough by us alone marks only who delivers all that the link carries.
        let has_rivals = self.has_less_than(self.link_rate());
        match self.state {
            State::Compete(_) | State::Train => {}
            _ if !self.is_background && (has_rivals || self.is_congested()) => {
                self.compete_at(carried * BETA_GENTLE);
            }
            // Who is marked again though less was aimed at, for others' packets come as well, aims at half of that.
            _ => self.meet_ceiling(ack.now, self.round.queue_most_ns.min(self.target_ns())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::ControlConfig;
    use crate::control::testing::ack;
    use crate::path::PathRate;
    use crate::units::Rate;
    use core::time::Duration;

    #[test]
    fn a_mark_shortens_the_queue_that_is_aimed_at_once_a_round_trip() {
        let rate = Rate::from_mbps(100.0);
        let rate = Some(PathRate { rate, passed: rate, is_bottleneck: true });
        let config = ControlConfig { path_rate: rate, ..ControlConfig::new(1000, Duration::from_millis(40)) };
        let mut control = Adaptive::new(config);
        control.link = None;
        control.bandwidth = 1e8;
        control.heed_marks(&AckSample { largest: 10, next_number: 100, ..ack(10, 10) });
        assert_eq!(control.ceiling.room_ns, f64::INFINITY, "none came in");
        let marked = AckSample { ce_bytes: 1000, largest: 20, next_number: 110, ..ack(20, 20) };
        control.round.queue_most_ns = 4e6;
        control.heed_marks(&marked);
        let room_ns = control.ceiling.room_ns;
        assert!(room_ns < 4e6 && control.startup.is_none(), "{room_ns}");
        let aimed_at_ns = control.target_ns();
        control.heed_marks(&AckSample { ce_bytes: 2000, largest: 109, ..marked });
        assert_eq!(control.ceiling.room_ns, room_ns, "it left before that was answered");
        // As long a queue as before, though less was aimed at: others fill it, too.
        control.heed_marks(&AckSample { ce_bytes: 3000, largest: 110, next_number: 200, ..marked });
        assert!(control.target_ns() < 0.6 * aimed_at_ns);
    }
}
