//! The far side of an ssh copy: started by the user's own ssh, put there first where it is missing.

use crate::error::{Error, RequestError, SshError};
use crate::net::control::Stream;
use crate::net::patient::{Watch, Watched};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// What runs on the far side. It says which of our programs it found, takes one if it found none, and becomes it.
/// `@VERSION@`, `@CACHE@` and `@ARGS@` are filled in; nothing in it needs quoting inside single quotes, and each line ends
/// with the end of a command.
const SCRIPT: &str = r#"c="${XDG_CACHE_HOME:-$HOME/.cache}/longhaul"; b="$c/@CACHE@"
if [ "$(longhaul --version 2>/dev/null)" = "@VERSION@" ]; then b=longhaul; echo ready
elif [ -x "$b" ]; then echo ready
else echo "missing $(uname -sm)"; read -r n || exit 1; [ "$n" -gt 0 ] || exit 1
if mkdir -p "$c" && head -c "$n" > "$b.$$" && chmod 700 "$b.$$" && mv "$b.$$" "$b"; then echo ready
else echo "cannot write to $c"; exit 1; fi; fi
exec "$b" agent @ARGS@"#;

/// A running far side.
pub struct FarSide {
    child: Child,
    /// How long to wait for it.
    pub watch: Arc<Watch>,
    /// Its stdin and stdout, until taken.
    pub stream: Option<Stream>,
    /// What happened on the way, for `--why`.
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

/// Start the agent on `host` through `ssh_command`. However long that takes: it may ask questions;
/// `watch` ends it.
pub fn start(
    ssh_command: &[OsString],
    host: &str,
    deploy: bool,
    ports: Option<&str>,
    watch: Arc<Watch>,
) -> Result<FarSide, Error> {
    let (program, args) = ssh_command.split_first().ok_or(RequestError::NoSshCommand)?;
    let own = OwnProgram::load()?;
    let mut child = Command::new(program)
        .args(args)
        .arg(host)
        .arg(far_command(&own.cache_name, ports))
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
    let mut broken = None;
    loop {
        let line = match next_line(&mut stdout) {
            Some(line) => line,
            None => return Err(broken.unwrap_or_else(|| no_agent(host, &mut far)).into()),
        };
        if line == "ready" {
            break;
        } else if let Some(system) = line.strip_prefix("missing ") {
            // Where the far side cannot take it, its next line says why; that it stopped reading says less.
            broken = own.deploy(host, system, deploy, &mut stdin)?;
            far.story = format!("put this program ({} bytes) into the cache of {host}", own.len);
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
    match status.and_then(|status| status.code()) {
        Some(255) => SshError::Login { host: host.into() },
        _ => SshError::NoShell { host: host.into() },
    }
}

/// What ssh is to run: one line for the user's login shell, whichever that is. csh takes no newline between quotes.
fn far_command(cache_name: &str, ports: Option<&str>) -> String {
    let script = SCRIPT
        .replace("@VERSION@", &format!("longhaul {}", env!("CARGO_PKG_VERSION")))
        .replace("@CACHE@", cache_name)
        .replace("@ARGS@", &ports.map(|ports| format!("--ports {ports}")).unwrap_or_default())
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

/// The program that runs, for the far side to run too.
struct OwnProgram {
    bytes: Vec<u8>,
    len: usize,
    /// Name in the far side's cache: other bytes, other name.
    cache_name: String,
}

impl OwnProgram {
    fn load() -> Result<OwnProgram, SshError> {
        let read = || -> std::io::Result<Vec<u8>> {
            let mut bytes = vec![];
            File::open("/proc/self/exe")?.read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        let bytes = read().map_err(SshError::OwnFile)?;
        let hash = blake3::hash(&bytes).to_hex();
        Ok(OwnProgram { len: bytes.len(), cache_name: format!("longhaul-{}", &hash[..16]), bytes })
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
            stdin.write_all(format!("{}\n", self.len).as_bytes())?;
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

    /// What a login shell says to the command on a host that has no longhaul and gets none.
    fn said_by(shell: &str, home: &std::path::Path) -> Option<String> {
        let mut child = Command::new(shell)
            .args(["-c", &far_command("longhaul-0123", Some("7700-7799"))])
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .env_remove("XDG_CACHE_HOME")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        // A shell that refuses the command does not read it.
        let _ = child.stdin.take().map(|mut stdin| stdin.write_all(b"0\n"));
        let said = child.wait_with_output().expect("a child can be waited for");
        Some(String::from_utf8_lossy(&said.stdout).into_owned())
    }

    #[test]
    fn every_login_shell_takes_the_command() {
        let command = far_command("longhaul-0123", Some("7700-7799"));
        assert!(!command.contains('\n') && !command.contains('@') && !command.contains('!'), "{command}");
        assert_eq!(command.matches('\'').count(), 2, "{command}");
        let home = tempfile::tempdir().unwrap();
        assert!(said_by("sh", home.path()).is_some(), "sh is everywhere");
        for shell in ["sh", "bash", "dash", "zsh", "fish", "csh", "tcsh"] {
            // Shells that are not there are left out.
            if let Some(said) = said_by(shell, home.path()) {
                assert!(said.starts_with("missing Linux "), "{shell}: {said}");
            }
        }
    }
}
