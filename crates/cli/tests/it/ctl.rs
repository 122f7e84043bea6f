//! Copies that are steered while they run.

use crate::common::sides::Sides;
use crate::common::tree::{folder, write_noise};
use crate::common::{Ended, Running, Server, longhaul, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A copy that runs, and where it is steered.
struct Steered {
    copy: Running,
    runtime: tempfile::TempDir,
}

impl Steered {
    fn start(server: &Server, args: Vec<OsString>) -> Steered {
        let runtime = folder();
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let copy = Running::start(server.cp_command(args).env("XDG_RUNTIME_DIR", runtime.path()));
        let steered = Steered { copy, runtime };
        wait_until("it listens", || steered.socket().exists());
        steered
    }

    fn socket(&self) -> PathBuf {
        self.runtime.path().join(format!("longhaul/{}.sock", self.copy.id()))
    }

    fn ctl(&self, args: &[&str]) -> Ended {
        ctl(self.runtime.path(), self.copy.id(), args)
    }

    fn status(&self) -> Value {
        self.ctl(&["status"]).expect_code(0).json()
    }

    /// The lines of JSON so far.
    fn lines(&self) -> usize {
        self.copy.said()[0].lines().count()
    }
}

fn ctl(runtime: &Path, process: u32, args: &[&str]) -> Ended {
    let mut command = longhaul();
    command.arg("ctl").arg(process.to_string()).args(args).env("XDG_RUNTIME_DIR", runtime);
    Running::start(&mut command).finish()
}

const LEN: usize = 40_000_000;
/// With these a copy that is left alone takes longer than any test waits, and one that hears nothing for a second gives up.
const SLOW: [&str; 3] = ["--json=lines", "--rate=2mbit", "--stall-timeout=1s"];

#[test]
fn whichever_side_sends_pauses_goes_on_and_takes_another_rate() {
    for (pull, more) in [
        (false, vec![]),
        (true, vec![]),
        (false, vec!["--transport=stripe"]),
        (true, vec!["--transport=stripe"]),
    ] {
        let sides = Sides::with_file(pull, LEN);
        let server = sides.serve();
        let flags: Vec<&str> = SLOW.into_iter().chain(more).collect();
        let copy = Steered::start(&server, sides.file_args(&server.url(""), &flags));
        wait_until("data moves", || {
            copy.status()["bytes_done"].as_u64().is_some_and(|bytes| bytes > 200_000)
        });
        assert!(copy.ctl(&["pause"]).expect_code(0).stderr.contains("paused"));
        // What was on its way comes in yet.
        wait_until("nothing moves", || {
            let status = copy.status();
            status["paused"] == true && status["limited_by"] == "paused" && status["rate_mbps"] == 0.0
        });
        let (before, lines) = (copy.status()["bytes_done"].clone(), copy.lines());
        // Longer than silence is borne.
        wait_until("some seconds", || copy.lines() >= lines + 4);
        let status = copy.status();
        assert_eq!((&status["bytes_done"], &status["paused"]), (&before, &true.into()), "{status}");
        assert_eq!(status["pid"], copy.copy.id());
        copy.ctl(&["rate", "2gbit"]).expect_code(0);
        let status = copy.ctl(&["status"]).expect_code(0).json();
        assert_eq!((&status["rate"], &status["rate_limit_mbps"]), (&"2gbit".into(), &2000.0.into()));
        copy.ctl(&["resume"]).expect_code(0);
        // At the old rate it would not end in time.
        let socket = copy.socket();
        let ended = copy.copy.finish().expect_code(0);
        assert_eq!(ended.json()["bytes"], LEN);
        assert!(ended.json()["limits_ms"]["paused"].as_u64().is_some_and(|ms| ms > 0), "{}", ended.json());
        sides.assert_complete();
        assert!(!socket.exists());
    }
}

#[test]
fn a_rate_is_lowered_too_and_nonsense_changes_nothing() {
    for pull in [false, true] {
        let sides = Sides::with_file(pull, LEN);
        let server = sides.serve();
        let copy = Steered::start(&server, sides.file_args(&server.url(""), &["--rate=40mbit"]));
        for (args, part) in [
            (&["rate", "fast"][..], "not a rate"),
            (&["rate", "08:00-25:00 1gbit"][..], "25:00"),
            (&["dance"][..], "'dance'"),
        ] {
            let ended = copy.ctl(args).expect_code(2);
            assert!(ended.stderr.contains(part), "{}", ended.stderr);
        }
        assert_eq!(copy.status()["rate"], "40mbit");
        copy.ctl(&["rate", "00:00-24:00 1mbit, 2mbit"]).expect_code(0);
        wait_until("it goes at that rate", || {
            let status = copy.status();
            let rate = status["rate_mbps"].as_f64().unwrap();
            status["limited_by"] == "rate_cap" && rate > 0.0 && rate < 3.0
        });
        assert_eq!(copy.status()["rate_limit_mbps"], 1.0);
        copy.copy.signal(Signal::INT);
        copy.copy.finish().expect_code(130);
    }
}

#[test]
fn the_socket_is_its_users_alone_and_what_a_crash_leaves_is_cleared() {
    let sides = Sides::with_file(false, LEN);
    let server = sides.serve();
    let copy = Steered::start(&server, sides.file_args(&server.url(""), &["--rate=1mbit"]));
    let (folder, runtime) = (copy.socket().parent().unwrap().to_owned(), copy.runtime.path().to_owned());
    assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
    let (socket, process) = (copy.socket(), copy.copy.id());
    copy.copy.signal(Signal::KILL);
    let Steered { copy, runtime: _runtime } = copy;
    copy.finish().expect_code(-1);
    assert!(socket.exists(), "nobody removed it");
    let ended = ctl(&runtime, process, &["status"]).expect_code(1);
    assert!(ended.stderr.contains("is no copy of this user"), "{}", ended.stderr);
    assert!(!socket.exists(), "it is cleared");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = ctl(&runtime, process, &["status"]).expect_code(1);
    assert!(ended.stderr.contains("not this user's alone"), "{}", ended.stderr);
}

/// Whichever of the two is the client of the other, and so whichever has to be told by which.
#[test]
fn the_ends_of_a_copy_between_two_others_obey_whoever_arranged_it() {
    for connects in [["--allow-third-party"].as_slice(), &[]] {
        let (from, to) = (folder(), folder());
        write_noise(from.path().join("file"), LEN, 1);
        let source = Server::start(from.path(), connects);
        let dest = Server::start(to.path(), if connects.is_empty() { &["--allow-third-party"] } else { &[] });
        let token = dest.token_file().as_os_str().to_owned();
        let mut args =
            vec!["--dest-token-file".into(), token, source.url("file").into(), dest.url("file").into()];
        args.extend(SLOW.map(OsString::from));
        let copy = Steered::start(&source, args);
        wait_until("data moves", || {
            copy.status()["bytes_done"].as_u64().is_some_and(|bytes| bytes > 200_000)
        });
        copy.ctl(&["pause"]).expect_code(0);
        wait_until("nothing moves", || {
            let status = copy.status();
            status["limited_by"] == "paused" && status["rate_mbps"] == 0.0
        });
        let (before, lines) = (copy.status()["bytes_done"].clone(), copy.lines());
        wait_until("some seconds", || copy.lines() >= lines + 4);
        assert_eq!(copy.status()["bytes_done"], before);
        copy.ctl(&["rate", "none"]).expect_code(0);
        copy.ctl(&["resume"]).expect_code(0);
        assert_eq!(copy.copy.finish().expect_code(0).json()["bytes"], LEN);
    }
}
