//! Proportional rate reduction (RFC 9937): spreads a reduction of the window over the round trip that repairs a
//! loss.

/// One reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prr {
    /// The window to arrive at (the RFC's ssthresh).
    target: u64,
    /// What was on its way when the reduction began (RecoverFS).
    flight: u64,
    delivered: u64,
    sent: u64,
    /// What may be sent in answer to the last acknowledgement (SndCnt, less what has been sent of it).
    budget: u64,
}

impl Prr {
    /// Reduce to `target` from `flight`.
    pub fn new(target: u64, flight: u64) -> Prr {
        Prr { target, flight: flight.max(1), delivered: 0, sent: 0, budget: 0 }
    }

    /// `delivered` bytes arrived newly and `in_flight` are left on their way. `is_safe`: the acknowledgement moved on
    /// without showing more losses.
    pub fn on_ack(&mut self, delivered: u64, in_flight: u64, is_safe: bool, segment: u64) {
        if delivered == 0 {
            return;
        }
        self.delivered += delivered;
        let count = if in_flight > self.target {
            let due = u128::from(self.delivered) * u128::from(self.target);
            let due = u64::try_from(due.div_ceil(self.flight.into())).unwrap_or(u64::MAX);
            due.saturating_sub(self.sent)
        } else {
            let mut count = self.delivered.saturating_sub(self.sent).max(delivered);
            if is_safe {
                count += segment;
            }
            count.min(self.target - in_flight)
        };
        // The lost segment itself goes out at once.
        self.budget = if self.sent == 0 { count.max(segment) } else { count };
    }

    /// Whether a segment may go.
    pub fn may_send(&self, bytes: u64) -> bool {
        bytes <= self.budget
    }

    /// A segment went.
    pub fn on_sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.budget = self.budget.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One segment of 100 lost; the rest is acknowledged one by one.
    fn repair(target: u64, flight: u64) -> (u64, u64) {
        let mut prr = Prr::new(target, flight);
        let (mut in_flight, mut sent) = (flight - 2, 0);
        for _ in 0..flight - 1 {
            prr.on_ack(1, in_flight, false, 1);
            while prr.may_send(1) {
                prr.on_sent(1);
                (in_flight, sent) = (in_flight + 1, sent + 1);
            }
            in_flight = in_flight.saturating_sub(1);
        }
        (in_flight, sent)
    }

    #[test]
    fn the_window_arrives_at_its_target_in_one_round_trip() {
        for (target, flight) in [(50, 100), (70, 100), (5, 10), (700, 1000)] {
            let (in_flight, sent) = repair(target, flight);
            assert!(in_flight.abs_diff(target) <= 1, "{in_flight} for {target} of {flight}");
            assert!(sent.abs_diff(target) <= 1, "{sent} for {target} of {flight}");
        }
    }

    #[test]
    fn after_heavy_loss_it_sends_what_arrives_until_it_is_safe() {
        // 90 of 100 lost: far below the target.
        let mut prr = Prr::new(50, 100);
        prr.on_ack(1, 5, false, 1);
        assert!(prr.may_send(1) && !prr.may_send(2));
        prr.on_sent(1);
        prr.on_ack(1, 5, true, 1);
        assert!(prr.may_send(2) && !prr.may_send(3));
    }
}
