//! A copy as the user sees it while it runs: a bar on a terminal, plain lines elsewhere.

use crate::args::When;
use crate::output::{bytes_text, eta_text, harmless, say, share_text};
use crate::why::limit_text;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul::{Observer, Phase, Progress, Remark};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// How much to show.
#[derive(Clone, Copy, Debug)]
pub struct Verbosity {
    /// When to show progress.
    pub progress: When,
    /// Show nothing but errors.
    pub quiet: bool,
    /// Show remarks as they come.
    pub why: bool,
}

/// The observer that shows a copy on standard error.
pub struct Display {
    view: View,
    quiet: bool,
    why: bool,
    /// What was told last of data.
    latest: Progress,
}

enum View {
    Hidden,
    Bar(ProgressBar),
    Lines(LineClock),
}

impl Display {
    /// A display for this process's standard error.
    pub fn new(verbosity: Verbosity) -> Display {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let view = match verbosity.progress {
            _ if verbosity.quiet => View::Hidden,
            When::Never => View::Hidden,
            _ if io::stderr().is_terminal() && !dumb => View::Bar(new_bar()),
            When::Auto => View::Lines(LineClock::new(LINE_EVERY)),
            When::Always => View::Lines(LineClock::new(LINE_EVERY_ALWAYS)),
        };
        Display { view, quiet: verbosity.quiet, why: verbosity.why, latest: Progress::default() }
    }

    /// Take the bar away and hand out what was told last of data.
    pub fn finish(self) -> Progress {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
        self.latest
    }

    /// Print a line; a bar stays below it.
    fn print(&self, line: &str) {
        match &self.view {
            View::Bar(bar) => bar.println(harmless(line)),
            View::Hidden | View::Lines(_) => say(line),
        }
    }
}

impl Observer for Display {
    fn progress(&mut self, progress: &Progress) {
        let now = Instant::now();
        if matches!(progress.phase, Phase::Moving | Phase::Verifying) {
            self.latest = *progress;
        }
        match &mut self.view {
            View::Hidden => {}
            // It says so already, and ssh may be asking for a password on the same line.
            View::Bar(_) if progress.phase == Phase::Connecting => {}
            View::Bar(bar) => draw(bar, progress),
            View::Lines(clock) => {
                if clock.is_due(now) {
                    say(&line_text(progress));
                }
            }
        }
    }

    fn remark(&mut self, remark: Remark) {
        if self.why {
            self.print(&format!("{:9.3} s  {}", remark.at_seconds, remark.text));
        }
    }

    fn warning(&mut self, line: &str) {
        if !self.quiet {
            self.print(&format!("warning: {line}"));
        }
    }
}

/// Says when the next line is due.
struct LineClock {
    every: Duration,
    last: Instant,
}

impl LineClock {
    fn new(every: Duration) -> LineClock {
        LineClock { every, last: Instant::now() }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.last) >= self.every;
        if due {
            self.last = now;
        }
        due
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    bar.set_style(bar_style(WAITING_TEMPLATE));
    bar.set_message(phase_text(Phase::Connecting));
    bar
}

fn draw(bar: &ProgressBar, progress: &Progress) {
    let known = progress.bytes_total > 0 && progress.phase != Phase::Connecting;
    if known && bar.length() != Some(progress.bytes_total) {
        bar.set_style(bar_style(MOVING_TEMPLATE));
        bar.set_length(progress.bytes_total);
    }
    bar.set_position(progress.bytes_done);
    // Last, because it always draws.
    bar.set_message(bar_text(progress));
}

fn bar_style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is a constant that a test draws");
    style.progress_chars("━╸─")
}

/// What stands right of the bar; short, so that 80 columns hold it.
fn bar_text(progress: &Progress) -> String {
    if progress.phase != Phase::Moving {
        return phase_text(progress.phase).into();
    }
    let mut parts = vec![amount_text(progress), progress.goodput.to_string()];
    parts.extend(time_left(progress).map(eta_text));
    parts.extend(condition(progress));
    parts.extend(limit_text(progress.limited_by).map(|_| format!("by {}", progress.limited_by.name())));
    parts.join("  ")
}

/// The same for a pipe, where words have room.
fn line_text(progress: &Progress) -> String {
    if progress.phase != Phase::Moving {
        return match progress.bytes_total {
            0 => phase_text(progress.phase).into(),
            _ => format!("{}: {}", phase_text(progress.phase), amount_text(progress)),
        };
    }
    let amount = match progress.bytes_total {
        0 => amount_text(progress),
        total => {
            let share = progress.bytes_done as f64 / total as f64;
            format!("{} ({})", amount_text(progress), whole_percent(share))
        }
    };
    let mut parts = vec![amount, progress.goodput.to_string()];
    parts.extend(time_left(progress).map(|left| format!("{} left", eta_text(left))));
    parts.extend(condition(progress));
    parts.extend(limit_text(progress.limited_by).map(|limit| format!("limited by {limit}")));
    parts.join(", ")
}

fn phase_text(phase: Phase) -> &'static str {
    match phase {
        Phase::Connecting => "connecting",
        Phase::Comparing => "comparing files",
        Phase::Moving => "moving data",
        Phase::Verifying => "verifying",
    }
}

/// Of what comes of a pipe nobody knows how much it will be.
fn amount_text(progress: &Progress) -> String {
    if progress.bytes_total == 0 {
        return bytes_text(progress.bytes_done);
    }
    let (done, total) = (bytes_text(progress.bytes_done), bytes_text(progress.bytes_total));
    match (done.split_once(' '), total.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number}/{total}"),
        _ => format!("{done}/{total}"),
    }
}

/// Rounded down: 100 % is for a copy that has everything.
fn whole_percent(share: f64) -> String {
    format!("{} %", (share * 100.0).floor())
}

/// How long the rest takes at the present rate; `None` while nothing moves.
fn time_left(progress: &Progress) -> Option<Duration> {
    let left = progress.bytes_total.saturating_sub(progress.bytes_done);
    (left > 0 && progress.goodput.0 > 0).then(|| progress.goodput.time_for(left))
}

/// Loss and round-trip time, once there are any.
fn condition(progress: &Progress) -> Vec<String> {
    if progress.rtt.is_zero() {
        return Vec::new();
    }
    let rtt_ms = progress.rtt.as_secs_f64() * 1e3;
    let rtt = if rtt_ms < 10.0 { format!("rtt {rtt_ms:.1} ms") } else { format!("rtt {rtt_ms:.0} ms") };
    vec![format!("loss {}", share_text(progress.loss)), rtt]
}

const WAITING_TEMPLATE: &str = "{wide_msg}";
const MOVING_TEMPLATE: &str = "{bar:10.cyan/dim} {percent:>3}%  {wide_msg}";
/// Seconds between two lines on a pipe: rare enough for a log.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The same for `--progress always`.
const LINE_EVERY_ALWAYS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Limit;
    use longhaul_proto::units::Rate;

    fn half_way() -> Progress {
        Progress {
            phase: Phase::Moving,
            bytes_done: 20_000_000,
            bytes_total: 40_000_000,
            files_total: 3,
            goodput: Rate::from_mbps(80.0),
            loss: 0.01,
            rtt: Duration::from_millis(65),
            limited_by: Limit::Path,
            ..Progress::default()
        }
    }

    #[test]
    fn a_bar_says_what_matters() {
        assert_eq!(bar_text(&half_way()), "20.0/40.0 MB  80.0 Mb/s  0:02  loss 1.0 %  rtt 65 ms  by path");
        let waiting = Progress { phase: Phase::Connecting, ..half_way() };
        assert_eq!(bar_text(&waiting), "connecting");
    }

    #[test]
    fn a_line_says_it_in_words() {
        assert_eq!(
            line_text(&half_way()),
            "20.0/40.0 MB (50 %), 80.0 Mb/s, 0:02 left, loss 1.0 %, rtt 65 ms, limited by the path"
        );
        let verifying = Progress { phase: Phase::Verifying, bytes_done: 40_000_000, ..half_way() };
        assert_eq!(line_text(&verifying), "verifying: 40.0/40.0 MB");
        assert_eq!(line_text(&Progress::default()), "connecting");
    }

    #[test]
    fn nothing_is_said_that_is_not_known() {
        let first = Progress { phase: Phase::Moving, bytes_total: 5_000, ..Progress::default() };
        assert_eq!(line_text(&first), "0 B/5.0 kB (0 %), 0.0 kb/s");
        let nearly = Progress { bytes_done: 39_999_999, ..half_way() };
        assert!(line_text(&nearly).contains("(99 %)"));
    }

    #[test]
    fn lines_keep_their_distance() {
        let mut clock = LineClock::new(Duration::from_secs(5));
        let start = clock.last;
        let due: Vec<bool> =
            [0, 4, 5, 9, 10, 30].map(|s| clock.is_due(start + Duration::from_secs(s))).into();
        assert_eq!(due, [false, false, true, false, true, true]);
    }

    #[test]
    fn both_templates_draw() {
        let bar = ProgressBar::hidden();
        bar.set_style(bar_style(WAITING_TEMPLATE));
        draw(&bar, &Progress::default());
        draw(&bar, &half_way());
        assert_eq!((bar.length(), bar.position()), (Some(40_000_000), 20_000_000));
    }
}
