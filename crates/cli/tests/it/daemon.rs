//! A daemon with a configuration: users, folders, limits, records.

use crate::common::site::{Daemon, Site};
use crate::common::tree::*;
use crate::common::{PATIENCE, Running, error_of, longhaul, run, wait_until};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn each_user_has_folders_and_modes_of_its_own() {
    let site = Site::new("");
    site.add("alice", &["data=read-only", "in=write-only"]);
    site.add("bob", &["both=read-write"]);
    let daemon = site.serve();
    let (alice, bob, here) = (site.path("alice"), site.path("bob"), folder());
    write(site.path("data/set/a"), b"a");
    write(here.path().join("b"), b"b");
    let b = here.path().join("b").into_os_string();
    daemon.cp(&alice, &[daemon.url("data/set"), here.path().into()]).expect_code(0);
    assert_same_bytes(site.path("data/set/a"), here.path().join("set/a"));
    daemon.cp(&alice, &[b.clone(), daemon.url("in/x/")]).expect_code(0);
    assert_same_bytes(here.path().join("b"), site.path("in/x/b"));
    daemon.cp(&bob, &[b.clone(), daemon.url("both")]).expect_code(0);
    daemon.cp(&bob, &[daemon.url("both/b"), here.path().join("back").into()]).expect_code(0);
    let refused = |token: &Path, from: OsString, to: OsString, says: &str| {
        let error = error_of(daemon.cp(token, &[from, to]));
        assert!(error.contains(says), "{error}");
    };
    refused(&alice, b.clone(), daemon.url("data/x"), "data only sends");
    refused(&alice, daemon.url("in/x/b"), here.path().join("no").into(), "in only takes");
    refused(&alice, daemon.url("both/b"), here.path().join("no").into(), "you may copy from: data");
    refused(&bob, daemon.url("data/set"), here.path().join("no").into(), "you may copy from: both");
    refused(&bob, daemon.url("both/../data/set"), here.path().join("no").into(), "\"..\" is not allowed");
    assert!(!here.path().join("no").exists() && !site.path("data/x").exists());
}

#[test]
fn a_site_can_have_all_that_it_takes_on_its_disk_before_it_says_so() {
    let site = Site::new("fsync = true");
    site.add("alice", &["both=read-write"]);
    let (daemon, here) = (site.serve(), folder());
    write(here.path().join("b"), b"b");
    let copy = |more: &[&str]| {
        let more = more.iter().map(OsString::from);
        let args: Vec<OsString> =
            [here.path().join("b").into(), daemon.url("both/")].into_iter().chain(more).collect();
        daemon.cp(&site.path("alice"), &args).expect_code(0).json()
    };
    assert_eq!(copy(&[])["durable"], true);
    assert_eq!(copy(&["--no-fsync"])["durable"], true, "the site decides");
}

#[test]
fn a_drop_box_takes_new_files_and_shows_nothing() {
    let site = Site::new("");
    site.add("alice", &["in=write-only"]);
    let daemon = site.serve();
    let (alice, here) = (site.path("alice"), folder());
    for (name, data) in
        [("tree/new", "new"), ("tree/old", "changed"), ("tree/same", "same"), ("tree/sub/x", "x")]
    {
        write(here.path().join(name), data);
    }
    write_noise(here.path().join("tree/large"), 3_000_000, 1);
    // What is there: another file, the very same one, a folder with permissions of its own, another large one.
    write(site.path("in/tree/old"), b"before");
    write(site.path("in/tree/same"), b"same");
    write_noise(site.path("in/tree/large"), 3_000_000, 2);
    let large = fs::read(site.path("in/tree/large")).unwrap();
    fs::create_dir(site.path("in/tree/sub")).unwrap();
    set_mode(site.path("in/tree/sub"), 0o711);
    let tree = here.path().join("tree").into_os_string();
    for more in [&[][..], &["--checksum"], &["--delta"], &["--no-resume"]] {
        let args: Vec<OsString> =
            [tree.clone(), daemon.url("in")].into_iter().chain(more.iter().map(Into::into)).collect();
        let ended = daemon.cp(&alice, &args).expect_code(1);
        let json = ended.json();
        assert!(ended.stderr.contains("this name is taken"), "{}", ended.stderr);
        let expected = if more.is_empty() { 3 } else { 5 };
        assert_eq!(json["files_failed"], expected, "{}", ended.stderr);
        assert_eq!((&json["skipped_bytes"], &json["delta_bytes"]), (&0.into(), &0.into()), "{json}");
    }
    assert_same_bytes(here.path().join("tree/new"), site.path("in/tree/new"));
    assert_same_bytes(here.path().join("tree/sub/x"), site.path("in/tree/sub/x"));
    assert_eq!(fs::read(site.path("in/tree/old")).unwrap(), b"before");
    assert!(fs::read(site.path("in/tree/large")).unwrap() == large);
    assert_eq!(fs::metadata(site.path("in/tree/sub")).unwrap().mode() & 0o777, 0o711);
    let error = error_of(daemon.cp(&alice, &[tree, daemon.url("in"), "--delete".into()]));
    assert!(error.contains("nothing can be removed"), "{error}");
}

/// A guess at another's file would tell how much of it is right, and be spared the sending.
#[test]
fn an_unfinished_upload_counts_for_its_own_user_alone() {
    let site = Site::new("");
    ["alice", "bob"].iter().for_each(|user| site.add(user, &["in=write-only"]));
    let (daemon, here) = (site.serve(), folder());
    let (file, target) = (here.path().join("file"), site.path("in/file"));
    write_noise(&file, 20_000_000, 1);
    let args = |more: &[&str]| -> Vec<OsString> {
        [file.clone().into(), daemon.url("in/file")].into_iter().chain(more.iter().map(Into::into)).collect()
    };
    let mut begun = 0;
    let mut begin = |user: &str| {
        let mut copy = daemon.cp_command(&site.path(user), &args(&["--rate=50mbit"]));
        let copy = Running::start(&mut copy);
        wait_until("half of it arrives", || {
            part_of(&target).exists() && disk_bytes(part_of(&target)) > 10_000_000
        });
        copy.signal(Signal::INT);
        copy.finish().expect_code(130);
        begun += 1;
        wait_until("the daemon has let go", || daemon.said().matches(": alice: ").count() == begun);
    };
    begin("alice");
    let other = daemon.cp(&site.path("bob"), &args(&[])).expect_code(0).json();
    assert_eq!((&other["resumed_bytes"], &other["files_failed"]), (&0.into(), &0.into()), "{other}");
    assert_same_bytes(&file, &target);
    fs::remove_file(&target).unwrap();
    begin("alice");
    let own = daemon.cp(&site.path("alice"), &args(&[])).expect_code(0).json();
    assert!(own["resumed_bytes"].as_u64().unwrap() > 5_000_000, "{own}");
    assert_same_bytes(&file, &target);
}

#[test]
fn a_drop_box_cannot_be_closed_to_a_name() {
    let site = Site::new("");
    ["alice", "bob"].iter().for_each(|name| site.add(name, &["in=write-only"]));
    let (daemon, here) = (site.serve(), folder());
    write(here.path().join("x"), b"x");
    write_noise(here.path().join("report"), 3_000_000, 1);
    let [x, report] = ["x", "report"].map(|name| here.path().join(name).into_os_string());
    // A folder where another user's file would have its journal.
    let error = error_of(daemon.cp(&site.path("bob"), &[x, daemon.url("in/.report.longhaul-journal/")]));
    assert!(error.contains("choose another"), "{error}");
    daemon.cp(&site.path("alice"), &[report, daemon.url("in/")]).expect_code(0);
    assert_same_bytes(here.path().join("report"), site.path("in/report"));
    // Nor does a copy from there make such a folder here.
    site.add("carol", &["in=read-only"]);
    daemon.reload("was read again: 3 users");
    let to = here.path().join(".y.longhaul-journal/z").into_os_string();
    let error = error_of(daemon.cp(&site.path("carol"), &[daemon.url("in/report"), to]));
    assert!(error.contains("choose another"), "{error}");
}

#[test]
fn whoever_holds_a_token_cannot_pose_as_the_server() {
    let (site, impostor) = (Site::new(""), Site::new(""));
    site.add("alice", &["data"]);
    write(site.path("data/file"), b"data");
    write(impostor.path("data/file"), b"false");
    // All that a holder of the token, or a reader of the configuration, knows; but not the key file.
    impostor.write(&site.text());
    let here = folder();
    let copy = |daemon: &Daemon| {
        daemon.cp(&site.path("alice"), &[daemon.url("data/file"), here.path().join("file").into()])
    };
    let error = error_of(copy(&impostor.serve()));
    assert!(error.contains("token"), "{error}");
    copy(&site.serve()).expect_code(0);
    assert_eq!(fs::read(here.path().join("file")).unwrap(), b"data");
    for file in ["serve.toml", "serve.key"] {
        assert_eq!(fs::metadata(site.path(file)).unwrap().mode() & 0o777, 0o600, "{file}");
    }
    // A line that was not copied whole is noticed before anything is sent.
    let token = fs::read_to_string(site.path("alice")).unwrap();
    write(site.path("cut"), &token[..60]);
    set_mode(site.path("cut"), 0o600);
    let mut command = longhaul();
    command
        .args(["cp", "--token-file"])
        .arg(site.path("cut"))
        .args(["/etc/hostname", "longhaul://127.0.0.1:1/"]);
    let ended = Running::start(&mut command).finish().expect_code(2);
    assert!(ended.stderr.contains("damaged"), "{}", ended.stderr);
}

#[test]
fn a_server_without_a_token_makes_one_that_pins_it() {
    let (there, here) = (folder(), folder());
    write(there.path().join("file"), b"data");
    let mut command = longhaul();
    command.args(["serve", "--listen", "127.0.0.1:0", "--root"]).arg(there.path()).stdout(Stdio::piped());
    let mut server = command.stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines().map_while(Result::ok);
    let line = lines.into_iter().find(|line| line.contains("LONGHAUL_TOKEN=")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let token = words[0].strip_prefix("LONGHAUL_TOKEN=").unwrap();
    assert!(token.starts_with("lh1."), "{line}");
    let mut command = longhaul();
    let from = words.iter().find(|word| word.starts_with("longhaul://")).unwrap().replace("PATH", "file");
    command.args(["cp", &from]).arg(here.path()).env("LONGHAUL_TOKEN", token);
    let ended = Running::start(&mut command).finish();
    server.kill().unwrap();
    server.wait().unwrap();
    ended.expect_code(0);
    assert_same_bytes(there.path().join("file"), here.path().join("file"));
}

#[test]
fn the_configuration_is_read_again_while_copies_go_on() {
    let site = Site::new("");
    site.add("alice", &["both=read-write"]);
    let daemon = site.serve();
    let (alice, here) = (site.path("alice"), folder());
    write_noise(here.path().join("long"), 20_000_000, 1);
    write(here.path().join("short"), b"short");
    let short = here.path().join("short").into_os_string();
    let long = [here.path().join("long").into(), daemon.url("both/long"), "--rate=40mbit".into()];
    let long = Running::start(&mut daemon.cp_command(&alice, &long));
    wait_until("it begins", || part_of(site.path("both/long")).exists());
    // A file that makes no sense changes nothing.
    let good = site.text();
    site.write(&good.replace("[folders]", "[folder]"));
    daemon.reload("the old configuration stays: ");
    let line = daemon.said().lines().find(|line| line.contains("stays")).unwrap().to_owned();
    assert!(line.contains("serve.toml:4: ") && line.contains("folder"), "{line}");
    daemon.cp(&alice, &[short.clone(), daemon.url("both/one")]).expect_code(0);
    // Another takes her place; what she began goes on.
    site.write(&good);
    site.add("bob", &["both=read-write"]);
    run(["user", "revoke", "alice", "--config", site.config().to_str().unwrap()]).expect_code(0);
    daemon.reload("was read again: 1 users");
    let error = error_of(daemon.cp(&alice, &[short.clone(), daemon.url("both/two")]));
    assert!(error.contains("token"), "{error}");
    daemon.cp(&site.path("bob"), &[short, daemon.url("both/two")]).expect_code(0);
    long.finish().expect_code(0);
    assert_same_bytes(here.path().join("long"), site.path("both/long"));
}

#[test]
fn copies_share_a_rate_both_ways() {
    // Five million bytes each, twice at once, at 20 Mb/s: four seconds, less a burst.
    let site = Site::new("rates = [{ from = \"00:00\", to = \"24:00\", rate = \"20mbit\" }]");
    site.add("alice", &["both=read-write"]);
    let daemon = site.serve();
    let (alice, here) = (site.path("alice"), folder());
    for name in ["a", "b"] {
        write_noise(here.path().join(name), 5_000_000, 1);
    }
    let both = |from: [OsString; 2], to: [OsString; 2]| {
        let began = Instant::now();
        let copies = from
            .into_iter()
            .zip(to)
            .map(|(from, to)| Running::start(&mut daemon.cp_command(&alice, &[from, to])));
        let ended: Vec<_> =
            copies.collect::<Vec<_>>().into_iter().map(|copy| copy.finish().expect_code(0)).collect();
        assert!(began.elapsed() > Duration::from_millis(3200), "{:?}", began.elapsed());
        ended
    };
    let here = |name: &str| here.path().join(name).into_os_string();
    both([here("a"), here("b")], [daemon.url("both/a"), daemon.url("both/b")]);
    both([daemon.url("both/a"), daemon.url("both/b")], [here("c"), here("d")]);
}

#[test]
fn a_rate_that_changes_counts_for_copies_under_way() {
    let site = Site::new("rate = \"1mbit\"");
    site.add("alice", &["both=read-write"]);
    let daemon = site.serve();
    let (alice, here) = (site.path("alice"), folder());
    // Each would take eight minutes at the first rate, and is waited for two.
    write_noise(here.path().join("up"), 60_000_000, 1);
    write_noise(site.path("both/down"), 60_000_000, 2);
    let up = [here.path().join("up").into(), daemon.url("both/up")];
    let down = [daemon.url("both/down"), here.path().join("down").into()];
    let copies = [up, down].map(|args| Running::start(&mut daemon.cp_command(&alice, &args)));
    wait_until("both begin", || {
        part_of(site.path("both/up")).exists() && part_of(here.path().join("down")).exists()
    });
    site.write(&site.text().replace("1mbit", "2gbit"));
    daemon.reload("was read again");
    for copy in copies {
        copy.finish().expect_code(0);
    }
    assert_same_bytes(here.path().join("up"), site.path("both/up"));
    assert_same_bytes(site.path("both/down"), here.path().join("down"));
}

#[test]
fn a_user_has_so_many_copies_at_a_time_and_the_controllers_that_are_allowed() {
    let site = Site::new("sessions = 2");
    site.add("alice", &["both=read-write"]);
    site.add("bob", &["both=read-write"]);
    // Without a word on it each of them has one.
    site.write(&site.text().replace("[users.bob]\n", "[users.bob]\nsessions = 2\n"));
    let daemon = site.serve();
    let (alice, bob, here) = (site.path("alice"), site.path("bob"), folder());
    write_noise(here.path().join("long"), 30_000_000, 1);
    write(site.path("both/file"), b"file");
    let begin = |user: &Path, name: &str| {
        let args = [here.path().join("long").into(), daemon.url(name), "--rate=1mbit".into()];
        let copy = Running::start(&mut daemon.cp_command(user, &args));
        wait_until("it begins", || part_of(site.path(name)).exists());
        copy
    };
    let fetch = |user: &Path, more: &str| {
        daemon.cp(user, &[daemon.url("both/file"), here.path().join("file").into(), more.into()])
    };
    let error = error_of(fetch(&bob, "--control=greedy"));
    assert!(error.contains("does not send with the controller greedy"), "{error}");
    fetch(&bob, "--control=ledbat").expect_code(0);
    // What a client sends with is its own business.
    daemon
        .cp(&bob, &["/etc/hostname".into(), daemon.url("both/x"), "--control=greedy".into()])
        .expect_code(0);
    let _first = begin(&alice, "both/1");
    let error = error_of(fetch(&alice, "--quiet"));
    assert!(error.contains("you have 1 copies under way"), "{error}");
    let _second = begin(&bob, "both/2");
    let error = error_of(fetch(&bob, "--quiet"));
    assert!(error.contains("the server has 2 copies under way"), "{error}");
}

#[test]
fn what_was_copied_is_on_record() {
    let site = Site::new("audit = \"audit.jsonl\"\nmetrics = \"127.0.0.1:0\"");
    site.add("alice", &["both=read-write", "in=write-only"]);
    let daemon = site.serve();
    let (alice, here) = (site.path("alice"), folder());
    write_noise(here.path().join("tree/large"), 2_500_000, 1);
    write(here.path().join("tree/small"), b"small");
    write(here.path().join("tree/empty"), b"");
    write(site.path("in/taken"), b"taken");
    let tree = here.path().join("tree").into_os_string();
    let small = here.path().join("tree/small").into_os_string();
    daemon.cp(&alice, &[tree, daemon.url("both")]).expect_code(0);
    daemon.cp(&alice, &[daemon.url("both/tree/"), here.path().join("back").into()]).expect_code(0);
    daemon.cp(&alice, &[small.clone(), daemon.url("both/renamed")]).expect_code(0);
    daemon.cp(&alice, &[small, daemon.url("in/taken")]).expect_code(1);
    let other = site.path("bob");
    write(&other, b"a token of the old kind that nobody has");
    set_mode(&other, 0o600);
    error_of(daemon.cp(&other, &["/etc/hostname".into(), daemon.url("both")]));
    let lines = || -> Vec<serde_json::Value> {
        let text = fs::read_to_string(site.path("audit.jsonl")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // Lines are written by a thread of their own.
    wait_until("all lines", || lines().len() >= 7);
    let found: std::collections::BTreeSet<(String, String, u64, String)> = lines()
        .iter()
        .map(|line| {
            assert_eq!((&line["user"], &line["address"]), (&"alice".into(), &"127.0.0.1".into()));
            assert!(line["time"].as_str().unwrap().ends_with('Z'));
            let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
            (text("direction"), text("path"), line["bytes"].as_u64().unwrap(), text("outcome"))
        })
        .collect();
    let expected = [
        ("in", "both/tree/empty", 0, "copied"),
        ("in", "both/tree/large", 2_500_000, "copied"),
        ("in", "both/tree/small", 5, "copied"),
        ("out", "both/tree/large", 2_500_000, "copied"),
        ("out", "both/tree/small", 5, "copied"),
        ("in", "both/renamed", 5, "copied"),
        ("in", "in/taken", 5, "failed"),
    ];
    let expected = expected
        .map(|(way, path, bytes, outcome)| (way.to_owned(), path.to_owned(), bytes, outcome.to_owned()));
    assert_eq!(found, expected.into_iter().collect());
    let hash = blake3::hash(&fs::read(here.path().join("tree/large")).unwrap()).to_hex();
    for line in lines().iter().filter(|line| line["path"] == "both/tree/large") {
        assert_eq!(line["blake3"], hash.as_str());
    }
    wait_until("the last session's end", || {
        daemon.metrics().contains("longhaul_sessions{user=\"alice\",direction=\"in\"} 0\n")
    });
    let text = daemon.metrics();
    for line in [
        "longhaul_turned_away_total 1\n",
        "longhaul_files_total{user=\"alice\",direction=\"in\",outcome=\"copied\"} 4\n",
        "longhaul_files_total{user=\"alice\",direction=\"in\",outcome=\"failed\"} 1\n",
        "longhaul_rate_bits_per_second{user=\"alice\",direction=\"out\"} 0\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn users_are_added_listed_and_revoked() {
    let site = Site::new("");
    let config = site.config().to_str().unwrap().to_owned();
    let user = |args: &[&str]| run(["user"].iter().chain(args).chain(&["--config", &config]));
    site.add("alice", &[]);
    site.add("bob", &["in=write-only"]);
    let listed = user(&["list"]).expect_code(0).stdout;
    let lines: Vec<&str> = listed.lines().collect();
    assert!(
        lines[0].starts_with("alice  ") && lines[0].ends_with("both read-only, data read-only, in read-only"),
        "{listed}"
    );
    assert!(lines[1].starts_with("bob  ") && lines[1].ends_with("in write-only"), "{listed}");
    let token = fs::read_to_string(site.path("alice")).unwrap();
    assert!(!listed.contains(token.trim()) && !site.text().contains(token.trim()));
    assert!(site.text().contains("# The folders.\n"));
    for (args, says) in [
        (&["add", "alice"][..], "already"),
        (&["add", "a b"], "no name"),
        (&["add", "carol", "--folder=elsewhere"], "no folder \"elsewhere\""),
        (&["add", "carol", "--folder=in=all"], "write-only"),
        (&["revoke", "carol"], "no user carol"),
    ] {
        let ended = user(args).expect_code(2);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    }
    user(&["revoke", "alice"]).expect_code(0);
    assert_eq!(user(&["list"]).expect_code(0).stdout.lines().count(), 1);
}

#[test]
fn what_cannot_be_served_is_refused_at_once() {
    let site = Site::new("");
    let serve = |text: &str, says: &str| {
        site.write(text);
        let ended = run(["serve", "--config", site.config().to_str().unwrap()]).expect_code(2);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    };
    serve("folders = { data = \"data\" }\nlisten = 7\n", "serve.toml:2: ");
    serve("folders = { data = \"data\" }\n[users.x]\nid = \"1\"\n", "serve.toml:2: ");
    serve("folders = [\n", "serve.toml:");
    // A secret that can be guessed is one that somebody else knows.
    write(site.path("short"), b"fifteen letters");
    set_mode(site.path("short"), 0o600);
    let root = site.path("data");
    let args: [OsString; 5] =
        ["serve".into(), "--root".into(), root.into(), "--token-file".into(), site.path("short").into()];
    let ended = run(args).expect_code(2);
    assert!(ended.stderr.contains("fewer than 16"), "{}", ended.stderr);
}

#[test]
fn what_is_not_served_cannot_be_opened_and_threads_are_bound_too() {
    let (elsewhere, keys) = (folder(), folder());
    let site = Site::new(&format!("key-file = \"{}\"", keys.path().join("key").display()));
    site.add("alice", &["both=read-write"]);
    // Who may read everything is kept from it by the kernel alone.
    let with = site.text().replace("both = \"both\"", &format!("both = \"{}\"", elsewhere.path().display()));
    let without_sandbox = Daemon::start(&site.config(), &["--no-sandbox"]);
    let daemon = site.serve();
    if daemon.said().contains("not confined") {
        return crate::common::skip(&daemon.said());
    }
    let here = folder();
    write_zoo(&here.path().join("zoo"));
    write_noise(here.path().join("zoo/large"), 5_000_000, 1);
    let original = snapshot(&here.path().join("zoo"));
    let alice = site.path("alice");
    daemon.cp(&alice, &[inside(&here.path().join("zoo")), daemon.url("both/zoo")]).expect_code(0);
    daemon.cp(&alice, &[daemon.url("both/zoo/"), here.path().join("back").into()]).expect_code(0);
    assert_eq!(
        (&snapshot(&site.path("both/zoo")), &snapshot(&here.path().join("back"))),
        (&original, &original)
    );
    let tasks = format!("/proc/{}/task", daemon.running.id());
    let statuses =
        fs::read_dir(tasks).unwrap().map(|task| fs::read_to_string(task.unwrap().path().join("status")));
    let statuses: Vec<String> = statuses.map_while(Result::ok).collect();
    assert!(statuses.len() >= 3);
    for status in statuses {
        assert!(status.contains("Seccomp:\t2\n") && status.contains("NoNewPrivs:\t1\n"), "{status}");
    }
    // The key, which lies elsewhere too, and the file, which another took the place of, can be read again.
    site.add("bob", &["data"]);
    daemon.reload("was read again: 2 users");
    site.add("carol", &["data=read-write"]);
    daemon.reload("restart the server for: ");
    assert!(daemon.said().contains("read-write for carol"), "{}", daemon.said());
    site.write(&with);
    without_sandbox.reload("was read again");
    daemon.reload("the old configuration stays: ");
    assert!(daemon.said().contains("ermission denied"), "{}", daemon.said());
}

#[test]
fn the_service_manager_is_told_when_it_is_ready_and_when_it_ends() {
    let site = Site::new("");
    let socket = UnixDatagram::bind(site.path("notify")).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = longhaul();
    command.args(["serve", "--config"]).arg(site.config()).env("NOTIFY_SOCKET", site.path("notify"));
    let daemon = Running::start(&mut command);
    let told = || {
        let mut text = [0; 256];
        let len = socket.recv(&mut text).unwrap();
        String::from_utf8_lossy(&text[..len]).trim().to_owned()
    };
    assert_eq!(told(), "READY=1");
    daemon.signal(Signal::TERM);
    assert_eq!(told(), "STOPPING=1");
    daemon.finish().expect_code(0);
}
