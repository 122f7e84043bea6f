//! longhaul itself: `longhaul cp` to a `longhaul serve`.

use super::{Absent, Copier, Payload, Setting, Started, no_room};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copied::{Copied, CopyError};
use crate::lab::process::{Ended, Process};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// `longhaul cp`, by what carries the data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Longhaul {
    name: &'static str,
    transport: &'static str,
}

impl Longhaul {
    /// As it comes: it chooses.
    pub(crate) const AUTO: Longhaul = Longhaul { name: OURS, transport: "auto" };
    /// Packets over UDP.
    pub(crate) const OBJECT: Longhaul = Longhaul { name: "longhaul object", transport: "object" };
    /// Parallel TCP streams.
    pub(crate) const STRIPE: Longhaul = Longhaul { name: "longhaul stripe", transport: "stripe" };

    /// Start the far side; the near one will run under these options.
    pub(crate) fn serve(
        setting: &Setting<'_>,
        name: &'static str,
        args: Vec<String>,
    ) -> Result<Started, ExperimentError> {
        let far = setting.far(setting.bench.options.program);
        let address = SocketAddr::from((setting.address(), PORT));
        let server = Longhaul::listen(setting.bench, far, &setting.payload.arrived_folder(), address)?;
        let client = move |setting: &Setting<'_>| Longhaul::command(setting, &args);
        Ok(Started::new(name, vec![server], client).judged(judge))
    }

    /// A server for that folder; `command` is the program at the far end.
    pub(crate) fn listen(
        bench: &Bench<'_>,
        mut command: Command,
        root: &Path,
        address: SocketAddr,
    ) -> Result<Process, ExperimentError> {
        command.arg("serve").arg("--root").arg(root).args(["--listen", &address.to_string()]);
        command.env(TOKEN_ENV, TOKEN).env(LOG_ENV, "error");
        let mut server = Process::start("the server", &mut command)?;
        while !server.line(bench, START_TIME_MAX)?.contains(SCHEME) {}
        Ok(server)
    }

    /// A server for that folder at a port of loopback that is free, with a token that nobody else on this host knows: where it
    /// listens, and the token.
    pub(crate) fn listen_here(
        bench: &Bench<'_>,
        root: &Path,
    ) -> Result<(Process, SocketAddr, String), ExperimentError> {
        let mut command = longhaul_lab::mortal(bench.options.program);
        command.arg("serve").arg("--root").arg(root).args(["--listen", "127.0.0.1:0"]);
        command.env_remove(TOKEN_ENV).env(LOG_ENV, "error");
        let mut server = Process::start("the server", &mut command)?;
        loop {
            let line = server.line(bench, START_TIME_MAX)?;
            if let Some((address, token)) = pasted(&line) {
                return Ok((server, address, token));
            }
        }
    }

    /// What servers gave earlier copies for the next ones is not to help.
    pub(crate) fn forget_servers(payload: &Payload) -> Result<(), ExperimentError> {
        match fs::remove_file(payload.memory().join("longhaul/tickets.json")) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(no_room(&error)),
            _ => Ok(()),
        }
    }

    /// The near side, under these options.
    pub(crate) fn command(setting: &Setting<'_>, args: &[impl AsRef<OsStr>]) -> Command {
        let to = SocketAddr::from((setting.address(), PORT));
        Longhaul::copy(setting.near(setting.bench.options.program), args, setting.payload, to, TOKEN)
    }

    /// A copy to that server; `command` is the program at the near end.
    pub(crate) fn copy(
        mut command: Command,
        args: &[impl AsRef<OsStr>],
        payload: &Payload,
        to: SocketAddr,
        token: &str,
    ) -> Command {
        command.args(["cp", "--json", "--quiet", "--no-resume"]).args(args);
        command.arg(payload.source()).arg(format!("{SCHEME}{to}/"));
        // What it learnt of other paths is not to help it on this one, nor the user's own knowledge.
        let memory = payload.memory();
        command.env(TOKEN_ENV, token).env("XDG_CACHE_HOME", &memory).env("XDG_STATE_HOME", memory);
        command
    }
}

/// The server's address and token in a line that it gives to paste on another host.
fn pasted(line: &str) -> Option<(SocketAddr, String)> {
    let (before, after) = line.split_once(SCHEME)?;
    let token = before.trim_start().strip_prefix(TOKEN_ENV)?.strip_prefix('=')?.split(' ').next()?;
    Some((after.split('/').next()?.parse().ok()?, token.into()))
}

/// Its last line tells more than its exit status.
fn judge(ended: &Ended) -> Result<(), CopyError> {
    // It may refuse its arguments before it can say anything else.
    if ended.said.is_empty() {
        Err(CopyError::failed(ended.last_words()))
    } else {
        Copied::read(&ended.said).map(drop)
    }
}

impl Copier for Longhaul {
    fn name(&self) -> &'static str {
        self.name
    }

    fn setup(&self) -> &'static str {
        "cp to a longhaul serve, no options but what carries the data where that is named; encrypted and verified; knows \
         nothing of the path beforehand"
    }

    fn find(&self) -> Result<String, Absent> {
        Ok(env!("CARGO_PKG_VERSION").into())
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        Longhaul::serve(setting, self.name, vec!["--transport".into(), self.transport.into()])
    }
}

/// What it is called in tables; the others are measured against it.
pub(crate) const OURS: &str = "longhaul";
/// Names of the program's own environment variables.
const TOKEN_ENV: &str = "LONGHAUL_TOKEN";
const LOG_ENV: &str = "LONGHAUL_LOG";
/// Between two namespaces that only this process can reach.
pub(crate) const TOKEN: &str = "a token of the lab's own";
/// The program's own.
pub(crate) const PORT: u16 = 7700;
const SCHEME: &str = "longhaul://";
const START_TIME_MAX: Duration = Duration::from_secs(20);
