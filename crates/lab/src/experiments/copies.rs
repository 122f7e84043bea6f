//! `longhaul cp` of one file over one path, under various options.

use super::ExperimentError;
use super::bench::Bench;
use super::peers::{Cargo, Longhaul, Scene, Started};
use crate::{End, Lab};
use serde::Deserialize;
use std::time::Duration;

/// A file at one end, and a server at the other.
pub(super) struct Copies {
    cargo: Cargo,
    started: Started,
}

/// What came of a copy: some of the fields of `--json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Copied {
    ok: bool,
    pub(super) seconds: f64,
    pub(super) transport: String,
    pub(super) streams: u32,
    pub(super) switches: Vec<Switch>,
    error: Option<String>,
}

/// A change of what carries the data.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Switch {
    pub(super) seconds: f64,
    pub(super) to: String,
    pub(super) why: String,
}

impl Copies {
    /// A file of so many bytes of noise, and a server that listens.
    pub(super) fn start(bench: &Bench<'_>, lab: &Lab, bytes: u64) -> Result<Copies, ExperimentError> {
        let cargo = Cargo::file(bytes, bench.options.seed)?;
        let started = Longhaul::serve(&scene(bench, lab, &cargo), "the copy", vec![])?;
        Ok(Copies { cargo, started })
    }

    /// Copy it under these options. What did not work within `limit` is a line that says why.
    pub(super) fn run(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
        limit: Duration,
    ) -> Result<Result<Copied, String>, ExperimentError> {
        let scene = scene(bench, lab, &self.cargo);
        let arrived = self.started.copy_by(&scene, &mut Longhaul::command(&scene, args), limit)?;
        Ok(arrived.and_then(|arrived| Copied::read(&arrived.said)))
    }
}

fn scene<'a>(bench: &'a Bench<'a>, lab: &'a Lab, cargo: &'a Cargo) -> Scene<'a> {
    Scene { bench, lab, cargo, to: End::Right, mbit: None, rtt_ms: 0.0 }
}

impl Copied {
    /// From what the program said; or else what went wrong.
    pub(super) fn read(said: &str) -> Result<Copied, String> {
        let line = said.lines().last().unwrap_or_default();
        let copied: Copied =
            serde_json::from_str(line).map_err(|error| format!("says what nobody understands: {error}"))?;
        if copied.ok { Ok(copied) } else { Err(copied.error.unwrap_or_else(|| "it failed".into())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_last_line_tells_what_came_of_it() {
        let done = r#"{"ok":true,"seconds":2.5,"transport":"stripe","streams":4,"switches":[{"seconds":1.0,"to":"stripe",
            "why":"UDP is blocked","from":"object"}],"error":null}"#.replace('\n', "");
        let copied = Copied::read(&done).unwrap();
        assert_eq!((copied.seconds, copied.streams, copied.switches[0].to.as_str()), (2.5, 4, "stripe"));
        let failed =
            r#"{"ok":false,"seconds":2.5,"transport":"","streams":0,"switches":[],"error":"no such host"}"#;
        assert_eq!(Copied::read(failed).unwrap_err(), "no such host");
        assert!(Copied::read("").unwrap_err().starts_with("says what nobody understands"));
    }
}
