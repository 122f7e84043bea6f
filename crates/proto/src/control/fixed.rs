//! The rate that the user names, whatever happens (RBUDP's way to send).

use super::{AckSample, Controller};
use crate::units::Rate;

/// A fixed rate.
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    rate: Rate,
}

impl Fixed {
    /// Send at `rate`.
    pub fn new(rate: Rate) -> Fixed {
        Fixed { rate }
    }
}

impl Controller for Fixed {
    fn on_ack(&mut self, _ack: &AckSample) {}

    fn on_named_rate(&mut self, rate: Rate) {
        self.rate = rate;
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(self.rate)
    }
}
