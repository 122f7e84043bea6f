//! Copies over a real OpenSSH, to a host (this one) where the program is not installed.

use crate::common::sshd::{Sshd, far};
use crate::common::tree::*;
use crate::common::{LONGHAUL, Running, error_of, longhaul};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

#[test]
fn the_program_is_put_there_once_and_copies_both_ways() {
    let Some(sshd) = Sshd::start() else { return };
    let (here, there) = (folder(), folder());
    write_zoo(&here.path().join("zoo"));
    let source = inside(&here.path().join("zoo"));
    let ended = sshd.cp(&[source, far(&there.path().join("copy"))]).expect_code(0);
    assert!(ended.stderr.contains("into the cache of 127.0.0.1"), "{}", ended.stderr);
    let original = snapshot(&here.path().join("zoo"));
    assert_eq!(snapshot(&there.path().join("copy")), original);
    let deployed = sshd.deployed();
    assert_eq!(deployed.len(), 1, "{deployed:?}");
    let mut source = far(&there.path().join("copy"));
    source.push("/");
    let ended = sshd.cp(&[source, here.path().join("back").into()]).expect_code(0);
    assert!(!ended.stderr.contains("into the cache"), "it is there already: {}", ended.stderr);
    assert_eq!(snapshot(&here.path().join("back")), original);
    assert_eq!(sshd.deployed(), deployed);
}

#[test]
fn a_login_that_ssh_keeps_serves_the_next_copies() {
    let Some(sshd) = Sshd::start() else { return };
    let (there, socket) = (folder(), sshd.path("kept"));
    let ssh = format!(
        "{} -o ControlMaster=auto -o ControlPersist=60 -o ControlPath={}",
        sshd.ssh("user"),
        socket.display()
    );
    // One that begins it, two that use it.
    for n in 0..3 {
        let file = there.path().join(format!("file-{n}"));
        sshd.cp_with(&ssh, &["/etc/hostname".into(), far(&file)]).expect_code(0);
        assert_same_bytes("/etc/hostname", file);
    }
    let log = fs::read_to_string(sshd.path("log")).unwrap();
    assert_eq!(log.matches("Accepted publickey").count(), 1, "{log}");
    let mut end = Command::new("ssh");
    end.args(["-F", "none", "-O", "exit", "-S"]).arg(socket).arg("127.0.0.1");
    assert!(end.output().unwrap().status.success());
}

#[test]
fn no_deploy_puts_nothing_there() {
    let Some(sshd) = Sshd::start() else { return };
    let there = folder();
    let copy = |more: &[&str]| {
        let args = [OsString::from("/etc/hostname"), far(&there.path().join("file"))];
        sshd.cp(&args.into_iter().chain(more.iter().map(OsString::from)).collect::<Vec<_>>())
    };
    let error = error_of(copy(&["--no-deploy"]));
    assert!(error.contains("127.0.0.1 has no longhaul") && error.contains("install it there"), "{error}");
    assert_eq!((sshd.deployed(), names(there.path())), (vec![], vec![]));
    // Once it is in the cache, nothing need be put there.
    copy(&[]).expect_code(0);
    copy(&["--no-deploy"]).expect_code(0);
}

#[test]
fn what_goes_wrong_there_is_told_once() {
    let Some(sshd) = Sshd::start() else { return };
    let (here, there) = (folder(), folder());
    let missing = far(&there.path().join("missing"));
    let ended = sshd.cp(&[missing, here.path().into()]).expect_code(1);
    assert_eq!(ended.stderr.matches("no such file or folder").count(), 1, "{}", ended.stderr);
}

#[test]
fn a_program_installed_there_is_used() {
    let Some(sshd) = Sshd::start() else { return };
    let there = folder();
    fs::create_dir(sshd.path("bin")).unwrap();
    symlink(LONGHAUL, sshd.path("bin/longhaul")).unwrap();
    let ended = sshd.cp(&["/etc/hostname".into(), far(&there.path().join("file"))]).expect_code(0);
    assert!(ended.stderr.contains("has this release of longhaul"), "{}", ended.stderr);
    assert_eq!(sshd.deployed(), Vec::<String>::new());
}

#[test]
fn a_tilde_is_the_home_folder_over_there() {
    // What stands in for ssh logs in at a home folder of the test's, where longhaul is installed.
    let folder = folder();
    let (here, home) = (folder.path().join("here"), folder.path().join("home"));
    fs::create_dir_all(home.join("bin")).unwrap();
    symlink(LONGHAUL, home.join("bin/longhaul")).unwrap();
    let script = format!("cd '{}' && PATH=\"$PWD/bin:$PATH\" exec sh -c \"$2\"", home.display());
    write(here.join("file"), b"data");
    write_script(here.join("ssh"), &script);
    let cp = |from: &OsString, to: &OsString| {
        let mut command = longhaul();
        command.args(["cp", "--ssh"]).arg(here.join("ssh")).args([from, to]);
        Running::start(&mut command).finish().expect_code(0)
    };
    cp(&here.join("file").into(), &"127.0.0.1:~/data/".into());
    assert_same_bytes(here.join("file"), home.join("data/file"));
    cp(&"127.0.0.1:~/data/file".into(), &here.join("back").into());
    assert_same_bytes(here.join("file"), here.join("back"));
}

#[test]
fn a_far_side_that_begins_and_then_ends_is_named() {
    // What stands in for ssh says what the script would, and is gone.
    let folder = folder();
    let ssh = folder.path().join("ssh");
    write_script(&ssh, "echo ready\nhead -c 32 >/dev/null");
    let mut command = longhaul();
    command.args(["cp", "--json", "--ssh"]).arg(&ssh).args(["/etc/hostname", "far:file"]);
    let error = error_of(Running::start(&mut command).finish());
    assert!(error.contains("on far") && error.contains("install longhaul"), "{error}");
    assert!(!error.contains("longhaul serve") && !error.contains("port"), "{error}");
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let Some(sshd) = Sshd::start() else { return };
    let there = folder();
    write(sshd.path("cache"), b"a file where a folder should be");
    let error = error_of(sshd.cp(&["/etc/hostname".into(), far(&there.path().join("file"))]));
    assert!(error.contains("cannot put longhaul into") && error.contains("cache"), "{error}");
    assert_eq!(names(there.path()), Vec::<String>::new());
}

#[test]
fn a_login_that_fails_is_named() {
    let Some(sshd) = Sshd::start() else { return };
    let there = folder();
    let args = ["/etc/hostname".into(), far(&there.path().join("file"))];
    let error = error_of(sshd.cp_with(&sshd.ssh("stranger"), &args));
    assert!(error.contains("log in") && error.contains("ssh 127.0.0.1"), "{error}");
    let error = error_of(sshd.cp_with("no-such-program-as-ssh", &args));
    assert!(error.contains("no-such-program-as-ssh") && error.contains("--ssh"), "{error}");
    let error = error_of(sshd.cp_with("false", &args));
    assert!(error.contains("127.0.0.1"), "{error}");
}

#[test]
fn ports_are_obeyed_and_a_taken_one_is_named() {
    let Some(sshd) = Sshd::start() else { return };
    let there = folder();
    let copy = |port: u16| {
        let args = [
            "/etc/hostname".into(),
            far(&there.path().join("file")),
            "--ports".into(),
            port.to_string().into(),
        ];
        sshd.cp(&args)
    };
    let is_obeyed = |_| {
        let taken = std::net::UdpSocket::bind("[::]:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = error_of(copy(port));
        assert!(error.contains(&port.to_string()) && error.contains("--ports"), "{error}");
        drop(taken);
        copy(port).code == 0
    };
    // Another test may take the port in between.
    assert!((0..5).any(is_obeyed));
}

#[test]
fn a_far_side_that_dies_leaves_all_resumable() {
    let Some(sshd) = Sshd::start() else { return };
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 40_000_000, 1);
    let args = [here.path().join("file").into_os_string(), far(&there.path().join("file"))];
    let mut command = longhaul();
    command.args(["cp", "--json", "--rate=100mbit", "--ssh", &sshd.ssh("user")]).args(&args);
    let copy = Running::start(&mut command);
    let part = || part_of(there.path().join("file"));
    crate::common::wait_until("a part arrives", || part().exists() && disk_bytes(part()) > 15_000_000);
    sshd.break_sessions();
    let error = error_of(copy.finish());
    assert!(error.contains("run the same command again"), "{error}");
    let json = sshd.cp(&args).expect_code(0).json();
    assert_same_bytes(here.path().join("file"), there.path().join("file"));
    assert!(json["resumed_bytes"].as_u64().unwrap() > 13_000_000, "{json}");
}

#[test]
fn data_goes_inside_ssh_or_over_tcp_where_asked_to() {
    let Some(sshd) = Sshd::start() else { return };
    let (here, there) = (folder(), folder());
    write_zoo(&here.path().join("zoo"));
    write_noise(here.path().join("zoo/big"), 30_000_000, 9);
    let original = snapshot(&here.path().join("zoo"));
    for transport in ["ssh", "stripe"] {
        let option = OsString::from(format!("--transport={transport}"));
        let source = inside(&here.path().join("zoo"));
        let to = there.path().join(transport);
        let json = sshd.cp(&[source, far(&to), option.clone()]).expect_code(0).json();
        assert_eq!(json["transport"], transport, "{json}");
        assert_eq!(snapshot(&to), original);
        let mut source = far(&to);
        source.push("/");
        let back = here.path().join(transport);
        let json = sshd.cp(&[source, back.clone().into(), option]).expect_code(0).json();
        assert_eq!(json["transport"], transport, "{json}");
        assert_eq!(snapshot(&back), original);
    }
}

#[test]
fn a_key_may_be_good_for_copies_of_one_folder_alone() {
    let Some(sshd) = Sshd::start() else { return };
    let (here, there) = (folder(), folder());
    write(there.path().join("set/a"), b"a");
    write(here.path().join("b"), b"b");
    symlink("/etc", there.path().join("out")).unwrap();
    let key = fs::read_to_string(sshd.path("user.pub")).unwrap();
    let force = |more: &str| {
        let agent = format!("{LONGHAUL} agent --root {} {more}", there.path().display());
        write(sshd.path("authorized"), format!("restrict,command=\"{agent}\" {key}"));
    };
    let (to, from) = (OsString::from("127.0.0.1:new/"), here.path().join("b").into_os_string());
    force("--read-only");
    let ended = sshd.cp(&["127.0.0.1:/set".into(), here.path().into()]).expect_code(0);
    assert!(!ended.stderr.contains("into the cache"), "{}", ended.stderr);
    assert_same_bytes(there.path().join("set/a"), here.path().join("set/a"));
    for outside in ["127.0.0.1:../x", "127.0.0.1:out/hostname", "127.0.0.1:/etc/hostname"] {
        error_of(sshd.cp(&[outside.into(), here.path().join("no").into()]));
    }
    assert!(!here.path().join("no").exists());
    let error = error_of(sshd.cp(&[from.clone(), to.clone()]));
    assert!(error.contains("read-only"), "{error}");
    force("--write-only");
    sshd.cp(&[from.clone(), to.clone()]).expect_code(0);
    assert_same_bytes(here.path().join("b"), there.path().join("new/b"));
    sshd.cp(&[from, to]).expect_code(1);
    let error = error_of(sshd.cp(&["127.0.0.1:new/b".into(), here.path().join("no").into()]));
    assert!(error.contains("write-only"), "{error}");
    // The key is good for nothing else.
    let ssh = sshd.ssh("user");
    let mut words = ssh.split(' ');
    let mut login = Command::new(words.next().unwrap());
    let output = login.args(words).args(["127.0.0.1", "cat", "/etc/hostname"]).output().unwrap();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("for copies with `longhaul cp` alone"));
    assert_eq!(sshd.deployed(), Vec::<String>::new());
}
