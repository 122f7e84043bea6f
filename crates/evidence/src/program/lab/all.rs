//! `longhaul lab run all`: every experiment that has no result yet.

use super::session::Session;
use crate::Experiment;
use crate::program::args::LabRunArgs;
use crate::program::output::{self, Exit, seconds_text};
use crate::program::progress::{Lines, can_draw};
use crate::report::{Origin, Stored, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_cli::failure::Failure;
use longhaul_sim::parallel::{all_cores, run_all};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Run them, those that wait for their paths most of the time beside each other; a failure does not stop the others.
pub fn run(args: &LabRunArgs) -> Result<Exit, Failure> {
    if args.ids.len() > 1 || args.only.is_some() || args.simulated {
        return Err(Failure::Usage(
            "all stands by itself: name no experiment beside it, and neither --only nor --simulated".into(),
        ));
    }
    let begun = Instant::now();
    let session = Session::start(args)?;
    let origins = crate::all().flat_map(|(_, one)| one.origins().iter().map(move |origin| (one, *origin)));
    let plan: Vec<Planned> = origins.map(|(one, origin)| Planned::of(&session, one, origin)).collect();
    let course = Course::new(&plan);
    let taken: Vec<&str> = plan.iter().filter(|one| one.is_done).map(|one| one.name.as_str()).collect();
    for planned in plan.iter().filter(|planned| planned.is_done) {
        let stored = planned.earlier.iter();
        course.end(None, || stored.for_each(|stored| print(args, &planned.name, stored, "taken over, ")));
    }
    let (mut measured, mut failed) = (0, vec![]);
    for (at_a_time, stage) in stages(&plan) {
        let Some(found) = run_stage(&session, &course, at_a_time, &stage) else {
            course.clear();
            output::error("interrupted; the same command goes on with what is missing");
            return Ok(Exit::Interrupted);
        };
        measured += stage.len() - found.len();
        failed.extend(found);
    }
    course.clear();
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

/// What is to run, and how many of them at a time.
fn stages(plan: &[Planned]) -> [(usize, Vec<&Planned>); 2] {
    let missing = plan.iter().filter(|planned| !planned.is_done);
    let (alone, mut together): (Vec<_>, Vec<_>) = missing.partition(|planned| planned.is_alone());
    // Beside the one whose runs it shares it would only wait for that.
    together.sort_by_key(|planned| planned.experiment.shares_runs);
    [(all_cores(), together), (1, alone)]
}

/// Run these, so many at a time, and say which failed; nothing if the user wants no more of it.
fn run_stage<'a>(
    session: &Session<'_>,
    course: &Course<'a>,
    at_a_time: usize,
    stage: &[&'a Planned],
) -> Option<Vec<&'a str>> {
    let run = |planned: &&'a Planned| {
        if session.is_stopped() { Err(Failure::Interrupted) } else { run_one(session, course, planned) }
    };
    let results = run_all(stage, at_a_time, run, |_| {});
    if results.iter().any(|result| matches!(result, Err(Failure::Interrupted))) {
        return None;
    }
    let failed = stage.iter().zip(results).filter(|(_, result)| result.is_err());
    Some(failed.map(|(planned, _)| planned.name.as_str()).collect())
}

/// Run one and tell what came of it, a failure too.
fn run_one<'a>(session: &Session<'_>, course: &Course<'a>, planned: &'a Planned) -> Result<(), Failure> {
    let name = planned.name.as_str();
    course.begin(planned);
    let show = |done, total| course.show(planned, done, total);
    let result = session.perform(planned.experiment, planned.origin, &show);
    // What cannot be kept is told all the same.
    let (stored, failure) = match result {
        Ok(stored) => {
            let unkept = session.store(planned.experiment, &stored).err();
            (Some(stored), unkept.map(|error| (format!("{name}: {error}"), error)))
        }
        Err(Failure::Interrupted) => return Err(Failure::Interrupted),
        Err(error) => (None, Some((format!("{name} failed: {error}"), error))),
    };
    course.end(Some((planned, stored.as_ref().map(|stored| stored.seconds))), || {
        stored.iter().for_each(|stored| print(session.args, name, stored, ""));
        failure.iter().for_each(|(text, _)| output::error(text));
    });
    failure.map_or(Ok(()), |(_, error)| Err(error))
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

    /// Whether it needs the whole machine, as all simulations do.
    fn is_alone(&self) -> bool {
        self.origin == Origin::Simulator || self.experiment.is_alone
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
    total: usize,
    state: Mutex<State<'a>>,
}

struct State<'a> {
    /// How many are over.
    over: usize,
    waiting: Vec<&'a Planned>,
    running: Vec<Running<'a>>,
    /// Seconds of those that ran.
    took: Vec<f64>,
    lines: Lines,
}

struct Running<'a> {
    planned: &'a Planned,
    begun: Instant,
    done: usize,
    total: usize,
}

impl<'a> Course<'a> {
    fn new(plan: &'a [Planned]) -> Course<'a> {
        let bar = can_draw().then(|| {
            let style = ProgressStyle::with_template(BAR).expect("the template is one");
            let bar = ProgressBar::new(plan.len() as u64);
            bar.set_style(style);
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        let waiting = plan.iter().filter(|planned| !planned.is_done).collect();
        let state = State { over: 0, waiting, running: vec![], took: vec![], lines: Lines::new() };
        Course { bar, total: plan.len(), state: Mutex::new(state) }
    }

    fn begin(&self, planned: &'a Planned) {
        let mut state = self.lock();
        state.waiting.retain(|one| !ptr::eq(*one, planned));
        state.running.push(Running { planned, begun: Instant::now(), done: 0, total: 0 });
        self.tell(&state, true);
    }

    /// So many of the runs of this experiment are done.
    fn show(&self, planned: &Planned, done: usize, total: usize) {
        let mut state = self.lock();
        let running = state.running.iter_mut().find(|one| ptr::eq(one.planned, planned));
        running.into_iter().for_each(|one| (one.done, one.total) = (done, total));
        let is_due = state.lines.is_due(Instant::now());
        self.tell(&state, is_due);
    }

    /// One is over; if it ran, with the seconds that its result took.
    fn end(&self, ran: Option<(&Planned, Option<f64>)>, print: impl FnOnce()) {
        let mut state = self.lock();
        state.over += 1;
        if let Some((planned, seconds)) = ran {
            state.running.retain(|one| !ptr::eq(one.planned, planned));
            state.took.extend(seconds);
        }
        match &self.bar {
            Some(bar) => {
                bar.set_position(state.over as u64);
                bar.suspend(print);
            }
            None => print(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// On the bar, or in a line if one is due.
    fn tell(&self, state: &State<'_>, is_due: bool) {
        let runs = |one: &Running<'_>| match one.total {
            0 => one.planned.name.clone(),
            total => format!("{} {}/{total}", one.planned.name, one.done),
        };
        let running: Vec<String> = state.running.iter().map(runs).collect();
        let left = state.left().map_or("time unknown".into(), |left| format!("{} left", seconds_text(left)));
        let text = format!("{}, {left}", running.join(", "));
        match &self.bar {
            Some(bar) => bar.set_message(text),
            None if is_due => output::say(&format!("[{}/{}] {text}", state.over, self.total)),
            None => {}
        }
    }
}

impl State<'_> {
    /// Seconds to go.
    fn left(&self) -> Option<f64> {
        let left = |is_alone: bool| -> Vec<Left> {
            let is_of = |planned: &Planned| planned.is_alone() == is_alone;
            let expected = |planned: &Planned| planned.earlier.as_ref().map(|earlier| earlier.seconds);
            let running = self.running.iter().filter(|one| is_of(one.planned)).map(|one| Left {
                expected: expected(one.planned),
                elapsed: one.begun.elapsed().as_secs_f64(),
                share: if one.total > 0 { one.done as f64 / one.total as f64 } else { 0.0 },
            });
            let waiting = self.waiting.iter().filter(|one| is_of(one));
            running
                .chain(waiting.map(|one| Left { expected: expected(one), elapsed: 0.0, share: 0.0 }))
                .collect()
        };
        time_left(&left(false), all_cores(), &left(true), &self.took)
    }
}

/// An experiment that is to run, or runs.
struct Left {
    /// Seconds that an earlier result says.
    expected: Option<f64>,
    /// Seconds that it has run.
    elapsed: f64,
    /// How much of it is done.
    share: f64,
}

/// Seconds to go with those of which so many run at a time, and then with those that run alone. Of what nothing is known the
/// mean of all others is expected; `None`: no others are known.
fn time_left(together: &[Left], at_a_time: usize, alone: &[Left], took: &[f64]) -> Option<f64> {
    let told = |one: &Left| if one.share > SHARE_MIN { Some(one.elapsed / one.share) } else { one.expected };
    let all = || together.iter().chain(alone);
    let known: Vec<f64> = took.iter().copied().chain(all().filter_map(told)).collect();
    let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)?;
    let rest = |one: &Left| (told(one).unwrap_or(mean) - one.elapsed).max(0.0);
    let longest = together.iter().map(rest).fold(0.0, f64::max);
    let shared = together.iter().map(rest).sum::<f64>() / at_a_time as f64;
    Some(shared.max(longest) + alone.iter().map(rest).sum::<f64>())
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
        let left = |expected, elapsed, share| Left { expected, elapsed, share };
        assert_eq!(time_left(&[], 2, &[left(None, 5.0, 0.0), left(None, 0.0, 0.0)], &[]), None);
        // Half of the first is done in 10 s; the other takes as long as the mean.
        let alone = [left(None, 10.0, 0.5), left(None, 0.0, 0.0)];
        assert_eq!(time_left(&[], 2, &alone, &[40.0]), Some(10.0 + 30.0));
        // An earlier result says 60 s each, the running one is late.
        let alone = [left(Some(60.0), 70.0, 0.0), left(Some(60.0), 0.0, 0.0)];
        assert_eq!(time_left(&[], 2, &alone, &[]), Some(60.0));
        assert_eq!(time_left(&[], 2, &[], &[40.0]), Some(0.0));
        // Two at a time take half of the time of all, but not less than the longest, and then come those that run alone.
        let three = [left(Some(50.0), 0.0, 0.0), left(Some(50.0), 20.0, 0.0), left(Some(60.0), 0.0, 0.0)];
        assert_eq!(time_left(&three, 2, &[left(Some(7.0), 0.0, 0.0)], &[]), Some(70.0 + 7.0));
        assert_eq!(time_left(&three[..2], 2, &[], &[]), Some(50.0));
    }
}
