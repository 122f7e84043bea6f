//! `longhaul ctl`.

use super::{REPLY_MAX, Reply, Request, folder, is_stale, open_folder, planned, socket_of};
use crate::args::ctl::{CtlArgs, CtlCommand, Steered};
use crate::failure::Failure;
use crate::hours::rates_text;
use crate::output::{self, Exit, say};
use crate::values::describe;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Ask a copy, or all parts of one, and say what came of it.
pub fn run(args: &CtlArgs) -> Result<Exit, Failure> {
    let (request, said) = match &args.command {
        CtlCommand::Rate { rate } => {
            let rate = rates_text(rate);
            (Request::Rate { rate: rate.clone() }, format!("rate: {rate}"))
        }
        CtlCommand::Pause => (Request::Pause, "paused".into()),
        CtlCommand::Resume => (Request::Resume, "resumed".into()),
        CtlCommand::Status => (Request::Status, String::new()),
    };
    let status = match &args.copy {
        Steered::Process(process) => ask_process(*process, &request)?,
        Steered::Run(folder) => planned::wish(folder, &request)?,
    };
    match request {
        Request::Status => output::json(&status, false),
        _ => say(&said),
    }
    Ok(Exit::Done)
}

fn ask_process(process: u32, request: &Request) -> Result<serde_json::Value, Failure> {
    let folder =
        folder().ok_or_else(|| Failure::Failed("there is no home to look for copies in: set HOME".into()))?;
    let reply =
        ask(&folder, process, request).map_err(|error| Failure::Failed(line(&folder, process, &error)))?;
    match reply.error {
        Some(error) => Err(Failure::Failed(error)),
        None => Ok(reply.status.unwrap_or_default()),
    }
}

fn ask(folder: &Path, process: u32, request: &Request) -> io::Result<Reply> {
    open_folder(folder)?;
    let path = socket_of(folder, process);
    let mut stream = UnixStream::connect(&path).inspect_err(|_| {
        if is_stale(&path) {
            let _ = fs::remove_file(&path);
        }
    })?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[serde_json::to_vec(request)?, b"\n".into()].concat())?;
    let mut text = Vec::new();
    stream.take(REPLY_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn line(folder: &Path, process: u32, error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            format!(
                "process {process} is no copy of this user that can be steered: none listens in {}",
                folder.display()
            )
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => format!("process {process} does not answer"),
        _ => format!("process {process} cannot be asked: {}", describe(error)),
    }
}

/// It may be busy, or stopped.
const PATIENCE: Duration = Duration::from_secs(10);
