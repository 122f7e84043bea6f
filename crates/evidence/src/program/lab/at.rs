//! `longhaul lab-at`: a program at an end of a path, from within a shell of the lab.

use super::path::{END, name};
use crate::program::args::LabAtArgs;
use crate::program::output::Exit;
use crate::program::values::describe;
use longhaul_cli::failure::Failure;
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
