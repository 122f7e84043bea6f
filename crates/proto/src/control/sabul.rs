//! SABUL (Gu, Grossman et al.), UDT's forerunner: every loss is congestion, and the gap between packets is tuned by
//! the clock. Every SYN of 10 ms: if no more than one in a thousand packets was lost, the gap gets shorter, else
//! longer by an eighth.
//!
//! The FOBS paper (§2) says of SABUL only that it takes loss for congestion and slows down as TCP does. Interval,
//! threshold and factor are what is remembered of its publications, unchecked; by how much the gap gets shorter and
//! where it begins are ours, since no source at hand says.

use super::{AckSample, ControlConfig, Controller, DECREASE, GAP_S, LossSample, SYN, Snapshot};
use crate::units::{Rate, Time};

/// See the [module](self).
#[derive(Debug)]
pub struct Sabul {
    datagram_len: f64,
    /// Seconds between two packets.
    gap_s: f64,
    next_syn: Option<Time>,
    /// Counters since the last SYN.
    covered_bytes: u64,
    lost_bytes: u64,
    /// Timeouts since the last acknowledgement.
    timeouts: u32,
}

impl Sabul {
    /// Begin at half the rate that the path check told; without one, with sixteen packets in a SYN.
    pub fn new(config: ControlConfig) -> Sabul {
        let datagram_len = config.datagram_len.max(1) as f64;
        let told = config.path_rate.map(|path| FIRST_SHARE * path.rate.0 as f64 / (8.0 * datagram_len));
        let per_s = told.unwrap_or(FIRST_PACKETS / SYN.as_secs_f64());
        let gap_s = (1.0 / per_s).clamp(*GAP_S.start(), *GAP_S.end());
        Sabul { datagram_len, gap_s, next_syn: None, covered_bytes: 0, lost_bytes: 0, timeouts: 0 }
    }

    /// A SYN has gone by in which this share of what came by was lost.
    fn tune(&mut self, loss: f64) {
        let factor = if loss > LOSS_TOLERATED { DECREASE } else { 1.0 / INCREASE };
        self.gap_s = (self.gap_s * factor).clamp(*GAP_S.start(), *GAP_S.end());
    }
}

impl Controller for Sabul {
    fn on_ack(&mut self, ack: &AckSample) {
        self.timeouts = 0;
        let due = *self.next_syn.get_or_insert(ack.now + SYN);
        let covered = ack.covered_bytes.saturating_sub(self.covered_bytes);
        if ack.now < due || covered == 0 {
            return;
        }
        let spans = 1 + (ack.now.since(due).as_nanos() / SYN.as_nanos()) as u32;
        self.next_syn = Some(due + SYN * spans);
        self.covered_bytes = ack.covered_bytes;
        let lost = std::mem::take(&mut self.lost_bytes);
        if lost > 0 || !ack.app_limited {
            self.tune(lost as f64 / covered as f64);
            // In the others nothing came in, so nothing was found lost.
            (1..spans.min(SILENT_MAX)).for_each(|_| self.tune(0.0));
        }
    }

    fn on_loss(&mut self, loss: &LossSample) {
        self.lost_bytes = self.lost_bytes.saturating_add(loss.lost_bytes);
    }

    fn on_timeout(&mut self, _now: Time) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts <= SILENT_MAX {
            self.tune(1.0);
        }
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate((self.datagram_len * 8.0 / self.gap_s) as u64))
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot { pacing_rate: self.pacing_rate(), ..Snapshot::default() }
    }
}

/// The share of packets that may get lost in a SYN without being taken for congestion.
const LOSS_TOLERATED: f64 = 0.001;
/// How many times as often packets leave after a SYN without loss: twice as often after 0.7 s (ours).
const INCREASE: f64 = 1.01;
/// SYNs in a row in which nothing came in that count, and timeouts: an outage says little of the rate (ours).
const SILENT_MAX: u32 = 10;
/// Packets in the first SYN where nothing is known of the path, and the share of what is known (ours).
const FIRST_PACKETS: f64 = 16.0;
const FIRST_SHARE: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::super::testing::{ack, loss};
    use super::*;
    use core::time::Duration;

    /// Datagrams of 1000 bytes, 16 in 10 ms: a gap of 625 µs.
    fn sabul() -> Sabul {
        Sabul::new(ControlConfig::new(1000, Duration::from_millis(20)))
    }

    fn gap_us(sabul: &Sabul) -> f64 {
        sabul.gap_s * 1e6
    }

    #[test]
    fn every_syn_lengthens_or_shortens_the_gap() {
        let mut sabul = sabul();
        assert_eq!(gap_us(&sabul), 625.0);
        sabul.on_ack(&ack(0, 9));
        sabul.on_ack(&ack(9, 500));
        assert_eq!(gap_us(&sabul), 625.0, "the first SYN goes on");
        sabul.on_ack(&ack(10, 999));
        assert!((gap_us(&sabul) - 625.0 / 1.01).abs() < 1e-6, "{}", gap_us(&sabul));
        sabul.on_loss(&loss(15, 1, true));
        sabul.on_ack(&ack(20, 1999));
        assert!((gap_us(&sabul) - 625.0 / 1.01 / 1.01).abs() < 1e-6, "one in a thousand is tolerated");
        sabul.on_loss(&loss(25, 1, true));
        sabul.on_loss(&loss(26, 1, false));
        sabul.on_ack(&ack(30, 2999));
        assert!((gap_us(&sabul) - 625.0 / 1.01 / 1.01 * 1.125).abs() < 1e-6, "two are not");
        sabul.on_ack(&ack(40, 3999));
        assert!((gap_us(&sabul) - 625.0 * 1.125 / 1.01f64.powi(3)).abs() < 1e-6, "it is counted once");
    }

    #[test]
    fn late_acknowledgements_make_up_for_some_syns_but_not_for_an_outage() {
        let mut sabul = sabul();
        sabul.on_ack(&ack(0, 9));
        sabul.on_ack(&ack(35, 99));
        assert!((gap_us(&sabul) - 625.0 / 1.01f64.powi(3)).abs() < 1e-6, "{}", gap_us(&sabul));
        (0..60).for_each(|second| sabul.on_timeout(Time::from_millis(1000 * second)));
        assert!((gap_us(&sabul) - 625.0 / 1.01f64.powi(3) * 1.125f64.powi(10)).abs() < 1e-6);
        sabul.gap_s /= 1.125f64.powi(10);
        sabul.on_ack(&ack(60_000, 199));
        assert!((gap_us(&sabul) - 625.0 / 1.01f64.powi(13)).abs() < 1e-6, "{}", gap_us(&sabul));
    }
}
