//! What a copy tells its user in the end.

use crate::api::{CopyOptions, LimitSpans, PathSummary, Summary};
use longhaul_proto::session::message::several::PathStatus;
use longhaul_proto::session::message::{FileFailure, Report, SenderStatus};
use std::time::Instant;

/// What a copy had to move.
pub(super) struct Totals {
    /// How each of several paths did.
    pub paths: Vec<PathStatus>,
    pub total: u64,
    pub files: u64,
    /// The largest datagrams, with their headers.
    pub packet_len: u32,
    /// When it was known that all is done.
    pub done_at: Instant,
}

/// What is to be told of it.
pub(super) fn summarise(
    options: &CopyOptions,
    report: Report,
    status: SenderStatus,
    totals: Totals,
) -> Summary {
    let seconds =
        options.began.map_or(0.0, |began| totals.done_at.saturating_duration_since(began).as_secs_f64());
    let in_place = totals.total.saturating_sub(report.failed_bytes);
    let was_there = report.skipped_bytes + report.resumed_bytes + report.delta_bytes;
    let moved = if options.files.dry_run { 0 } else { in_place.saturating_sub(was_there) };
    let ms = |ns: u64| ns as f64 / 1e6;
    let ok = report.failed.is_empty();
    let limits = if status.packets_required == 0 { LimitSpans::default() } else { status.limits };
    let udp = status.packets_sent > status.packets_by_stripe + status.packets_by_ssh;
    Summary {
        ok,
        limited_by: limits.longest(),
        limits,
        files: totals.files,
        files_in_place: report.files_done + report.files_skipped,
        files_failed: report.failed.count(),
        bytes: in_place,
        seconds,
        goodput_mbps: moved as f64 * 8e-6 / seconds.max(1e-9),
        transport: status.carrier(),
        control: options.control.name().into(),
        encrypted: true,
        packets_required: status.packets_required,
        packets_sent: status.packets_sent,
        waste: status.packets_sent.saturating_sub(status.packets_required) as f64
            / status.packets_required.max(1) as f64,
        retransmit_share: status.packets_resent as f64 / status.packets_sent.max(1) as f64,
        rtt_ms_min: ms(status.rtt_ns[0]),
        rtt_ms_mean: ms(status.rtt_ns[1]),
        loss: status.loss,
        receiver_drops: report.receiver_drops,
        path_mtu: if udp { totals.packet_len } else { 0 },
        resumed_bytes: report.resumed_bytes,
        delta_bytes: report.delta_bytes,
        skipped_bytes: report.skipped_bytes,
        compared_bytes: report.compared_bytes,
        removed: report.removed.count(),
        streams: u32::from(status.streams),
        switches: status.switches,
        hash_verified: ok && !options.files.dry_run && report.skipped_bytes == report.compared_bytes,
        durable: report.durable,
        error: report.failed.first.first().map(FileFailure::to_string),
        failures: report.failed.first,
        relayed: options.via_here,
        paths: totals.paths.iter().map(PathSummary::from).collect(),
        removed_paths: report.removed,
        to_copy: report.to_copy,
    }
}
