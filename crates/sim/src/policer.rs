//! A limit on what passes that drops instead of letting it wait.

use longhaul_proto::units::{Rate, Time};

/// What a policer lets pass: this rate, and bursts of so many bytes beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicerConfig {
    /// Counting whole IP packets.
    pub rate: Rate,
    /// What passes at once after a long pause.
    pub burst_bytes: u64,
}

/// A token bucket (RFC 2697 with one colour): what finds too little in it is dropped.
#[derive(Clone, Copy, Debug)]
pub struct Policer {
    config: PolicerConfig,
    /// Bits that may pass, times 10⁹.
    tokens: u128,
    at: Time,
}

impl Policer {
    /// With a full bucket.
    pub fn new(config: PolicerConfig, now: Time) -> Policer {
        Policer { config, tokens: tokens(config.burst_bytes), at: now }
    }

    /// So many bytes come `now`: whether they pass.
    pub fn lets_pass(&mut self, now: Time, bytes: u64) -> bool {
        let earned = u128::from(now.0.saturating_sub(self.at.0)) * u128::from(self.config.rate.0);
        (self.tokens, self.at) = ((self.tokens + earned).min(tokens(self.config.burst_bytes)), now);
        let rest = self.tokens.checked_sub(tokens(bytes));
        self.tokens = rest.unwrap_or(self.tokens);
        rest.is_some()
    }
}

/// A token is a nanosecond at 1 bit/s.
fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rate_passes_and_bursts_after_pauses() {
        // 8 Mb/s: a byte each microsecond.
        let config = PolicerConfig { rate: Rate::from_mbps(8.0), burst_bytes: 3000 };
        let mut policer = Policer::new(config, Time::ZERO);
        let mut passed = |from_us: u64, packets: u64, gap_us: u64| {
            let at = |n| Time((from_us + n * gap_us) * 1000);
            (0..packets).filter(|n| policer.lets_pass(at(*n), 1000)).count()
        };
        assert_eq!(passed(0, 10, 0), 3, "a burst");
        assert_eq!(passed(1000, 10, 1000), 10, "the rate");
        assert_eq!(passed(11_000, 100, 500), 50, "no more than the rate");
        assert_eq!(passed(1_000_000, 10, 0), 3, "no larger burst after a long pause");
    }
}
