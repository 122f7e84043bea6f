//! The `longhaul-lab` program: what longhaul does, shown in the simulator and over emulated paths.

mod args;
mod demo;
mod lab;
mod listing;
mod programs;
mod progress;
mod sim;
mod trace;

use args::{Cli, Command};
use clap::{CommandFactory, Parser};
use longhaul_cli::lab_program::COMMANDS;
use longhaul_cli::output::Exit;
use longhaul_cli::{help, log, output, signals, values};
use std::process::ExitCode;

/// Run the program `longhaul-lab`.
pub fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Done }
        }
    };
    exit.into()
}

fn run(command: Command) -> Exit {
    let outcome = match command {
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Replay(args) => trace::replay(&args),
        Command::LabPlain(args) => lab::plain(&args),
        Command::LabAt(args) => lab::at::run(&args),
        Command::Completions(args) => Ok(help::completions(&args, Cli::command())),
        // They bear the name of the program that hands them on.
        Command::Man(args) => help::manual_of_commands(&args, Cli::command().name("longhaul"), &COMMANDS),
    };
    outcome.unwrap_or_else(|failure| {
        output::error(&failure.to_string());
        Exit::from(&failure)
    })
}
