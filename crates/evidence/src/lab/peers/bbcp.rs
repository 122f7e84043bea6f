//! bbcp: parallel TCP connections, set up over ssh.

use super::cargo::NAME;
use super::sshd::{self, Sshd};
use super::{Absent, Peer, Scene, Started, tool, version_of};
use crate::ExperimentError;

/// bbcp over an sshd of its own.
pub(super) struct Bbcp;

impl Peer for Bbcp {
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

    fn start(&self, scene: &Scene<'_>) -> Result<Started, ExperimentError> {
        let sshd = Sshd::start(scene)?;
        let program = tool(PROGRAM);
        let far_side = format!("{} -l %U %H {}", sshd.ssh(), program.display());
        let Sshd { server, folder } = sshd;
        let started = Started::new(self.name(), vec![server], move |scene| {
            let mut command = scene.near(&program);
            command.args(["-s", "8", "-w", "8M", "-T", &far_side]).arg(scene.cargo.source());
            let to = scene.cargo.arrived_folder().join(NAME);
            command.arg(format!("{}:{}", scene.address(), to.display()));
            command
        });
        Ok(started.with_folder(folder))
    }
}

const PROGRAM: &str = "bbcp";
