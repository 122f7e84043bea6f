//! `longhaul lab-at`: a program at an end of a path, from within a shell of the lab.

use crate::args::{LabAtArgs, LabEnd};
use crate::output::Exit;
use crate::values::describe;
use longhaul::Failure;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Become that program.
pub fn run(args: &LabAtArgs) -> Result<Exit, Failure> {
    longhaul_lab::enter_network(&args.network).map_err(|error| Failure::Failed(error.to_string()))?;
    let mut command = match args.command.split_first() {
        Some((program, rest)) => {
            let mut command = Command::new(program);
            command.args(rest);
            command
        }
        None => super::shell::interactive(),
    };
    let error = command.env(END, name(args.end)).exec();
    let program = command.get_program().to_string_lossy().into_owned();
    Err(Failure::Failed(format!("{program}: cannot be started: {}", describe(&error))))
}

/// What an end is called.
pub fn name(end: LabEnd) -> &'static str {
    match end {
        LabEnd::Left => "left",
        LabEnd::Right => "right",
    }
}

/// The variable that says at which end a program runs.
pub const END: &str = "LONGHAUL_END";
