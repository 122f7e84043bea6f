//! What experiments found, for people and for programs; the same for the simulator's and the lab's.

pub mod json;
pub mod text;

use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use longhaul_sim::experiments::Claim;
use std::io::{self, IsTerminal};

/// A line of a list of experiments.
pub fn list_line(id: &str, title: &str) -> String {
    format!("  {id:<ID_WIDTH$}  {title}")
}

/// The same for programs.
pub fn list_json(id: &str, group: &str, title: &str, claims: &[Claim]) -> String {
    let claims: Vec<&str> = claims.iter().map(|claim| claim.text).collect();
    serde_json::json!({"experiment": id, "group": group, "title": title, "claims": claims}).to_string()
}

/// Shows how far an experiment is, on a terminal only. `what` it is made of: simulations, runs.
pub fn progress_bar(name: &str, what: &str) -> ProgressBar {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    if !io::stderr().is_terminal() || dumb {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(0).with_message(output::harmless(name)).with_prefix(what.to_owned());
    bar.set_style(ProgressStyle::with_template(BAR).expect("the template is one"));
    bar
}

/// The longest name and some.
const ID_WIDTH: usize = 16;
const BAR: &str = "{msg} {wide_bar} {pos}/{len} {prefix}, {eta} left";
