//! What limited a copy: the words, the time spent under each limit, the advice.

use crate::output::{seconds_text, share_text};
use longhaul::{Limit, Phase, Progress, Summary};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
    }
}

/// What can be done about a limit.
fn advice(limit: Limit) -> &'static str {
    match limit {
        Limit::None => "nothing held it back for long enough to tell",
        Limit::Path => "the narrowest link on the way is full; nothing on either host would make it faster",
        Limit::Loss => {
            "packets get lost without the path being full; look for a bad link or a policer on the way"
        }
        Limit::Source => "files could not be read faster at the sender",
        Limit::Target => "files could not be written faster at the receiver",
        Limit::Receiver => {
            "the receiving host did not take packets fast enough; give it more processor time or raise \
             net.core.rmem_max there"
        }
        Limit::Cpu => "the sending host had no more processor time for it; a larger packet size helps",
        Limit::RateCap => "it went as fast as --rate (or the server's --max-rate) allows",
    }
}

/// Time spent under each limit while data moved.
#[derive(Debug, Default)]
pub struct Account {
    spans: BTreeMap<Limit, Duration>,
    last: Option<(Instant, Limit)>,
    /// What was told last of data.
    latest: Progress,
}

impl Account {
    /// Take note of what limits the copy from `now` on.
    pub fn note(&mut self, now: Instant, progress: &Progress) {
        if let Some((since, limit)) = self.last.take() {
            *self.spans.entry(limit).or_default() += now.saturating_duration_since(since);
        }
        if matches!(progress.phase, Phase::Moving | Phase::Verifying) {
            self.latest = *progress;
        }
        if progress.phase == Phase::Moving {
            self.last = Some((now, progress.limited_by));
        }
    }

    /// The account, a line each: time under each limit (longest first), what to do, the path's figures.
    pub fn lines(&self, summary: &Summary) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.shares());
        lines.push(advice(summary.limited_by).into());
        if summary.packets_required > 0 {
            lines.push(path_figures(summary));
        }
        if summary.receiver_drops > 0 {
            lines.push(format!(
                "the receiving host dropped {} datagrams for want of buffer (not counted as loss of the path)",
                summary.receiver_drops
            ));
        }
        lines
    }

    /// Put into a summary how far a copy came that did not get to its end, as far as was told.
    pub fn fill_in(&self, summary: &mut Summary) {
        let latest = &self.latest;
        let (done, skipped, resumed) = (latest.bytes_done, latest.skipped_bytes, latest.resumed_bytes);
        let moved = done.saturating_sub(skipped.saturating_add(resumed));
        summary.files = latest.files_total;
        (summary.bytes, summary.skipped_bytes, summary.resumed_bytes) = (done, skipped, resumed);
        summary.goodput_mbps = moved as f64 * 8e-6 / summary.seconds.max(1e-9);
        summary.transport = latest.carrier.name().into();
        summary.encrypted = moved > 0;
        let longest = self.spans.iter().max_by_key(|(_, span)| **span);
        summary.limited_by = longest.map_or(latest.limited_by, |(limit, _)| *limit);
    }

    fn shares(&self) -> Option<String> {
        let moving: Duration = self.spans.values().sum();
        if moving.is_zero() {
            return None;
        }
        let share = |span: &Duration| span.as_secs_f64() / moving.as_secs_f64();
        let mut spans: Vec<_> = self.spans.iter().filter(|(_, span)| share(span) >= SHARE_SHOWN).collect();
        spans.sort_by(|a, b| b.1.cmp(a.1));
        let parts: Vec<String> = spans
            .iter()
            .map(|(limit, span)| {
                format!(
                    "{} {}",
                    limit_text(**limit).unwrap_or("nothing in particular"),
                    share_text(share(span))
                )
            })
            .collect();
        Some(format!(
            "data moved for {}; limited by {}",
            seconds_text(moving.as_secs_f64()),
            parts.join(", ")
        ))
    }
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

    fn moving(limited_by: Limit) -> Progress {
        Progress { phase: Phase::Moving, limited_by, ..Progress::default() }
    }

    #[test]
    fn only_time_in_which_data_moved_counts() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut account = Account::default();
        account.note(at(0), &Progress { phase: Phase::Comparing, ..Progress::default() });
        account.note(at(1000), &moving(Limit::Path));
        account.note(at(4000), &moving(Limit::Loss));
        account.note(at(5000), &Progress { phase: Phase::Verifying, ..Progress::default() });
        account.note(at(9000), &Progress { phase: Phase::Verifying, ..Progress::default() });
        let summary = Summary { limited_by: Limit::Path, ..Summary::default() };
        let lines = account.lines(&summary);
        assert_eq!(lines[0], "data moved for 4.0 s; limited by the path 75 %, loss 25 %");
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn a_copy_that_moved_nothing_has_a_short_account() {
        assert_eq!(Account::default().lines(&Summary::default()), [advice(Limit::None)]);
    }

    #[test]
    fn a_copy_that_broke_tells_how_far_it_came() {
        let start = Instant::now();
        let mut account = Account::default();
        let told = Progress {
            bytes_done: 9_000_000,
            skipped_bytes: 1_000_000,
            resumed_bytes: 3_000_000,
            files_total: 4,
            carrier: longhaul::Carrier::Stripe,
            ..moving(Limit::Loss)
        };
        account.note(start, &told);
        account.note(start + Duration::from_secs(3), &Progress { limited_by: Limit::Path, ..told });
        account.note(start + Duration::from_secs(4), &Progress { limited_by: Limit::Path, ..told });
        let mut summary = Summary { seconds: 4.0, transport: "object".into(), ..Summary::default() };
        account.fill_in(&mut summary);
        assert_eq!((summary.files, summary.bytes, summary.resumed_bytes), (4, 9_000_000, 3_000_000));
        assert_eq!((summary.transport.as_str(), summary.limited_by), ("stripe", Limit::Loss));
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
        let lines = Account::default().lines(&summary);
        assert_eq!(
            lines[1],
            "round trip 65.0 ms at best, 71.3 ms on average; loss 1.0 %; 1020 packets sent where 1000 were needed \
             (2.0 % more); path MTU 1500 bytes"
        );
        assert!(lines[2].contains("dropped 7 datagrams"));
    }
}
