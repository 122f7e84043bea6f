//! `longhaul lab run all`: every experiment that has no result yet.

use super::session::Session;
use crate::Experiment;
use crate::program::args::LabRunArgs;
use crate::program::output::{self, Exit, seconds_text};
use crate::program::progress::{Lines, can_draw};
use crate::report::{Origin, Stored, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_cli::failure::Failure;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Run them, one after another; a failure does not stop those behind it.
pub fn run(args: &LabRunArgs) -> Result<Exit, Failure> {
    if args.ids.len() > 1 || args.only.is_some() {
        return Err(Failure::Usage(
            "all stands by itself: name no experiment beside it, and no --only".into(),
        ));
    }
    let begun = Instant::now();
    let session = Session::start(args)?;
    let origins = crate::all().flat_map(|(_, one)| one.origins().iter().map(move |origin| (one, *origin)));
    let plan: Vec<Planned> = origins.map(|(one, origin)| Planned::of(&session, one, origin)).collect();
    let mut course = Course::new(&plan);
    let (mut taken, mut failed) = (vec![], vec![]);
    for planned in &plan {
        let name = planned.name.as_str();
        if let (true, Some(stored)) = (planned.is_done, &planned.earlier) {
            taken.push(name);
            course.over(|| print(args, name, stored, "taken over, "));
            continue;
        }
        course.begin(planned);
        let show = |done, total| course.show(done, total);
        match session.perform(planned.experiment, planned.origin, &show) {
            Ok(stored) => {
                // What cannot be kept is told all the same.
                let unkept = session.store(planned.experiment, &stored).err();
                failed.extend(unkept.is_some().then_some(name));
                course.end(stored.seconds, || {
                    print(args, name, &stored, "");
                    unkept.iter().for_each(|error| output::error(&format!("{name}: {error}")));
                });
            }
            Err(Failure::Interrupted) => {
                course.clear();
                output::error("interrupted; the same command goes on with what is missing");
                return Ok(Exit::Interrupted);
            }
            Err(error) => {
                failed.push(name);
                course.over(|| output::error(&format!("{name} failed: {error}")));
            }
        }
    }
    course.clear();
    let measured = plan.len() - taken.len() - failed.len();
    let mut total = format!("{measured} results in {}", seconds_text(begun.elapsed().as_secs_f64()));
    if !taken.is_empty() {
        total.push_str(&format!("; taken over: {} (--again measures them anew)", taken.join(", ")));
    }
    output::say(&total);
    if failed.is_empty() {
        return Ok(Exit::Done);
    }
    output::error(&format!("failed: {}", failed.join(", ")));
    Ok(Exit::Failed)
}

/// An experiment, and what is there of it.
struct Planned {
    experiment: &'static Experiment,
    origin: Origin,
    /// What it is called here: what either can run is in the list twice.
    name: String,
    earlier: Option<Stored>,
    /// What is there is what would be measured.
    is_done: bool,
}

impl Planned {
    fn of(session: &Session<'_>, experiment: &'static Experiment, origin: Origin) -> Planned {
        let args = session.args;
        let name = experiment.file_stem(origin);
        // What cannot be read is measured again.
        let there = Stored::paths(&args.out, &name, session.scale());
        let there: Vec<Stored> = there.iter().filter_map(|path| Stored::read(path).ok()).collect();
        let wanted = session.head(experiment, origin);
        let is_of = |stored: &&Stored| stored.is_of(&wanted);
        let done = there.iter().find(is_of).filter(|_| !args.again);
        let is_alike = |stored: &&Stored| stored.head.scale == session.scale().name();
        let earlier = done.or_else(|| there.iter().find(is_alike)).cloned();
        Planned { is_done: done.is_some(), earlier, name, origin, experiment }
    }
}

/// What came of an experiment: its lines, or how many of its claims held.
fn print(args: &LabRunArgs, name: &str, stored: &Stored, how: &str) {
    if args.json {
        stored.lines().iter().for_each(|line| output::result(&line.to_string()));
        return;
    }
    let verdicts = || stored.report.statements.iter().map(|statement| statement.verdict);
    let counts = Verdict::ALL.iter().filter_map(|verdict| {
        let count = verdicts().filter(|one| one == verdict).count();
        (count > 0).then(|| format!("{count} {}", verdict.words()))
    });
    let counts: Vec<String> = counts.collect();
    let took = seconds_text(stored.seconds);
    output::result(&format!("{name:<ID_WIDTH$}  {took:>TIME_WIDTH$}  {how}{}", counts.join(", ")));
}

/// How far everything is: a bar on a terminal, plain lines elsewhere.
struct Course<'a> {
    bar: Option<ProgressBar>,
    number: usize,
    total: usize,
    /// Seconds that are expected of each that is still to run, where an earlier result says so.
    left: Vec<Option<f64>>,
    /// Seconds of those that ran.
    took: Vec<f64>,
    name: &'a str,
    begun: Instant,
    lines: Mutex<Lines>,
}

impl<'a> Course<'a> {
    fn new(plan: &[Planned]) -> Course<'a> {
        let bar = can_draw().then(|| {
            let style = ProgressStyle::with_template(BAR).expect("the template is one");
            let bar = ProgressBar::new(plan.len() as u64);
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        let to_run = plan.iter().filter(|planned| !planned.is_done);
        let seconds = to_run.map(|planned| planned.earlier.as_ref().map(|earlier| earlier.seconds));
        Course {
            bar,
            number: 0,
            total: plan.len(),
            left: seconds.collect(),
            took: vec![],
            name: "",
            begun: Instant::now(),
            lines: Mutex::new(Lines::new()),
        }
    }

    fn begin(&mut self, planned: &'a Planned) {
        (self.name, self.begun) = (&planned.name, Instant::now());
        self.say("", 0.0);
        self.show(0, 0);
    }

    /// So many of the runs of this experiment are done.
    fn show(&self, done: usize, total: usize) {
        let share = if total > 0 { done as f64 / total as f64 } else { 0.0 };
        let runs = if total > 0 { format!(" {done}/{total}") } else { String::new() };
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}{runs}, {}", self.name, self.left_text(share)));
        } else if self.lines.lock().is_ok_and(|mut lines| lines.is_due(Instant::now())) {
            self.say(&runs, share);
        }
    }

    /// A line where there is no bar.
    fn say(&self, runs: &str, share: f64) {
        if self.bar.is_none() {
            let (number, left) = (self.number + 1, self.left_text(share));
            output::say(&format!("[{number}/{}] {}{runs}, {left}", self.total, self.name));
        }
    }

    /// This experiment took so long.
    fn end(&mut self, seconds: f64, print: impl FnOnce()) {
        self.took.push(seconds);
        self.left.remove(0);
        self.next(print);
    }

    /// This one is over without having run to its end.
    fn over(&mut self, print: impl FnOnce()) {
        if !self.name.is_empty() {
            self.left.remove(0);
        }
        self.next(print);
    }

    fn next(&mut self, print: impl FnOnce()) {
        (self.number, self.name) = (self.number + 1, "");
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.number as u64);
                bar.suspend(print);
            }
            None => print(),
        }
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Time to go, when this share of the running experiment is done.
    fn left_text(&self, share: f64) -> String {
        let seconds = time_left(&self.left, &self.took, share, self.begun.elapsed().as_secs_f64());
        seconds.map_or("time unknown".into(), |seconds| format!("{} left", seconds_text(seconds)))
    }
}

/// Seconds to go: `left` has what is expected of each experiment that is still to run, the first of which has run for
/// `elapsed` and is done to `share`. Of what nothing is known the mean of all others is expected; `None`: no others are known.
fn time_left(left: &[Option<f64>], took: &[f64], share: f64, elapsed: f64) -> Option<f64> {
    let running = (share > SHARE_MIN).then(|| elapsed / share);
    let known: Vec<f64> = took.iter().copied().chain(left.iter().flatten().copied()).chain(running).collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)?;
    let expected = left.iter().map(|seconds| seconds.unwrap_or(mean));
    let first = running.or(expected.clone().next()).unwrap_or_default();
    Some((first - elapsed).max(0.0) + expected.skip(1).sum::<f64>())
}

const BAR: &str = "all {wide_bar} {pos}/{len} {msg}";
const ID_WIDTH: usize = 26;
const TIME_WIDTH: usize = 12;
/// With less of an experiment done its speed says nothing of the rest.
const SHARE_MIN: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_left_is_told_from_what_is_known() {
        assert_eq!(time_left(&[None, None], &[], 0.0, 5.0), None);
        // Half of the first is done in 10 s; the other takes as long as the mean.
        assert_eq!(time_left(&[None, None], &[40.0], 0.5, 10.0), Some(10.0 + 30.0));
        // An earlier result says 60 s each, the running one is late.
        assert_eq!(time_left(&[Some(60.0), Some(60.0)], &[], 0.0, 70.0), Some(60.0));
        assert_eq!(time_left(&[], &[40.0], 0.0, 0.0), Some(0.0));
    }
}
