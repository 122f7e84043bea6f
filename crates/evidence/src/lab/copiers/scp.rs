//! scp, OpenSSH's own.

use super::payload::NAME;
use super::sshd::{self, Sshd};
use super::{Absent, Copier, Setting, Started};
use crate::ExperimentError;

/// scp over an sshd of its own.
pub(crate) struct Scp;

impl Copier for Scp {
    fn name(&self) -> &'static str {
        "scp"
    }

    fn setup(&self) -> &'static str {
        "as it comes, with the SFTP protocol that it has by default; encrypted; with an ssh login"
    }

    fn find(&self) -> Result<String, Absent> {
        sshd::find()
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let sshd = Sshd::start(setting)?;
        let mut args = sshd.options();
        args.extend(["-q".into(), "-r".into(), "-P".into(), sshd::PORT.to_string()]);
        let Sshd { server, folder } = sshd;
        let started = Started::new(self.name(), vec![server], move |setting| {
            let mut command = setting.near("scp");
            command.args(&args).arg(setting.payload.source());
            command.arg(format!(
                "{}:{}/{NAME}",
                setting.address(),
                setting.payload.arrived_folder().display()
            ));
            command
        });
        Ok(started.with_folder(folder))
    }
}
