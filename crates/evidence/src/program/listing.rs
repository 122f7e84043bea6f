//! What experiments found, for people and for programs; the same for the simulator's and the lab's.

use crate::Experiment;
use crate::program::output;
use crate::report::Origin;
use std::path::Path;

/// Print experiments: names, who can run them and titles below their group's, or JSON lines.
pub fn list(
    experiments: impl Iterator<Item = (&'static str, &'static Experiment)>,
    origin: impl Fn(&Experiment) -> Origin,
    as_json: bool,
) {
    let mut last = "";
    for (group, one) in experiments {
        let Experiment { id, title, claims, .. } = one;
        if !as_json && group != last {
            output::result(group);
            last = group;
        }
        let line = if as_json {
            let claims: Vec<&str> = claims.iter().map(|claim| claim.text).collect();
            let (origin, origins) = (origin(one), one.origins());
            serde_json::json!({
                "experiment": id, "group": group, "title": title, "claims": claims, "origin": origin, "origins": origins
            })
            .to_string()
        } else {
            let who: Vec<&str> = one.origins().iter().map(|origin| origin.command()).collect();
            format!("  {id:<ID_WIDTH$}  {:<WHO_WIDTH$}  {title}", who.join(", "))
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

/// The longest name and some.
const ID_WIDTH: usize = 16;
const WHO_WIDTH: usize = "lab, sim".len();
