//! Runs the real programs.

pub use longhaul_testing::running::*;
pub use longhaul_testing::{skip, tree, wait_until};

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program that has the commands lab, sim, demo, trace and replay.
pub const LONGHAUL_LAB: &str = env!("CARGO_BIN_EXE_longhaul-lab");

/// That program as longhaul hands its command line on to it, with nothing of the caller's environment that would change
/// what it does.
pub fn longhaul() -> Command {
    let mut command = Command::new(LONGHAUL_LAB);
    command.arg0("longhaul");
    undisturbed(command)
}

/// Run it to its end.
pub fn run<A: AsRef<OsStr>>(args: impl IntoIterator<Item = A>) -> Ended {
    Running::start(longhaul().args(args)).finish()
}

/// The file of the program that is measured: beside the other.
pub fn measured() -> PathBuf {
    let program = PathBuf::from(LONGHAUL_LAB).with_file_name("longhaul");
    assert!(
        program.is_file(),
        "{} is missing; build it with: cargo build -p longhaul-cli",
        program.display()
    );
    program
}
