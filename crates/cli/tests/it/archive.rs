//! Copies that keep all that can be kept, held against what rsync finds to differ.

use crate::common::rich::*;
use crate::common::sshd::{Sshd, far};
use crate::common::tree::*;
use crate::common::{Running, Server, longhaul, skip, wait_until};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::process::Signal;
use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// A tree that has everything; some of it only where root makes it.
fn write_archive(top: &Path, privileged: bool) {
    write_noise(top.join("large"), 3_500_000, 1);
    write_noise(top.join("bin/tool"), 5000, 2);
    write(top.join("empty"), b"");
    write_sparse(top.join("sparse"), 40 << 20, &[(5 << 20, &noise(9000, 3)), (30 << 20, b"end")]);
    for n in 0..40 {
        write_noise(top.join(format!("many/{n:02}")), n * 97, n as u64);
    }
    symlink("bin/tool", top.join("link")).unwrap();
    // Other names come before their files and after them, in other folders and in the same.
    link(&top.join("large"), &top.join("bin/also-large"));
    link(&top.join("many/07"), &top.join("again"));
    link(&top.join("many/07"), &top.join("many/zz"));
    link(&top.join("link"), &top.join("many/link"));
    let node = |name: &str, kind, device| mknodat(CWD, top.join(name), kind, Mode::RUSR, device).unwrap();
    node("pipe", FileType::Fifo, 0);
    node("socket", FileType::Socket, 0);
    link(&top.join("pipe"), &top.join("many/pipe"));
    fs::create_dir(top.join("shared")).unwrap();
    set_xattr(&top.join("shared"), DEFAULT, &acl(7, 5));
    write(top.join("shared/inherits"), b"has an ACL of its own");
    write(top.join("shared/has-none"), b"has none");
    strip(&top.join("shared/has-none"));
    fs::create_dir_all(top.join("shared/below/deeper")).unwrap();
    set_xattr(&top.join("large"), ACCESS, &acl(6, 4));
    set_xattr(&top.join("large"), "user.origin", b"the instrument");
    set_xattr(&top.join("many"), "user.folder", &noise(3000, 9));
    if privileged {
        node("null", FileType::CharacterDevice, makedev(1, 3));
        node("disk", FileType::BlockDevice, makedev(7, 0));
        for (n, path) in
            ["large", "link", "pipe", "null", "many/20", "shared/below", "empty"].iter().enumerate()
        {
            give(&top.join(path), 4000 + n as u32, 5000 + n as u32);
        }
        give(&top.join("many/21"), 1, 2);
        set_xattr(&top.join("bin/tool"), "security.capability", &CAPABILITY);
        set_xattr(&top.join("many/03"), "trusted.mark", b"t");
        set_xattr(&top.join("link"), "trusted.link", b"l");
    }
    set_mode(top.join("many/20"), 0o6755);
    set_mode(top.join("bin"), 0o2755);
    set_mode(top.join("shared/below"), 0o1777);
    set_mode(top.join("many/22"), 0o400);
    set_mode(top.join("shared/below/deeper"), 0o500);
    let times =
        ["large", "link", "empty", "pipe", "many/20", "many/22", "shared/below/deeper", "shared/below"];
    for (n, path) in times.iter().chain(&["shared", "many", "bin", ""]).enumerate() {
        set_mtime(top.join(path), 1_000_000_000 + n as i64, 123_456_789);
    }
}

/// What rsync would change at a destination to make it the same as a source.
fn differences(from: &Path, to: &Path) -> String {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHAXni", "--delete"]).arg(inside(from)).arg(inside(to));
    let found = rsync.output().expect("rsync can be run");
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    String::from_utf8_lossy(&found.stdout).into_owned()
}

/// A source with everything and a folder for its copies, if they can be made here.
fn prepared() -> Option<tempfile::TempDir> {
    if Command::new("rsync").arg("--version").output().is_err() {
        skip("no rsync here to compare with");
        return None;
    }
    let folder = rich_folder()?;
    write_archive(&folder.path().join("from"), is_root());
    Some(folder)
}

/// Rsync finds nothing to do, and knows how to find something.
fn assert_same(from: &Path, to: &Path) {
    assert_eq!(differences(from, to), "");
    assert_eq!(portraits(from), portraits(to));
}

#[test]
fn rsync_finds_no_difference_after_a_push_to_a_server() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    let server = Server::start(&to, &["--allow-super"]);
    for round in 0..2 {
        let ended = server.cp([&"-a".into(), &inside(&from), &server.url("copy").into()]).expect_code(0);
        assert_same(&from, &to.join("copy"));
        assert!(!ended.stderr.contains("not kept"), "{}", ended.stderr);
        if round == 1 {
            assert_eq!(ended.json()["packets_sent"], 0);
        }
    }
    // What was changed there is put right, and nothing else is touched.
    let copy = to.join("copy");
    strip(&copy.join("large"));
    fs::remove_file(copy.join("again")).unwrap();
    write(copy.join("again"), b"another file");
    set_xattr(&copy.join("many/04"), "user.more", b"");
    set_mode(copy.join("many/20"), 0o600);
    assert!(differences(&from, &copy).lines().count() >= 4);
    let before = changes(&copy);
    server.cp([&"-a".into(), &inside(&from), &server.url("copy").into()]).expect_code(0);
    assert_same(&from, &copy);
    let after = changes(&copy);
    let changed: Vec<_> = after
        .iter()
        .filter(|(path, at)| before[*path] != **at)
        .map(|(path, _)| path.to_str().unwrap())
        .collect();
    // These have several names.
    let names = ["again", "bin/also-large", "large", "many/04", "many/07", "many/20", "many/zz"];
    assert_eq!(changed, names);
}

#[test]
fn rsync_finds_no_difference_after_a_kill_and_the_same_copy_again() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    let server = Server::start(&to, &["--allow-super"]);
    let args = |more: &[&str]| -> Vec<OsString> {
        let places = [inside(&from), server.url("copy").into()];
        ["-a"].iter().chain(more).map(OsString::from).chain(places).collect()
    };
    for signal in [Signal::KILL, Signal::INT] {
        // Far slower than its lines come, each of which takes a second: what is left for the second copy must take several.
        let mut copy = Running::start(&mut server.cp_command(args(&["--rate=2mbit", "--json=lines"])));
        wait_until("a part of the large file has come", || {
            let done =
                |line| Some(serde_json::from_str::<Value>(line).ok()?["bytes_done"].as_u64()? > 400_000);
            let has_come = copy.said()[0].lines().any(|line| done(line) == Some(true));
            assert!(has_come || copy.is_running(), "it ended before");
            has_come
        });
        copy.signal(signal);
        copy.finish();
    }
    let ended = server.cp(args(&[])).expect_code(0);
    assert!(ended.json()["resumed_bytes"].as_u64() > Some(0), "{}", ended.stdout);
    assert_same(&from, &to.join("copy"));
}

#[test]
fn rsync_finds_no_difference_after_names_were_removed_and_others_given() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    let server = Server::start(&to, &["--allow-super"]);
    let copy = || server.cp([&"-a".into(), &"--delete".into(), &inside(&from), &server.url("copy").into()]);
    copy().expect_code(0);
    // Of three names one stays; another file takes the place of one; one moves; a file gets a second one.
    fs::remove_file(from.join("many/zz")).unwrap();
    fs::remove_file(from.join("again")).unwrap();
    write(from.join("again"), b"another file");
    fs::rename(from.join("bin/also-large"), from.join("many/large")).unwrap();
    link(&from.join("many/09"), &from.join("bin/nine"));
    link(&to.join("copy/large"), &to.join("copy/stray"));
    assert_eq!(copy().expect_code(0).json()["removed"], 3);
    assert_same(&from, &to.join("copy"));
}

#[test]
fn rsync_finds_no_difference_after_a_pull_from_a_server() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let server = Server::start(folder.path(), &["--read-only", "--allow-super"]);
    for _ in 0..2 {
        server.cp([&"-a".into(), &server.url("from/").into(), &to.clone().into_os_string()]).expect_code(0);
        assert_same(&from, &to);
    }
}

#[test]
fn rsync_finds_no_difference_after_copies_over_ssh() {
    let (Some(folder), Some(sshd)) = (prepared(), Sshd::start()) else { return };
    let (from, to, back) = (folder.path().join("from"), folder.path().join("to"), folder.path().join("back"));
    sshd.cp(&["-a".into(), inside(&from), far(&to)]).expect_code(0);
    assert_same(&from, &to);
    let source = far(&to.join(""));
    sshd.cp(&[
        "-HXA".into(),
        "--owner".into(),
        "--group".into(),
        "--devices".into(),
        "--specials".into(),
        source,
        back.clone().into(),
    ])
    .expect_code(0);
    assert_same(&from, &back);
}

#[test]
fn rsync_finds_no_difference_after_a_copy_between_two_servers() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    // Which of them connects to the other is theirs to find out.
    let allowed = ["--allow-super", "--allow-third-party"];
    let (source, dest) = (Server::start(&from, &allowed), Server::start(&to, &allowed));
    for via in [&[][..], &["--via=here"]] {
        let mut command = source.cp_command(["-a", "--dest-token-file"]);
        command.arg(dest.token_file()).args(via).arg(source.url("")).arg(dest.url("copy"));
        let ended = Running::start(&mut command).finish().expect_code(0);
        assert!(!ended.stderr.contains("--allow-super"), "{}", ended.stderr);
        assert_same(&from, &to.join("copy"));
        fs::remove_dir_all(to.join("copy")).unwrap();
    }
}

#[test]
fn the_last_step_of_a_planned_copy_makes_names_that_cross_its_parts() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    let server = Server::start(&to, &["--allow-super"]);
    let run = |args: &[&str]| {
        let mut command = longhaul();
        command.args(args).current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.env("LONGHAUL_TOKEN", fs::read_to_string(server.token_file()).unwrap().trim());
        Running::start(&mut command).finish().expect_code(0)
    };
    let planned = run(&[
        "plan",
        "--json",
        "-a",
        "--align=1MiB",
        "--parts=5",
        "-o",
        "run",
        "from/",
        &server.url("copy"),
    ]);
    let parts = planned.json()["parts"].as_u64().unwrap();
    assert!(parts > 2, "{parts}");
    for part in (0..parts).rev() {
        run(&["cp", "--json", "--plan", "run", "--part", &part.to_string()]);
    }
    assert!(!to.join("copy/bin/also-large").exists());
    for _ in 0..2 {
        run(&["finish", "--json", "run"]);
        assert_same(&from, &to.join("copy"));
    }
}

#[test]
fn a_server_that_is_not_allowed_to_keeps_what_takes_no_privileges_and_says_so() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    fs::create_dir(&to).unwrap();
    let server = Server::start(&to, &[]);
    let ended = server.cp([&"-a".into(), &inside(&from), &server.url("copy").into()]).expect_code(0);
    assert!(ended.stderr.contains("--allow-super"), "{}", ended.stderr);
    let (source, copy) = (portraits(&from), portraits(&to.join("copy")));
    for (path, portrait) in &source {
        let kind = portrait.mode & 0o170_000;
        let is_node = ![0o100_000, 0o040_000, 0o120_000].contains(&kind);
        let Some(there) = copy.get(path) else {
            assert!(is_node, "{path:?}");
            continue;
        };
        assert!(!is_node && there.mode & 0o7000 == 0, "{path:?}");
        assert_eq!((&there.data, &there.first_name), (&portrait.data, &portrait.first_name), "{path:?}");
        let kept: Vec<_> = portrait.xattrs.iter().filter(|(name, _)| is_users(name)).collect();
        assert_eq!(there.xattrs.iter().collect::<Vec<_>>(), kept, "{path:?}");
    }
}

#[test]
fn a_server_tells_owners_and_devices_without_being_allowed_to_keep_them() {
    let Some(folder) = prepared() else { return };
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    let server = Server::start(&from, &["--read-only"]);
    let ended =
        server.cp([&"-a".into(), &server.url("").into(), &to.clone().into_os_string()]).expect_code(0);
    assert!(ended.stderr.contains("no attributes of the system"), "{}", ended.stderr);
    let told = portraits(&to);
    for (path, mut portrait) in portraits(&from) {
        portrait.xattrs.retain(|name, _| is_users(name));
        assert_eq!(told.get(&path), Some(&portrait), "{path:?}");
    }
}

/// Whether anybody may set such an attribute of what is his.
fn is_users(name: &[u8]) -> bool {
    !name.starts_with(b"trusted.") && !name.starts_with(b"security.")
}
