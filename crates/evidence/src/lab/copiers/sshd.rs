//! An ssh server at the far end, with keys and configuration of its own, for programs that log in.

use super::{Absent, Setting, Wire, version_of};
use crate::ExperimentError;
use crate::lab::process::Process;
use crate::lab::temporary::Folder;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::Command;

/// A server that waits for this process's user.
pub(super) struct Sshd {
    pub(super) server: Process,
    /// Keys and configuration.
    pub(super) folder: Folder,
}

/// Whether both ends of ssh are there, and `ssh`'s version.
pub(super) fn find() -> Result<String, Absent> {
    let remedy = "get it with: apt-get install openssh-client openssh-server";
    program().ok_or_else(|| Absent::NotInstalled { program: "sshd".into(), remedy })?;
    let version = version_of("ssh", &["-V"], remedy)?;
    Ok(version.split(',').next().unwrap_or_default().into())
}

impl Sshd {
    /// Start one.
    pub(super) fn start(setting: &Setting<'_>) -> Result<Sshd, ExperimentError> {
        let failed =
            |error: io::Error| ExperimentError::Program { program: "sshd".into(), reason: error.to_string() };
        let program = program().ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let folder = furnish(setting).map_err(failed)?;
        let mut command = setting.far(program);
        command.args(["-D", "-e", "-f"]).arg(folder.path().join(CONFIG));
        Ok(Sshd { server: setting.serve("sshd", &mut command, Wire::Tcp, PORT)?, folder })
    }

    /// What to say in place of `ssh`; it needs no quoting.
    pub(super) fn ssh(&self) -> String {
        format!("ssh -p {PORT} {}", self.options().join(" "))
    }

    /// Options of `ssh` and `scp` alike, without the port.
    pub(super) fn options(&self) -> Vec<String> {
        let key = self.folder.path().join(USER_KEY);
        let mut options = vec!["-F".to_owned(), "none".into(), "-i".into(), key.display().to_string()];
        for option in CLIENT_OPTIONS {
            options.extend(["-o".into(), option.into()]);
        }
        options
    }
}

fn furnish(setting: &Setting<'_>) -> io::Result<Folder> {
    if rustix::process::geteuid().is_root() {
        // As the service itself does before it starts.
        fs::create_dir_all("/run/sshd")?;
    }
    let folder = Folder::new()?;
    for key in [HOST_KEY, USER_KEY] {
        let mut keygen = Command::new("ssh-keygen");
        keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(key));
        if !keygen.status()?.success() {
            return Err(io::Error::other("ssh-keygen makes no keys"));
        }
    }
    fs::copy(folder.path().join(USER_KEY).with_extension("pub"), folder.path().join("authorized"))?;
    let (top, address) = (folder.path().display(), setting.address());
    let config = format!(
        "Port {PORT}\nListenAddress {address}\nHostKey {top}/{HOST_KEY}\nAuthorizedKeysFile {top}/authorized\n\
         PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\nPasswordAuthentication no\n\
         ClientAliveInterval 15\nClientAliveCountMax 2\n\
         Subsystem sftp internal-sftp\nSetEnv PATH=/usr/local/bin:/usr/bin:/bin\n"
    );
    fs::write(folder.path().join(CONFIG), config)?;
    Ok(folder)
}

fn program() -> Option<PathBuf> {
    ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].map(PathBuf::from).into_iter().find(|path| path.exists())
}

/// The lab's hosts have nothing else at it.
pub(super) const PORT: u16 = 22;
const HOST_KEY: &str = "host";
const USER_KEY: &str = "user";
const CONFIG: &str = "config";
/// Nothing of the user's own, and no questions.
const CLIENT_OPTIONS: [&str; 6] = [
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "BatchMode=yes",
    "LogLevel=ERROR",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
];
