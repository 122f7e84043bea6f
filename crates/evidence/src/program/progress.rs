//! How far an experiment is and when it will end: a bar on a terminal, elsewhere a line now and then.

use super::output::{self, seconds_text};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Of one experiment.
pub struct Progress {
    name: String,
    /// What it is made of: simulations, runs.
    what: &'static str,
    bar: Option<ProgressBar>,
    begun: Instant,
    lines: Mutex<Lines>,
}

/// When a line was last due.
#[derive(Clone, Copy, Debug)]
pub struct Lines(Instant);

impl Lines {
    /// The first is due after a while.
    pub fn new() -> Lines {
        Lines(Instant::now())
    }

    /// Whether the next one is; if so, the one after it is due a while later.
    pub fn is_due(&mut self, now: Instant) -> bool {
        let is_due = now.saturating_duration_since(self.0) >= LINE_EVERY;
        if is_due {
            self.0 = now;
        }
        is_due
    }
}

impl Progress {
    /// Of an experiment that begins now.
    pub fn new(name: &str, what: &'static str) -> Progress {
        let bar = can_draw().then(|| {
            let bar = ProgressBar::new(0).with_message(output::harmless(name)).with_prefix(what);
            bar.with_style(ProgressStyle::with_template(BAR).expect("the template is one"))
        });
        let lines = Mutex::new(Lines::new());
        Progress { name: name.into(), what, bar, begun: Instant::now(), lines }
    }

    /// So many are done of all.
    pub fn show(&self, done: usize, total: usize) {
        if let Some(bar) = &self.bar {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
            return;
        }
        let now = Instant::now();
        if self.lines.lock().is_ok_and(|mut lines| lines.is_due(now)) {
            output::say(&line(&self.name, self.what, done, total, now - self.begun));
        }
    }

    /// It is over.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Whether a bar can be drawn on standard error.
pub fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

fn line(name: &str, what: &str, done: usize, total: usize, elapsed: Duration) -> String {
    let left = (done > 0).then(|| {
        let seconds = elapsed.as_secs_f64() / done as f64 * total.saturating_sub(done) as f64;
        format!(", about {} left", seconds_text(seconds))
    });
    format!("{name}: {done}/{total} {what}{}", left.unwrap_or_default())
}

const BAR: &str = "{msg} {wide_bar} {pos}/{len} {prefix}, {eta} left";
/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_when_it_will_end() {
        let after = |done| line("pcp-fig2", "simulations", done, 40, Duration::from_secs(60));
        assert_eq!(after(10), "pcp-fig2: 10/40 simulations, about 3 min 0 s left");
        assert_eq!(after(0), "pcp-fig2: 0/40 simulations");
    }

    #[test]
    fn lines_are_due_now_and_then_however_often_runs_end() {
        let begun = Instant::now();
        let mut lines = Lines(begun);
        let due = (0..200).filter(|second| lines.is_due(begun + Duration::from_secs(*second))).count();
        assert_eq!(due, 6);
    }
}
