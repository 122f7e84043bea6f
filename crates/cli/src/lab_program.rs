//! The commands that the program `longhaul-lab` has: it is handed the command line, as cargo and git hand on
//! theirs.

use crate::failure::Failure;
use crate::values::describe;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// Their names.
pub const COMMANDS: [&str; 5] = ["demo", "sim", "lab", "trace", "replay"];

/// Become that program, the one beside this one or else on the PATH. Comes back only with why it cannot be.
pub fn become_it() -> Failure {
    let mut words = std::env::args_os();
    // The name that the user called is the one in its messages.
    let name = words.next().unwrap_or_else(|| "longhaul".into());
    let args: Vec<OsString> = words.collect();
    for program in places(PROGRAM) {
        let error = Command::new(&program).arg0(&name).args(&args).exec();
        if error.kind() != ErrorKind::NotFound {
            return Failure::Failed(format!(
                "{}: cannot be started: {}",
                program.display(),
                describe(&error)
            ));
        }
    }
    let asked = args.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    Failure::Usage(format!(
        "{asked} is done by the program {PROGRAM}, which is not installed: put it beside longhaul or on the PATH \
         (make build builds both)"
    ))
}

/// Where a program that belongs to this one may be: beside it, or on the PATH.
pub fn places(name: &str) -> Vec<PathBuf> {
    let beside = std::env::current_exe().ok().map(|program| program.with_file_name(name));
    beside.into_iter().chain([PathBuf::from(name)]).collect()
}

const PROGRAM: &str = "longhaul-lab";
