//! The far side of an ssh copy: started by the user's own ssh, put there first where it is missing.

use crate::error::{Error, RequestError, SshError};
use crate::net::checksum::{cksum, sha256sum};
use crate::net::control::Stream;
use crate::net::patient::{Watch, Watched};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What runs on the far side. It says which of our programs it found, takes one if it found none, and becomes it. What it
/// has in its cache counts only if it is what we run, byte for byte: a program that came in part never gets its name, and
/// one that was damaged is not run. The two programs used last stay there. Nothing in the script needs quoting inside
/// single quotes, and each line ends with the end of a command.
const SCRIPT: &str = r#"c="${XDG_CACHE_HOME:-$HOME/.cache}/longhaul"; b="$c/@NAME@"; t="$c/.@NAME@.$$"
h=sha256sum; command -v $h >/dev/null 2>&1 || h=cksum
whole() { case "$($h <"$1")" in "@SHA256@ "*|"@CKSUM@") true;; *) false;; esac; }
if [ "$(longhaul --version 2>/dev/null)" = "@VERSION@" ]; then b=longhaul; echo ready
elif [ -x "$b" ] && whole "$b"; then touch "$b" 2>/dev/null; echo "ready $h"
else echo "missing $(uname -sm)"; read -r n || exit 1; [ "$n" -gt 0 ] || exit 1
(umask 077 && mkdir -p "$c" && head -c "$n" >"$t" && chmod 700 "$t") || { rm -f "$t"; echo "cannot write to $c"; exit 1; }
whole "$t" && mv -f "$t" "$b" || { rm -f "$t"; echo "damaged $h"; exit 1; }
ls -t "$c"/longhaul-* | tail -n +3 | while read -r o; do rm -f "$o"; done
find "$c" -name ".longhaul-*" -mtime +0 -exec rm -f {} +
echo "ready $h"; fi
exec "$b" agent @ARGS@"#;

/// A running far side.
pub struct FarSide {
    child: Child,
    /// How long to wait for it.
    pub watch: Arc<Watch>,
    /// Its stdin and stdout, until taken.
    pub stream: Option<Stream>,
    /// What happened on the way, for the copy's story.
    pub story: String,
}

impl Drop for FarSide {
    fn drop(&mut self) {
        // The streams are closed; ssh ends with the agent. One that hangs is not worth waiting for.
        for _ in 0..20 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Start the agent on `host` through `ssh_command`, with these arguments. However long that takes: it may ask questions;
/// `watch` ends it.
pub fn start(
    ssh_command: &[OsString],
    host: &str,
    deploy: bool,
    args: &str,
    watch: Arc<Watch>,
) -> Result<FarSide, Error> {
    let (program, ssh_args) = ssh_command.split_first().ok_or(RequestError::NoSshCommand)?;
    let own = OwnProgram::load()?;
    let mut child = Command::new(program)
        .args(ssh_args)
        .arg(host)
        .arg(far_command(&own, args))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|source| SshError::Start { program: program.to_string_lossy().into(), source })?;
    let pipes = (child.stdin.take(), child.stdout.take());
    let story = format!("{host} has this release of longhaul");
    // Ends the process where we do not get to the end of this.
    let mut far = FarSide { child, watch: watch.clone(), stream: None, story };
    let (Some(stdin), Some(stdout)) = pipes else {
        return Err(SshError::NoPipes.into());
    };
    let mut stdin = Watched { pipe: stdin, watch: watch.clone() };
    let mut stdout = BufReader::new(Watched { pipe: stdout, watch: watch.clone() });
    let (mut broken, mut deployed) = (None, false);
    loop {
        let line = match next_line(&mut stdout) {
            Some(line) => line,
            None => return Err(broken.unwrap_or_else(|| no_agent(host, &mut far)).into()),
        };
        if line == "ready" {
            break;
        } else if let Some(check) = line.strip_prefix("ready ") {
            far.story = match deployed {
                true => format!(
                    "put this program ({} bytes) into the cache of {host}, checked by {check}",
                    own.bytes.len()
                ),
                false => format!("{host} has this program in its cache, checked by {check}"),
            };
            break;
        } else if let Some(system) = line.strip_prefix("missing ") {
            // Where the far side cannot take it, its next line says why; that it stopped reading says less.
            broken = own.deploy(host, system, deploy, &mut stdin)?;
            deployed = true;
        } else if let Some(check) = line.strip_prefix("damaged ") {
            return Err(SshError::Damaged { host: host.into(), check: check.into() }.into());
        } else if let Some(place) = line.strip_prefix("cannot write to ") {
            return Err(SshError::NoPlace { host: host.into(), place: place.into() }.into());
        }
        // Anything else is chatter of a login script.
    }
    far.stream = Some(Stream {
        reader: Box::new(stdout),
        writer: Box::new(stdin),
        closer: Box::new(|| {}),
        settled: Box::new(move || watch.settle()),
        resumable: None,
        budget: Arc::default(),
    });
    Ok(far)
}

fn no_agent(host: &str, far: &mut FarSide) -> SshError {
    let status = loop {
        match far.child.try_wait() {
            Ok(None) if !far.watch.is_stopped() => std::thread::sleep(LOOK_EVERY),
            ended => break ended.ok().flatten(),
        }
    };
    // A terminal's interrupt goes to both, and may not have come to us yet.
    let is_interrupted = status.is_some_and(|status| status.signal() == Some(Signal::INT.as_raw()));
    let until = Instant::now() + LATE;
    while is_interrupted && !far.watch.is_stopped() && Instant::now() < until {
        std::thread::sleep(LOOK_EVERY);
    }
    match status.and_then(|status| status.code()) {
        Some(255) => SshError::Login { host: host.into() },
        _ => SshError::NoShell { host: host.into() },
    }
}

/// What ssh is to run: one line for the user's login shell, whichever that is. csh takes no newline between quotes.
fn far_command(own: &OwnProgram, args: &str) -> String {
    let script = SCRIPT
        .replace("@VERSION@", &format!("longhaul {}", env!("CARGO_PKG_VERSION")))
        .replace("@NAME@", &format!("longhaul-{}", &own.sha256[..16]))
        .replace("@SHA256@", &own.sha256)
        .replace("@CKSUM@", &own.cksum)
        .replace("@ARGS@", args)
        .replace('\n', "; ");
    format!("exec sh -c '{script}'")
}

/// One line of at most a screen's width or two; `None` at the end of the stream.
fn next_line(reader: &mut impl BufRead) -> Option<String> {
    let mut line = vec![];
    let read = reader.take(LINE_MAX).read_until(b'\n', &mut line).ok()?;
    (read > 0).then(|| String::from_utf8_lossy(&line).trim().to_string())
}

const LINE_MAX: u64 = 4096;
/// Look for the end of the process so often.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// A busy host has a thread wait so long for its turn.
const LATE: Duration = Duration::from_secs(2);

/// The program that runs, for the far side to run too.
struct OwnProgram {
    bytes: Vec<u8>,
    /// What tells it from all others, and is in its name in the far side's cache.
    sha256: String,
    /// For far sides without `sha256sum`.
    cksum: String,
}

impl OwnProgram {
    fn load() -> Result<OwnProgram, SshError> {
        std::fs::read("/proc/self/exe").map(OwnProgram::of).map_err(SshError::OwnFile)
    }

    fn of(bytes: Vec<u8>) -> OwnProgram {
        OwnProgram { sha256: sha256sum(&bytes), cksum: cksum(&bytes), bytes }
    }

    /// Send it. A broken connection is `Ok` with the error to show if the far side says nothing better.
    fn deploy(
        &self,
        host: &str,
        system: &str,
        allowed: bool,
        stdin: &mut impl Write,
    ) -> Result<Option<SshError>, SshError> {
        let ours = rustix::system::uname();
        let ours = format!("{} {}", ours.sysname().to_string_lossy(), ours.machine().to_string_lossy());
        if !allowed {
            return Err(SshError::NotThere { host: host.into() });
        }
        if system != ours {
            // Zero bytes tells the script that none will come.
            let _ = stdin.write_all(b"0\n");
            return Err(SshError::OtherSystem { host: host.into(), theirs: system.into(), ours });
        }
        let mut send = || -> std::io::Result<()> {
            stdin.write_all(format!("{}\n", self.bytes.len()).as_bytes())?;
            stdin.write_all(&self.bytes)?;
            stdin.flush()
        };
        let during = " while longhaul was put there";
        Ok(send().err().map(|source| SshError::Broke { host: host.into(), during, source }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;
    use std::time::SystemTime;

    /// Our program, as far as these tests go: it says how it was called.
    fn program() -> OwnProgram {
        OwnProgram::of(b"#!/bin/sh\necho runs \"$@\"\n".to_vec())
    }

    fn cached(home: &Path) -> std::path::PathBuf {
        home.join(".cache/longhaul").join(format!("longhaul-{}", &program().sha256[..16]))
    }

    fn names(home: &Path) -> Vec<String> {
        let entries = fs::read_dir(home.join(".cache/longhaul")).expect("the cache is there");
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// What a login shell with these programs says to the command on a host that has no longhaul, if it is sent this.
    fn said_by(shell: &str, home: &Path, path: &str, sent: &[u8]) -> Option<String> {
        let mut child = Command::new(shell)
            .args(["-c", &far_command(&program(), "--ports 7700-7799")])
            .env("HOME", home)
            .env("PATH", path)
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        // A shell that refuses the command does not read it.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(sent));
        let said = child.wait_with_output().expect("a child can be waited for");
        Some(String::from_utf8_lossy(&said.stdout).into_owned())
    }

    fn said(home: &Path, sent: &[u8]) -> String {
        said_by("/bin/sh", home, PATH, sent).expect("sh is everywhere")
    }

    /// What travels where nothing is there, cut off after so many bytes of the program.
    fn sent(bytes: usize) -> Vec<u8> {
        let own = program();
        [format!("{}\n", own.bytes.len()).as_bytes(), &own.bytes[..bytes]].concat()
    }

    const PATH: &str = "/usr/bin:/bin";

    #[test]
    fn every_login_shell_takes_the_command() {
        let command = far_command(&program(), "--ports 7700-7799");
        assert!(!command.contains('\n') && !command.contains('@') && !command.contains('!'), "{command}");
        assert_eq!(command.matches('\'').count(), 2, "{command}");
        let home = tempfile::tempdir().unwrap();
        assert!(said_by("sh", home.path(), PATH, b"0\n").is_some(), "sh is everywhere");
        for shell in ["sh", "bash", "dash", "zsh", "fish", "csh", "tcsh"] {
            // Shells that are not there are left out.
            if let Some(said) = said_by(shell, home.path(), PATH, b"0\n") {
                assert!(said.starts_with("missing Linux "), "{shell}: {said}");
            }
        }
    }

    #[test]
    fn a_program_that_came_in_part_never_gets_its_name() {
        let home = tempfile::tempdir().unwrap();
        let len = program().bytes.len();
        for cut in [0, len / 2, len - 1] {
            let said = said(home.path(), &sent(cut));
            assert!(said.starts_with("missing ") && said.ends_with("damaged sha256sum\n"), "{said}");
            assert_eq!(names(home.path()), Vec::<String>::new());
        }
        let said = said(home.path(), &sent(len));
        assert!(said.ends_with("ready sha256sum\nruns agent --ports 7700-7799\n"), "{said}");
        assert!(cached(home.path()).exists());
    }

    #[test]
    fn a_program_in_the_cache_is_checked_before_it_runs() {
        let home = tempfile::tempdir().unwrap();
        let whole = sent(program().bytes.len());
        said(home.path(), &whole);
        assert_eq!(said(home.path(), b""), "ready sha256sum\nruns agent --ports 7700-7799\n");
        // As what a full disk, or a release before this one, left.
        fs::write(cached(home.path()), &program().bytes[..20]).unwrap();
        let said = said(home.path(), &whole);
        assert!(said.starts_with("missing ") && said.contains("runs agent"), "{said}");
        assert_eq!(fs::read(cached(home.path())).unwrap(), program().bytes);
    }

    #[test]
    fn a_host_without_sha256sum_checks_by_cksum() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for name in
            ["sh", "cksum", "uname", "mkdir", "head", "chmod", "mv", "rm", "ls", "tail", "find", "touch"]
        {
            let there = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
            let there = there.into_iter().find(|path| path.exists()).expect("every system has it");
            std::os::unix::fs::symlink(there, bin.join(name)).unwrap();
        }
        let say = |sent: &[u8]| said_by("/bin/sh", home.path(), bin.to_str().unwrap(), sent).unwrap();
        let len = program().bytes.len();
        assert!(say(&sent(len - 1)).ends_with("damaged cksum\n"));
        assert!(say(&sent(len)).contains("ready cksum\nruns agent"));
        assert_eq!(say(b""), "ready cksum\nruns agent --ports 7700-7799\n");
    }

    #[test]
    fn the_cache_keeps_the_two_programs_used_last_and_is_the_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join(".cache/longhaul");
        fs::create_dir_all(&cache).unwrap();
        for (name, age) in
            [("longhaul-0", 3000), ("longhaul-1", 2000), ("longhaul-2", 1000), ("paths.json", 9)]
        {
            let file = fs::File::create(cache.join(name)).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        said(home.path(), &sent(program().bytes.len()));
        let ours = cached(home.path()).file_name().unwrap().to_str().unwrap().to_string();
        let mut wanted = vec!["longhaul-2".to_string(), ours, "paths.json".into()];
        wanted.sort();
        assert_eq!(names(home.path()), wanted);
        let mode = std::os::unix::fs::MetadataExt::mode(&fs::metadata(cached(home.path())).unwrap());
        assert_eq!(mode & 0o777, 0o700);
    }
}
