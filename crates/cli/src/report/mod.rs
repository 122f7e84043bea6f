//! What experiments found, for people and for programs; the same for the simulator's and the lab's.

pub mod text;

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_lab::report::Origin;
use longhaul_sim::experiments::Claim;
use std::io::{self, IsTerminal};
use std::path::Path;

/// An experiment in a list.
pub struct Listed {
    /// Its name on the command line.
    pub id: &'static str,
    /// What it is about.
    pub title: &'static str,
    /// What is claimed.
    pub claims: &'static [Claim],
    /// Who comes to its results.
    pub origin: Origin,
}

/// Print the experiments of a group: names and titles below the group's, or JSON lines.
pub fn list(group: &str, experiments: impl Iterator<Item = Listed>, as_json: bool) {
    if !as_json {
        output::result(group);
    }
    for Listed { id, title, claims, origin } in experiments {
        let line = if as_json {
            let claims: Vec<&str> = claims.iter().map(|claim| claim.text).collect();
            serde_json::json!({"experiment": id, "group": group, "title": title, "claims": claims, "origin": origin})
                .to_string()
        } else {
            format!("  {id:<ID_WIDTH$}  {title}")
        };
        output::result(&line);
    }
}

/// The command that is running, with the program's name in place of its path.
pub fn command_line() -> String {
    let mut words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    let name =
        Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    [name].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// Shows how far an experiment is, on a terminal only. `what` it is made of: simulations, runs.
pub fn progress_bar(name: &str, what: &str) -> ProgressBar {
    if !can_draw() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(output::harmless(name)).with_prefix(what.to_owned());
    bar.set_style(ProgressStyle::with_template(BAR).expect("the template is one"));
    bar
}

/// Whether a bar can be drawn on standard error.
pub fn can_draw() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
}

/// The longest name and some.
const ID_WIDTH: usize = 16;
const BAR: &str = "{msg} {wide_bar} {pos}/{len} {prefix}, {eta} left";
