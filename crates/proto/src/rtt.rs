//! Round-trip time: smoothed mean and deviation (RFC 6298 §2), and the minimum.

use core::time::Duration;

/// What is known of the path's round trip.
#[derive(Clone, Copy, Debug)]
pub struct Rtt {
    smoothed: Duration,
    deviation: Duration,
    min: Duration,
    latest: Duration,
    samples: u64,
    sum: Duration,
}

impl Rtt {
    /// Before any sample: `guess`, for example from the handshake.
    pub fn new(guess: Duration) -> Rtt {
        Rtt {
            smoothed: guess,
            deviation: guess / 2,
            min: guess,
            latest: guess,
            samples: 0,
            sum: Duration::ZERO,
        }
    }

    /// A measured round trip, the peer's own delay taken off.
    pub fn sample(&mut self, rtt: Duration) {
        if self.samples == 0 {
            (self.smoothed, self.deviation, self.min) = (rtt, rtt / 2, rtt);
        } else {
            // RFC 6298 (2.3): alpha 1/8, beta 1/4.
            self.deviation = self.deviation * 3 / 4 + self.smoothed.abs_diff(rtt) / 4;
            self.smoothed = self.smoothed * 7 / 8 + rtt / 8;
            self.min = self.min.min(rtt);
        }
        self.latest = rtt;
        self.samples += 1;
        self.sum = self.sum.saturating_add(rtt);
    }

    /// The smoothed mean (the guess before the first sample).
    pub fn smoothed(&self) -> Duration {
        self.smoothed
    }

    /// The smoothed mean deviation.
    pub fn deviation(&self) -> Duration {
        self.deviation
    }

    /// The one measured last (the guess before the first sample).
    pub fn latest(&self) -> Duration {
        self.latest
    }

    /// The shortest seen (the guess before the first sample).
    pub fn min(&self) -> Duration {
        self.min
    }

    /// Mean of all samples.
    pub fn mean(&self) -> Duration {
        if self.samples == 0 {
            self.smoothed
        } else {
            self.sum / u32::try_from(self.samples).unwrap_or(u32::MAX)
        }
    }

    /// Whether anything was measured.
    pub fn is_measured(&self) -> bool {
        self.samples > 0
    }

    /// After this long without an acknowledgement a datagram counts as lost: smoothed + 4 × deviation + what the peer
    /// may wait before it acknowledges (RFC 6298 (2.3); the minimum there is for TCP's clocks).
    pub fn timeout(&self, ack_delay: Duration) -> Duration {
        self.smoothed + (self.deviation * 4).max(GRANULARITY) + ack_delay
    }
}

/// RFC 6298's G: a busy host may be elsewhere for about this long.
const GRANULARITY: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_sample_replaces_the_guess() {
        let mut rtt = Rtt::new(Duration::from_millis(500));
        rtt.sample(Duration::from_millis(40));
        assert_eq!(rtt.smoothed(), Duration::from_millis(40));
        assert_eq!(rtt.timeout(Duration::ZERO), Duration::from_millis(120));
    }

    #[test]
    fn steady_samples_shrink_the_deviation() {
        let mut rtt = Rtt::new(Duration::from_millis(500));
        (0..100).for_each(|_| rtt.sample(Duration::from_millis(40)));
        assert_eq!(rtt.timeout(Duration::ZERO), Duration::from_millis(50));
        assert_eq!(rtt.min(), Duration::from_millis(40));
        assert_eq!(rtt.mean(), Duration::from_millis(40));
    }
}
