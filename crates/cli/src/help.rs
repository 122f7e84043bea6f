//! What describes a program: completion scripts, the manual's pages, and what is said of a command line that makes
//! no sense.

use crate::failure::Failure;
use crate::output::{self, Exit};
use crate::values::describe;
use clap::{Args, Command};
use clap_complete::Shell;
use std::io;
use std::path::{Path, PathBuf};

/// Print a completion script for a shell
#[derive(Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    pub shell: Shell,
}

/// Write the manual's pages, one for each command, into a folder
#[derive(Args, Debug)]
pub struct ManArgs {
    /// The folder, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Print the completion script for a program.
pub fn completions(args: &CompletionsArgs, mut program: Command) -> Exit {
    let name = program.get_name().to_owned();
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, name, &mut script);
    output::result(String::from_utf8_lossy(&script).trim_end());
    Exit::Done
}

/// Write the page of a program, and those of its commands but `others`, which have theirs from elsewhere.
pub fn manual(args: &ManArgs, program: Command, others: &[&str]) -> Result<Exit, Failure> {
    let program = built(program);
    let written = write_pages(&program, &args.folder, |name| !others.contains(&name))
        .and_then(|()| clap_mangen::Man::new(program).generate_to(&args.folder).map(drop));
    outcome(written, &args.folder)
}

/// Write the pages of these commands of a program alone.
pub fn manual_of_commands(args: &ManArgs, program: Command, names: &[&str]) -> Result<Exit, Failure> {
    let written = write_pages(&built(program), &args.folder, |name| names.contains(&name));
    outcome(written, &args.folder)
}

/// With the full names of its commands.
fn built(program: Command) -> Command {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    program
}

fn write_pages(program: &Command, folder: &Path, is_wanted: impl Fn(&str) -> bool) -> io::Result<()> {
    let commands = program.get_subcommands().filter(|one| !one.is_hide_set() && is_wanted(one.get_name()));
    commands.cloned().try_for_each(|one| clap_mangen::generate_to(one, folder))
}

fn outcome(written: io::Result<()>, folder: &Path) -> Result<Exit, Failure> {
    let line = |e| format!("cannot write into {}: {}", folder.display(), describe(&e));
    written.map(|()| Exit::Done).map_err(|e| Failure::Failed(line(e)))
}
