//! A limit on what passes that drops instead of letting it wait.

use longhaul_proto::units::{Rate, Time};

/// A token bucket: what finds it empty is dropped.
pub(crate) struct Policer {
    rate: Rate,
    burst_bytes: u64,
    /// Bits that may pass, times 10⁹.
    tokens: u128,
    at: Time,
}

impl Policer {
    /// Above that rate, beyond bursts of so many bytes.
    pub(crate) fn new(rate: Rate, burst_bytes: u64, now: Time) -> Policer {
        Policer { rate, burst_bytes, tokens: tokens(burst_bytes), at: now }
    }

    pub(crate) fn lets_pass(&mut self, now: Time, bytes: u64) -> bool {
        let earned = u128::from(now.0.saturating_sub(self.at.0)) * u128::from(self.rate.0);
        (self.tokens, self.at) = ((self.tokens + earned).min(tokens(self.burst_bytes)), now);
        let rest = self.tokens.checked_sub(tokens(bytes));
        self.tokens = rest.unwrap_or(self.tokens);
        rest.is_some()
    }
}

/// A token is a nanosecond at 1 bit/s.
fn tokens(bytes: u64) -> u128 {
    u128::from(bytes) * 8_000_000_000
}
