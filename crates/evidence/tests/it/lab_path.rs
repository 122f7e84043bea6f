//! `longhaul lab run --with` and `longhaul lab shell`: anybody's programs over a path, and that nothing is left of
//! them, however they end.

use crate::common::tree::{install, set_mode};
use crate::common::{
    Ended, LONGHAUL_LAB, Running, is_without, longhaul, measured, processes_with, skip, token_file,
    wait_until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder with a scenario, whose name marks all processes that are started with it.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(scenario: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("path.toml"), scenario).unwrap();
        Bench { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn lab(&self, args: &[&str]) -> Command {
        let mut command = longhaul();
        command.env(MARK, self.folder.path()).env("TMPDIR", self.folder.path()).env("SHELL", "/bin/sh");
        command.arg("lab").args(args);
        command
    }

    fn with(&self, command: &str, more: &[&str]) -> Command {
        let mut lab = self.lab(&["run", "--with", command, "--scenario"]);
        lab.arg(self.file("path.toml")).args(more);
        lab
    }

    /// A shell that is told these lines.
    fn shell(&self, more: &[&str], lines: &str) -> Command {
        let mut lab = self.lab(&["shell"]);
        lab.arg(self.file("path.toml")).args(more);
        fs::write(self.file("lines"), lines).unwrap();
        lab.stdin(fs::File::open(self.file("lines")).unwrap());
        lab
    }

    /// Processes that bear the mark: a namespace lives as long as one of them.
    fn processes(&self) -> usize {
        processes_with(MARK, self.folder.path())
    }
}

fn is_without_lab(ended: &Ended) -> bool {
    is_without(&NO_LAB, ended)
}

const MARK: &str = "LONGHAUL_TEST_PATH";
/// What the program says where namespaces or TUN devices are not to be had.
const NO_LAB: [&str; 4] = ["/dev/net/tun", "network namespaces", "user namespaces", "process namespace"];
const PATH: &str = "bottleneck_mbit = 50\nrtt_ms = 20\n";

#[test]
fn a_copy_between_the_ends_is_measured() {
    let bench = Bench::new(PATH);
    let token = token_file(bench.folder.path());
    let (data, root) = (bench.file("data"), bench.file("root"));
    fs::write(&data, vec![7; 2_000_000]).unwrap();
    fs::create_dir(&root).unwrap();
    let (token, data, root) = (token.display(), data.display(), root.display());
    let program = measured();
    let program = program.display();
    let server = format!("{program} serve --root {root} --token-file {token} --listen $RIGHT:7000");
    let copy = format!("{program} cp --json --token-file {token} {data} longhaul://$RIGHT:7000/");
    let pcap = bench.file("left.pcap");
    let more = ["--server", &server, "--json", "--pcap", pcap.to_str().unwrap()];
    let ended = Running::start(&mut bench.with(&copy, &more)).finish();
    if is_without_lab(&ended) {
        return;
    }
    let ended = ended.expect_code(0);
    assert_eq!(fs::read(bench.file("root/data")).unwrap(), vec![7; 2_000_000]);
    assert_eq!(ended.stdout.lines().count(), 1, "the command's own output goes elsewhere: {}", ended.stdout);
    assert!(ended.stderr.contains("\"hash_verified\":true"), "{}", ended.stderr);
    let record = ended.json();
    assert_eq!((&record["exit"], &record["command"]), (&0.into(), &Value::from(copy)));
    assert_eq!(record["scenario"]["bottleneck_mbit"], 50.0);
    let way = &record["left_to_right"];
    assert!(way["bytes_delivered"].as_u64().is_some_and(|bytes| bytes > 2_000_000), "{record}");
    assert!(way["delivered_mbps"].as_f64().is_some_and(|mbps| mbps > 1.0 && mbps <= 51.0), "{record}");
    assert!(way["queue_bytes_max"].as_u64().is_some_and(|bytes| bytes <= 125_000), "{record}");
    let packets = |way: &str| record[way]["packets_in"].as_u64().unwrap();
    // The server's first packets may have come before the count began, and its last after it.
    let captured = record["captured"][0]["packets"].as_u64().unwrap();
    let seen = packets("left_to_right") + packets("right_to_left");
    assert!(captured.abs_diff(seen) <= 20, "{captured} captured, {seen} seen");
    assert_eq!(bench.processes(), 0);
}

#[test]
fn a_commands_status_is_the_programs() {
    let bench = Bench::new(PATH);
    let ended = Running::start(&mut bench.with("echo $LEFT $RIGHT $LONGHAUL_END; exit 7", &[])).finish();
    if is_without_lab(&ended) {
        return;
    }
    let ended = ended.expect_code(7);
    assert_eq!(ended.stdout, "10.73.0.1 10.73.0.2 left\n");
    for part in ["left to right", "packets delivered", "queue, 95th percentile", "late by over 1 ms"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    let ended = Running::start(&mut bench.with("kill -KILL $$", &["--json"])).finish().expect_code(137);
    assert_eq!(ended.json()["exit"], 137);
    let ended = Running::start(&mut bench.with("exit 0", &["--server", "echo no; exit 3"])).finish();
    assert!(ended.expect_code(1).stderr.contains("--server ended before the command began (exit status: 3)"));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let bench = Bench::new("bottleneck_mbit = 50\nrtt = 20\n");
    let refused = |mut command: Command, says: &[&str]| {
        let ended = Running::start(&mut command).finish().expect_code(2);
        assert!(says.iter().all(|part| ended.stderr.contains(part)), "{}", ended.stderr);
    };
    refused(bench.with("true", &[]), &["path.toml", "rtt", "rtt_ms"]);
    refused(bench.shell(&[], ""), &["path.toml", "rtt_ms"]);
    refused(bench.lab(&["run", "--with", "true"]), &["--scenario"]);
    refused(bench.lab(&["run", "psockets-a", "--pcap", "x"]), &["--with"]);
    refused(bench.with("true", &["--quick"]), &["--quick"]);
    let bench = Bench::new(PATH);
    let one_file = ["--pcap", "x.pcap", "--pcap-right", "./x.pcap"];
    refused(bench.with("true", &one_file), &["--pcap and --pcap-right need a file each"]);
    refused(bench.shell(&one_file, ""), &["--pcap and --pcap-right need a file each"]);
    assert!(!Path::new("x.pcap").exists());
}

#[test]
fn a_shell_reaches_both_ends_and_takes_everything_with_it() {
    let bench = Bench::new(&format!("{PATH}[[traffic]]\ncontrol = 'fixed'\nrate_mbit = 5\n"));
    let lines = "echo at $LONGHAUL_END of $LEFT and $RIGHT\n\
        grep -o '10.73.0.[12]$' /proc/self/net/fib_trie | sort -u\n\
        right grep -o '10.73.0.[12]$' /proc/self/net/fib_trie | sort -u\n\
        right sh -c 'echo at $LONGHAUL_END; left sh -c \"echo at \\$LONGHAUL_END\"'\n\
        right setsid sleep 300 &\nsetsid sleep 300 &\nsleep 0.3; false\n";
    let ended = Running::start(&mut bench.shell(&[], lines)).finish();
    if is_without_lab(&ended) {
        return;
    }
    let ended = ended.expect_code(0);
    let said = "at left of 10.73.0.1 and 10.73.0.2\n10.73.0.1\n10.73.0.2\nat right\nat left\n";
    assert_eq!(ended.stdout, said, "{}", ended.stderr);
    assert!(ended.stderr.contains("flows: 1 begun, 0 done, 0 failed"), "{}", ended.stderr);
    assert_eq!(bench.processes(), 0);
    let left_behind: Vec<_> =
        fs::read_dir(bench.folder.path()).unwrap().flatten().map(|one| one.file_name()).collect();
    assert_eq!(left_behind.len(), 2, "{left_behind:?}");
    let ended = Running::start(&mut bench.shell(&["--end", "right"], "echo $LONGHAUL_END\n")).finish();
    assert_eq!(ended.expect_code(0).stdout, "right\n");
}

#[test]
fn nothing_is_left_of_one_that_is_stopped() {
    let bench = Bench::new(&format!("{PATH}[[traffic]]\ncontrol = 'tcp:newreno'\n"));
    // The program, two processes that hold the namespaces, and the shells with their children.
    let begin = |running: &mut Running| {
        wait_until("the commands", || processes_are(&bench, 7..) || !running.is_running());
        running.is_running()
    };
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 130), (Signal::KILL, -1)] {
        let sleepers = "setsid sleep 300 & sleep 300; true";
        let mut running = Running::start(&mut bench.with(sleepers, &["--server", sleepers]));
        if !begin(&mut running) {
            assert!(is_without_lab(&running.finish()));
            return;
        }
        running.signal(signal);
        // Its output is also its children's: it ends with them.
        running.finish().expect_code(code);
        wait_until("the end of its children", || bench.processes() == 0);
    }
    let mut running =
        Running::start(&mut bench.shell(&[], "right setsid sleep 300 &\nsetsid sleep 300 &\nsleep 300\n"));
    wait_until("the commands", || processes_are(&bench, 7..) || !running.is_running());
    running.signal(Signal::KILL);
    running.finish().expect_code(-1);
    wait_until("the end of its children", || bench.processes() == 0);
}

fn processes_are(bench: &Bench, count: std::ops::RangeFrom<usize>) -> bool {
    count.contains(&bench.processes())
}

/// `lab shell` with a /dev/net of its own, furnished by this script, perhaps as an ordinary user.
fn elsewhere(bench: &Bench, furnish: &str, is_ordinary: bool, lines: &str) -> Option<Ended> {
    if !rustix::process::geteuid().is_root() {
        skip("only root can change devices and become an ordinary user");
        return None;
    }
    // Where that user may come.
    let program = bench.file("longhaul-lab");
    install(&program, fs::File::open(LONGHAUL_LAB).unwrap());
    set_mode(bench.folder.path(), 0o777);
    let user = if is_ordinary { "setpriv --reuid=65534 --regid=65534 --clear-groups" } else { "" };
    let script =
        format!("mount -t tmpfs none /dev/net && {furnish} && exec {user} \"$0\" lab shell path.toml");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).arg(&program).current_dir(bench.folder.path());
    command.env(MARK, bench.folder.path()).env("TMPDIR", bench.folder.path()).env("SHELL", "/bin/sh");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        skip("there is no unshare");
        return None;
    };
    // A program that has ended already does not listen.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let ended = Ended::of(child.wait_with_output().unwrap());
    let failed = ["mount:", "mknod:", "unshare:", "setpriv:"].iter().any(|tool| ended.stderr.contains(tool));
    if failed {
        skip(ended.stderr.trim_end());
    }
    (!failed).then_some(ended)
}

#[test]
fn an_ordinary_user_may_have_a_path() {
    let bench = Bench::new(PATH);
    let lines = "right sh -c 'echo at $LONGHAUL_END'; id -u\nsetsid sleep 300 &\n";
    let Some(ended) = elsewhere(&bench, "mknod -m 666 /dev/net/tun c 10 200", true, lines) else { return };
    if ended.code == 1 && ended.stderr.contains("user namespaces") {
        return skip(ended.stderr.trim_end());
    }
    assert_eq!(ended.expect_code(0).stdout, "at right\n0\n");
    assert_eq!(bench.processes(), 0);
}

#[test]
fn a_missing_device_is_told_with_its_remedy() {
    let bench = Bench::new(PATH);
    for (furnish, is_ordinary, says) in [
        ("true", false, "/dev/net/tun is missing; load it with: modprobe tun"),
        ("mknod -m 600 /dev/net/tun c 10 200", true, "sudo chmod 666 /dev/net/tun"),
    ] {
        let Some(ended) = elsewhere(&bench, furnish, is_ordinary, "") else { return };
        let ended = ended.expect_code(1);
        assert!(ended.stderr.contains(says) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
    }
}
