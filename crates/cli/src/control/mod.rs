//! How a copy is steered while it runs: it listens at a socket in a folder that is its user's alone, and `longhaul ctl` asks
//! there. A line of JSON each way.

mod client;
mod planned;
mod server;

pub use client::run;
pub use planned::follow;
pub use server::ControlSocket;

use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// What is asked of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// No faster than this from now on, as `--rate` takes it.
    Rate {
        /// Rates.
        rate: String,
    },
    /// Send nothing.
    Pause,
    /// Go on.
    Resume,
    /// Say how far it is.
    Status,
}

/// The answer: how far the copy is, or why not.
#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<serde_json::Value>,
}

/// Where the sockets of this user's copies are; `None` without a place.
fn folder() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    folder_of(runtime, longhaul::state_folder(), &longhaul::host_name())
}

/// After `su` the folder at run time may still be another user's. That of state may be shared by hosts, and a socket answers on
/// its own host alone.
fn folder_of(runtime: Option<PathBuf>, state: Option<PathBuf>, host: &str) -> Option<PathBuf> {
    let runtime = runtime.filter(|path| path.is_absolute() && is_private(path).unwrap_or(false));
    let of_host = || Some(state?.join(format!("ctl-{}", host.replace('/', "_"))));
    runtime.map(|path| path.join("longhaul")).or_else(of_host)
}

/// Whether it is a folder that this user alone can enter.
fn is_private(folder: &Path) -> io::Result<bool> {
    let found = fs::symlink_metadata(folder)?;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    Ok(found.is_dir() && is_ours && found.mode() & 0o077 == 0)
}

fn socket_of(folder: &Path, process: u32) -> PathBuf {
    folder.join(format!("{process}.{ENDING}"))
}

/// Make the folder if it is missing. One that others can look into, or that is another's, is none.
fn open_folder(folder: &Path) -> io::Result<()> {
    if let Some(above) = folder.parent() {
        fs::create_dir_all(above)?;
    }
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    if is_private(folder)? {
        return Ok(());
    }
    Err(io::Error::other(format!("{} is not this user's alone", folder.display())))
}

/// Whether nobody will ever answer at this socket: it is what a process left that was killed.
fn is_stale(socket: &Path) -> bool {
    let process = socket.file_stem().and_then(|stem| stem.to_str()?.parse::<u32>().ok());
    let is_gone =
        process.is_some_and(|id| id == std::process::id() || !Path::new(&format!("/proc/{id}")).exists());
    let refuses =
        || UnixStream::connect(socket).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    is_gone && refuses()
}

/// Remove what killed processes left.
fn clear_stale(folder: &Path) {
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let sockets = names.filter(|path| path.extension().is_some_and(|ending| ending == ENDING));
    for socket in sockets.filter(|socket| is_stale(socket)) {
        // Another copy may have been quicker.
        let _ = fs::remove_file(socket);
    }
}

const ENDING: &str = "sock";
/// Bytes of a request, and of an answer: each of 64 TCP streams takes some 200.
const REQUEST_MAX: u64 = 16 << 10;
const REPLY_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_folder_that_others_can_enter_is_none() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("made/on/demand");
        open_folder(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        open_folder(&folder).unwrap();
        let link = place.path().join("link");
        symlink(&folder, &link).unwrap();
        open_folder(&link).unwrap_err();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o710)).unwrap();
        open_folder(&folder).unwrap_err();
    }

    #[test]
    fn hosts_that_share_a_home_do_not_share_a_folder() {
        let of = |host| folder_of(None, Some("/home/me/state".into()), host).unwrap();
        assert_eq!(of("one.example"), Path::new("/home/me/state/ctl-one.example"));
        assert_ne!(of("one"), of("two"));
        assert_eq!(of("../x").parent(), Some(Path::new("/home/me/state")));
        assert_eq!(folder_of(None, None, "one"), None);
    }

    #[test]
    fn a_folder_at_run_time_that_is_not_this_users_alone_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let state = || Some(PathBuf::from("/state"));
        let with_mode = |mode| {
            fs::set_permissions(place.path(), fs::Permissions::from_mode(mode)).unwrap();
            folder_of(Some(place.path().into()), state(), "h").unwrap()
        };
        assert_eq!(with_mode(0o755), Path::new("/state/ctl-h"));
        assert_eq!(with_mode(0o700), place.path().join("longhaul"));
        let link = place.path().join("link");
        symlink(place.path(), &link).unwrap();
        for bad in [link, "relative".into(), place.path().join("missing"), "/proc".into()] {
            assert_eq!(folder_of(Some(bad), state(), "h").unwrap(), Path::new("/state/ctl-h"));
        }
    }

    #[test]
    fn only_sockets_that_nobody_will_answer_at_are_cleared() {
        let place = tempfile::tempdir().unwrap();
        // No process has such a number (PID_MAX_LIMIT is 2^22).
        let (dead, deaf, alive) = (1 << 30, 1, (1 << 30) + 1);
        for process in [dead, deaf] {
            drop(UnixListener::bind(socket_of(place.path(), process)).unwrap());
        }
        let _listener = UnixListener::bind(socket_of(place.path(), alive)).unwrap();
        fs::write(place.path().join("notes"), "").unwrap();
        clear_stale(place.path());
        let there = |process| socket_of(place.path(), process).exists();
        assert_eq!([dead, deaf, alive].map(there), [false, true, true]);
        assert!(place.path().join("notes").exists());
    }

    #[test]
    fn requests_are_what_they_say() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        assert_eq!(read(r#"{"command":"pause"}"#).unwrap(), Request::Pause);
        assert_eq!(
            read(r#"{"command":"rate","rate":"1gbit"}"#).unwrap(),
            Request::Rate { rate: "1gbit".into() }
        );
        for bad in ["", "{}", r#"{"command":"stop"}"#, r#"{"command":"rate"}"#, "[1]"] {
            read(bad).unwrap_err();
        }
    }
}
