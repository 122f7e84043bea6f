//! The paper's FOBS: sends as fast as the socket takes it (FOBS §3.1; congestion control is its future work, §7).

use super::{AckSample, Controller};
use crate::units::Rate;

/// No control. Right only where the sending host's own card is the bottleneck, as it was in the paper (§4).
#[derive(Clone, Copy, Debug)]
pub struct Greedy;

impl Controller for Greedy {
    fn on_ack(&mut self, _ack: &AckSample) {}

    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}
