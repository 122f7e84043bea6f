//! scp, OpenSSH's own.

use super::cargo::NAME;
use super::sshd::{self, Sshd};
use super::{Absent, Peer, Scene, Started};
use crate::ExperimentError;

/// scp over an sshd of its own.
pub(crate) struct Scp;

impl Peer for Scp {
    fn name(&self) -> &'static str {
        "scp"
    }

    fn setup(&self) -> &'static str {
        "as it comes, with the SFTP protocol that it has by default; encrypted; with an ssh login"
    }

    fn find(&self) -> Result<String, Absent> {
        sshd::find()
    }

    fn start(&self, scene: &Scene<'_>) -> Result<Started, ExperimentError> {
        let sshd = Sshd::start(scene)?;
        let mut args = sshd.options();
        args.extend(["-q".into(), "-r".into(), "-P".into(), sshd::PORT.to_string()]);
        let Sshd { server, folder } = sshd;
        let started = Started::new(self.name(), vec![server], move |scene| {
            let mut command = scene.near("scp");
            command.args(&args).arg(scene.cargo.source());
            command.arg(format!("{}:{}/{NAME}", scene.address(), scene.cargo.arrived_folder().display()));
            command
        });
        Ok(started.with_folder(folder))
    }
}
