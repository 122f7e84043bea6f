//! `longhaul cp` of one file from the left end of a path to a `longhaul serve` at the right one, under various options.

use super::ExperimentError;
use super::bench::Bench;
use super::peers::{Cargo, Longhaul, NAME, PORT, clear, no_room};
use super::process::Process;
use crate::temporary::Folder;
use crate::{End, Lab};
use serde::Deserialize;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// A file at one end, and a server at the other.
pub(super) struct Copies {
    cargo: Rc<Cargo>,
    /// Kept: it serves for as long as this lives.
    _server: Process,
    served: Folder,
    address: SocketAddr,
}

/// What came of a copy: some of the fields of `--json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Copied {
    ok: bool,
    pub(super) seconds: f64,
    pub(super) goodput_mbps: f64,
    /// (sent − required) / required.
    pub(super) waste: f64,
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
        Copies::of(bench, lab, Rc::new(Cargo::file(bench, bytes)?), PORT)
    }

    /// A server for this file that listens at that port.
    pub(super) fn of(
        bench: &Bench<'_>,
        lab: &Lab,
        cargo: Rc<Cargo>,
        port: u16,
    ) -> Result<Copies, ExperimentError> {
        let served = Folder::new().map_err(|error| no_room(&error))?;
        let address = SocketAddr::from((lab.address(End::Right), port));
        let far = lab.command(End::Right, bench.options.program);
        let server = Longhaul::listen(bench, far, served.path(), address)?;
        Ok(Copies { cargo, _server: server, served, address })
    }

    /// Begin to copy it under these options, and be there while it goes on. The file at the other end stays.
    pub(super) fn begin(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
    ) -> Result<Process, ExperimentError> {
        let near = lab.command(End::Left, bench.options.program);
        Process::start("the copy", &mut Longhaul::copy(near, args, &self.cargo, self.address))
    }

    /// Where the data arrives, over UDP or TCP.
    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Copy it under these options. What did not work within `limit` is a line that says why.
    pub(super) fn run(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
        limit: Duration,
    ) -> Result<Result<Copied, String>, ExperimentError> {
        let arrived = self.arrived();
        let outcome = bench.run(lab, || {
            let mut process = self.begin(bench, lab, args)?;
            match process.line(bench, limit) {
                Ok(line) => Ok(Copied::read(&line)),
                Err(ExperimentError::Interrupted) => Err(ExperimentError::Interrupted),
                Err(ExperimentError::Program { reason, .. }) => Ok(Err(reason)),
                Err(other) => Err(other),
            }
        })?;
        let is_whole = fs::metadata(&arrived).is_ok_and(|there| there.len() == self.cargo.bytes);
        clear(self.served.path())?;
        Ok(match outcome {
            Ok(_) if !is_whole => Err("it says that all is there, and it is not".into()),
            outcome => outcome,
        })
    }

    fn arrived(&self) -> PathBuf {
        self.served.path().join(NAME)
    }
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
        let done = r#"{"ok":true,"seconds":2.5,"goodput_mbps":8.0,"waste":0.01,"transport":"stripe","streams":4,"switches":[{"seconds":1.0,"to":"stripe",
            "why":"UDP is blocked","from":"object"}],"error":null}"#.replace('\n', "");
        let copied = Copied::read(&done).unwrap();
        assert_eq!((copied.seconds, copied.streams, copied.switches[0].to.as_str()), (2.5, 4, "stripe"));
        let failed = r#"{"ok":false,"seconds":2.5,"goodput_mbps":8.0,"waste":0.01,"transport":"","streams":0,"switches":[],"error":"no such host"}"#;
        assert_eq!(Copied::read(failed).unwrap_err(), "no such host");
        assert!(Copied::read("").unwrap_err().starts_with("says what nobody understands"));
    }
}
