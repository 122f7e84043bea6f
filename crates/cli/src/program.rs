//! The program `longhaul`: its commands, and how it ends.

use crate::args::{Cli, Command, JsonForm};
use crate::descriptors::have_descriptors;
use crate::output::Exit;
use crate::{
    agent, control, cp, forward, help, job, lab_program, output, planned, probe, run as run_program, serve,
    user, watch,
};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// Run the program `longhaul`.
pub fn main() -> ExitCode {
    output::program_start();
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) => refuse(&error),
    };
    exit.into()
}

fn run(command: Command) -> Exit {
    if matches!(
        command,
        Command::Cp(_) | Command::Finish(_) | Command::Serve(_) | Command::Agent(_) | Command::Forward(_)
    ) {
        have_descriptors();
    }
    let outcome = match command {
        Command::Cp(args) => Ok(match &args.plan {
            Some(folder) => planned::copy_part(folder, &args),
            None => cp::run(&args),
        }),
        Command::Plan(args) => planned::plan(&args, args.parts),
        Command::Finish(args) => Ok(planned::finish(&args)),
        Command::Status(args) => planned::status(&args),
        Command::Ctl(args) => control::run(&args),
        Command::Serve(args) => serve::run(&args),
        Command::Probe(args) => Ok(probe::run(&args)),
        Command::Forward(args) => forward::forward(&args),
        Command::Connect(args) => forward::connect(&args),
        Command::Run(args) => run_program::run(&args),
        Command::Demo(_) | Command::Sim(_) | Command::Lab(_) | Command::Trace(_) | Command::Replay(_) => {
            Err(lab_program::become_it())
        }
        Command::Completions(args) => Ok(help::completions(&args, Cli::command())),
        Command::Man(args) => help::manual(&args, Cli::command(), &lab_program::COMMANDS),
        Command::Agent(args) => agent::run(args),
        Command::User(args) => user::run(&args),
        Command::Job(args) => job::run(&args),
    };
    outcome.unwrap_or_else(|failure| {
        output::error(&failure.to_string());
        Exit::from(&failure)
    })
}

/// Show help, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> Exit {
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    let line: Vec<_> = std::env::args_os().skip(1).take_while(|arg| arg != "--").collect();
    let json = line.iter().rev().find_map(|arg| match arg.to_str()? {
        "--json" | "--json=object" => Some(JsonForm::Object),
        "--json=lines" => Some(JsonForm::Lines),
        _ => None,
    });
    if json.is_some() {
        // What is wrong comes first; hints and usage follow after an empty line.
        let text = error.to_string();
        let text: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let text = text.join(" ");
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        match line.first().and_then(|command| command.to_str()) {
            Some("cp") => {
                // Standard output may be for data.
                let is_aside = line.last().is_some_and(|word| word == "-");
                watch::tell_outcome(json, is_aside, &output::failed_summary(text, ""));
            }
            Some("probe") => output::json(&probe::failed_report("", text), false),
            _ => {}
        }
    }
    Exit::Usage
}
