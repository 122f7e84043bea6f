//! Standard input to another host, and a file there to standard output.

use crate::common::lab::Haul;
use crate::common::site::Site;
use crate::common::sshd::{Sshd, far};
use crate::common::tree::*;
use crate::common::{Ended, Server, longhaul, peak_memory, send, wait_until};
use longhaul_lab::Scenario;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle, sleep};
use std::time::Duration;

const GROUP: usize = 1 << 20;

/// A copy with a pipe at each end of it. Dropping it kills it.
struct Piped {
    child: Child,
    /// What goes in, until it is dropped.
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<JoinHandle<Vec<u8>>>,
}

impl Piped {
    fn start(mut command: Command) -> Piped {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        Piped::with(command)
    }

    /// The same, where standard input and output are settled.
    fn with(mut command: Command) -> Piped {
        let mut child = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut says = child.stderr.take().expect("a pipe");
        let stderr = thread::spawn(move || {
            let mut said = vec![];
            says.read_to_end(&mut said).map(|_| said).expect("it can be read")
        });
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        Piped { child, stdin, stdout, stderr: Some(stderr) }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.try_write(bytes).expect("it reads");
    }

    fn try_write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stdin.as_mut().expect("it is open").write_all(bytes)
    }

    /// What comes next of standard output.
    fn read(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.stdout.as_mut().expect("it is open").read_exact(&mut bytes).expect("so much comes");
        bytes
    }

    /// Nothing more goes in: what else came out, and how it ended.
    fn finish(mut self) -> (Vec<u8>, Ended) {
        drop(self.stdin.take());
        let mut rest = vec![];
        if let Some(mut stdout) = self.stdout.take() {
            stdout.read_to_end(&mut rest).expect("it can be read");
        }
        wait_until("it ends", || self.child.try_wait().expect("a child can be waited for").is_some());
        let status = self.child.wait().expect("it has ended");
        let stderr = self.stderr.take().expect("once").join().expect("it was read");
        (rest, Ended::of(std::process::Output { status, stdout: vec![], stderr }))
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Give a copy all that it takes.
fn feed(command: Command, bytes: &[u8]) -> Ended {
    let mut copy = Piped::start(command);
    // One that is refused may end before.
    let written = copy.try_write(bytes);
    let (stdout, ended) = copy.finish();
    assert!(written.is_ok() || ended.code != 0, "it read all");
    assert!(String::from_utf8_lossy(&stdout).lines().count() <= 1, "the result alone");
    ended
}

/// The last line on standard error.
fn json_aside(ended: &Ended) -> serde_json::Value {
    let line = ended.stderr.lines().last().expect("it says something");
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", ended.stderr))
}

fn args<const N: usize>(words: [&str; N]) -> [OsString; N] {
    words.map(OsString::from)
}

#[test]
fn any_length_goes_both_ways() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let lens = [0, 1, GROUP - 1, GROUP, GROUP + 1, 5 * GROUP, 7 * GROUP + 1, 100 * GROUP + 3];
    for (len, transport) in lens.into_iter().flat_map(|len| [(len, "auto"), (len, "stripe")]) {
        let (bytes, url) = (noise(len, len as u64), server.url("new/file"));
        feed(server.cp_command(args(["-", &url, "--transport", transport])), &bytes).expect_code(0);
        assert!(read(there.path().join("new/file")) == bytes, "{len} bytes over {transport}");
        assert_eq!(names(&there.path().join("new")), ["file"]);
        let back = Piped::start(server.cp_command(args([&url, "-", "--transport", transport]))).finish();
        assert!(back.0 == bytes, "{len} bytes back over {transport}");
        let json = json_aside(&back.1.expect_code(0));
        assert_eq!((&json["ok"], &json["bytes"], &json["files"]), (&true.into(), &len.into(), &1.into()));
        assert_eq!(json["hash_verified"], true);
    }
}

#[test]
fn a_lossy_path_changes_nothing() {
    let there = folder();
    let Some(_shared) = longhaul_testing::machine::wait() else { return };
    let path = Scenario { loss: 0.02, loss_reverse: 0.02, ..Scenario::new(200.0, 40.0) };
    let haul = Haul::start(&path, there.path());
    let bytes = noise(40_000_000, 7);
    feed(haul.cp_command(args(["-", &haul.server.url("file")])), &bytes).expect_code(0);
    assert!(read(there.path().join("file")) == bytes);
    let (back, ended) = Piped::start(haul.cp_command(args([&haul.server.url("file"), "-"]))).finish();
    ended.expect_code(0);
    assert!(back == bytes);
    let counters = haul.lab.counters();
    assert!(counters.left_to_right.dropped_loss > 0 && counters.right_to_left.dropped_loss > 0);
}

#[test]
fn over_ssh_too() {
    let Some(sshd) = Sshd::start() else { return };
    let (there, bytes) = (folder(), noise(3 * GROUP + 1, 1));
    let cp = |from: OsString, to: OsString| {
        let mut command = longhaul();
        command.args(["cp", "--ssh", &sshd.ssh("user")]).args([from, to]);
        command
    };
    let file = there.path().join("file");
    feed(cp("-".into(), far(&file)), &bytes).expect_code(0);
    assert!(read(&file) == bytes);
    let (back, ended) = Piped::start(cp(far(&file), "-".into())).finish();
    ended.expect_code(0);
    assert!(back == bytes);
}

#[test]
fn pipes_that_pause_break_nothing_and_nothing_has_its_name_before_it_is_complete() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let (bytes, pause) = (noise(40 * GROUP + 5, 3), Duration::from_secs(4));
    let url = server.url("file");
    let mut copy = Piped::start(server.cp_command(args(["-", &url, "--stall-timeout=1s"])));
    sleep(pause);
    for piece in bytes.chunks(bytes.len() / 2) {
        copy.write(piece);
        sleep(pause);
        assert_eq!(names(there.path()), [""; 0]);
    }
    copy.finish().1.expect_code(0);
    assert!(read(there.path().join("file")) == bytes);
    let mut copy = Piped::start(server.cp_command(args([&url, "-", "--stall-timeout=1s"])));
    let mut back = copy.read(GROUP);
    sleep(pause);
    back.extend(copy.read(20 * GROUP));
    sleep(pause);
    let (rest, ended) = copy.finish();
    ended.expect_code(0);
    assert!([back, rest].concat() == bytes);
}

#[test]
fn nobody_reads_any_more() {
    let there = folder();
    write_noise(there.path().join("file"), 60 * GROUP, 1);
    let server = Server::start(there.path(), &[]);
    let mut copy = Piped::start(server.cp_command(args([&server.url("file"), "-"])));
    copy.read(GROUP / 2);
    drop(copy.stdout.take());
    let ended = copy.finish().1.expect_code(1);
    assert!(ended.stderr.contains("standard output cannot be written to: broken pipe"), "{}", ended.stderr);
    assert_eq!(json_aside(&ended)["ok"], false);
}

#[test]
fn who_interrupts_a_pipe_is_not_told_that_it_goes_on() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let mut copy = Piped::start(server.cp_command(args(["-", &server.url("file")])));
    copy.write(&noise(20 * GROUP, 2));
    wait_until("it is under way", || has_open(&server, 8 * GROUP));
    send(&copy.child, Signal::INT);
    let ended = copy.finish().1.expect_code(130);
    assert!(ended.stderr.contains("has to go again from its beginning"), "{}", ended.stderr);
    wait_until("the daemon lets go of it", || !has_open(&server, 8 * GROUP));
    assert_eq!(names(there.path()), [""; 0]);
}

#[test]
fn what_cannot_be_read_leaves_nothing_there() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let mut command = server.cp_command(args(["-", &server.url("file")]));
    // Reading a folder is an error.
    command.stdin(File::open(there.path()).unwrap()).stdout(Stdio::null());
    let ended = Piped::with(command).finish().1.expect_code(1);
    assert!(ended.stderr.contains("standard input cannot be read"), "{}", ended.stderr);
    assert_eq!(names(there.path()), [""; 0]);
    // Whoever goes without having read what came resets the connection.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut input = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut source = listener.accept().unwrap().0;
    input.write_all(b"unread").unwrap();
    source.peek(&mut [0]).unwrap();
    let mut command = server.cp_command(args(["-", &server.url("file")]));
    command.stdin(OwnedFd::from(input)).stdout(Stdio::null());
    let copy = Piped::with(command);
    source.write_all(&noise(20 * GROUP, 1)).unwrap();
    wait_until("it is under way", || has_open(&server, 8 * GROUP));
    drop(source);
    let ended = copy.finish().1.expect_code(1);
    assert!(ended.stderr.contains("standard input cannot be read: connection reset"), "{}", ended.stderr);
    wait_until("the daemon lets go of it", || !has_open(&server, 8 * GROUP));
    assert_eq!(names(there.path()), [""; 0]);
}

#[test]
fn pipes_share_little_memory() {
    let (there, bytes) = (folder(), noise(100 * GROUP, 4));
    let server = Server::start(there.path(), &["--memory-mib=128"]);
    // What it has under way takes a minute.
    let mut slow = Piped::start(server.cp_command(args(["-", &server.url("slow"), "--rate=8mbit"])));
    slow.write(&bytes);
    feed(server.cp_command(args(["-", &server.url("beside")])), &bytes).expect_code(0);
    assert!(slow.child.try_wait().unwrap().is_none(), "it does not wait for the slow one");
    drop((slow, server));
    let server = Server::start(there.path(), &["--memory-mib=64"]);
    thread::scope(|scope| {
        for name in ["a", "b", "c", "d", "e", "f"] {
            let (server, bytes) = (&server, &bytes);
            scope.spawn(move || {
                feed(server.cp_command(args(["-", &server.url(name)])), bytes).expect_code(0);
            });
        }
    });
    assert_eq!(names(there.path()), ["a", "b", "beside", "c", "d", "e", "f"]);
    for name in names(there.path()) {
        assert!(read(there.path().join(&name)) == bytes, "{name}");
    }
}

/// Whether a daemon has a file of more bytes open.
fn has_open(server: &Server, bytes: usize) -> bool {
    let open = fs::read_dir(format!("/proc/{}/fd", server.id())).unwrap().flatten();
    let len = |one: fs::DirEntry| fs::metadata(one.path()).map_or(0, |file| file.len());
    open.map(len).max() > Some(bytes as u64)
}

#[test]
fn a_source_that_changes_is_told() {
    let there = folder();
    write_noise(there.path().join("file"), 200 * GROUP, 1);
    let server = Server::start(there.path(), &[]);
    let mut copy = Piped::start(server.cp_command(args([&server.url("file"), "-"])));
    let before = copy.read(GROUP);
    assert!(before == read(there.path().join("file"))[..GROUP]);
    write(there.path().join("file"), b"changed");
    let ended = copy.finish().1.expect_code(1);
    assert!(ended.stderr.contains("changed while it was being copied"), "{}", ended.stderr);
}

#[test]
fn either_side_killed_midway_leaves_nothing_under_the_name() {
    let there = folder();
    let bytes = noise(30 * GROUP, 5);
    for kills_server in [false, true] {
        let mut server = Server::start(there.path(), &[]);
        let mut copy =
            Piped::start(server.cp_command(args(["-", &server.url("file"), "--stall-timeout=2s"])));
        copy.write(&bytes);
        wait_until("it is under way", || has_open(&server, 8 * GROUP));
        if kills_server {
            server.kill();
            let ended = copy.finish().1;
            assert_eq!(ended.code, 1, "{}", ended.stderr);
        } else {
            send(&copy.child, Signal::KILL);
            wait_until("the daemon lets go of it", || !has_open(&server, 8 * GROUP));
        }
        assert_eq!(names(there.path()), [""; 0]);
    }
    write(there.path().join("file"), &bytes);
    let mut server = Server::start(there.path(), &[]);
    let mut copy = Piped::start(server.cp_command(args([
        &server.url("file"),
        "-",
        "--rate=100mbit",
        "--stall-timeout=2s",
    ])));
    let mut back = copy.read(4 * GROUP);
    server.kill();
    let (rest, ended) = copy.finish();
    ended.expect_code(1);
    back.extend(rest);
    assert!(back.len() < bytes.len() && back.len().is_multiple_of(GROUP) && back == bytes[..back.len()]);
}

#[test]
fn memory_is_bounded_whichever_side_is_slow() {
    let there = folder();
    let server = Server::start(there.path(), &[]);
    let url = server.url("file");
    let bytes = noise(400_000_000, 9);
    let mut copy = Piped::start(server.cp_command(args(["-", &url])));
    copy.write(&bytes);
    let peaks = |copy: &Piped| [peak_memory(copy.child.id()), peak_memory(server.id())];
    let pushed = peaks(&copy);
    copy.finish().1.expect_code(0);
    let mut copy = Piped::start(server.cp_command(args([&url, "-"])));
    let first = copy.read(GROUP);
    // The daemon goes on reading as long as it may.
    sleep(Duration::from_secs(3));
    let rest = copy.read(bytes.len() - 2 * GROUP);
    let pulled = peaks(&copy);
    let (end, ended) = copy.finish();
    ended.expect_code(0);
    assert!([first, rest, end].concat() == bytes);
    println!("client and daemon took {pushed:?} and {pulled:?} bytes at most");
    assert!(pushed.into_iter().chain(pulled).all(|peak| peak < 256_000_000));
}

#[test]
fn what_a_pipe_cannot_do_is_said() {
    let (here, there) = (folder(), folder());
    write(there.path().join("folder/file"), b"data");
    write(here.path().join("file"), b"data");
    std::os::unix::fs::symlink("folder/file", there.path().join("link")).unwrap();
    let server = Server::start(there.path(), &[]);
    let fails = |code: i32, words: &[&str]| {
        let (stdout, ended) = Piped::start(server.cp_command(words)).finish();
        assert!(words.last() != Some(&"-") || stdout.is_empty(), "{words:?}");
        ended.expect_code(code).stderr
    };
    let (far, local) = (server.url("new"), here.path().join("file").display().to_string());
    for flag in ["--delete", "--dry-run", "--checksum", "--delta", "--exclude=x"] {
        let name = flag.split('=').next().unwrap();
        for ends in [["-", &far], [&far, "-"]] {
            let said = fails(2, &[&[flag], &ends[..]].concat());
            assert!(said.contains(name) && said.contains("leave it out with -"), "{said}");
        }
    }
    assert!(fails(2, &["--retry=2", "-", &far]).contains("--retry"));
    assert!(fails(2, &["-", &local]).contains("one side must be another host"));
    assert!(fails(2, &["-", "-"]).contains("one side must be another host"));
    assert!(fails(2, &["-", &local, &far]).contains("by itself"));
    assert!(fails(1, &["-", &server.url("folder")]).contains("add the name of the file"));
    assert!(fails(1, &["-", &server.url("new/")]).contains("add the name of the file"));
    for none in ["folder", "folder/", "link"] {
        assert!(fails(1, &[&server.url(none), "-"]).contains("only a regular file"), "{none}");
    }
    assert!(fails(1, &[&server.url("none"), "-"]).contains("no such file"));
    assert_eq!(names(there.path()), ["folder/", "folder/file", "link"]);
}

#[test]
fn a_pipe_is_in_the_audit_and_keeps_to_what_its_user_may() {
    let site = Site::new("audit = \"audit.jsonl\"");
    site.add("alice", &["both=read-write", "in=write-only", "data=read-only"]);
    let (daemon, alice, bytes) = (site.serve(), site.path("alice"), noise(2 * GROUP + 9, 2));
    let push = |dest: &str| feed(daemon.cp_command(&alice, &["-".into(), daemon.url(dest)]), &bytes);
    push("both/file").expect_code(0);
    push("both/file").expect_code(0);
    push("in/file").expect_code(0);
    assert!(push("in/file").expect_code(1).stderr.contains("this name is taken"));
    assert!(push("data/file").expect_code(1).stderr.contains("read-only"));
    assert!(push("other/file").expect_code(1).stderr.contains("begins with a folder's name"));
    let pull =
        |source: &str| Piped::start(daemon.cp_command(&alice, &[daemon.url(source), "-".into()])).finish();
    pull("both/file").1.expect_code(0);
    assert!(pull("in/file").1.expect_code(1).stderr.contains("write-only"));
    let told = || {
        let text = fs::read_to_string(site.path("audit.jsonl")).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        let hash = blake3::hash(&bytes).to_string();
        let is_whole = |line: &serde_json::Value| line["blake3"] == *hash && line["bytes"] == bytes.len();
        let word = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
        lines
            .map(|line| {
                (word(&line, "path"), word(&line, "direction"), word(&line, "outcome"), is_whole(&line))
            })
            .collect::<Vec<_>>()
    };
    let line = |path: &str, way: &str, outcome: &str, whole| (path.into(), way.into(), outcome.into(), whole);
    let copied = [
        line("both/file", "in", "copied", true),
        line("both/file", "in", "copied", true),
        line("in/file", "in", "copied", true),
        line("in/file", "in", "failed", false),
        line("both/file", "out", "copied", true),
    ];
    wait_until("all is told", || told().len() >= copied.len());
    assert_eq!(told(), copied);
}
