//! `longhaul lab shell`: a shell at an end of a path.

use super::path::{self, OpenPath, failed};
use super::with::wait;
use crate::program::args::{LabShellArgs, SideArg};
use crate::program::output::{self, Exit};
use crate::program::values::describe;
use longhaul_cli::failure::Failure;
use longhaul_lab::{ProcessGroup, Side};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Open it, and when it has ended tell what the path did.
pub fn run(args: &LabShellArgs) -> Result<Exit, Failure> {
    let path = OpenPath::open(&args.scenario, &args.pcap)?;
    {
        let group = path.lab.process_group().map_err(failed)?;
        let tools = Tools::make(&group).map_err(|error| {
            let reason = describe(&error);
            Failure::Failed(format!("cannot write the commands left and right: {reason}; set TMPDIR"))
        })?;
        if io::stdin().is_terminal() {
            output::say(&introduction(&path, args));
        }
        path.begin()?;
        let end = match args.end {
            SideArg::Left => Side::Left,
            SideArg::Right => Side::Right,
        };
        let plain = interactive_program();
        let shell = group.spawn(end, &plain, |shell| {
            tools.furnish(shell);
            furnish_prompt(shell, &tools.rc_file());
            path.furnish(shell, end);
        });
        let shell = shell.map_err(|error| {
            let reason = describe(&error);
            Failure::Failed(format!("{}: cannot be started: {reason}; set SHELL", plain.display()))
        })?;
        // How the last command of a shell ended says nothing of the path.
        wait(shell, &path.stop)?;
        longhaul_lab::take_terminal();
    }
    path.close()?.say();
    Ok(Exit::Done)
}

/// The user's shell, from within one that [`run`] has opened.
pub fn interactive() -> Command {
    let mut shell = Command::new(interactive_program());
    if let Some(file) = std::env::var_os(RC_FILE) {
        furnish_prompt(&mut shell, Path::new(&file));
    }
    shell
}

fn interactive_program() -> OsString {
    std::env::var_os("SHELL").filter(|shell| !shell.is_empty()).unwrap_or_else(|| "/bin/sh".into())
}

/// A prompt that says at which end the shell is. Shells that do not take it from there have it in $LONGHAUL_END.
fn furnish_prompt(shell: &mut Command, rc_file: &Path) {
    let program = Path::new(shell.get_program());
    if program.file_name() == Some(OsStr::new("bash")) {
        shell.arg("--rcfile").arg(rc_file);
    } else {
        shell.env("PS1", "($LONGHAUL_END) $ ");
    }
    shell.env(RC_FILE, rc_file);
}

fn introduction(path: &OpenPath, args: &LabShellArgs) -> String {
    let (left, right) = (path.lab.address(Side::Left), path.lab.address(Side::Right));
    let here = path::name(args.end);
    format!(
        "A shell at the {here} end of {}. $LEFT is {left}, $RIGHT is {right}.\n\
         left CMD and right CMD run something at either end; right alone is a shell there. exit ends it all.",
        args.scenario.display()
    )
}

/// A folder with the commands `left` and `right`.
struct Tools {
    folder: TempDir,
}

impl Tools {
    fn make(group: &ProcessGroup<'_>) -> io::Result<Tools> {
        let folder = TempDir::with_prefix("longhaul-lab-")?;
        let program = std::env::current_exe()?;
        for (name, end) in [("left", Side::Left), ("right", Side::Right)] {
            let file = folder.path().join(name);
            let mut script = b"#!/bin/sh\nexec ".to_vec();
            script.extend(quoted(program.as_os_str()));
            script.extend(format!(" lab-at {name} {} \"$@\"\n", group.network(end).display()).bytes());
            fs::write(&file, script)?;
            fs::set_permissions(&file, Permissions::from_mode(0o755))?;
        }
        fs::write(folder.path().join(RC_NAME), RC)?;
        Ok(Tools { folder })
    }

    fn rc_file(&self) -> PathBuf {
        self.folder.path().join(RC_NAME)
    }

    /// Put them before all other commands.
    fn furnish(&self, shell: &mut Command) {
        let mut path = self.folder.path().as_os_str().to_owned();
        if let Some(others) = std::env::var_os("PATH") {
            path.push(":");
            path.push(others);
        }
        shell.env("PATH", path);
    }
}

/// As one word for sh.
fn quoted(text: &OsStr) -> Vec<u8> {
    let mut word = b"'".to_vec();
    for byte in text.as_bytes() {
        match byte {
            b'\'' => word.extend(b"'\\''"),
            other => word.push(*other),
        }
    }
    word.push(b'\'');
    word
}

/// The variable that says where bash is told of its prompt.
const RC_FILE: &str = "LONGHAUL_LAB_RC";
const RC_NAME: &str = "bashrc";
const RC: &str = "[ -r ~/.bashrc ] && . ~/.bashrc\nPS1=\"(\\$LONGHAUL_END) $PS1\"\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_the_shell() {
        for text in ["/usr/bin/longhaul", "/a b/it's", "'", "$HOME`x`"] {
            let script = [b"printf %s ".to_vec(), quoted(OsStr::new(text))].concat();
            let said = Command::new("sh").arg("-c").arg(OsStr::from_bytes(&script)).output().unwrap().stdout;
            assert_eq!(String::from_utf8(said).unwrap(), text);
        }
    }
}
