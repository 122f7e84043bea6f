//! Programs that copy files, ours among them, each behind [`Copier`]: whether it is there, how it is set up, and how
//! its two sides are started on the hosts of a lab.
//!
//! Every copy is made over a lab of its own with servers of its own ([`copy_once`]): what a program that was given
//! up leaves in the kernel's buffers does not get in the way of the next. All are timed alike, from the start of
//! the program at the sending end (of one that fetches: at the receiving end) until it has ended and all bytes are
//! at the other end, and none is believed: what arrived is compared with what was sent.

mod absent;
mod bbcp;
mod copying;
mod gridftp;
mod hosts;
mod kernel;
mod longhaul;
mod payload;
mod qcp;
mod rsync;
mod scp;
mod setting;
mod sshd;
mod tsunami;
mod udt;
mod uftp;

pub(crate) use absent::Absent;
pub(crate) use copying::{Cost, Route, Started, Undone, copy_once};
pub(crate) use kernel::{BBR_NAME, CUBIC_NAME, Kernel};
pub(crate) use longhaul::{Longhaul, OURS, PORT, TOKEN};
pub use payload::Load;
pub(crate) use payload::{NAME, Payload, clear, no_room};
pub(crate) use rsync::Rsync;
pub(crate) use scp::Scp;
pub(crate) use setting::Setting;
pub(crate) use udt::Udt;
pub(crate) use uftp::Uftp;

use crate::ExperimentError;
use hosts::{TCP_BUFFER_BYTES_MAX, host_congestion_control};
use qcp::Qcp;
use setting::Wire;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program that copies files from one host to another.
pub(crate) trait Copier {
    /// What tables call it.
    fn name(&self) -> &'static str;

    /// How it is set up, and who recommends that; for the report.
    fn setup(&self) -> &'static str;

    /// Its version; or else what is missing, and how to get it.
    fn find(&self) -> Result<String, Absent>;

    /// Start the far side, and say how the near one is run.
    fn start(&self, setting: &Setting<'_>) -> Result<Started, ExperimentError>;
}

/// All that are known, ours first.
pub(crate) fn all() -> Vec<Box<dyn Copier>> {
    vec![
        Box::new(Longhaul::AUTO),
        Box::new(Kernel::BBR),
        Box::new(Kernel::CUBIC),
        Box::new(Kernel::MANY),
        Box::new(Uftp),
        Box::new(Udt::default()),
        Box::new(tsunami::Tsunami),
        Box::new(Qcp::Cubic),
        Box::new(Qcp::Bbr),
        Box::new(gridftp::GridFtp),
        Box::new(bbcp::Bbcp),
        Box::new(Rsync::Daemon),
        Box::new(Rsync::Ssh),
        Box::new(Scp),
    ]
}

/// A program that cannot be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// What tables would call it.
    pub(crate) name: &'static str,
    /// What is missing, and how to get it.
    pub(crate) why: Absent,
}

impl Missing {
    fn line(&self) -> String {
        format!("{} is left out: {}", self.name, self.why)
    }
}

/// Those that can be used here, and those that cannot.
pub(crate) fn present(copiers: Vec<Box<dyn Copier>>) -> (Vec<Box<dyn Copier>>, Vec<Missing>) {
    let (mut found, mut missing) = (vec![], vec![]);
    for copier in copiers {
        match copier.find() {
            Ok(_) => found.push(copier),
            Err(why) => missing.push(Missing { name: copier.name(), why }),
        }
    }
    (found, missing)
}

/// What every comparison's method says of the hosts, of each program (version and setup), and of those that are missing.
pub(crate) fn setups(congestion: &str, found: &[Box<dyn Copier>], missing: &[Missing]) -> Vec<String> {
    let line = |copier: &dyn Copier| {
        format!("{} ({}): {}.", copier.name(), copier.find().unwrap_or_default(), copier.setup())
    };
    let lines = found.iter().map(AsRef::as_ref).map(line);
    [hosts_setup(congestion)].into_iter().chain(lines).chain(missing.iter().map(Missing::line)).collect()
}

fn hosts_setup(congestion: &str) -> String {
    let congestion = host_congestion_control(congestion);
    format!(
        "Hosts as guides to fast paths advise: buffers of TCP up to {} MB, its congestion control {congestion} where a program \
         does not choose; everything else as the programs and this kernel (net.core.rmem_max = {}) have it.",
        TCP_BUFFER_BYTES_MAX >> 20,
        fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap_or_default().trim(),
    )
}

/// A program from the folder `$TOOLS/bin`, if it is there, or else from the PATH.
fn tool(name: &str) -> PathBuf {
    let installed = std::env::var_os("TOOLS").map(|tools| PathBuf::from(tools).join("bin").join(name));
    let installed = installed.and_then(|path| path.canonicalize().ok());
    installed.unwrap_or_else(|| name.into())
}

/// The first line that a program says when asked for its version, wherever it says it; or what to install.
fn version_of(program: impl AsRef<Path>, ask: &[&str], remedy: &'static str) -> Result<String, Absent> {
    let said = said_by(program, ask, remedy)?;
    Ok(said.into_iter().next().unwrap_or("version unknown".into()))
}

/// The lines that a program says when asked this, on its standard output first; or what to install.
fn said_by(program: impl AsRef<Path>, ask: &[&str], remedy: &'static str) -> Result<Vec<String>, Absent> {
    let program = program.as_ref();
    let output = Command::new(program).args(ask).stdin(Stdio::null()).output();
    let absent = |_| Absent::NotInstalled { program: program.display().to_string(), remedy };
    let output = output.map_err(absent)?;
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    let lines = said.iter().flat_map(|text| text.lines()).map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_left_out_by_name_with_the_remedy() {
        struct Unknown;
        impl Copier for Unknown {
            fn name(&self) -> &'static str {
                "absent"
            }
            fn setup(&self) -> &'static str {
                ""
            }
            fn find(&self) -> Result<String, Absent> {
                version_of("no-such-program", &["--version"], "get it with: apt-get install it")
            }
            fn start(&self, _: &Setting<'_>) -> Result<Started, ExperimentError> {
                unreachable!("it is not there")
            }
        }
        let (found, missing) = present(vec![Box::new(Unknown)]);
        assert!(found.is_empty());
        let line = "absent is left out: no-such-program is not installed; get it with: apt-get install it";
        assert_eq!(missing.iter().map(Missing::line).collect::<Vec<_>>(), [line]);
    }
}
