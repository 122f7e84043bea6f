//! Copies that go well: what arrives, where, and what is left alone.

use crate::common::Server;
use crate::common::tree::*;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::object::SelectorKind;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Push the content of `from` into `to` of the server, which must go well.
fn push(server: &Server, from: &Path, to: &str, more: &[&str]) -> serde_json::Value {
    let args = [inside(from), server.url(to).into()].into_iter().chain(more.iter().map(OsString::from));
    let json = server.cp(args).expect_code(0).json();
    assert_eq!(
        (&json["ok"], &json["error"], &json["files_failed"]),
        (&true.into(), &().into(), &0.into()),
        "{json}"
    );
    json
}

#[test]
fn one_file_goes_there_and_back() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("data"), 5_000_000, 1);
    set_mode(here.path().join("data"), 0o640);
    set_mtime(here.path().join("data"), 1_234_567_890, 123_456_789);
    let server = Server::start(there.path(), &[]);
    let to = [here.path().join("data").into_os_string(), server.url("data").into()];
    let json = server.cp(to).expect_code(0).json();
    assert_eq!((&json["files"], &json["bytes"]), (&1.into(), &5_000_000.into()));
    assert_eq!((&json["encrypted"], &json["hash_verified"]), (&true.into(), &true.into()));
    let back = [server.url("data").into(), here.path().join("back").into_os_string()];
    server.cp(back).expect_code(0);
    let all = snapshot(here.path());
    assert_eq!(all[Path::new("data")], all[Path::new("back")]);
    assert_eq!(snapshot(there.path())[Path::new("data")], all[Path::new("data")]);
}

#[test]
fn a_tree_goes_there_and_back() {
    let (here, there) = (folder(), folder());
    write_zoo(&here.path().join("zoo"));
    let server = Server::start(there.path(), &[]);
    let json = push(&server, &here.path().join("zoo"), "copy", &[]);
    assert_eq!(json["files"], 56);
    let original = snapshot(&here.path().join("zoo"));
    assert_eq!(snapshot(&there.path().join("copy")), original);
    server.cp([server.url("copy/").into(), here.path().join("back").into_os_string()]).expect_code(0);
    assert_eq!(snapshot(&here.path().join("back")), original);
}

#[test]
fn with_fsync_either_receiver_says_that_all_is_on_its_disk() {
    let (here, there) = (folder(), folder());
    write_zoo(&here.path().join("zoo"));
    let server = Server::start(there.path(), &[]);
    assert_eq!(push(&server, &here.path().join("zoo"), "copy", &[])["durable"], false);
    // What is there already counts too.
    for to in ["copy", "another/copy"] {
        assert_eq!(push(&server, &here.path().join("zoo"), to, &["--fsync"])["durable"], true);
    }
    let back = [server.url("copy/").into(), here.path().join("back").into_os_string(), "--fsync".into()];
    let ended = server.cp(back).expect_code(0);
    assert_eq!(ended.json()["durable"], true);
    assert!(ended.stderr.contains(", verified, on the disk"), "{}", ended.stderr);
    let original = snapshot(&here.path().join("zoo"));
    for copy in [there.path().join("copy"), there.path().join("another/copy"), here.path().join("back")] {
        assert_eq!(snapshot(&copy), original);
    }
}

#[test]
fn a_second_run_sends_nothing() {
    let (here, there) = (folder(), folder());
    write_zoo(here.path());
    let server = Server::start(there.path(), &[]);
    let first = push(&server, here.path(), "copy", &[]);
    let again = push(&server, here.path(), "copy", &[]);
    assert_eq!((&again["skipped_bytes"], &again["packets_sent"]), (&first["bytes"], &0.into()), "{again}");
    let pull = || {
        server
            .cp([server.url("copy/").into(), here.path().join("back").into_os_string()])
            .expect_code(0)
            .json()
    };
    let (first, again) = (pull(), pull());
    assert_eq!((&again["skipped_bytes"], &again["packets_sent"]), (&first["bytes"], &0.into()), "{again}");
}

#[test]
fn what_is_excluded_stays_behind() {
    let (here, there) = (folder(), folder());
    for path in ["keep", "a.tmp", "cache/x", "sub/b.tmp", "sub/keep"] {
        write(here.path().join(path), path);
    }
    let server = Server::start(there.path(), &[]);
    let patterns = ["--exclude", "*.tmp", "--exclude=cache/"];
    push(&server, here.path(), "copy", &patterns);
    assert_eq!(names(&there.path().join("copy")), ["keep", "sub/", "sub/keep"]);
    push(&server, here.path(), "full", &[]);
    let pull = [server.url("full/").into(), here.path().join("back").into_os_string()];
    server.cp(pull.into_iter().chain(patterns.map(OsString::from))).expect_code(0);
    assert_eq!(names(&here.path().join("back")), ["keep", "sub/", "sub/keep"]);
}

#[test]
fn a_dry_run_names_what_would_be_copied_and_removed_and_changes_nothing() {
    let (here, there) = (folder(), folder());
    for path in ["data/same", "data/sub/new", "copy/same", "copy/gone/deep", "copy/old"] {
        write(here.path().join(path), path.rsplit('/').next().unwrap());
        set_mtime(here.path().join(path), 1_000_000_000, 0);
    }
    fs::rename(here.path().join("copy"), there.path().join("copy")).unwrap();
    let before = [here.path(), there.path()].map(snapshot);
    let server = Server::start(there.path(), &[]);
    let flags = ["--dry-run", "--delete"].map(OsString::from);
    let push = [inside(&here.path().join("data")), server.url("copy").into()];
    let ended = server.cp(push.into_iter().chain(flags.clone())).expect_code(0);
    for line in ["would copy sub/new\n", "would remove gone\n", "would remove old\n", "2 to be removed"] {
        assert!(ended.stderr.contains(line), "{line}: {}", ended.stderr);
    }
    assert!(!ended.stderr.contains("same"), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!((&json["removed"], &json["packets_sent"]), (&2.into(), &0.into()), "{json}");
    assert_eq!((&json["hash_verified"], &json["goodput_mbps"]), (&false.into(), &0.0.into()), "{json}");
    let pull = [server.url("copy/").into(), inside(&here.path().join("data"))];
    let ended = server.cp(pull.into_iter().chain(flags)).expect_code(0);
    assert!(ended.stderr.contains("would copy gone/deep\n"), "{}", ended.stderr);
    assert!(ended.stderr.contains("would remove sub\n"), "{}", ended.stderr);
    assert_eq!(ended.json()["removed"], 1);
    assert_eq!([here.path(), there.path()].map(snapshot), before);
}

#[test]
fn deletions_that_are_put_off_are_told() {
    let (here, there) = (folder(), folder());
    write(here.path().join("data/new"), b"new");
    write(here.path().join("data/blocked"), b"a file where the other side has a folder");
    write(there.path().join("copy/blocked/full"), b"full");
    write(there.path().join("copy/old"), b"old");
    let server = Server::start(there.path(), &[]);
    for flags in [&["--delete", "--dry-run"][..], &["--delete"]] {
        let args = [inside(&here.path().join("data")), server.url("copy").into()];
        let ended = server.cp(args.into_iter().chain(flags.iter().map(OsString::from))).expect_code(1);
        assert!(ended.stderr.contains("warning: nothing is removed"), "{}", ended.stderr);
        assert_eq!(ended.json()["removed"], 0);
        assert!(there.path().join("copy/old").exists());
    }
}

#[test]
fn delete_removes_what_the_source_does_not_have() {
    let (here, there) = (folder(), folder());
    write(here.path().join("data/new"), b"new");
    for path in
        ["copy/old", "copy/gone/deep/file", "copy/half/gone", "copy/half/kept.log", "copy/kept.log", "beside"]
    {
        write(there.path().join(path), path);
    }
    let server = Server::start(there.path(), &[]);
    let json = push(&server, &here.path().join("data"), "copy", &["--delete", "--exclude=*.log"]);
    assert_eq!(json["removed"], 3, "{json}");
    let kept = ["beside", "copy/", "copy/half/", "copy/half/kept.log", "copy/kept.log", "copy/new"];
    assert_eq!(names(there.path()), kept);
    write(here.path().join("back/old"), b"old");
    let pull = [server.url("copy/").into(), here.path().join("back").into_os_string(), "--delete".into()];
    server.cp(pull).expect_code(0);
    assert_eq!(names(&here.path().join("back")), ["half/", "half/kept.log", "kept.log", "new"]);
}

/// Into an empty folder of somebody else's in which one may write.
#[test]
fn a_destination_of_somebody_else_is_no_failure() {
    let nobody = || {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", crate::common::LONGHAUL]);
        crate::common::undisturbed(command)
    };
    let can = nobody().arg("--version").output().is_ok_and(|output| output.status.success());
    if !can {
        crate::common::skip("the program cannot be run as somebody else here");
        return;
    }
    let (here, there) = (folder(), folder());
    write(there.path().join("data/file"), b"file");
    set_mode(there.path().join("data"), 0o755);
    let dest = here.path().join("mine");
    fs::create_dir(&dest).unwrap();
    set_mode(here.path(), 0o755);
    set_mode(&dest, 0o777);
    let server = Server::start(there.path(), &[]);
    let mut command = nobody();
    command.env("LONGHAUL_TOKEN", read(server.token_file()).trim_ascii().escape_ascii().to_string());
    command.args(["cp", "--json", &server.url("data/")]).arg(&dest);
    let ended = crate::common::Running::start(&mut command).finish().expect_code(0);
    assert!(
        ended.stderr.contains("warning: the destination folder keeps its permissions"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        (names(&dest), fs::metadata(&dest).unwrap().mode() & 0o777),
        (vec!["file".to_string()], 0o777)
    );
}

/// As in every home folder in which an agent runs.
#[test]
fn a_socket_in_the_tree_is_no_failure_and_holds_up_no_deletion() {
    let (here, there) = (folder(), folder());
    write(here.path().join("data/file"), b"file");
    let _agent = std::os::unix::net::UnixListener::bind(here.path().join("data/agent")).unwrap();
    write(there.path().join("copy/old"), b"old");
    let server = Server::start(there.path(), &[]);
    let args = [inside(&here.path().join("data")), server.url("copy").into(), "--delete".into()];
    let ended = server.cp(args).expect_code(0);
    assert!(ended.stderr.contains("warning: agent: not copied"), "{}", ended.stderr);
    assert_eq!(names(there.path()), ["copy/", "copy/file"]);
    // The same told by the other side.
    let server = Server::start(here.path(), &[]);
    let ended =
        server.cp([server.url("data").into(), there.path().join("pull").into_os_string()]).expect_code(0);
    assert!(ended.stderr.contains("warning: data/agent: not copied"), "{}", ended.stderr);
    assert_eq!(names(&there.path().join("pull")), ["data/", "data/file"]);
}

#[test]
fn an_existing_file_stays_whole_until_the_new_one_takes_its_place() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 4_000_000, 1);
    write_noise(there.path().join("file"), 3_000_000, 2);
    let (old, target) = (read(there.path().join("file")), there.path().join("file"));
    let inode = fs::metadata(&target).unwrap().ino();
    let server = Server::start(there.path(), &[]);
    let args = [here.path().join("file").into_os_string(), server.url("").into(), "--rate=30mbit".into()];
    let mut running = crate::common::Running::start(&mut server.cp_command(args));
    let mut seen_old = 0;
    while running.is_running() {
        // The file may be replaced between the two looks, and then is new.
        let bytes = read(&target);
        if bytes == old {
            seen_old += 1;
        } else {
            assert!(bytes == read(here.path().join("file")), "neither the old file nor the new one");
        }
        sleep(Duration::from_millis(5));
    }
    running.finish().expect_code(0);
    assert!(seen_old > 10, "looked only {seen_old} times");
    assert_ne!(fs::metadata(&target).unwrap().ino(), inode);
    assert_same_bytes(here.path().join("file"), &target);
    assert_eq!(names(there.path()), ["file"]);
}

#[test]
fn it_goes_over_ipv6_too() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        crate::common::skip("this host has no IPv6");
        return;
    }
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 3_000_000, 1);
    let server = Server::start_with(crate::common::longhaul(), there.path(), &["--listen", "[::1]:0"]);
    assert!(server.url("").starts_with("longhaul://[::1]:"));
    push(&server, here.path(), "", &[]);
    server.cp([server.url("file").into(), here.path().join("back").into_os_string()]).expect_code(0);
    assert_same_bytes(here.path().join("file"), here.path().join("back"));
}

#[test]
fn a_server_of_all_addresses_serves_ipv4_and_ipv6() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 100_000, 1);
    let server = Server::start_with(crate::common::longhaul(), there.path(), &["--listen", "[::]:0"]);
    let port = server.address().port();
    for (n, host) in ["127.0.0.1", "[::1]", "localhost"].iter().enumerate() {
        let url = format!("longhaul://{host}:{port}/{n}");
        let back = here.path().join(n.to_string()).into_os_string();
        for ends in [[here.path().join("file").into_os_string(), url.clone().into()], [url.into(), back]] {
            server.cp(ends.into_iter().chain(["--transport".into(), "object".into()])).expect_code(0);
        }
        assert_same_bytes(here.path().join("file"), there.path().join(n.to_string()));
        assert_same_bytes(here.path().join("file"), here.path().join(n.to_string()));
    }
}

#[test]
fn every_control_and_selector_delivers() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 1_000_000, 1);
    let server = Server::start(there.path(), &[]);
    let controls = ControllerKind::ALL.iter().map(|kind| vec!["--control", kind.name()]);
    let selects = SelectorKind::ALL.map(|kind| vec!["--select", kind.name()]);
    let both = ["adaptive", "greedy", "rbudp"].into_iter().flat_map(|control| {
        SelectorKind::ALL.map(|select| vec!["--control", control, "--select", select.name()])
    });
    let acks = ["rbudp", "udt"].map(|control| vec!["--control", control, "--ack-every", "4"]);
    for (n, mut flags) in controls.chain(selects).chain(both).chain(acks).enumerate() {
        flags.extend(["--rate", "200mbit"]);
        let to = n.to_string();
        let json = push(&server, here.path(), &to, &flags);
        assert_eq!(json["control"], if flags[0] == "--control" { flags[1] } else { "adaptive" });
        assert_same_bytes(here.path().join("file"), there.path().join(&to).join("file"));
    }
}

/// What the older file may have in common is claimed, and what it has not is sent, whatever chooses the next packet.
#[test]
fn every_selector_replaces_an_older_file() {
    let (here, there) = (folder(), folder());
    let mut bytes = noise(17_000_000, 1);
    fs::write(here.path().join("file"), &bytes).unwrap();
    let server = Server::start(there.path(), &[]);
    bytes[9_000_000..].fill(7);
    let selects = SelectorKind::ALL.map(|kind| vec!["--select", kind.name()]);
    for flags in selects.into_iter().chain([vec!["--control", "greedy"], vec!["--control", "rbudp"]]) {
        fs::write(there.path().join("file"), &bytes).unwrap();
        set_mtime(there.path().join("file"), 1000, 0);
        let flags = [flags, vec!["--rate", "500mbit", "--delta"]].concat();
        push(&server, here.path(), "", &flags);
        assert_same_bytes(here.path().join("file"), there.path().join("file"));
    }
}

#[test]
fn a_pull_is_controlled_as_a_push_is() {
    let (here, there) = (folder(), folder());
    write_noise(there.path().join("file"), 1_000_000, 1);
    let server = Server::start(there.path(), &[]);
    for control in ["rbudp", "sabul", "udt", "bbr"] {
        let to = here.path().join(control).into_os_string();
        let flags = ["--control", control, "--rate", "200mbit"].map(OsString::from);
        let json = server.cp([server.url("file").into(), to].into_iter().chain(flags)).expect_code(0).json();
        assert_eq!(json["control"], control);
        assert_same_bytes(there.path().join("file"), here.path().join(control));
    }
}

#[test]
fn packet_size_batch_and_acknowledgements_can_be_set() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 1_000_000, 1);
    let server = Server::start(there.path(), &[]);
    for (size, every, batch) in [(256, 1, 1), (1024, 16, 2), (1400, 1000, 64), (8000, 3, 7), (65_507, 64, 64)]
    {
        let flags = [
            format!("--packet-size={size}"),
            format!("--ack-every={every}"),
            format!("--batch={batch}"),
            "--rate=400mbit".into(),
        ];
        let to = size.to_string();
        let json = push(&server, here.path(), &to, &flags.each_ref().map(String::as_str));
        // 38 bytes of each datagram are not data; 28 of IP and UDP come on top.
        assert_eq!(json["packets_required"], 1_000_000u64.div_ceil(size - 38), "{json}");
        assert_eq!(json["path_mtu"], size + 28, "{json}");
        assert_same_bytes(here.path().join("file"), there.path().join(&to).join("file"));
    }
}

#[test]
fn a_rate_is_not_exceeded() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 10_000_000, 1);
    let server = Server::start(there.path(), &["--max-rate", "60mbit"]);
    for control in ["adaptive", "greedy", "fixed"] {
        let json = push(&server, here.path(), control, &["--rate=80mbit", "--control", control]);
        let mbps = json["goodput_mbps"].as_f64().unwrap();
        assert!(mbps < 80.0 * 1.15, "{control}: {json}");
    }
    // The server's own limit holds for what it sends.
    let json = server
        .cp([server.url("fixed/file").into(), here.path().join("back").into_os_string()])
        .expect_code(0)
        .json();
    assert!(json["goodput_mbps"].as_f64().unwrap() < 60.0 * 1.15, "{json}");
}

/// It is over before the number of streams is looked at for the first time.
#[test]
fn a_short_copy_over_tcp_tells_its_streams() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 100_000, 1);
    let server = Server::start(there.path(), &[]);
    let json = push(&server, here.path(), "", &["--transport=stripe", "--streams=2"]);
    assert_eq!(json["transport"], "stripe", "{json}");
    assert!((1..=2).contains(&json["streams"].as_u64().unwrap()), "{json}");
}

#[test]
fn a_short_patience_is_enough_for_a_live_copy() {
    let (here, there) = (folder(), folder());
    write_noise(here.path().join("file"), 30_000_000, 1);
    let server = Server::start(there.path(), &[]);
    push(&server, here.path(), "", &["--rate=80mbit", "--stall-timeout=1s"]);
    // Who is acknowledged only when he asks is not taken for dead meanwhile.
    push(&server, here.path(), "rounds", &["--control=rbudp", "--rate=80mbit", "--stall-timeout=1s"]);
    let back = [server.url("file").into(), here.path().join("back").into_os_string()];
    server
        .cp(back.into_iter().chain(["--rate=80mbit", "--stall-timeout=1s"].map(OsString::from)))
        .expect_code(0);
}

#[test]
fn twenty_copies_at_once_do_not_mix() {
    let (here, there) = (folder(), folder());
    for n in 0..20 {
        write_noise(here.path().join(n.to_string()), 300_000 + n * 1000, n as u64);
    }
    let server = Server::start(there.path(), &[]);
    let start = |n: usize| {
        let args = [here.path().join(n.to_string()).into_os_string(), server.url("").into()];
        crate::common::Running::start(&mut server.cp_command(args))
    };
    let running: Vec<_> = (0..20).map(start).collect();
    for copy in running {
        copy.finish().expect_code(0);
    }
    for n in 0..20 {
        assert_same_bytes(here.path().join(n.to_string()), there.path().join(n.to_string()));
    }
}
