//! `longhaul sim`: experiments, scenarios, what is refused.

use crate::common::{Ended, run};
use serde_json::Value;
use std::fs;

fn sim(args: &[&str]) -> Ended {
    run(["sim"].iter().chain(args))
}

fn lines(ended: &Ended) -> Vec<Value> {
    let lines = ended.stdout.lines();
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn the_list_names_every_experiment_with_its_title() {
    let text = sim(&["list"]).expect_code(0).stdout;
    let listed = lines(&sim(&["list", "--json"]).expect_code(0));
    assert!(listed.len() > 4, "{text}");
    for one in &listed {
        let (id, title) = (one["experiment"].as_str().unwrap(), one["title"].as_str().unwrap());
        let line = text.lines().find(|line| line.trim_start().split(' ').next() == Some(id));
        assert!(line.is_some_and(|line| line.ends_with(title)), "{id}: {text}");
    }
}

#[test]
fn an_experiment_prints_figures_and_verdicts() {
    let text = sim(&["fobs-fig3", "--quick"]).expect_code(0).stdout;
    for part in ["fobs-fig3: ", "goodput", "Mb/s", "reproduced", "FOBS §5, Figure 3", "seed 1, quick"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn json_opens_with_command_version_and_seed() {
    let lines =
        lines(&sim(&["fobs-fig3", "--quick", "--json", "--seed", "7", "--threads", "1"]).expect_code(0));
    let head = &lines[0];
    assert_eq!((&head["kind"], &head["seed"], &head["scale"]), (&"run".into(), &7.into(), &"quick".into()));
    assert!(head["command"].as_str().unwrap().ends_with("sim fobs-fig3 --quick --json --seed 7 --threads 1"));
    assert_eq!(head["version"], env!("CARGO_PKG_VERSION"));
    assert!(lines.iter().any(|line| line["kind"] == "row" && line["fobs_s_goodput_mbps"].is_f64()));
    assert!(lines.iter().any(|line| line["kind"] == "statement" && line["verdict"].is_string()));
    assert_eq!(lines.last().unwrap()["kind"], "end");
}

#[test]
fn equal_seeds_give_equal_results_whatever_the_threads() {
    let results = ["1", "2"].map(|threads| {
        let lines = lines(&sim(&["fobs-fig3", "--quick", "--json", "--threads", threads]).expect_code(0));
        lines[1..lines.len() - 1].to_vec()
    });
    assert_eq!(results[0], results[1]);
}

#[test]
fn what_is_unknown_gets_a_suggestion() {
    for (args, says) in [
        (&["fobs-figg1"][..], "did you mean fobs-fig1"),
        (&["lst"], "did you mean list?"),
        (&["nothing-like-it"], "choose one of"),
        (&["fobs-fig1", "--bytes", "many"], "write it like 40MB"),
        (&["fobs-fig1", "--threads", "0"], "--threads"),
        (&["/nowhere/path.toml"], "cannot read the scenario /nowhere/path.toml"),
    ] {
        let ended = sim(args).expect_code(2);
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn what_would_change_nothing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("far.toml");
    fs::write(&path, "bottleneck_mbit = 50\nrtt_ms = 40\n").unwrap();
    for (args, says) in [
        (&["grid", "--bytes", "1MB"][..], "grid says by itself how much is sent; leave --bytes out"),
        (&["fobs-fig3", "--control", "adaptive"], "leave --control out"),
        (&[path.to_str().unwrap(), "--quick"], "--quick is for experiments"),
        (&["list", "--seed", "7"], "list simulates nothing; leave --seed out"),
        (&["list", "--quick"], "leave --quick out"),
        (&["list", "--threads", "2"], "leave --threads out"),
        (&["list", "--control", "adaptive"], "leave --control out"),
        (&["list", "--bytes", "1MB"], "leave --bytes out"),
    ] {
        let ended = sim(args).expect_code(2);
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn a_scenario_is_run_for_each_controller() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("far.toml");
    fs::write(&path, "bottleneck_mbit = 50\nrtt_ms = 40\nloss = 0.001\n").unwrap();
    let path = path.to_str().unwrap();
    let names = ["--control", "adaptive", "--control", "fixed", "--bytes", "2MB"];
    let text = sim(&[&[path][..], &names].concat()).expect_code(0).stdout;
    for part in ["far.toml", "50 Mb/s", "adaptive", "fixed", "goodput", "waste"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let lines = lines(&sim(&[&[path, "--json"][..], &names].concat()).expect_code(0));
    let rows: Vec<_> = lines.iter().filter(|line| line["kind"] == "row").collect();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter().all(|row| row["goodput_mbps"].as_f64().is_some_and(|mbps| mbps > 1.0 && mbps < 50.0))
    );
    let ended = sim(&[path, "--control", "adptive"]).expect_code(2);
    assert!(ended.stderr.contains("did you mean adaptive?"), "{}", ended.stderr);
    fs::write(path, "bottleneck_mbit = 50\nrtt_ms = 40\nlos = 0.001\n").unwrap();
    let ended = sim(&[path]).expect_code(2);
    assert!(ended.stderr.contains(":3: ") && ended.stderr.contains("did you mean loss"), "{}", ended.stderr);
}
