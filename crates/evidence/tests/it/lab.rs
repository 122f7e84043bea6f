//! `longhaul lab`: what it lists and refuses, a tiny real run, and that nothing is left of one that was stopped.

use crate::common::{Ended, Running, is_without, longhaul, measured, processes_with, run, wait_until};
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
    measured();
    let mut command = longhaul();
    command.env(MARK, out).args(["lab", "run", "--out"]).arg(out).args(args);
    command
}

/// Processes of that run: a namespace of its lives as long as one of them.
fn processes_of(out: &Path) -> usize {
    processes_with(MARK, out)
}

fn is_without_lab(ended: &Ended) -> bool {
    is_without(&NO_LAB, ended)
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
        ("x", "choose one of fobs-fig1"),
    ] {
        let ended = Running::start(&mut lab_run(&out, &["psockets-a", id])).finish().expect_code(2);
        assert!(ended.stderr.contains(says) && ended.stdout.is_empty(), "{id}: {}", ended.stderr);
    }
    assert!(!out.exists());
}

#[test]
fn what_has_no_parts_cannot_be_run_in_part() {
    let ended = run(["lab", "run", "psockets-a", "--only", "100 Mb/s"]).expect_code(2);
    assert!(ended.stderr.contains("psockets-a has no parts"), "{}", ended.stderr);
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
    assert!(["cpu", "date", "memory_bytes"].iter().all(|field| !head[field].is_null()), "{head}");
    assert_eq!(head["origin"], "lab");
    let is_measured = |line: &&Value| line["kind"] == "row" && line["table"] != "conditions";
    let rows: Vec<&Value> = lines.iter().filter(is_measured).collect();
    assert_eq!(rows.iter().map(|row| &row["sockets"]).collect::<Vec<_>>(), [&Value::from(1.0), &4.0.into()]);
    // Bytes did travel, and no faster than the path. How much slower is up to what else the machine does: of partitions
    // nothing can be read in order as long as the first is late.
    let all_are = |column: &str, range: std::ops::Range<f64>| {
        rows.iter().all(|row| row[column].as_f64().is_some_and(|mbps| range.contains(&mbps)))
    };
    assert!(
        all_are("longhaul_s_mbps", 0.1..130.0) && all_are("equal_partitions_mbps", 0.0..130.0),
        "{rows:?}"
    );
    assert!(lines.iter().any(|line| line["kind"] == "statement" && line["verdict"].is_string()));
    assert_eq!(lines.last().unwrap()["kind"], "end");
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn what_cannot_be_stored_is_printed_all_the_same() {
    // A folder that takes no files from anybody.
    let run = |more: &[&str]| {
        let args = [&["pcp-sim4", "--smoke"], more].concat();
        Running::start(&mut lab_run(Path::new("/proc"), &args)).finish().expect_code(1)
    };
    let ended = run(&[]);
    assert!(ended.stderr.contains("cannot store results in /proc/"), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("pcp-sim4: ") && ended.stdout.contains("seed 1, smoke"),
        "{}",
        ended.stdout
    );
    assert!(!ended.stdout.contains("stored in"), "{}", ended.stdout);
    assert_eq!(lines(&run(&["--json"]).stdout).last().map(|line| &line["kind"]), Some(&"end".into()));
}

/// That these run at their smallest, with statements on all their claims, and leave nothing.
fn assert_runs(ids: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let args: Vec<&str> = ids.iter().copied().chain(["--smoke", "--json"]).collect();
    let ended = Running::start(&mut lab_run(&out, &args)).finish();
    if is_without_lab(&ended) {
        return;
    }
    let lines = lines(&ended.expect_code(0).stdout);
    let of_kind = |kind: &str| lines.iter().filter(|line| line["kind"] == kind).count();
    assert_eq!(of_kind("end"), ids.len());
    assert!(of_kind("statement") >= 3 * ids.len() && of_kind("row") > 0, "{lines:?}");
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn kernel_tcps_run_in_parallel() {
    assert_runs(&["ptcp-utilisation", "ptcp-loss", "ptcp-fairness"]);
}

#[test]
fn pcp_runs_over_real_sockets() {
    assert_runs(&["pcp-fig2", "pcp-fig3"]);
}

/// One row of each, unless the machine is too busy for it: then it is named.
#[test]
fn copies_meet_the_kernels_tcp_in_the_rows_of_the_simulator() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let ended = Running::start(&mut lab_run(&out, &["sharing", "ecn", "--smoke", "--json"])).finish();
    if is_without_lab(&ended) {
        return;
    }
    let lines = lines(&ended.expect_code(0).stdout);
    for (table, case, rival) in [
        ("sharing", "beside 1 cubic: 100 Mb/s, 40 ms, queue 1", "rivals_share"),
        ("ecn", "beside one CUBIC, step: 20 Mb/s, 20 ms", "cubic_worst_share"),
    ] {
        match lines.iter().find(|line| line["kind"] == "row" && line["table"] == table) {
            Some(row) => {
                assert_eq!(row["case"], case);
                assert!(row[rival].as_f64().is_some_and(|share| share > 0.0 && share < 1.5), "{row}");
            }
            None => {
                let is_named = |line: &Value| {
                    line["text"].to_string().contains(&format!("{case}: the machine was too busy"))
                };
                assert!(lines.iter().any(|line| line["kind"] == "method" && is_named(line)), "{lines:?}");
            }
        }
    }
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
    let ((bandwidth, first), (waste, second)) = (row("fobs-fig1"), row("fobs-fig2"));
    // 1 MB takes 84 ms at 100 Mb/s, and a few round trips of 65 ms beside.
    assert!(
        bandwidth["fobs_s_goodput_mbps"].as_f64().is_some_and(|mbps| mbps > 5.0 && mbps < 60.0),
        "{bandwidth}"
    );
    // None where a busy host made the copy of nothing take longer than this one.
    let (alone, whole) = (bandwidth["fobs_data_alone_share"].as_f64(), bandwidth["fobs_share"].as_f64());
    assert!(alone.is_none_or(|alone| Some(alone) > whole), "{bandwidth}");
    assert_eq!((&bandwidth["paper_share"], &waste["paper_share"]), (&0.9.into(), &0.03.into()));
    // A round trip of packets is on its way when the last one arrives, of a thousand.
    assert!(waste["fobs_share"].as_f64().is_some_and(|waste| waste > 0.0), "{waste}");
    // The same runs once more would take as long as the first did, on whatever host.
    let took = |text: &str| lines(text).pop().and_then(|end| end["seconds"].as_f64()).expect("an end");
    let (measured, taken_over) = (took(&first), took(&second));
    assert!(taken_over < measured / 2.0, "measured again: {taken_over} s, and {measured} s before");
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn ctrl_c_ends_a_run_and_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut running = Running::start(&mut lab_run(&out, &["transport-auto"]));
    // The run itself, a server and a copy.
    wait_until("a copy", || processes_of(&out) == 3 || !running.is_running());
    if !running.is_running() {
        assert!(is_without_lab(&running.finish()));
        return;
    }
    running.signal(Signal::INT);
    let ended = running.finish().expect_code(130);
    assert!(ended.stderr.contains("interrupted") && ended.stdout.is_empty(), "{}", ended.stderr);
    wait_until("the end of its children", || processes_of(&out) == 0);
    assert!(!out.join("transport-auto.jsonl").exists());
}

/// Programs and their goodput in a small `versus`, and its method; `None` where there can be no lab.
fn versus(command: &mut Command) -> Option<(Vec<(String, f64)>, String)> {
    let ended = Running::start(command).finish();
    if is_without_lab(&ended) {
        return None;
    }
    let lines = lines(&ended.expect_code(0).stdout);
    let programs = lines.iter().filter_map(|line| {
        Some((line["program"].as_str()?.to_owned(), line["goodput_mbps"].as_f64().unwrap_or_default()))
    });
    let method = lines.iter().find(|line| line["kind"] == "method").expect("there is a method");
    Some((programs.collect(), method["text"].to_string()))
}

#[test]
fn what_is_installed_is_compared_with() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let Some((programs, method)) = versus(&mut lab_run(&out, &["versus", "--smoke", "--json"])) else {
        return;
    };
    assert!(programs.len() >= 3, "longhaul and plain copies at least: {programs:?}");
    for (program, mbps) in programs {
        assert!(mbps < 100.0, "{program} at {mbps} Mb/s over a path of 100");
        assert!(method.contains(&format!("{program} (")), "{program}: {method}");
    }
    assert_eq!(processes_of(&out), 0);
}

#[test]
fn what_is_not_installed_is_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    // No program is found there.
    let mut command = lab_run(&out, &["versus", "--smoke", "--json"]);
    let Some((programs, method)) = versus(command.env("PATH", folder.path()).env_remove("TOOLS")) else {
        return;
    };
    for missing in
        ["uftp", "UDT", "Tsunami", "qcp", "qcp BBR", "GridFTP x 8", "bbcp x 8", "scp", "rsync daemon"]
    {
        assert!(method.contains(&format!("{missing} is left out: ")), "{missing}: {method}");
        assert!(programs.iter().all(|(program, _)| program != missing), "{programs:?}");
    }
    for there in ["longhaul", "TCP CUBIC"] {
        let (_, mbps) = programs.iter().find(|(program, _)| program == there).expect(there);
        assert!(*mbps > 1.0 && *mbps < 100.0, "{there} at {mbps} Mb/s");
    }
}

/// The result of a simulated experiment, which needs no lab.
fn simulate(out: &Path, id: &str) -> String {
    Running::start(&mut lab_run(out, &[id, "--smoke"])).finish().expect_code(0);
    fs::read_to_string(out.join(id).with_extension("jsonl")).expect("the result is stored")
}

#[test]
fn results_become_a_page_and_a_table_and_bad_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let (page, table) = (folder.path().join("page.html"), folder.path().join("table.md"));
    let report = || {
        let mut command = longhaul();
        command.args(["lab", "report", "--results"]).arg(&out).arg("--out").arg(&page);
        command.arg("--markdown").arg(&table);
        Running::start(&mut command).finish()
    };
    let none = report().expect_code(1);
    assert!(none.stderr.contains("measure first: longhaul lab run all"), "{}", none.stderr);
    let text = simulate(&out, "pcp-sim11");
    assert_eq!(lines(&text)[0]["origin"], "simulator");
    let done = report().expect_code(0);
    assert!(done.stdout.contains("1 experiments, without fobs-fig1"), "{}", done.stdout);
    let shown = fs::read_to_string(&page).unwrap();
    assert!(shown.contains("<svg class=\"plot\"") && shown.contains("pcp-sim11"), "{shown}");
    assert!(fs::read_to_string(&table).unwrap().contains("| `pcp-sim11` (simulated, smoke, seed 1) |"));
    let cut: String = text.lines().take(4).map(|line| format!("{line}\n")).collect();
    fs::write(out.join("psockets-a.jsonl"), cut).unwrap();
    let bad = report().expect_code(1);
    assert!(bad.stderr.contains("psockets-a.jsonl, line 4: the end is missing"), "{}", bad.stderr);
    assert!(
        bad.stderr.contains("longhaul lab run psockets-a") && bad.stdout.contains("1 experiments"),
        "{bad:?}"
    );
}

/// What differs between two runs of the same: when, how long, and where it was stored.
fn figures(text: &str) -> Vec<Value> {
    let rest = lines(text).into_iter().filter(|line| line["kind"] != "run" && line["kind"] != "end");
    rest.collect()
}

#[test]
fn a_killed_experiment_goes_on_behind_the_runs_that_were_done() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let runs = out.join("pcp-sim7.runs");
    let mut running = Running::start(&mut lab_run(&out, &["pcp-sim7", "--smoke"]));
    let size = || fs::metadata(&runs).map_or(0, |file| file.len());
    wait_until("the file of its runs", || size() > 0 || !running.is_running());
    let begun = size();
    wait_until("a run", || size() > begun || !running.is_running());
    running.signal(Signal::KILL);
    drop(running.finish());
    assert!(runs.exists() && !out.join("pcp-sim7.jsonl").exists(), "it ended before it was killed");
    let again = Running::start(&mut lab_run(&out, &["pcp-sim7", "--smoke"])).finish().expect_code(0);
    assert!(
        again.stderr.contains("pcp-sim7: ") && again.stderr.contains(" runs taken over"),
        "{}",
        again.stderr
    );
    assert!(!runs.exists(), "all of it is in the result");
    let resumed = fs::read_to_string(out.join("pcp-sim7.jsonl")).unwrap();
    assert_eq!(figures(&resumed), figures(&simulate(&folder.path().join("anew"), "pcp-sim7")));
}

#[test]
fn what_can_be_measured_is_simulated_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let simulated = |id| lab_run(folder.path(), &[id, "--simulated", "--smoke"]);
    Running::start(&mut simulated("fobs-fig3")).finish().expect_code(0);
    let head = &lines(&fs::read_to_string(folder.path().join("fobs-fig3.simulated.jsonl")).unwrap())[0];
    assert_eq!(head["origin"], "simulator");
    assert!(head["build"].is_string(), "{head}");
    assert!(head["command"].as_str().unwrap().ends_with("fobs-fig3 --simulated --smoke"), "{head}");
    for (id, reason) in
        [("versus", "versus is measured alone; leave --simulated out"), ("all", "neither --only nor")]
    {
        let refused = Running::start(&mut simulated(id)).finish().expect_code(2);
        assert!(refused.stderr.contains(reason), "{}", refused.stderr);
    }
}

#[test]
fn all_takes_over_what_is_finished_and_runs_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let text = simulate(&out, "pcp-sim11");
    let (head, rest) = text.split_once('\n').expect("there are lines");
    let listed = lines(&run(["lab", "list", "--json"]).expect_code(0).stdout);
    assert_eq!(
        listed.iter().filter(|one| one["origin"] == "simulator" && one["experiment"] == MISSING).count(),
        1
    );
    // What either the lab or the simulator can run has a result of each.
    let both = listed.iter().flat_map(|one| {
        let origins = one["origins"].as_array().expect("who can run it").iter().enumerate();
        origins.map(|(at, origin)| {
            (one["experiment"].as_str().unwrap(), if at == 0 { "" } else { ".simulated" }, origin)
        })
    });
    let both: Vec<(&str, &str, &Value)> = both.collect();
    assert!(both.len() > listed.len());
    // All but two are there, one of another seed and one of another build.
    for (id, suffix, origin) in
        both.iter().filter(|(id, suffix, _)| *id != MISSING && [id, *suffix].concat() != HALF)
    {
        let mut head: Value = serde_json::from_str(head).unwrap();
        head["what"] = (*id).into();
        head["origin"] = (*origin).clone();
        head["seed"] = if *id == "pcp-sim10" { 2 } else { 1 }.into();
        if *id == "pcp-sim11" {
            head["build"] = "0123456789abcdef".into();
        }
        fs::write(out.join(format!("{id}{suffix}.jsonl")), format!("{head}\n{rest}")).unwrap();
    }
    let done = Running::start(&mut lab_run(&out, &["all", "--smoke"])).finish().expect_code(0);
    assert_eq!(done.stdout.lines().count(), both.len(), "{}", done.stdout);
    let ran: Vec<&str> = done.stdout.lines().filter(|line| !line.contains("taken over")).collect();
    assert_eq!(ran.len(), 4, "{ran:?}");
    for other in [MISSING, HALF, "pcp-sim10", "pcp-sim11"] {
        assert!(ran.iter().any(|line| line.split(' ').next() == Some(other)), "{ran:?}");
    }
    let half = lines(&fs::read_to_string(out.join(format!("{HALF}.jsonl"))).unwrap());
    assert_eq!(
        (&half[0]["origin"], &half[0]["command"]),
        (&"simulator".into(), &"longhaul sim fobs-fig3 --seed 1".into())
    );
    assert!(
        done.stderr.contains("4 results in ") && done.stderr.contains("taken over: fobs-fig1"),
        "{}",
        done.stderr
    );
    let ran = lines(&fs::read_to_string(out.join(MISSING).with_extension("jsonl")).unwrap());
    assert!(
        ran[0]["command"].as_str().is_some_and(|line| line.starts_with("longhaul lab run --out")),
        "{}",
        ran[0]
    );
    assert!(
        ran[0]["command"].as_str().is_some_and(|line| line.ends_with(&format!("{MISSING} --smoke"))),
        "{}",
        ran[0]
    );
    let again = Running::start(&mut lab_run(&out, &["all", "--smoke", "--json"])).finish().expect_code(0);
    assert!(again.stderr.contains("0 results in "), "{}", again.stderr);
    let heads = lines(&again.stdout).into_iter().filter(|line| line["kind"] == "run").count();
    assert_eq!(heads, both.len());
}

/// Simulated, quick, and without a result at first.
const MISSING: &str = "pcp-sim9";
/// Measured, and not simulated at first.
const HALF: &str = "fobs-fig3.simulated";

#[test]
fn a_part_that_is_not_there_is_refused_and_a_smaller_result_replaces_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let text = simulate(&out, "pcp-sim11");
    let (head, rest) = text.split_once('\n').expect("there are lines");
    let mut head: Value = serde_json::from_str(head).unwrap();
    head["scale"] = "full".into();
    let path = out.join("pcp-sim11.jsonl");
    fs::write(&path, format!("{head}\n{rest}")).unwrap();
    let full = fs::read_to_string(&path).unwrap();
    let again = Running::start(&mut lab_run(&out, &["pcp-sim11", "--smoke"])).finish().expect_code(0);
    assert!(again.stdout.contains("pcp-sim11.smoke.jsonl"), "{}", again.stdout);
    assert_eq!(fs::read_to_string(&path).unwrap(), full);
    let typo = Running::start(&mut lab_run(&out, &["versus", "--quick", "--only", "65ms"])).finish();
    if is_without_lab(&typo) {
        return;
    }
    let typo = typo.expect_code(2);
    assert!(typo.stderr.contains("choose from: 100 Mb/s, 65 ms; "), "{}", typo.stderr);
    assert!(!out.join("versus.jsonl").exists());
}

#[test]
fn what_a_killed_run_left_among_temporary_files_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (left, other) = (folder.path().join("longhaul-lab-killed"), folder.path().join("other"));
    for path in [&left, &other] {
        fs::create_dir(path).unwrap();
        fs::write(path.join("cargo"), "noise").unwrap();
    }
    // What it says of the kernel depends on who may look there.
    let ended = Running::start(longhaul().env("TMPDIR", folder.path()).args(["lab", "clean"])).finish();
    assert!(ended.stdout.contains(&format!("removed the folder {}", left.display())), "{ended:?}");
    assert!(!left.exists() && other.exists());
}

#[test]
fn all_stands_by_itself() {
    for args in [&["all", "psockets-a"][..], &["all", "--only", "65 ms"], &["psockets-a", "--again"]] {
        let folder = tempfile::tempdir().unwrap();
        let ended =
            Running::start(&mut lab_run(&folder.path().join("results"), args)).finish().expect_code(2);
        assert!(ended.stderr.contains("all"), "{args:?}: {}", ended.stderr);
    }
}
