//! This program, run as the two ends of a copy.

use super::STOP_POLL;
use super::folder::Folder;
use crate::values::{LOG_ENV, TOKEN_ENV, describe, fresh_token};
use longhaul::Failure;
use longhaul_lab::{End, Lab};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// `longhaul serve` at the far end. Dropping it kills it.
pub struct Server {
    child: Child,
    /// Kept open: it may print more.
    stdout: BufReader<ChildStdout>,
    token: String,
}

impl Server {
    /// Start it and wait until it listens.
    pub fn start(lab: &Lab, folder: &Folder) -> Result<Server, Failure> {
        let token = fresh_token().map_err(Failure::Failed)?;
        let log = File::create(folder.server_log()).map_err(cannot("write the server's messages"))?;
        let mut command = this_program(lab, End::Right)?;
        command.arg("serve").arg("--root").arg(folder.served());
        command.arg("--listen").arg(lab.address(End::Right).to_string());
        command.env(TOKEN_ENV, &token).env(LOG_ENV, "error");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().map_err(cannot("start the server"))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(Failure::Failed("cannot hear the server".into()));
        };
        let mut server = Server { child, stdout: BufReader::new(stdout), token };
        if server.is_listening() {
            return Ok(server);
        }
        let _ = server.child.wait();
        let log = std::fs::read_to_string(folder.server_log()).unwrap_or_default();
        let reason = last_line(&log);
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        Err(Failure::Failed(format!("the server did not start: {reason}")))
    }

    /// Ask it to end, as Ctrl-C would.
    pub fn stop(mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + SERVER_TIME_TO_END;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            thread::sleep(CHILD_POLL);
        }
    }

    /// Whether it said where it listens before it closed its standard output.
    fn is_listening(&mut self) -> bool {
        let mut lines = self.stdout.by_ref().lines();
        lines.any(|line| line.is_ok_and(|line| line.contains("longhaul://")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// What came of a copy.
pub enum CopyReport {
    /// It says that all is in place.
    Done {
        /// From the program's start to the verified file.
        seconds: f64,
        /// Packets sent beyond those needed, as a share of the latter.
        waste: f64,
    },
    /// It says why not.
    Failed(String),
}

/// Run `longhaul cp` at the near end.
pub fn copy(lab: &Lab, folder: &Folder, server: &Server, stop: &AtomicBool) -> Result<CopyReport, Failure> {
    let mut command = this_program(lab, End::Left)?;
    command.args(["cp", "--json", "--quiet", "--stall-timeout", "20s"]).arg(folder.file());
    command.arg(format!("longhaul://{}/", lab.address(End::Right)));
    command.env(TOKEN_ENV, &server.token).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(cannot("start the copy"))?;
    let deadline = Instant::now() + COPY_TIME_MAX;
    loop {
        match child.try_wait() {
            Ok(_) if stop.load(Ordering::Relaxed) => {
                end(&mut child);
                return Err(Failure::Interrupted);
            }
            Ok(Some(_)) => break,
            Ok(None) if Instant::now() > deadline => {
                end(&mut child);
                return Ok(CopyReport::Failed(format!("not done after {} s", COPY_TIME_MAX.as_secs())));
            }
            Ok(None) => thread::sleep(CHILD_POLL),
            Err(e) => return Err(cannot("wait for the copy")(e)),
        }
    }
    // One line of JSON fits the pipe, so the child never waited for a reader.
    let mut output = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        stdout.read_to_string(&mut output).map_err(cannot("read the copy's result"))?;
    }
    Ok(read_report(&output))
}

/// What `cp --json` says on its last line.
fn read_report(output: &str) -> CopyReport {
    let Ok(json) = serde_json::from_str::<serde_json::Value>(last_line(output)) else {
        return CopyReport::Failed("the copy ended without a result".into());
    };
    match (json["ok"].as_bool(), json["seconds"].as_f64(), json["waste"].as_f64()) {
        (Some(true), Some(seconds), Some(waste)) => CopyReport::Done { seconds, waste },
        _ => CopyReport::Failed(json["error"].as_str().unwrap_or("it gave no reason").into()),
    }
}

fn this_program(lab: &Lab, host: End) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(cannot("find this program's file"))?;
    Ok(lab.command(host, program))
}

fn end(child: &mut Child) {
    // Both fail only where it has ended already.
    let _ = child.kill();
    let _ = child.wait();
}

fn last_line(text: &str) -> &str {
    text.trim_end().lines().last().unwrap_or("it gave no reason")
}

fn cannot(what: &'static str) -> impl Fn(io::Error) -> Failure {
    move |e| Failure::Failed(format!("cannot {what}: {}", describe(&e)))
}

/// Longer than any copy of the demo should take, at 1 Mb/s for the usual file.
const COPY_TIME_MAX: Duration = Duration::from_secs(320);
/// A server with nothing to do ends at once.
const SERVER_TIME_TO_END: Duration = Duration::from_secs(2);
/// Between two looks at a child; what is measured is measured by the child itself.
const CHILD_POLL: Duration = STOP_POLL;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_from_the_last_line() {
        let report = read_report("noise\n{\"ok\":true,\"seconds\":3.5,\"waste\":0.02}\n");
        assert!(matches!(report, CopyReport::Done { seconds: 3.5, waste: 0.02 }));
        let reason = |text| match read_report(text) {
            CopyReport::Failed(reason) => reason,
            CopyReport::Done { .. } => panic!("{text}"),
        };
        assert_eq!(reason("{\"ok\":false,\"seconds\":1,\"waste\":0,\"error\":\"no route\"}"), "no route");
        assert_eq!(reason(""), "the copy ended without a result");
    }
}
