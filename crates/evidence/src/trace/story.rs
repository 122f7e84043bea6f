//! What happened, in words.

use super::read::Trace;
use longhaul_cli::output::bytes_text;
use longhaul_cli::trace::Event;
use serde_json::Value;

/// An event that people want to hear of.
pub(super) struct Happening {
    pub(super) at_s: f64,
    /// All pictures show when.
    pub(super) is_mark: bool,
    pub(super) text: String,
}

/// All of them, in the order of time.
pub(super) fn story(trace: &Trace) -> Vec<Happening> {
    let mut sessions = 0;
    let mut is_paused = false;
    let mut has_rate = false;
    let mut happenings = vec![];
    for record in &trace.records {
        let (is_mark, text) = match &record.event {
            Event::SessionStarted(started) => {
                sessions += 1;
                let again = if sessions > 1 { " again" } else { "" };
                let text = format!("begins{again}: control {}, packets {}", started.control, started.select);
                (sessions > 1, text)
            }
            Event::PathChecked(_) if !record.path.is_empty() => (true, "another path is used".into()),
            Event::Mtu(change) if change.old.is_some() => {
                (true, format!("datagrams of {} bytes", change.new))
            }
            Event::RateLimit(limit) => {
                let was_given = std::mem::replace(&mut has_rate, true);
                let text = limit
                    .new
                    .map_or("no rate limit".into(), |bps| format!("rate limit {:.1} Mb/s", bps as f64 / 1e6));
                (was_given, text)
            }
            Event::Limit(change) if (change.new.name() == PAUSED) != is_paused => {
                is_paused = !is_paused;
                (true, if is_paused { "pauses" } else { "goes on" }.into())
            }
            Event::Transport(change) => (true, format!("data goes over {}: {}", change.new, change.why)),
            Event::Warning(line) => (true, format!("warning: {}", line.message)),
            Event::Info(line) => (false, line.message.clone()),
            Event::Phase(change) => (false, change.new.clone()),
            Event::Ended(summary) => (false, ended(summary)),
            _ => continue,
        };
        happenings.push(Happening { at_s: record.time / 1e3, is_mark, text });
    }
    happenings
}

/// What came of the copy, in a line.
pub(super) fn ended(summary: &Value) -> String {
    let number = |field: &str| summary[field].as_f64().unwrap_or(0.0);
    let bytes = bytes_text(number("bytes") as u64);
    let text = match summary["ok"].as_bool() {
        Some(true) => {
            format!("{bytes} verified in {:.1} s, {:.1} Mb/s", number("seconds"), number("goodput_mbps"))
        }
        _ => format!("failed: {}", summary["error"].as_str().unwrap_or("not all is there")),
    };
    match summary["limited_by"].as_str() {
        Some(limit) if limit != "none" => format!("{text}, limited by {limit} for most of the time"),
        _ => text,
    }
}

const PAUSED: &str = "paused";
