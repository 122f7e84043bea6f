//! The `longhaul` program.
#![forbid(unsafe_code)]

mod args;
mod cp;
mod demo;
mod lab;
mod log;
mod output;
mod probe;
mod progress;
mod rate;
mod report;
mod serve;
mod signals;
mod sim;
mod values;
mod why;

use args::{AgentArgs, Cli, Command, CompletionsArgs, ManArgs};
use clap::{CommandFactory, Parser};
use longhaul::Failure;
use output::Exit;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul::clock::program_start();
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli.command),
        Err(error) => refuse(&error),
    };
    exit.into()
}

fn run(command: Command) -> Exit {
    if matches!(command, Command::Cp(_) | Command::Serve(_) | Command::Agent(_)) {
        have_descriptors();
    }
    let outcome = match command {
        Command::Cp(args) => Ok(cp::run(&args)),
        Command::Serve(args) => serve::run(&args),
        Command::Probe(args) => Ok(probe::run(&args)),
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Lab(args) => lab::run(&args),
        Command::LabStream(args) => lab::stream::run(&args),
        Command::LabPlain(args) => lab::plain(&args),
        Command::LabAt(args) => lab::at::run(&args),
        Command::Completions(args) => Ok(completions(&args)),
        Command::Man(args) => man(&args),
        Command::Agent(args) => agent(args),
    };
    outcome.unwrap_or_else(|failure| {
        output::error(&failure.to_string());
        Exit::from(&failure)
    })
}

fn agent(args: AgentArgs) -> Result<Exit, Failure> {
    log::start("off")?;
    longhaul::agent(args.ports, signals::stop_flag()?).map(|()| Exit::Done)
}

/// As many descriptors as this user may have: each copy takes some for its sockets, lanes, folders and files on their way. What
/// the shell gives is meant for programs that use select(2).
fn have_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, the old limit holds.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn completions(args: &CompletionsArgs) -> Exit {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "longhaul", &mut script);
    output::result(String::from_utf8_lossy(&script).trim_end());
    Exit::Done
}

fn man(args: &ManArgs) -> Result<Exit, Failure> {
    let written = clap_mangen::generate_to(Cli::command(), &args.folder);
    let line = |e| format!("cannot write into {}: {}", args.folder.display(), values::describe(&e));
    written.map(|()| Exit::Done).map_err(|e| Failure::Failed(line(e)))
}

/// Show help, or what is wrong with the command line.
fn refuse(error: &clap::Error) -> Exit {
    let _ = error.print();
    if !error.use_stderr() {
        return Exit::Done;
    }
    let line: Vec<_> = std::env::args_os().skip(1).take_while(|arg| arg != "--").collect();
    if line.iter().any(|arg| arg == "--json") {
        // What is wrong comes first; hints and usage follow after an empty line.
        let text = error.to_string();
        let text: Vec<_> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let text = text.join(" ");
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        match line.first().and_then(|command| command.to_str()) {
            Some("cp") => output::json(&output::failed_summary(text, "")),
            Some("probe") => output::json(&probe::failed_report("", text)),
            _ => {}
        }
    }
    Exit::Usage
}
