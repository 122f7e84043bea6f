//! What is told of receiving while it goes on, and at its end.

use super::super::sending::Totals;
use super::Receiving;
use crate::api::{Phase, Progress};
use longhaul_proto::units::{Rate, Time};
use std::time::Duration;

impl Receiving<'_, '_> {
    pub(super) fn tell_progress(&mut self, now: Time) {
        let done = self.bytes_done();
        let all = self.object.receiver().is_some_and(|r| r.received() == r.shape().packets());
        let (at, before, goodput) = self.recent;
        if now.since(at) >= RECENT {
            let came = done.saturating_sub(self.spared);
            self.recent = (now, came, Rate::from_bytes_over(came.saturating_sub(before), now.since(at)));
            if let Some(files) = self.parts().files_done() {
                self.session.tell_files_done(files);
            }
        }
        let Totals { bytes: listed, files, .. } = self.parts().totals();
        let is_pipe = self.parts().is_pipe();
        self.session.observer.progress(&Progress {
            phase: if all && !is_pipe { Phase::Verifying } else { Phase::Moving },
            bytes_done: done.min(listed),
            bytes_total: if is_pipe { 0 } else { listed },
            files_total: files,
            goodput,
            loss: self.status.loss,
            rtt: Duration::from_nanos(self.status.rtt_ns[2]),
            limited_by: self.status.limited_by,
            limits: self.status.limits,
            carrier: self.status.carrier(),
            skipped_bytes: self.already.skipped_bytes,
            resumed_bytes: self.already.resumed_bytes,
            files_done: self.session.files_done,
        });
        self.session.tell_breakdown(now);
    }

    /// Datagrams that this host dropped are nobody else's fault: say what helps.
    pub(super) fn warn_of_drops(&mut self) {
        let (drops, refused) = (self.session.drops(), self.session.link.refused());
        let received = self.object.receiver().map_or(0, |receiver| receiver.stats().received);
        tracing::debug!(
            "{received} datagrams received, {drops} dropped by this host, {refused} not authentic or repeated"
        );
        if drops > received / DROPS_WORTH_A_WORD {
            let buffer = self.session.link.socket().map_or(0, |socket| socket.receive_buffer()) >> 10;
            let line = format!(
                "this host dropped {drops} datagrams: its socket buffer holds {buffer} KiB; \
                 raise net.core.rmem_max (sysctl) to 16 MiB or more, or relieve its processor"
            );
            tracing::warn!("{line}");
            self.session.observer.warning(&line);
        }
    }
}

/// A drop in so many datagrams is worth a word.
const DROPS_WORTH_A_WORD: u64 = 1000;
/// Rates shown are over this span.
const RECENT: Duration = Duration::from_millis(500);
