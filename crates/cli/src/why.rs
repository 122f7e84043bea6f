//! What limited a copy: the words, the time spent under each limit, the advice.

use crate::output::share_text;
use longhaul::{Limit, LimitSpans, Progress, Summary};
use std::cmp::Reverse;
use std::time::Duration;

/// A limit in words that follow "limited by"; `None` where nothing limits.
pub fn limit_text(limit: Limit) -> Option<&'static str> {
    match limit {
        Limit::None => None,
        Limit::Path => Some("the path"),
        Limit::Loss => Some("loss"),
        Limit::Source => Some("the source disk"),
        Limit::Target => Some("the target disk"),
        Limit::Receiver => Some("the receiving host"),
        Limit::Cpu => Some("the sender's processor"),
        Limit::RateCap => Some("the rate cap"),
        Limit::Policer => Some("a policer"),
        Limit::Paused => Some("a pause"),
    }
}

/// What can be done about a limit.
fn advice(limit: Limit) -> &'static str {
    match limit {
        Limit::None => "nothing held it back for long enough to tell",
        Limit::Path => "the narrowest link on the way is full; nothing on either host would make it faster",
        Limit::Loss => "packets get lost without the path being full; look for a bad link on the way",
        Limit::Source => "files could not be read faster at the sender",
        Limit::Target => "files could not be written faster at the receiver",
        Limit::Receiver => {
            "the receiving host did not take packets fast enough; give it more processor time or raise \
             net.core.rmem_max there"
        }
        Limit::Cpu => "the sending host had no more processor time for it; a larger packet size helps",
        Limit::RateCap => "it went as fast as --rate (or the server's --max-rate) allows",
        Limit::Paused => "it was paused; longhaul ctl did that",
        Limit::Policer => {
            "a policer on the way drops what is faster than its rate; ask who runs that network for more"
        }
    }
}

/// Put into a summary how far a copy came that did not get to its end: what was told last of data.
pub fn fill_in(summary: &mut Summary, latest: &Progress) {
    let (done, skipped, resumed) = (latest.bytes_done, latest.skipped_bytes, latest.resumed_bytes);
    let moved = done.saturating_sub(skipped.saturating_add(resumed));
    summary.files = latest.files_total;
    (summary.bytes, summary.skipped_bytes, summary.resumed_bytes) = (done, skipped, resumed);
    summary.goodput_mbps = moved as f64 * 8e-6 / summary.seconds.max(1e-9);
    summary.transport = latest.carrier;
    summary.encrypted = moved > 0;
    (summary.limits, summary.limited_by) = (latest.limits, latest.limits.longest());
}

/// What limited a copy, a line each: time under each limit (longest first), what to do, the path's figures.
pub fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(shares(&summary.limits));
    lines.push(advice(summary.limited_by).into());
    if summary.packets_required > 0 {
        lines.push(path_figures(summary));
    }
    lines.extend(summary.paths.iter().map(|path| {
        let sent: u64 = summary.paths.iter().map(|path| path.packets_sent).sum();
        format!(
            "{} to {}: {} of the packets; round trip {:.1} ms at best; loss {}{}",
            path.from,
            path.to,
            share_text(path.packets_sent as f64 / sent.max(1) as f64),
            path.rtt_ms_min,
            share_text(path.loss),
            if path.is_silent { "; silent at the end" } else { "" }
        )
    }));
    if summary.receiver_drops > 0 {
        lines.push(format!(
            "the receiving host dropped {} datagrams for want of buffer (not counted as loss of the path)",
            summary.receiver_drops
        ));
    }
    lines
}

fn shares(limits: &LimitSpans) -> Option<String> {
    let known: Duration = limits.iter().map(|(_, span)| span).sum();
    let share = |span: Duration| span.as_secs_f64() / known.as_secs_f64();
    let mut spans: Vec<_> = limits.iter().filter(|(_, span)| share(*span) >= SHARE_SHOWN).collect();
    spans.sort_by_key(|(_, span)| Reverse(*span));
    let parts = spans.iter().filter_map(|(limit, span)| {
        limit_text(*limit).map(|text| format!("{text} {}", share_text(share(*span))))
    });
    let parts: Vec<_> = parts.collect();
    (!parts.is_empty()).then(|| format!("limited by {}", parts.join(", ")))
}

fn path_figures(summary: &Summary) -> String {
    let mut parts = Vec::new();
    if summary.rtt_ms_min > 0.0 {
        let (best, mean) = (summary.rtt_ms_min, summary.rtt_ms_mean);
        parts.push(format!("round trip {best:.1} ms at best, {mean:.1} ms on average"));
    }
    parts.extend([
        format!("loss {}", share_text(summary.loss)),
        format!(
            "{} packets sent where {} were needed ({} more)",
            summary.packets_sent,
            summary.packets_required,
            share_text(summary.waste)
        ),
    ]);
    if summary.path_mtu > 0 {
        parts.push(format!("path MTU {} bytes", summary.path_mtu));
    }
    parts.join("; ")
}

/// Limits below this share of the time are noise.
const SHARE_SHOWN: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(seconds: &[(Limit, u64)]) -> LimitSpans {
        let mut spans = LimitSpans::default();
        seconds.iter().for_each(|(limit, seconds)| spans.add(*limit, Duration::from_secs(*seconds)));
        spans
    }

    #[test]
    fn shares_and_advice_tell_one_story() {
        let limits = spans(&[(Limit::Path, 3), (Limit::Loss, 1), (Limit::None, 9)]);
        let summary = Summary { limits, limited_by: limits.longest(), ..Summary::default() };
        assert_eq!(lines(&summary), ["limited by the path 75 %, loss 25 %", advice(Limit::Path)]);
    }

    #[test]
    fn a_copy_that_moved_nothing_has_a_short_account() {
        assert_eq!(lines(&Summary::default()), [advice(Limit::None)]);
    }

    #[test]
    fn a_copy_that_broke_tells_how_far_it_came() {
        let latest = Progress {
            bytes_done: 9_000_000,
            skipped_bytes: 1_000_000,
            resumed_bytes: 3_000_000,
            files_total: 4,
            carrier: longhaul::Carrier::Stripe,
            limits: spans(&[(Limit::Loss, 3), (Limit::Path, 1)]),
            ..Progress::default()
        };
        let mut summary = Summary { seconds: 4.0, ..Summary::default() };
        fill_in(&mut summary, &latest);
        assert_eq!((summary.files, summary.bytes, summary.resumed_bytes), (4, 9_000_000, 3_000_000));
        assert_eq!((summary.transport, summary.limited_by), (longhaul::Carrier::Stripe, Limit::Loss));
        assert!(summary.encrypted && (summary.goodput_mbps - 10.0).abs() < 1e-9, "{}", summary.goodput_mbps);
    }

    #[test]
    fn figures_and_drops_are_told() {
        let summary = Summary {
            packets_required: 1000,
            packets_sent: 1020,
            waste: 0.02,
            loss: 0.01,
            rtt_ms_min: 65.0,
            rtt_ms_mean: 71.26,
            path_mtu: 1500,
            receiver_drops: 7,
            ..Summary::default()
        };
        let lines = lines(&summary);
        assert_eq!(
            lines[1],
            "round trip 65.0 ms at best, 71.3 ms on average; loss 1.0 %; 1020 packets sent where 1000 were needed \
             (2.0 % more); path MTU 1500 bytes"
        );
        assert!(lines[2].contains("dropped 7 datagrams"));
    }
}
