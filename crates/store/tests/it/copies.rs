//! Copies into a bucket and out of it.

use crate::common::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::time::{Duration, UNIX_EPOCH};

const MIB: usize = 1 << 20;

#[test]
fn a_tree_goes_into_a_bucket_and_comes_back() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let tree = here.path().join("tree");
    write_noise(tree.join("sub/large"), 20 * MIB + 7, 1);
    write_noise(tree.join("sub/small"), 1000, 2);
    write(tree.join("sub/ünïcode and +%&?"), "odd");
    write(tree.join("none"), "");
    fs::create_dir(tree.join("empty")).unwrap();
    symlink("sub/small", tree.join("link")).unwrap();
    fs::set_permissions(tree.join("sub/small"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(tree.join("sub/large"), fs::Permissions::from_mode(0o600)).unwrap();
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    for name in ["sub/small", "sub/large", "none", "sub", "empty"] {
        fs::File::open(tree.join(name)).unwrap().set_modified(old).unwrap();
    }

    let first = daemon.copy([tree.as_os_str(), daemon.url("").as_ref()]);
    assert_eq!(
        (first["ok"].as_bool(), first["hash_verified"].as_bool()),
        (Some(true), Some(true)),
        "{first}"
    );
    let keys = ["empty/", "link", "none", "sub/", "sub/large", "sub/small", "sub/ünïcode and +%&?"];
    assert_eq!(gateway.keys("a/b/tree"), keys);
    assert_same_bytes(gateway.file("a/b/tree/sub/large"), tree.join("sub/large"));
    let mut parts = gateway.parts();
    parts.sort_unstable();
    assert_eq!(parts, [1, 2, 3], "20 MiB in parts of 8");

    let again = daemon.copy([tree.as_os_str(), daemon.url("").as_ref()]);
    assert_eq!(again["skipped_bytes"], 20 * MIB + 7 + 1000 + 3, "all is there: {again}");
    assert_eq!(gateway.parts().len(), 3);

    let back = here.path().join("back");
    daemon.copy([daemon.url("tree/").as_ref(), back.as_os_str()]);
    for name in ["sub/large", "sub/small", "sub/ünïcode and +%&?", "none", "sub", "empty"] {
        let of = |top: &std::path::Path| {
            let meta = fs::metadata(top.join(name)).unwrap();
            (meta.mode(), meta.mtime(), meta.mtime_nsec(), meta.is_dir())
        };
        assert_eq!(of(&back), of(&tree), "{name}");
        if !fs::metadata(tree.join(name)).unwrap().is_dir() {
            assert_same_bytes(back.join(name), tree.join(name));
        }
    }
    assert_eq!(fs::read_link(back.join("link")).unwrap().to_str(), Some("sub/small"));
}

#[test]
fn what_the_source_has_not_is_removed_only_when_asked_for() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let tree = here.path().join("tree");
    for name in ["a", "b", "gone/c", "gone/deeper/d"] {
        write(tree.join(name), name);
    }
    let to = daemon.url("tree/");
    let source = inside(&tree);
    daemon.copy([source.as_os_str(), to.as_ref()]);
    fs::remove_dir_all(tree.join("gone")).unwrap();
    write(tree.join("b"), "another b");
    let all = ["a", "b", "gone/", "gone/c", "gone/deeper/", "gone/deeper/d"];

    daemon.copy(["--delete".as_ref(), "--dry-run".as_ref(), source.as_os_str(), to.as_ref()]);
    assert_eq!(gateway.keys("a/b/tree"), all, "a dry run");
    assert_eq!(fs::read(gateway.file("a/b/tree/b")).unwrap(), b"b");

    let removed = daemon.copy(["--delete".as_ref(), source.as_os_str(), to.as_ref()]);
    assert_eq!(gateway.keys("a/b/tree"), ["a", "b"], "{removed}");
    assert_eq!(fs::read(gateway.file("a/b/tree/b")).unwrap(), b"another b");
}

#[test]
fn a_stream_of_unknown_length_becomes_an_object() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    write_noise(here.path().join("file"), 11 * MIB, 4);
    let mut command = daemon.cp(["-", &daemon.url("stream")]);
    command.stdin(fs::File::open(here.path().join("file")).unwrap());
    Running::start(&mut command).finish().expect_code(0);
    assert_same_bytes(gateway.file("a/b/stream"), here.path().join("file"));
}

#[test]
fn a_killed_daemon_goes_on_without_the_parts_that_are_stored() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let file = here.path().join("file");
    write_noise(&file, 60 * MIB, 5);
    let copy = Running::start(&mut daemon.cp(["--rate", "100mbit", file.to_str().unwrap(), &daemon.url("")]));
    wait_until("three parts are stored", || gateway.parts().len() >= 3);
    daemon.kill();
    copy.finish().expect_code(1);
    assert_eq!(gateway.keys("a/b"), [""; 0], "nothing has its name yet");
    let before = gateway.parts();

    let daemon = Daemon::start(&gateway, state.path()).expect("it could before");
    let rest = daemon.copy([file.as_os_str(), daemon.url("").as_ref()]);
    assert!(rest["resumed_bytes"].as_u64().unwrap() >= 2 * 8 * MIB as u64, "{rest}");
    assert_same_bytes(gateway.file("a/b/file"), &file);
    // One that was stored and not noted here goes once more; what was noted does not.
    let twice = gateway.parts()[before.len()..].iter().filter(|part| before.contains(part)).count();
    assert!(twice <= 1, "{before:?}, then {:?}", &gateway.parts()[before.len()..]);
}

#[test]
fn a_hard_link_is_refused_with_what_to_do_and_all_else_arrives() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let tree = here.path().join("tree");
    write_noise(tree.join("first"), 3000, 1);
    fs::hard_link(tree.join("first"), tree.join("second")).unwrap();
    let copy = |more: &[&str]| {
        let places = [tree.to_str().unwrap().to_owned(), daemon.url("")];
        Running::start(&mut daemon.cp(more.iter().map(|flag| flag.to_string()).chain(places))).finish()
    };
    let ended = copy(&["-H"]).expect_code(1);
    assert!(ended.stderr.contains("copy it without -H"), "{}", ended.stderr);
    assert_eq!(gateway.keys("a/b/tree"), ["first"]);
    copy(&[]).expect_code(0);
    assert_eq!(gateway.keys("a/b/tree"), ["first", "second"]);
}

#[test]
fn a_file_that_comes_in_pieces_is_refused_with_what_to_do() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let [file, run] = ["file", "run"].map(|name| here.path().join(name).to_str().unwrap().to_owned());
    write_noise(&file, 4 * MIB, 1);
    let mut plan = longhaul();
    plan.args(["plan", "--parts=2", "--align=1MiB", "-o", &run, &file, &daemon.url("in/")]);
    Running::start(&mut plan).finish().expect_code(0);
    let ended = Running::start(&mut daemon.cp(["--plan", &run, "--part=0"])).finish().expect_code(1);
    assert!(ended.stderr.contains("plan it in parts that hold it whole"), "{}", ended.stderr);
    assert_eq!(gateway.keys("a/b/in"), Vec::<String>::new());
}

#[test]
fn a_store_that_is_away_for_a_while_delays_a_copy() {
    let Some(mut gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let file = here.path().join("file");
    write_noise(&file, 30 * MIB, 6);
    let copy = Running::start(&mut daemon.cp(["--rate", "100mbit", file.to_str().unwrap(), &daemon.url("")]));
    wait_until("a part is stored", || !gateway.parts().is_empty());
    gateway.stop();
    // Those that are on their way fail at once and wait for their second attempt.
    std::thread::sleep(Duration::from_millis(500));
    gateway.restart();
    daemon.await_success(copy);
    assert_same_bytes(gateway.file("a/b/file"), &file);
}
