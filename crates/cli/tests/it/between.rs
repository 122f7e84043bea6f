//! Copies between two other hosts, which this one arranges.

use crate::common::client::{Client, offer, resuming};
use crate::common::lab::Haul;
use crate::common::relay::{Relay, Way};
use crate::common::site::Site;
use crate::common::sshd::{Sshd, far};
use crate::common::tree::*;
use crate::common::{Ended, LONGHAUL, Running, Server, error_of, longhaul, run, undisturbed, wait_until};
use longhaul_lab::{Scenario, Side};
use longhaul_net::control::{self, Incoming, ServerKey, Stream};
use longhaul_net::wake::Waker;
use longhaul_proto::session::message::third_party::{ClientPart, OneCopyKey, ServerPart, Whereabouts};
use longhaul_proto::session::message::{Answer, FileOptions, Message, Offer, Operation};
use longhaul_proto::session::transport::Transport;
use longhaul_testing::machine;
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::net::{Shutdown, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// Two hosts with a folder each, behind daemons.
struct Daemons {
    from: tempfile::TempDir,
    to: tempfile::TempDir,
    source: Server,
    dest: Server,
}

const CONNECTS: &[&str] = &["--allow-third-party"];

impl Daemons {
    fn start(source: &[&str], dest: &[&str]) -> Daemons {
        let (from, to) = (folder(), folder());
        let (source, dest) = (Server::start(from.path(), source), Server::start(to.path(), dest));
        Daemons { from, to, source, dest }
    }

    /// With a file to be copied.
    fn with_file(len: usize) -> Daemons {
        let daemons = Daemons::start(CONNECTS, &[]);
        write_noise(daemons.from.path().join("file"), len, 1);
        daemons
    }

    fn command(&self, from: &str, to: &str, more: &[&str]) -> Command {
        self.source.cp_command(["--why", from, to].iter().chain(more))
    }

    fn cp(&self, from: &str, to: &str, more: &[&str]) -> Ended {
        Running::start(&mut self.command(&self.source.url(from), &self.dest.url(to), more)).finish()
    }

    fn target(&self) -> PathBuf {
        self.to.path().join("file")
    }

    fn assert_same_file(&self) {
        assert_same_bytes(self.from.path().join("file"), self.target());
        assert_eq!(names(self.to.path()), ["file"], "and nothing is left over");
    }
}

/// What stands in for ssh: every host is this one, where it is reached at the address that is its name.
fn stand_in(folder: &Path) -> PathBuf {
    let program = folder.join("ssh");
    let script = format!(
        "export SSH_CONNECTION=\"127.0.0.1 1 $1 22\" XDG_CACHE_HOME='{}'\nexec sh -c \"$2\"",
        folder.join("cache").display()
    );
    write_script(&program, &script);
    program
}

/// An address at which nobody can be reached: it needs to be said by which interface.
const NOWHERE: &str = "[fe80::1]:";
const HERE: &str = "127.0.0.1:";

/// A copy of a file between two hosts of these names.
fn between(ssh: &Path, from: &str, to: &str, file: &Path, copy: &Path, more: &[&str]) -> Ended {
    let place = |host: &str, path: &Path| OsString::from(format!("{host}{}", path.display()));
    let mut command = longhaul();
    command.args(["cp", "--json", "--why", "--ssh"]).arg(ssh).args(more);
    command.args([place(from, file), place(to, copy)]);
    Running::start(&mut command).finish()
}

#[test]
fn hosts_of_each_kind_copy_to_hosts_of_each_kind() {
    let Some(sshd) = Sshd::start() else { return };
    let daemons = Daemons::start(CONNECTS, &[]);
    let (from, to) = (daemons.from.path(), daemons.to.path());
    write_zoo(&from.join("zoo"));
    let original = snapshot(&from.join("zoo"));
    let sources = [far(&from.join("zoo/")), daemons.source.url("zoo/").into()];
    for (n, mut source) in sources.into_iter().enumerate() {
        if n == 0 {
            source.push("/");
        }
        for (m, dest) in
            [far(&to.join("by-ssh")), daemons.dest.url("by-daemon").into()].into_iter().enumerate()
        {
            let copy = to.join(["by-ssh", "by-daemon"][m]);
            let mut command = daemons.source.cp_command(["--ssh", &sshd.ssh("user")]);
            command.args([&source, &dest]);
            let ended = Running::start(&mut command).finish().expect_code(0);
            let json = ended.json();
            assert!(json["relayed"] == false && json["hash_verified"] == true, "{json}");
            assert_eq!(snapshot(&copy), original, "{source:?} to {dest:?}");
            fs::remove_dir_all(&copy).unwrap();
        }
    }
}

#[test]
fn the_data_does_not_pass_through_the_host_that_arranges_the_copy() {
    const LEN: usize = 20_000_000;
    let daemons = Daemons::with_file(LEN);
    let copy = |more: &[&str]| {
        let relays = [&daemons.source, &daemons.dest].map(|server| Relay::start(server.address()));
        let [from, to] = [0, 1].map(|n| relays[n].url("file"));
        let ended = Running::start(&mut daemons.command(&from, &to, more)).finish().expect_code(0);
        daemons.assert_same_file();
        fs::remove_file(daemons.target()).unwrap();
        let passed = relays.map(|relay| {
            let by_tcp: u64 = (0..relay.connections()).map(|n| relay.came(n)).sum();
            by_tcp + relay.bytes(Way::ToServer) + relay.bytes(Way::ToClient)
        });
        (ended, passed)
    };
    let (ended, passed) = copy(&[]);
    assert!(passed.iter().all(|bytes| *bytes < LEN as u64 / 100), "{passed:?}");
    assert!(ended.stderr.contains(" connects to "), "{}", ended.stderr);
    // Whoever asks for it has it pass.
    let (ended, passed) = copy(&["--via", "here"]);
    assert!(passed.iter().all(|bytes| *bytes > LEN as u64), "{passed:?}");
    assert!(
        ended.json()["relayed"] == true && ended.stderr.contains("relayed through this host"),
        "{}",
        ended.stderr
    );
}

#[test]
fn whichever_host_reaches_the_other_connects() {
    let top = folder();
    let (ssh, file, copy) = (stand_in(top.path()), top.path().join("file"), top.path().join("copy"));
    write_noise(&file, 3_000_000, 1);
    for (from, to, says) in
        [(NOWHERE, HERE, "fe80::1 connects to 127.0.0.1"), (HERE, NOWHERE, "; fe80::1 connects to 127.0.0.1")]
    {
        let ended = between(&ssh, from, to, &file, &copy, &[]).expect_code(0);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_same_bytes(&file, &copy);
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn where_neither_host_reaches_the_other_the_data_can_go_through_this_one() {
    let top = folder();
    let (ssh, file, copy) = (stand_in(top.path()), top.path().join("file"), top.path().join("copy"));
    write_noise(&file, 3_000_000, 1);
    let error = error_of(between(&ssh, NOWHERE, NOWHERE, &file, &copy, &["--transport=stripe"]));
    assert!(
        error.contains("neither of the two hosts reaches the other") && error.contains("--via here"),
        "{error}"
    );
    assert!(!copy.exists());
    // Also after it was looked whether UDP passes where TCP does not.
    let error = error_of(between(&ssh, NOWHERE, NOWHERE, &file, &copy, &[]));
    assert!(error.contains("neither of the two hosts reaches the other"), "{error}");
    let ended = between(&ssh, NOWHERE, NOWHERE, &file, &copy, &["--via=here"]).expect_code(0);
    assert!(ended.json()["relayed"] == true, "{}", ended.stdout);
    assert_same_bytes(&file, &copy);
}

#[test]
fn a_daemon_connects_to_hosts_that_users_name_only_where_that_is_allowed() {
    let daemons = Daemons::start(&[], &[]);
    write(daemons.from.path().join("file"), b"data");
    let error = error_of(daemons.cp("file", "file", &[]));
    assert!(error.contains("--allow-third-party") && error.contains("--via here"), "{error}");
    daemons.cp("file", "file", &["--via=here"]).expect_code(0);
    daemons.assert_same_file();
    // Nor does it for who asks without having been told that it would.
    let target = Whereabouts { hosts: vec!["127.0.0.1".parse().unwrap()], name: None, port: 1 };
    let part = ClientPart {
        key: OneCopyKey([1; 32]),
        to: target.clone(),
        asks: Operation::Pull { sources: vec![b"x".to_vec()] },
        transport: Transport::Auto,
    };
    for message in [Message::Reach(target), Message::BeClient(Box::new(part))] {
        let client = Client::arranger(&daemons.dest, "other").expect("it has the token");
        client.control.send(message);
        let refusal = client.hear_refusal();
        assert!(refusal.contains("not allowed"), "{refusal}");
    }
}

#[test]
fn a_user_may_no_more_than_in_a_copy_of_his_own() {
    let daemons = Daemons::start(CONNECTS, &["--read-only"]);
    write(daemons.from.path().join("file"), b"data");
    write(daemons.to.path().join("other"), b"other");
    let error = error_of(daemons.cp("file", "file", &[]));
    assert!(error.contains(&daemons.dest.address().to_string()) && error.contains("read-only"), "{error}");
    // A daemon's folder is not left, whichever of the two connects.
    let outside = daemons.from.path().with_extension("outside");
    for (from, to) in [(&daemons.source, &daemons.dest), (&daemons.dest, &daemons.source)] {
        let name = format!("../{}", outside.file_name().unwrap().to_str().unwrap());
        let args = [from.url("other"), to.url(&name)];
        let ended = Running::start(&mut daemons.source.cp_command(&args)).finish();
        assert_ne!(ended.code, 0, "{}", ended.stderr);
        assert!(!outside.exists());
    }
}

#[test]
fn what_a_daemon_takes_only_is_neither_read_nor_replaced_by_a_third_host() {
    let source = Daemons::start(CONNECTS, &[]);
    write(source.from.path().join("file"), b"new data");
    // The one that connects is the one that takes, and then the one that is connected to.
    for allow in ["allow-third-party = true", ""] {
        let site = Site::new(&format!("audit = \"audit.jsonl\"\n{allow}"));
        site.add("alice", &["in=write-only"]);
        let daemon = site.serve();
        let give = if allow.is_empty() { &source.source } else { &source.dest };
        write(source.to.path().join("file"), b"new data");
        let args = |name: &str| {
            let mut command = give.cp_command(["--dest-token-file"]);
            command.arg(site.path("alice")).arg(give.url("file")).arg(daemon.url(name));
            Running::start(&mut command).finish()
        };
        args("in/file").expect_code(0);
        assert_same_bytes(source.from.path().join("file"), site.path("in/file"));
        // Whichever it is, the daemon notes whose copy that was.
        let noted = || fs::read_to_string(site.path("audit.jsonl")).unwrap_or_default();
        wait_until("the copy is noted", || noted().contains("in/file"));
        let line: serde_json::Value = serde_json::from_str(noted().lines().next().unwrap()).unwrap();
        assert!(
            line["user"] == "alice" && line["direction"] == "in" && line["outcome"] == "copied",
            "{line}"
        );
        assert_eq!(line["bytes"], 8, "{line}");
        write(site.path("in/file"), b"old data, longer");
        assert_ne!(args("in/file").code, 0);
        assert_eq!(read(site.path("in/file")), b"old data, longer");
        assert_ne!(args("both/file").code, 0);
        assert_eq!(names(&site.path("both")), Vec::<String>::new());
    }
}

#[test]
fn an_interrupted_copy_goes_on_where_it_stopped() {
    const LEN: usize = 12_000_000;
    let daemons = Daemons::with_file(LEN);
    let part = || part_of(daemons.target());
    let begin = |n: u64| {
        let args = [daemons.source.url("file"), daemons.dest.url("file")];
        let copy = Running::start(&mut daemons.command(&args[0], &args[1], &["--rate=40mbit"]));
        wait_until("a part arrives", || part().exists() && disk_bytes(part()) > n * 2_000_000);
        copy
    };
    let copy = begin(1);
    copy.signal(Signal::INT);
    copy.finish().expect_code(130);
    wait_until("the file is let go of", || !daemons.dest.holds_part());
    // One that is killed says nothing.
    let copy = begin(2);
    copy.signal(Signal::KILL);
    copy.finish();
    let json = daemons.cp("file", "file", &[]).expect_code(0).json();
    daemons.assert_same_file();
    assert!(json["resumed_bytes"].as_u64().unwrap() > 2_000_000, "{json}");
}

#[test]
fn an_end_that_goes_away_ends_the_copy() {
    let mut daemons = Daemons::with_file(12_000_000);
    let target = daemons.target();
    let part = || part_of(&target);
    let args = [daemons.source.url("file"), daemons.dest.url("file")];
    let copy =
        Running::start(&mut daemons.command(&args[0], &args[1], &["--rate=20mbit", "--stall-timeout=3s"]));
    wait_until("a part arrives", || part().exists() && disk_bytes(part()) > 1_000_000);
    daemons.source.kill();
    let error = error_of(copy.finish());
    assert!(!error.is_empty());
    wait_until("the file is let go of", || !daemons.dest.holds_part());
}

#[test]
fn options_do_what_they_do_in_a_copy_of_one_side() {
    let Some(sshd) = Sshd::start() else { return };
    let daemons = Daemons::start(CONNECTS, &[]);
    let (from, to) = (daemons.from.path(), daemons.to.path());
    for name in ["a", "b.o", "sub/c"] {
        fs::create_dir_all(from.join("sub")).unwrap();
        write(from.join(name), name.as_bytes());
    }
    let list = folder();
    write(list.path().join("names"), b"a\n");
    // Which host is the client decides who acts on them.
    let ssh_source = format!("{HERE}{}/", from.display());
    let ssh = sshd.ssh("user");
    for source in [daemons.source.url(""), ssh_source] {
        let cp = |more: &[&str]| {
            let mut command = daemons.source.cp_command(["--ssh", &ssh]);
            command.args(more).arg(&source).arg(daemons.dest.url(""));
            Running::start(&mut command).finish().expect_code(0)
        };
        cp(&["--dry-run"]);
        assert_eq!(names(to), Vec::<String>::new());
        cp(&["--files-from", list.path().join("names").to_str().unwrap()]);
        assert_eq!(names(to), ["a"]);
        write(to.join("old"), b"old");
        let json =
            cp(&["--exclude=*.o", "--delete", "--fsync", "--transport=stripe", "--congestion=reno"]).json();
        assert_eq!(names(to), ["a", "sub/", "sub/c"]);
        assert!(json["removed"] == 1 && json["durable"] == true && json["transport"] == "stripe", "{json}");
        let json = cp(&["--checksum"]).json();
        assert_eq!(names(to), ["a", "b.o", "sub/", "sub/c"]);
        assert!(json["hash_verified"] == true && json["compared_bytes"].as_u64() > Some(0), "{json}");
        for name in ["a", "b.o", "sub/c"] {
            fs::remove_file(to.join(name)).unwrap();
        }
        fs::remove_dir(to.join("sub")).unwrap();
    }
}

#[test]
fn the_host_that_refuses_a_token_is_named() {
    let daemons = Daemons::with_file(10);
    let keys = folder();
    write(keys.path().join("token"), b"another token, long enough too");
    set_mode(keys.path().join("token"), 0o600);
    let other = keys.path().join("token");
    let error = error_of(daemons.cp("file", "file", &["--dest-token-file", other.to_str().unwrap()]));
    let named = |server: &Server| format!("{}: ", server.address());
    assert!(error.starts_with(&named(&daemons.dest)) && error.contains("token"), "{error}");
    let token = daemons.dest.token_file().to_str().unwrap();
    let mut command = longhaul();
    command.args(["cp", "--json", "--dest-token-file", token, "--token-file"]).arg(&other);
    command.args([daemons.source.url("file"), daemons.dest.url("file")]);
    let error = error_of(Running::start(&mut command).finish());
    assert!(error.starts_with(&named(&daemons.source)) && error.contains("token"), "{error}");
    assert!(!daemons.target().exists());
}

#[test]
fn what_makes_no_sense_is_refused() {
    let keys = folder();
    let token = crate::common::token_file(keys.path());
    let token = token.to_str().unwrap();
    let refused = |args: &[&str], says: &str| {
        let ended = run(["cp"].iter().chain(args)).expect_code(2);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    };
    refused(&["--transport=ssh", "a:x", "b:y"], "--via here");
    refused(&["--via=here", "--transport=object", "a:x", "b:y"], "leave out --transport");
    refused(&["--via=here", "--streams=2", "a:x", "b:y"], "leave out --transport");
    refused(&["--via=here", "x", "b:y"], "between two other hosts");
    refused(&["--via=there", "a:x", "b:y"], "here");
    refused(&["--dest-token-file", token, "a:x", "b:y"], "--dest-token-file");
    refused(&["--dest-token-file", token, "a:x", "y"], "--dest-token-file");
    refused(&["a:x", "longhaul://b/y"], "--token-file");
    refused(&["a:x", "z", "b:y"], "same host");
    refused(&["a:x", "c:z", "b:y"], "same host");
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let daemons = Daemons::with_file(10);
    let mut command = daemons.command(&daemons.source.url("file"), "longhaul://127.0.0.1:1/file", &[]);
    let error = error_of(Running::start(&mut command).finish());
    assert!(error.contains("cannot reach 127.0.0.1 port 1"), "{error}");
    let error = error_of(daemons.cp("no-file", "file", &[]));
    assert!(error.contains("no-file"), "{error}");
}

/// Hosts that are namespaces of their own: one side listens on its loopback alone.
#[test]
fn the_host_that_is_not_reached_is_the_one_that_connects() {
    let Some(_shared) = machine::wait() else { return };
    let (near, there) = (folder(), folder());
    write_noise(there.path().join("file"), 2_000_000, 1);
    let haul = Haul::start(&Scenario::new(100.0, 10.0), there.path());
    let hidden = |more: &[&str]| {
        let command = undisturbed(haul.lab.command(Side::Left, LONGHAUL));
        Server::start_with(command, near.path(), &[&["--listen", "127.0.0.1:0"], more].concat())
    };
    let (source, copy) = (haul.server.url("file"), near.path().join("file"));
    let pull = |server: &Server, more: &[&str]| {
        let args = [source.clone(), server.url("file")];
        haul.cp(args.iter().map(String::as_str).chain(["--why"]).chain(more.iter().copied()))
    };
    // It connects, if it may; the other one may not.
    let ended = pull(&hidden(CONNECTS), &[]).expect_code(0);
    assert_same_bytes(there.path().join("file"), &copy);
    assert!(ended.stderr.contains("connects to no host that a user names"), "{}", ended.stderr);
    fs::remove_file(&copy).unwrap();
    // UDP need not pass.
    haul.lab.block_udp(true);
    let json = pull(&hidden(CONNECTS), &[]).expect_code(0).json();
    assert_eq!(json["transport"], "stripe", "{json}");
    assert_same_bytes(there.path().join("file"), &copy);
    fs::remove_file(&copy).unwrap();
    // If it may not, there is a way by this host.
    let server = hidden(&[]);
    let error = error_of(pull(&server, &[]));
    assert!(error.contains("--via here"), "{error}");
    let json = pull(&server, &["--via=here"]).expect_code(0).json();
    assert_eq!((&json["relayed"], &json["transport"]), (&true.into(), &"ssh".into()), "{json}");
    assert_same_bytes(there.path().join("file"), &copy);
}

#[test]
fn a_key_that_is_good_for_one_folder_is_that_in_a_copy_between_two_others_too() {
    let top = folder();
    let (served, ssh) = (top.path().join("served"), top.path().join("ssh"));
    fs::create_dir(&served).unwrap();
    write(top.path().join("file"), b"data");
    // As sshd does with a command that is forced on a key, for the host to which it logs in as joe.
    let script = |more: &str| {
        format!(
            "export SSH_CONNECTION=\"127.0.0.1 1 127.0.0.1 22\" XDG_CACHE_HOME='{}'\n\
             case \"$1\" in joe@*) SSH_ORIGINAL_COMMAND=\"$2\" exec '{LONGHAUL}' agent --root '{}' {more};; esac\n\
             exec sh -c \"$2\"",
            top.path().join("cache").display(),
            served.display()
        )
    };
    let copy = |from: &str, to: &str| {
        let mut command = longhaul();
        command.args(["cp", "--json", "--why", "--ssh"]).arg(&ssh).args([from, to]);
        Running::start(&mut command).finish()
    };
    write_script(&ssh, &script(""));
    let outside = format!("{HERE}{}", top.path().join("file").display());
    copy(&outside, "joe@127.0.0.1:in").expect_code(0);
    assert_same_bytes(top.path().join("file"), served.join("in"));
    let back = format!("{HERE}{}", top.path().join("back").display());
    let ended = copy("joe@127.0.0.1:in", &back).expect_code(0);
    assert!(ended.stderr.contains("connects to no host that a user names"), "{}", ended.stderr);
    assert_same_bytes(top.path().join("file"), top.path().join("back"));
    // If it may it does.
    write_script(&ssh, &script("--allow-third-party"));
    let ended = copy("joe@127.0.0.1:in", &format!("{back}-2")).expect_code(0);
    assert!(!ended.stderr.contains("connects to no host"), "{}", ended.stderr);
    for path in ["../file", top.path().join("file").to_str().unwrap()] {
        assert_ne!(copy(&format!("joe@127.0.0.1:{path}"), &format!("{back}-3")).code, 0);
        assert!(!top.path().join("back-3").exists());
    }
}

#[test]
fn under_the_key_of_a_copy_the_other_end_does_that_copy_and_nothing_else() {
    let daemons = Daemons::with_file(10);
    let push = |dest: &str| Operation::Push { dest: dest.into() };
    let deletes = FileOptions { delete: true, ..resuming() };
    for (operation, files, third_party) in [
        (push("other"), resuming(), false),
        (Operation::Pull { sources: vec![b"".to_vec()] }, resuming(), false),
        (push("file"), deletes, false),
        (push("file"), resuming(), true),
    ] {
        // The test is the arranger, and the other end as well.
        let client = Client::arranger(&daemons.dest, "file").expect("it has the token");
        let end = client.control.open_pipe().unwrap();
        wait_until("it is ready", || {
            matches!(client.control.poll(), Some(Incoming::Message(Message::Ready(_))))
        });
        client.control.send(Message::BeServer(ServerPart { key: OneCopyKey([7; 32]), relayed: false }));
        let (way, stream) = (end.try_clone().unwrap(), stream(end));
        let offer = offer(operation, files, &[], third_party);
        let key = [7; 32].into();
        let met = thread::scope(|scope| {
            let met = scope.spawn(|| control::connect(stream, &key, &offer, Waker::new().unwrap()).map(drop));
            let refusal = client.hear_refusal();
            assert!(refusal.contains("not the copy that was arranged"), "{offer:?}: {refusal}");
            // Whether or not the other end has heard as much by then, its way is closed.
            way.shutdown(Shutdown::Both).unwrap();
            met.join().expect("no panic")
        });
        met.unwrap_err();
    }
    assert_eq!(names(daemons.to.path()), Vec::<String>::new());
}

/// A way to the other end, as a control stream.
fn stream(end: UnixStream) -> Stream {
    Stream {
        reader: Box::new(end.try_clone().unwrap()),
        writer: Box::new(end),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
        resumable: None,
        budget: Default::default(),
    }
}

#[test]
fn a_daemon_that_may_not_connect_does_not_for_who_says_that_the_data_goes_through_him() {
    let daemons = Daemons::start(&[], &[]);
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    let udp_port = elsewhere.local_addr().unwrap().port();
    let client = Client::arranger(&daemons.dest, "file").expect("it has the token");
    let end = client.control.open_pipe().unwrap();
    wait_until("it is ready", || matches!(client.control.poll(), Some(Incoming::Message(Message::Ready(_)))));
    let hosts = vec!["127.0.0.1".parse().unwrap()];
    client.control.send(Message::BeClient(Box::new(ClientPart {
        key: OneCopyKey([7; 32]),
        to: Whereabouts { hosts: hosts.clone(), name: None, port: udp_port },
        asks: Operation::Pull { sources: vec![b"x".to_vec()] },
        transport: Transport::Ssh,
    })));
    let accept = |_: &Offer, (): &()| Answer::Accept {
        aes: false,
        udp_secret: [5; 32],
        udp_port,
        udp_hosts: hosts.clone(),
        honours_ticket: false,
    };
    let find = |_| (ServerKey::from([7; 32]), Some(()));
    let (other, ..) = control::accept(stream(end), find, Waker::new().unwrap(), accept).unwrap();
    other.send(Message::Streams { wanted: 4 });
    wait_until("it says that there is no way", || {
        matches!(other.poll(), Some(Incoming::Message(Message::NoStreams(_))))
    });
    assert!(elsewhere.accept().is_err(), "nobody came");
}
