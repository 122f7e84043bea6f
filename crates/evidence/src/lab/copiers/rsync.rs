//! rsync, to its daemon and over ssh.

use super::sshd::{self, Sshd};
use super::{Absent, Copier, Setting, Started, Wire, version_of};
use crate::ExperimentError;
use crate::lab::temporary::Folder;
use std::fs;
use std::io;

/// rsync, by what carries it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rsync {
    /// TCP to an rsync daemon, in clear.
    Daemon,
    /// An sshd of its own.
    Ssh,
}

impl Copier for Rsync {
    fn name(&self) -> &'static str {
        match self {
            Rsync::Daemon => "rsync daemon",
            Rsync::Ssh => "rsync over ssh",
        }
    }

    fn setup(&self) -> &'static str {
        match self {
            Rsync::Daemon => "-a --whole-file (there is nothing to compare with) to its daemon, in clear",
            Rsync::Ssh => {
                "-a --whole-file over ssh, as most people use it, uncompressed; encrypted; with an ssh login"
            }
        }
    }

    fn find(&self) -> Result<String, Absent> {
        let version = version_of("rsync", &["--version"], "get it with: apt-get install rsync")?;
        if *self == Rsync::Ssh {
            sshd::find()?;
        }
        Ok(short(&version))
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        match self {
            Rsync::Daemon => daemon(self.name(), setting),
            Rsync::Ssh => over_ssh(self.name(), setting),
        }
    }
}

/// `rsync  version 3.2.7  protocol version 31`: without what nobody asked for.
fn short(version: &str) -> String {
    let words: Vec<&str> = version.split_whitespace().take_while(|word| *word != "protocol").collect();
    words.join(" ")
}

fn daemon(name: &'static str, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
    let failed = |error: io::Error| ExperimentError::Program {
        program: "rsync --daemon".into(),
        reason: error.to_string(),
    };
    let folder = Folder::new().map_err(failed)?;
    let (config, to) = (folder.path().join("rsyncd.conf"), setting.payload.arrived_folder());
    // Root would otherwise become nobody, who may not write there.
    let user = if rustix::process::geteuid().is_root() { "uid = 0\ngid = 0\n" } else { "" };
    let text = format!("use chroot = no\n{user}[payload]\npath = {}\nread only = no\n", to.display());
    fs::write(&config, text).map_err(failed)?;
    let mut command = setting.far("rsync");
    command.args(["--daemon", "--no-detach", "--port", &PORT.to_string()]);
    command.args(["--address", &setting.address().to_string()]).arg("--config").arg(&config);
    let server = setting.serve("rsync --daemon", &mut command, Wire::Tcp, PORT)?;
    let started = Started::new(name, vec![server], |setting| {
        let mut command = setting.near("rsync");
        command.args(OPTIONS).arg(setting.payload.source());
        command.arg(format!("rsync://{}:{PORT}/payload/", setting.address()));
        command
    });
    Ok(started.with_folder(folder))
}

fn over_ssh(name: &'static str, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
    let sshd = Sshd::start(setting)?;
    let ssh = sshd.ssh();
    let Sshd { server, folder } = sshd;
    let started = Started::new(name, vec![server], move |setting| {
        let mut command = setting.near("rsync");
        command.args(OPTIONS).args(["--rsh", &ssh]).arg(setting.payload.source());
        command.arg(format!("{}:{}/", setting.address(), setting.payload.arrived_folder().display()));
        command
    });
    Ok(started.with_folder(folder))
}

const OPTIONS: [&str; 2] = ["-a", "--whole-file"];
const PORT: u16 = 873;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_version_is_read_without_the_protocols() {
        assert_eq!(short("rsync  version 3.2.7  protocol version 31"), "rsync version 3.2.7");
    }
}
