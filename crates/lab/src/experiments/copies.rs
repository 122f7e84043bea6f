//! `longhaul cp` from the left end of a path to a `longhaul serve` at the right one.

use super::ExperimentError;
use super::bench::Bench;
use super::process::Process;
use crate::{End, Lab};
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tempfile::TempDir;

/// A file to copy, at the left end.
pub(super) struct Source {
    folder: TempDir,
    bytes: u64,
}

/// A file at one end, and a server at the other.
pub(super) struct Copies {
    source: Rc<Source>,
    /// Kept: it serves for as long as this lives.
    _server: Process,
    served: TempDir,
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

impl Source {
    /// A file of so many bytes of noise.
    pub(super) fn noise(bench: &Bench<'_>, bytes: u64) -> Result<Source, ExperimentError> {
        let folder = tempfile::tempdir().map_err(|e| no_room(&e))?;
        write_noise(&folder.path().join(FILE), bytes, bench.options.seed).map_err(|e| no_room(&e))?;
        Ok(Source { folder, bytes })
    }
}

impl Copies {
    /// A file of so many bytes of noise, and a server that listens.
    pub(super) fn start(bench: &Bench<'_>, lab: &Lab, bytes: u64) -> Result<Copies, ExperimentError> {
        Copies::of(bench, lab, Rc::new(Source::noise(bench, bytes)?), PORT)
    }

    /// A server for this file that listens at that port.
    pub(super) fn of(
        bench: &Bench<'_>,
        lab: &Lab,
        source: Rc<Source>,
        port: u16,
    ) -> Result<Copies, ExperimentError> {
        let served = tempfile::tempdir().map_err(|e| no_room(&e))?;
        let address = SocketAddr::from((lab.address(End::Right), port));
        let mut command = lab.command(End::Right, bench.options.program);
        command.arg("serve").arg("--root").arg(served.path()).args(["--listen", &address.to_string()]);
        command.env(TOKEN_ENV, TOKEN).env(LOG_ENV, "error");
        let mut server = Process::start("the server", &mut command)?;
        while !server.line(bench, START_TIME_MAX)?.contains("longhaul://") {}
        Ok(Copies { source, _server: server, served, address })
    }

    /// Begin to copy it under these options, and be there while it goes on. The file at the other end stays.
    pub(super) fn begin(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        args: &[&str],
    ) -> Result<Process, ExperimentError> {
        let mut command = lab.command(End::Left, bench.options.program);
        command.args(["cp", "--json", "--quiet", "--no-resume"]).args(args);
        command.arg(self.source.folder.path().join(FILE)).arg(format!("longhaul://{}/", self.address));
        Process::start("the copy", command.env(TOKEN_ENV, TOKEN))
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
                Ok(line) => Ok(read(&line)),
                Err(ExperimentError::Interrupted) => Err(ExperimentError::Interrupted),
                Err(ExperimentError::Program { reason, .. }) => Ok(Err(reason)),
                Err(other) => Err(other),
            }
        })?;
        let is_whole = fs::metadata(&arrived).is_ok_and(|there| there.len() == self.source.bytes);
        self.clear().map_err(|e| no_room(&e))?;
        Ok(match outcome {
            Ok(_) if !is_whole => Err("it says that all is there, and it is not".into()),
            outcome => outcome,
        })
    }

    /// Every copy is to begin from nothing. The folder itself stays: the server holds it open.
    fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(self.served.path())? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    }

    fn arrived(&self) -> PathBuf {
        self.served.path().join(FILE)
    }
}

fn read(line: &str) -> Result<Copied, String> {
    let copied: Copied =
        serde_json::from_str(line).map_err(|error| format!("says what nobody understands: {error}"))?;
    if copied.ok { Ok(copied) } else { Err(copied.error.unwrap_or_else(|| "it failed".into())) }
}

fn write_noise(path: &PathBuf, bytes: u64, seed: u64) -> io::Result<()> {
    let (mut random, mut file) = (fastrand::Rng::with_seed(seed), File::create(path)?);
    let mut block = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        random.fill(&mut block);
        let len = left.min(block.len() as u64);
        file.write_all(&block[..len as usize])?;
        left -= len;
    }
    Ok(())
}

fn no_room(error: &io::Error) -> ExperimentError {
    let reason = format!("cannot be kept in the folder for temporary files: {error}; set TMPDIR to another");
    ExperimentError::Program { program: "the file to copy".into(), reason }
}

const FILE: &str = "file";
/// The program's own.
const PORT: u16 = 7700;
/// Names of the program's own environment variables.
const TOKEN_ENV: &str = "LONGHAUL_TOKEN";
const LOG_ENV: &str = "LONGHAUL_LOG";
/// Between two namespaces that only this process can reach.
const TOKEN: &str = "a token of the lab's own";
const START_TIME_MAX: Duration = Duration::from_secs(20);
