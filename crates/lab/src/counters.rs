//! What a lab counts.

use longhaul_sim::queue::Occupancy;
use std::time::Duration;

/// What happened since the last reset, per direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counters {
    /// Packets that the left host sent.
    pub left_to_right: DirectionCounters,
    /// Packets that the right host sent.
    pub right_to_left: DirectionCounters,
}

impl Counters {
    /// Whether the emulator, not the path it emulates, shaped the result: more than 1 % of the packets were delivered
    /// [late](Lateness::late_share), or packets were dropped that no scenario asked for.
    pub fn cpu_limited(&self) -> bool {
        self.left_to_right.cpu_limited() || self.right_to_left.cpu_limited()
    }
}

/// What happened to the packets of one direction. Bytes are those of whole IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DirectionCounters {
    /// Packets that came to the path.
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Packets handed to the other host (a duplicate counts again).
    pub packets_delivered: u64,
    /// Their bytes.
    pub bytes_delivered: u64,
    /// Dropped by the bottleneck's queue: for lack of room, or to keep it short.
    pub dropped_queue: u64,
    /// Dropped: above the rate of the scenario's policer.
    pub dropped_policed: u64,
    /// Dropped: random loss.
    pub dropped_loss: u64,
    /// Dropped: the path was cut, or it was an outage of the scenario.
    pub dropped_cut: u64,
    /// Dropped: UDP was blocked, or above the rate of a policer of its own.
    pub dropped_udp: u64,
    /// Dropped: longer than what passed at that time.
    pub dropped_long: u64,
    /// Marked by the bottleneck's queue instead of being dropped (RFC 3168).
    pub marked: u64,
    /// Delivered with a byte changed; the receiving host's checksum refuses it.
    pub corrupted: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Held back so that others overtake.
    pub reordered: u64,
    /// Packets now in the queue or on their way.
    pub in_flight: u64,
    /// Bytes waiting in the bottleneck's queue.
    pub waiting_bytes: Occupancy,
    /// How late the emulator was.
    pub lateness: Lateness,
    /// Not asked for by any scenario: the sending host had no room left because the emulator read too late.
    pub dropped_by_emulator: u64,
    /// Not asked for by any scenario: dropped in the sending host's card.
    pub dropped_by_card: u64,
    /// Not asked for by any scenario: the receiving host's kernel refused the packet.
    pub refused_by_host: u64,
}

/// What the packets of one host came to, on a path that several share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets that it sent.
    pub packets_in: u64,
    /// Packets handed to its partner.
    pub packets_delivered: u64,
    /// Their bytes.
    pub bytes_delivered: u64,
}

impl DirectionCounters {
    fn cpu_limited(&self) -> bool {
        self.lateness.late_share > 0.01
            || self.dropped_by_emulator + self.dropped_by_card + self.refused_by_host > 0
    }
}

/// How long after their time packets were delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lateness {
    /// Mean, microseconds.
    pub mean_us: f64,
    /// Worst, microseconds.
    pub max_us: f64,
    /// What a packet may be late without counting as late: a millisecond, or a twentieth of the round trip if that is more.
    pub tolerance_ms: f64,
    /// Share of the packets that were later than that, 0 to 1.
    pub late_share: f64,
}

/// Lateness while it is being counted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatenessCount {
    tolerance: Duration,
    packets: u64,
    late_packets: u64,
    sum: Duration,
    max: Duration,
}

impl LatenessCount {
    /// For a path of this round trip.
    pub(crate) fn new(rtt_ms: f64) -> LatenessCount {
        let tolerance = LATE_MIN.max(Duration::from_secs_f64(rtt_ms / 1e3 * LATE_SHARE_OF_RTT));
        LatenessCount { tolerance, packets: 0, late_packets: 0, sum: Duration::ZERO, max: Duration::ZERO }
    }

    /// Count from zero.
    pub(crate) fn reset(&mut self) {
        *self =
            LatenessCount { packets: 0, late_packets: 0, sum: Duration::ZERO, max: Duration::ZERO, ..*self };
    }

    pub(crate) fn add(&mut self, late: Duration) {
        self.packets += 1;
        self.late_packets += u64::from(late > self.tolerance);
        self.sum += late;
        self.max = self.max.max(late);
    }

    pub(crate) fn summary(&self) -> Lateness {
        let packets = self.packets.max(1) as f64;
        Lateness {
            mean_us: self.sum.as_secs_f64() * 1e6 / packets,
            max_us: self.max.as_secs_f64() * 1e6,
            tolerance_ms: self.tolerance.as_secs_f64() * 1e3,
            late_share: self.late_packets as f64 / packets,
        }
    }
}

/// A millisecond: well above what timers and wake-ups cost.
const LATE_MIN: Duration = Duration::from_millis(1);
/// What no protocol notices beside the queue's own changes.
const LATE_SHARE_OF_RTT: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_counts_as_late_depends_on_the_round_trip_and_is_told() {
        let late = |rtt_ms: f64| {
            let mut count = LatenessCount::new(rtt_ms);
            for us in [900, 1100, 4900, 5100] {
                count.add(Duration::from_micros(us));
            }
            let Lateness { tolerance_ms, late_share, .. } = count.summary();
            (tolerance_ms, late_share)
        };
        assert_eq!([late(10.0), late(100.0)], [(1.0, 0.75), (5.0, 0.25)]);
    }
}
