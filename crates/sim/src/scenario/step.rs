//! Changes of the path at a time.

use super::checks::{
    DELAY_MAX_MS, InvalidField, RATE_MAX_MBIT, TIME_MAX_S, not_negative, positive, refuse, share,
};
use crate::link::{LinkChange, LinkStep};
use crate::quantities::{both_ways, rate};
use longhaul_proto::units::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// At a time one thing about the path changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// When, in seconds from the beginning.
    pub at_s: f64,
    /// The bottleneck's rate from then on, both ways, in 10⁶ bit/s. The queue keeps its room.
    pub bottleneck_mbit: Option<f64>,
    /// Share of packets lost at random from left to right from then on.
    pub loss: Option<f64>,
    /// For so many seconds nothing passes, either way.
    pub outage_s: Option<f64>,
    /// The round trip of an empty path from then on, half of it each way, in milliseconds: another route. No packet
    /// overtakes another, and the queue keeps its room.
    pub rtt_ms: Option<f64>,
}

impl Step {
    /// What changes in one direction.
    pub(crate) fn link_step(&self, is_forward: bool) -> Option<LinkStep> {
        let at = Time::ZERO + Duration::from_secs_f64(self.at_s);
        let rate = self.bottleneck_mbit.map(|mbit| LinkChange::Rate(rate(mbit)));
        let loss = self.loss.filter(|_| is_forward).map(LinkChange::Loss);
        let outage = self.outage_s.map(|span_s| LinkChange::Outage(Duration::from_secs_f64(span_s)));
        let delay = self.rtt_ms.map(|rtt_ms| LinkChange::Delay(both_ways(rtt_ms)[usize::from(!is_forward)]));
        rate.or(loss).or(outage).or(delay).map(|change| LinkStep { at, change })
    }

    pub(super) fn validate(&self, burst: Option<f64>) -> Result<(), InvalidField> {
        not_negative("at_s", self.at_s, TIME_MAX_S)?;
        if let Some(mbit) = self.bottleneck_mbit {
            positive("bottleneck_mbit", mbit, RATE_MAX_MBIT)?;
        }
        if let Some(loss) = self.loss {
            share("loss", loss)?;
            if burst.is_some_and(|burst| loss > burst / (burst + 1.0)) {
                return refuse("loss", format!("of {loss} cannot come in bursts so short; give longer ones"));
            }
        }
        if let Some(span_s) = self.outage_s {
            positive("outage_s", span_s, TIME_MAX_S)?;
        }
        if let Some(rtt_ms) = self.rtt_ms {
            not_negative("rtt_ms", rtt_ms, DELAY_MAX_MS)?;
        }
        let changes = [self.bottleneck_mbit, self.loss, self.outage_s, self.rtt_ms];
        match changes.iter().flatten().count() {
            1 => Ok(()),
            0 => refuse("at_s", "stands alone; a step needs one of bottleneck_mbit, loss, outage_s, rtt_ms"),
            _ => refuse("at_s", "stands with several changes; give each a step of its own"),
        }
    }
}
