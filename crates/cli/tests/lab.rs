//! `longhaul lab`: what it lists and refuses, a tiny real run, and that nothing is left of one that was stopped.

mod common;

use common::{Ended, Running, longhaul, run, skip, wait_until};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

/// `lab run` at its smallest, not yet started. It and its children bear the folder's name in their environment.
fn lab_run(out: &Path, args: &[&str]) -> Command {
    let mut command = longhaul();
    command.env(MARK, out).args(["lab", "run", "--out"]).arg(out).args(args);
    command
}

/// Processes of that run: a namespace of its lives as long as one of them.
fn processes_of(out: &Path) -> usize {
    let mark = format!("{MARK}={}\0", out.display());
    let environments = fs::read_dir("/proc").expect("/proc can be read").filter_map(|entry| {
        let environment = fs::read(entry.ok()?.path().join("environ")).ok()?;
        Some(String::from_utf8_lossy(&environment).into_owned())
    });
    environments.filter(|environment| environment.contains(&mark)).count()
}

/// Whether no lab can be made here, which is said.
fn is_without_lab(ended: &Ended) -> bool {
    let without = ended.code == 1 && NO_LAB.iter().any(|reason| ended.stderr.contains(reason));
    if without {
        skip(ended.stderr.trim_end());
    }
    without
}

const MARK: &str = "LONGHAUL_TEST_RUN";
/// What the program says where namespaces or TUN devices are not to be had.
const NO_LAB: [&str; 3] = ["/dev/net/tun", "network namespaces", "user namespaces"];

#[test]
fn the_list_names_every_experiment_with_its_title_and_claims() {
    let text = run(["lab", "list"]).expect_code(0).stdout;
    let listed = lines(&run(["lab", "list", "--json"]).expect_code(0).stdout);
    for one in &listed {
        let (id, title) = (one["experiment"].as_str().unwrap(), one["title"].as_str().unwrap());
        let line = text.lines().find(|line| line.trim_start().split(' ').next() == Some(id));
        assert!(line.is_some_and(|line| line.ends_with(title)), "{id}: {text}");
        assert!(one["claims"].as_array().is_some_and(|claims| !claims.is_empty()), "{id}");
    }
    let ids: Vec<&str> = listed.iter().filter_map(|one| one["experiment"].as_str()).collect();
    assert!(["psockets-a", "psockets-g", "streams-auto"].iter().all(|id| ids.contains(id)), "{ids:?}");
}

#[test]
fn what_is_unknown_gets_a_suggestion_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    for (id, says) in [
        ("streams-autoo", "did you mean streams-auto"),
        ("psockets-h", "psockets-a"),
        ("x", "choose one of psockets-a"),
    ] {
        let ended = Running::start(&mut lab_run(&out, &["psockets-a", id])).finish().expect_code(2);
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{id}: {}", ended.stderr);
    }
    assert!(!out.exists());
}

#[test]
fn a_run_prints_and_stores_the_same_lines_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let args = ["psockets-a", "--smoke", "--json", "--seed", "7"];
    let ended = Running::start(&mut lab_run(&out, &args)).finish();
    if is_without_lab(&ended) {
        return;
    }
    let printed = ended.expect_code(0).stdout;
    assert_eq!(fs::read_to_string(out.join("psockets-a.jsonl")).unwrap(), printed);
    let lines = lines(&printed);
    let head = &lines[0];
    assert_eq!(
        (&head["kind"], &head["seed"], &head["what"]),
        (&"run".into(), &7.into(), &"psockets-a".into())
    );
    assert!(head["command"].as_str().is_some_and(|command| command.contains("lab run --out")));
    assert_eq!(head["version"], env!("CARGO_PKG_VERSION"));
    assert!(head["kernel"].as_str().is_some_and(|kernel| kernel.starts_with("Linux ")));
    assert!(head["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    let rows: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "row").collect();
    assert_eq!(rows.iter().map(|row| &row["sockets"]).collect::<Vec<_>>(), [&Value::from(1.0), &4.0.into()]);
    // 64 KB windows on a path of 250 KB: bytes did travel, and no faster than the path.
    assert!(
        rows.iter()
            .all(|row| row["equal_partitions_mbps"].as_f64().is_some_and(|mbps| mbps > 5.0 && mbps < 130.0)),
        "{rows:?}"
    );
    assert!(lines.iter().any(|line| line["kind"] == "statement" && line["verdict"].is_string()));
    assert_eq!(lines.last().unwrap()["kind"], "end");
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn figures_one_and_two_of_fobs_come_from_the_same_copies() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let args = ["fobs-fig1", "fobs-fig2", "--smoke", "--json"];
    let ended = Running::start(&mut lab_run(&out, &args)).finish();
    if is_without_lab(&ended) {
        return;
    }
    ended.expect_code(0);
    let row = |id: &str| {
        let text = fs::read_to_string(out.join(format!("{id}.jsonl"))).unwrap();
        let found = lines(&text).into_iter().find(|line| line["kind"] == "row");
        (found.expect("a row"), text)
    };
    let ((bandwidth, _), (waste, second)) = (row("fobs-fig1"), row("fobs-fig2"));
    // 1 MB takes 84 ms at 100 Mb/s, and a few round trips of 65 ms beside.
    assert!(
        bandwidth["fobs_s_goodput_mbps"].as_f64().is_some_and(|mbps| mbps > 5.0 && mbps < 60.0),
        "{bandwidth}"
    );
    assert!(bandwidth["fobs_data_alone_share"].as_f64() > bandwidth["fobs_share"].as_f64(), "{bandwidth}");
    assert_eq!((&bandwidth["paper_share"], &waste["paper_share"]), (&0.9.into(), &0.03.into()));
    // A round trip of packets is on its way when the last one arrives, of a thousand.
    assert!(waste["fobs_share"].as_f64().is_some_and(|waste| waste > 0.0), "{waste}");
    let end = lines(&second).pop().expect("an end");
    assert!(end["seconds"].as_f64().is_some_and(|seconds| seconds < 0.1), "measured again: {end}");
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn ctrl_c_ends_a_run_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut running = Running::start(&mut lab_run(&out, &["psockets-g"]));
    // The run itself, a receiver and a sender.
    wait_until("a stream", || processes_of(&out) == 3 || !running.is_running());
    if !running.is_running() {
        assert!(is_without_lab(&running.finish()));
        return;
    }
    running.signal(Signal::INT);
    let ended = running.finish().expect_code(130);
    assert!(ended.stderr.contains("interrupted") && ended.stdout.is_empty(), "{}", ended.stderr);
    wait_until("the end of its children", || processes_of(&out) == 0);
    assert!(!out.join("psockets-g.jsonl").exists());
}
