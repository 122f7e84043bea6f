//! `longhaul ctl`.

use super::{REPLY_MAX, Reply, Request, folder, is_stale, open_folder, socket_of};
use crate::args::ctl::{CtlArgs, CtlCommand};
use crate::failure::Failure;
use crate::hours::rates_text;
use crate::output::{self, Exit, say};
use crate::values::describe;
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Ask a copy, and say what it answers.
pub fn run(args: &CtlArgs) -> Result<Exit, Failure> {
    let folder =
        folder().ok_or_else(|| Failure::Failed("there is no home to look for copies in: set HOME".into()))?;
    let (request, said) = match &args.command {
        CtlCommand::Rate { rate } => {
            let rate = rates_text(rate);
            (Request::Rate { rate: rate.clone() }, format!("rate: {rate}"))
        }
        CtlCommand::Pause => (Request::Pause, "paused".into()),
        CtlCommand::Resume => (Request::Resume, "resumed".into()),
        CtlCommand::Status => (Request::Status, String::new()),
    };
    let reply =
        ask(&folder, args.pid, &request).map_err(|error| Failure::Failed(line(&folder, args.pid, &error)))?;
    if let Some(error) = reply.error {
        return Err(Failure::Failed(error));
    }
    match request {
        Request::Status => output::json(&reply.status, false),
        _ => say(&said),
    }
    Ok(Exit::Done)
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
