//! What holds a transfer back, as far as its sender knows.

use super::super::side_paths::FORGOTTEN;
use super::{Feed, Sending};
use crate::api::Limit;
use longhaul_proto::object::Blocked;
use longhaul_proto::session::message::PACE_SINCE;
use longhaul_proto::units::Time;
use std::time::Duration;

impl<F: Feed> Sending<'_, '_, F> {
    /// What limits the transfer at this moment. What a slow source gave is sent at once or in a while: what it gives next will
    /// be waited for.
    pub(super) fn limit(&mut self, now: Time) -> Limit {
        match self.limit_of_sending(now) {
            Limit::Path if self.sender.source_mut().is_behind() => Limit::Source,
            limit => limit,
        }
    }

    fn limit_of_sending(&mut self, now: Time) -> Limit {
        if self.sender.is_paused() {
            let is_known = self.session.control.version() >= PACE_SINCE;
            return if is_known { Limit::Paused } else { Limit::RateCap };
        }
        let snapshot = self.sender.snapshot();
        if self.session.link.is_congested() {
            return Limit::Path;
        }
        if self.carrier.is_full() {
            return if self.sender.stats().pressure > PRESSURE_TARGET { Limit::Target } else { Limit::Path };
        }
        match self.sender.blocked() {
            Blocked::Source => Limit::Source,
            Blocked::Done if self.sender.source_mut().awaits_source() => Limit::Source,
            Blocked::RateCap | Blocked::Paused => Limit::RateCap,
            Blocked::No | Blocked::Acks => Limit::None,
            // It all came in, and the receiver's last word is late.
            Blocked::Done if now.since(self.sender.stats().last_news) > self.sender.rtt().smoothed() => {
                Limit::Target
            }
            Blocked::Done => Limit::None,
            Blocked::Pacing | Blocked::Window => {
                let stats = self.sender.stats();
                if snapshot.receiver_bound {
                    let target = stats.pressure > PRESSURE_TARGET || stats.refused > 0;
                    if target { Limit::Target } else { Limit::Receiver }
                } else if self.recent.receiver_bound {
                    Limit::Receiver
                } else if self.recent.cpu_bound {
                    Limit::Cpu
                } else if snapshot.policer.is_some() {
                    Limit::Policer
                } else if snapshot.random_loss >= LOSS_WORTH_A_WORD {
                    Limit::Loss
                } else {
                    Limit::Path
                }
            }
        }
    }

    /// While it pauses no data keeps the way open in firewalls that forget who is silent.
    pub(super) fn keep_open(&mut self, now: Time) {
        if !self.sender.is_paused() {
            self.kept_open = now;
        } else if now.since(self.kept_open) >= KEEP_OPEN_EVERY {
            self.kept_open = now;
            self.session.ask(0);
            self.session.paths.keep_open();
        }
    }

    /// What is known of that limit beside its name.
    pub(super) fn figures(&self, limit: Limit) -> String {
        let policer = self.sender.snapshot().policer.filter(|_| limit == Limit::Policer);
        let whole =
            f64::from(self.session.link.packet_len(self.datagram_len as u16)) / self.datagram_len as f64;
        policer.map_or(String::new(), |policer| {
            let (mbps, burst_kb) = (policer.rate.as_mbps() * whole, policer.burst_bytes as f64 * whole / 1e3);
            format!("; {mbps:.1} Mb/s and bursts of {burst_kb:.0} kB pass")
        })
    }
}

/// Firewalls remember who talks over UDP for half a minute at least. A client begins a further path anew sooner, but not for
/// want of one answer.
const KEEP_OPEN_EVERY: Duration = Duration::from_secs(FORGOTTEN.as_secs() / 3);
/// The sink is so full (of 255) that writing it is what holds the transfer up.
const PRESSURE_TARGET: u8 = 100;
/// A share of random loss that costs noticeably.
const LOSS_WORTH_A_WORD: f64 = 0.02;
