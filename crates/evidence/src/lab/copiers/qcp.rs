//! qcp: QUIC, set up over ssh.

use super::payload::NAME;
use super::sshd::{self, Sshd};
use super::{Absent, Copier, Setting, Started, tool, version_of};
use crate::ExperimentError;

/// qcp over an sshd of its own, by its congestion control.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Qcp {
    /// CUBIC, as it comes.
    Cubic,
    /// The other one, which its manual says to try.
    Bbr,
}

impl Copier for Qcp {
    fn name(&self) -> &'static str {
        match self {
            Qcp::Cubic => "qcp",
            Qcp::Bbr => "qcp BBR",
        }
    }

    fn setup(&self) -> &'static str {
        match self {
            Qcp::Cubic => {
                "told the path's rate and round trip (--rx --tx --rtt), as its manual asks for; QUIC under CUBIC, its default; \
                 encrypted; with an ssh login"
            }
            Qcp::Bbr => "the same under --congestion bbr, experimental, which its manual says to try",
        }
    }

    fn find(&self) -> Result<String, Absent> {
        sshd::find()?;
        let remedy = "get it with: cargo install qcp --locked --root \"$TOOLS\"; or put it into the PATH";
        let version = version_of(tool(PROGRAM), &["--version"], remedy)?;
        // What it was built from follows a plus sign.
        Ok(version.split('+').next().unwrap_or_default().into())
    }

    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError> {
        let program = tool(PROGRAM);
        let sshd = Sshd::start(setting)?;
        let mut ssh = sshd.options();
        ssh.extend(["-p".into(), sshd::PORT.to_string()]);
        let Sshd { server, folder } = sshd;
        let congestion = if *self == Qcp::Bbr { "bbr" } else { "cubic" };
        let started = Started::new(self.name(), vec![server], move |setting| {
            let mut command = setting.near(&program);
            // Its rates are bytes a second.
            let rate = format!("{}k", (setting.mbit.unwrap_or(LOOPBACK_MBIT) * 1e3 / 8.0) as u64);
            let rtt_ms = (setting.rtt_ms.max(1.0) as u64).to_string();
            command.args(["--quiet", "--tx", &rate, "--rx", &rate, "--rtt", &rtt_ms]);
            command.args(["--congestion", congestion]);
            // Its own defaults, not the user's.
            command.args(["--ssh-config", "/dev/null"]).env("XDG_CONFIG_HOME", setting.payload.memory());
            command.arg("--remote-qcp-binary").arg(&program);
            for option in &ssh {
                command.args(["-S", option]);
            }
            let to = setting.payload.arrived_folder().join(NAME);
            command.arg(setting.payload.source()).arg(format!("{}:{}", setting.address(), to.display()));
            command
        });
        Ok(started.with_folder(folder))
    }
}

const PROGRAM: &str = "qcp";
/// What it is told over loopback.
const LOOPBACK_MBIT: f64 = 10_000.0;
