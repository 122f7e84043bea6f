//! A copy as the user sees it while it runs: a bar on a terminal, plain lines elsewhere.

use crate::args::When;
use crate::output::{bytes_text, eta_text, harmless, say, share_text};
use crate::retry::Told;
use crate::watch::{Board, TraceFile, time_left};
use crate::why::limit_text;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul::trace::Record;
use longhaul::{Breakdown, Limit, Observer, Phase, Progress, Remark};
use rustix::termios::tcgetwinsize;
use std::io::{self, IsTerminal};
use std::sync::Arc;
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
    /// For whoever else looks.
    board: Arc<Board>,
    trace: Option<TraceFile>,
}

enum View {
    Hidden,
    Bar(ProgressBar),
    Lines(LineClock),
}

impl Display {
    /// A display for this process's standard error.
    pub fn new(verbosity: Verbosity, board: Arc<Board>) -> Display {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let view = match verbosity.progress {
            _ if verbosity.quiet => View::Hidden,
            When::Never => View::Hidden,
            _ if io::stderr().is_terminal() && !dumb => View::Bar(new_bar()),
            When::Auto => View::Lines(LineClock::new(LINE_EVERY)),
            When::Always => View::Lines(LineClock::new(LINE_EVERY_ALWAYS)),
        };
        let (quiet, why) = (verbosity.quiet, verbosity.why);
        Display { view, quiet, why, latest: Progress::default(), board, trace: None }
    }

    /// What others see of it, and how they take part.
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Write a trace from now on.
    pub fn set_trace(&mut self, trace: TraceFile) {
        self.trace = Some(trace);
    }

    /// The trace, to end it.
    pub fn take_trace(&mut self) -> Option<TraceFile> {
        self.trace.take()
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
        self.board.note(progress);
        if let Some(trace) = &mut self.trace {
            trace.progress(progress);
        }
        if matches!(progress.phase, Phase::Moving | Phase::Verifying) {
            self.latest = *progress;
        }
        match &mut self.view {
            View::Hidden => {}
            // It says so already, and ssh may be asking for a password on the same line.
            View::Bar(_) if progress.phase == Phase::Connecting => {}
            View::Bar(bar) => draw(bar, progress, columns()),
            View::Lines(clock) => {
                if clock.is_due(now) {
                    say(&line_text(progress));
                }
            }
        }
    }

    fn remark(&mut self, remark: Remark) {
        if let Some(trace) = &mut self.trace {
            trace.info(&remark.text);
        }
        if self.why {
            self.print(&format!("{:9.3} s  {}", remark.at_seconds, remark.text));
        }
    }

    fn warning(&mut self, line: &str) {
        if let Some(trace) = &mut self.trace {
            trace.warning(line);
        }
        if !self.quiet {
            self.print(&format!("warning: {line}"));
        }
    }

    fn breakdown(&mut self, breakdown: &Breakdown) {
        self.board.note_breakdown(breakdown);
        if let Some(trace) = &mut self.trace {
            trace.breakdown(breakdown);
        }
    }

    fn trace(&mut self, record: Record) {
        if let Some(trace) = &mut self.trace {
            trace.record(record);
        }
    }

    fn wants_trace(&self) -> bool {
        self.trace.is_some()
    }
}

impl Told for Display {
    fn trying_again(&mut self, line: &str) {
        if let Some(trace) = &mut self.trace {
            trace.warning(line);
        }
        self.print(line);
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

fn draw(bar: &ProgressBar, progress: &Progress, columns: usize) {
    let Line { has_bar, text } = line_at(progress, columns);
    if has_bar {
        bar.set_style(bar_style(MOVING_TEMPLATE));
        bar.set_length(progress.bytes_total);
        bar.set_position(progress.bytes_done);
    } else {
        bar.set_style(bar_style(WAITING_TEMPLATE));
    }
    // Last, because it always draws.
    bar.set_message(text);
}

/// How wide the terminal is by now.
fn columns() -> usize {
    tcgetwinsize(io::stderr())
        .map(|size| size.ws_col.into())
        .ok()
        .filter(|columns| *columns > 0)
        .unwrap_or(80)
}

fn bar_style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).expect("the template is a constant that a test draws");
    style.progress_chars("━╸─")
}

/// What is shown in one line.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    /// A bar stands before the text.
    has_bar: bool,
    text: String,
}

/// As much as so many columns hold: what matters most is left out last.
fn line_at(progress: &Progress, columns: usize) -> Line {
    if progress.phase != Phase::Moving {
        let text = phase_text(progress.phase).chars().take(columns).collect();
        return Line { has_bar: false, text };
    }
    let mut pieces = pieces(progress);
    let has_bar = progress.bytes_total > 0;
    let bar = has_bar.then_some((RANK_OF_BAR, BAR_COLUMNS));
    let mut by_rank: Vec<(u8, usize)> =
        bar.into_iter().chain(pieces.iter().map(|(rank, text)| (*rank, text.chars().count()))).collect();
    by_rank.sort_unstable();
    let (mut left, mut ranks) = (columns + GAP.len(), 0);
    for (_, len) in &by_rank {
        let needs = len + GAP.len();
        if needs > left {
            break;
        }
        (left, ranks) = (left - needs, ranks + 1);
    }
    let is_shown = |rank: u8| by_rank.iter().take(ranks).any(|(shown, _)| *shown == rank);
    pieces.retain(|(rank, _)| is_shown(*rank));
    let text = pieces.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(GAP);
    Line { has_bar: has_bar && is_shown(RANK_OF_BAR), text }
}

/// What there is to show, as it stands in the line, each with its rank: 0 matters most.
fn pieces(progress: &Progress) -> Vec<(u8, String)> {
    let mut pieces = vec![];
    if progress.bytes_total > 0 {
        pieces.push((0, format!("{}%", percent(progress))));
    }
    pieces.push((1, amount_text(progress)));
    let is_paused = progress.limited_by == Limit::Paused;
    pieces.push((2, if is_paused { "paused".into() } else { progress.goodput.to_string() }));
    pieces.extend(time_left(progress).map(|left| (3, eta_text(left))));
    pieces.extend(files_of(progress).map(|files| (4, files)));
    let limit = limit_text(progress.limited_by).filter(|_| !is_paused);
    pieces.extend(limit.map(|_| (5, format!("by {}", progress.limited_by.name()))));
    pieces.extend((RANK_OF_BAR + 1..).zip(condition(progress)));
    pieces
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
        _ => format!("{} ({} %)", amount_text(progress), percent(progress)),
    };
    let mut parts = vec![amount, progress.goodput.to_string()];
    parts.extend(time_left(progress).map(|left| format!("{} left", eta_text(left))));
    parts.extend(files_of(progress));
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

/// How many files of how many are in place, where there are several.
fn files_of(progress: &Progress) -> Option<String> {
    let done = progress.files_done.filter(|_| progress.files_total > 1)?;
    Some(format!("{done}/{} files", progress.files_total))
}

/// Rounded down: 100 % is for a copy that has everything.
fn percent(progress: &Progress) -> u64 {
    (progress.bytes_done as f64 / progress.bytes_total.max(1) as f64 * 100.0) as u64
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
const MOVING_TEMPLATE: &str = "{bar:10.cyan/dim}  {wide_msg}";
/// Of the bar in that.
const BAR_COLUMNS: usize = 10;
/// It is left out before what is told in words, but for the state of the path.
const RANK_OF_BAR: u8 = 6;
/// Between two pieces.
const GAP: &str = "  ";
/// Seconds between two lines on a pipe: rare enough for a log.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The same for `--progress always`.
const LINE_EVERY_ALWAYS: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
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

    fn shown(progress: &Progress, columns: usize) -> String {
        let Line { has_bar, text } = line_at(progress, columns);
        if has_bar { format!("[bar]  {text}") } else { text }
    }

    #[test]
    fn a_terminal_of_any_width_says_what_matters() {
        let tree = Progress { files_done: Some(17), files_total: 56, ..half_way() };
        for (columns, text) in [
            (20, "50%  20.0/40.0 MB"),
            (40, "50%  20.0/40.0 MB  80.0 Mb/s  0:02"),
            (60, "50%  20.0/40.0 MB  80.0 Mb/s  0:02  17/56 files  by path"),
            (79, "[bar]  50%  20.0/40.0 MB  80.0 Mb/s  0:02  17/56 files  by path"),
            (80, "[bar]  50%  20.0/40.0 MB  80.0 Mb/s  0:02  17/56 files  by path  loss 1.0 %"),
            (200, "[bar]  50%  20.0/40.0 MB  80.0 Mb/s  0:02  17/56 files  by path  loss 1.0 %  rtt 65 ms"),
        ] {
            assert_eq!(shown(&tree, columns), text, "{columns}");
        }
        let alone = "[bar]  50%  20.0/40.0 MB  80.0 Mb/s  0:02  by path  loss 1.0 %  rtt 65 ms";
        assert_eq!(shown(&half_way(), 80), alone);
        let paused = Progress { limited_by: Limit::Paused, goodput: Rate(0), ..half_way() };
        assert_eq!(shown(&paused, 80), "[bar]  50%  20.0/40.0 MB  paused  loss 1.0 %  rtt 65 ms");
        let pipe = Progress { bytes_total: 0, ..half_way() };
        assert_eq!(shown(&pipe, 40), "20.0 MB  80.0 Mb/s  by path  loss 1.0 %");
        assert_eq!(shown(&Progress { phase: Phase::Connecting, ..half_way() }, 80), "connecting");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let mut random = fastrand::Rng::with_seed(3);
        for columns in 0..220 {
            for _ in 0..50 {
                let bytes_total = random.u64(..) >> random.u32(..64);
                let files_total = random.u64(..) >> random.u32(..64);
                let progress = Progress {
                    phase: [Phase::Comparing, Phase::Moving, Phase::Moving, Phase::Verifying]
                        [random.usize(..4)],
                    bytes_done: random.u64(..=bytes_total),
                    bytes_total,
                    files_total,
                    files_done: random.bool().then(|| random.u64(..=files_total)),
                    goodput: Rate(random.u64(..) >> random.u32(..64)),
                    rtt: Duration::from_micros(random.u64(..10_000_000)),
                    loss: random.f64(),
                    limited_by: Limit::ALL[random.usize(..Limit::ALL.len())],
                    ..Progress::default()
                };
                let Line { has_bar, text } = line_at(&progress, columns);
                let wide = text.chars().count() + if has_bar { BAR_COLUMNS + GAP.len() } else { 0 };
                assert!(wide <= columns, "{wide} of {columns}: {text:?}");
            }
        }
    }

    #[test]
    fn a_line_says_it_in_words() {
        assert_eq!(
            line_text(&half_way()),
            "20.0/40.0 MB (50 %), 80.0 Mb/s, 0:02 left, loss 1.0 %, rtt 65 ms, limited by the path"
        );
        let tree = Progress { files_done: Some(17), files_total: 56, ..half_way() };
        assert!(line_text(&tree).contains("0:02 left, 17/56 files, loss"));
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
        draw(&bar, &Progress::default(), 80);
        draw(&bar, &half_way(), 20);
        draw(&bar, &half_way(), 80);
        assert_eq!((bar.length(), bar.position()), (Some(40_000_000), 20_000_000));
    }
}
