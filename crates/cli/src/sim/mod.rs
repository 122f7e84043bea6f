//! `longhaul sim`: the experiments of the papers, and transfers over any path, on virtual time.

mod json;
mod text;

use crate::args::SimArgs;
use crate::output::{self, Exit};
use indicatif::{ProgressBar, ProgressStyle};
use longhaul::Failure;
use longhaul_sim::experiments::{self, Experiment, Options, Scale};
use std::io::{self, IsTerminal};
use std::num::NonZero;
use std::thread;
use std::time::Instant;

/// List, or simulate and print.
pub fn run(args: &SimArgs) -> Result<Exit, Failure> {
    if args.what == LIST {
        list(args.json);
        return Ok(Exit::Done);
    }
    let experiment = experiments::find(&args.what).map_err(Failure::Usage)?;
    simulate(args, experiment);
    Ok(Exit::Done)
}

fn simulate(args: &SimArgs, experiment: &Experiment) {
    let begun = Instant::now();
    let (scale, scale_name) = if args.quick { (Scale::Quick, "quick") } else { (Scale::Full, "full") };
    if args.json {
        output::result(&json::head(experiment.id, seed(args), scale_name).to_string());
    }
    let bar = progress_bar(experiment.id);
    let show = |done: usize, total: usize| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    };
    let options = Options { scale, seed: seed(args), threads: threads(args), progress: &show };
    let report = experiment.run(&options);
    bar.finish_and_clear();
    let seconds = begun.elapsed().as_secs_f64();
    if args.json {
        for line in json::lines(&report) {
            output::result(&line.to_string());
        }
        output::result(&json::end(seconds).to_string());
    } else {
        output::result(&text::report(&report));
        output::result(&format!("\nseed {}, {scale_name}, {}", seed(args), output::seconds_text(seconds)));
    }
}

fn list(as_json: bool) {
    for group in experiments::GROUPS {
        if !as_json {
            output::result(group.title);
        }
        for one in group.experiments {
            let line = if as_json {
                let claims: Vec<&str> = one.claims.iter().map(|claim| claim.text).collect();
                serde_json::json!({"experiment": one.id, "group": group.title, "title": one.title, "claims": claims})
                    .to_string()
            } else {
                format!("  {:<ID_WIDTH$}  {}", one.id, one.title)
            };
            output::result(&line);
        }
    }
}

fn seed(args: &SimArgs) -> u64 {
    args.seed.unwrap_or(SEED)
}

fn threads(args: &SimArgs) -> usize {
    args.threads.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from)
}

/// Shows how far the simulations are, on a terminal only.
fn progress_bar(name: &str) -> ProgressBar {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !io::stderr().is_terminal() || dumb {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(name.to_owned());
    bar.set_style(ProgressStyle::with_template(BAR).expect("the template is one"));
    bar
}

/// Where the user names none.
const SEED: u64 = 1;
/// What lists the experiments in place of being one.
const LIST: &str = "list";
/// The longest name and some.
const ID_WIDTH: usize = 16;
const BAR: &str = "{msg} {wide_bar} {pos}/{len} simulations, {eta} left";
