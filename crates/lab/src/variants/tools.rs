//! The programs that build and register, and whether this process may.

use crate::variant_error::VariantError;
use rustix::thread::{CapabilitySet, capabilities};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A program and the Debian package that has it.
#[derive(Clone, Copy)]
pub(super) struct Tool {
    name: &'static str,
    package: &'static str,
}

pub(super) const CLANG: Tool = Tool { name: "clang", package: "clang" };
pub(super) const BPFTOOL: Tool = Tool { name: "bpftool", package: "bpftool" };
pub(super) const FLOCK: Tool = Tool { name: "flock", package: "util-linux" };

impl Tool {
    /// Where it is.
    pub(super) fn path(self) -> Result<PathBuf, VariantError> {
        let path = env::var_os("PATH").unwrap_or_default();
        // What only root uses is often not in the path that root got from somebody.
        let folders =
            env::split_paths(&path).chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
        let mut places = folders.map(|folder| folder.join(self.name));
        places
            .find(|place| place.is_file())
            .ok_or(VariantError::NoTool { tool: self.name, package: self.package })
    }
}

/// Run a step on the congestion control `name`; its output if it succeeded.
pub(super) fn run(step: &'static str, name: &str, command: &mut Command) -> Result<Output, VariantError> {
    let failed = |reason| VariantError::Failed { step, name: name.into(), reason };
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if output.status.success() { Ok(output) } else { Err(failed(reason(&output.stderr))) }
}

/// The first line that speaks of an error, else the last: the kernel's verifier tells what is wrong in the end.
fn reason(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let telling = lines.clone().find(|line| line.to_lowercase().contains("error"));
    telling.or(lines.next_back()).unwrap_or("it gave no reason").to_owned()
}

/// Root of the machine may load programs, root of a user namespace may not.
pub(super) fn check_privileges() -> Result<(), VariantError> {
    let has = |needed| capabilities(None).is_ok_and(|sets| sets.effective.contains(needed));
    let may_load = has(CapabilitySet::SYS_ADMIN)
        || has(CapabilitySet::BPF.union(CapabilitySet::NET_ADMIN).union(CapabilitySet::PERFMON));
    if may_load && is_first_user_namespace(Path::new("/proc/self/uid_map")) {
        Ok(())
    } else {
        Err(VariantError::Unprivileged)
    }
}

/// The one that maps all users to themselves. A kernel without user namespaces has no such file.
fn is_first_user_namespace(map: &Path) -> bool {
    fs::read_to_string(map).map_or(true, |map| map.split_whitespace().eq(["0", "0", "4294967295"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_telling_line_is_told() {
        let cases = [
            (
                "a.c:3:1: note: x\na.c:3:1: fatal error: 'bpf/y.h' file not found\n",
                "a.c:3:1: fatal error: 'bpf/y.h' file not found",
            ),
            ("0: (b7) r0 = 0\n R5 unbounded memory access \n\n", "R5 unbounded memory access"),
            ("", "it gave no reason"),
        ];
        for (said, expected) in cases {
            assert_eq!(reason(said.as_bytes()), expected);
        }
    }

    #[test]
    fn a_tool_that_is_missing_is_told_with_its_package() {
        assert!(Tool { name: "sh", package: "dash" }.path().unwrap().is_file());
        let problem = Tool { name: "no-such-tool", package: "none" }.path().unwrap_err().to_string();
        assert!(
            problem.starts_with("no-such-tool is missing") && problem.ends_with("apt-get install none"),
            "{problem}"
        );
    }

    #[test]
    fn a_failed_step_says_what_was_said() {
        let problem =
            run("doing", "it", Command::new("sh").args(["-c", "echo Error: no >&2; exit 3"])).unwrap_err();
        assert!(problem.to_string().starts_with("doing it: Error: no; "), "{problem}");
    }
}
