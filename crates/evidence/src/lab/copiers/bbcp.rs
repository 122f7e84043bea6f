//! bbcp: parallel TCP connections, set up over ssh.

use super::payload::NAME;
use super::sshd::{self, Sshd};
use super::{Absent, Copier, Setting, Started, tool, version_of};
use crate::ExperimentError;

/// bbcp over an sshd of its own.
pub(super) struct Bbcp;

impl Copier for Bbcp {
    fn name(&self) -> &'static str {
        "bbcp x 8"
    }

    fn setup(&self) -> &'static str {
        "-s 8 -w 8M: eight connections with large windows, as sites with long paths recommend; data in clear, set up over ssh"
    }

    fn find(&self) -> Result<String, Absent> {
        sshd::find()?;
        let remedy = "get its source from SLAC and put the program into the PATH, or into $TOOLS/bin";
        version_of(tool(PROGRAM), &["--version"], remedy)
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let sshd = Sshd::start(setting)?;
        let program = tool(PROGRAM);
        let far_side = format!("{} -l %U %H {}", sshd.ssh(), program.display());
        let Sshd { server, folder } = sshd;
        let started = Started::new(self.name(), vec![server], move |setting| {
            let mut command = setting.near(&program);
            command.args(["-s", "8", "-w", "8M", "-T", &far_side]).arg(setting.payload.source());
            let to = setting.payload.arrived_folder().join(NAME);
            command.arg(format!("{}:{}", setting.address(), to.display()));
            command
        });
        Ok(started.with_folder(folder))
    }
}

const PROGRAM: &str = "bbcp";
