//! Copies with many movers, run by the engines that sites run: the real ones.

mod copies;
mod engines;
mod misfortunes;
mod movers;
mod network;
mod slurm;

use crate::common::tree::{folder, write, write_noise};
use crate::common::{Running, longhaul, wait_until};
use copies::Copies;
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use longhaul_testing::running::{processes_with, send_to};
use network::SETTINGS;
use rustix::process::Signal;
use slurm::Slurm;
use std::fs;

/// The first block of code in this language on a page.
fn block(page: &str, language: &str) -> String {
    let begin = format!("\n```{language}\n");
    let from = page.find(&begin).unwrap_or_else(|| panic!("a block of {language}")) + begin.len();
    let block = &page[from..];
    block[..block.find("\n```").expect("it ends")].into()
}

#[test]
fn a_site_of_three_movers_runs_jobs_and_leaves_nothing() {
    let Some(_shared) = machine::wait() else { return };
    let Some(slurm) = Slurm::start(&Scenario::new(100.0, 20.0)) else { return };
    let said = slurm.ask(&["srun", "-N3", "hostname"]);
    let mut names: Vec<_> = said.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["mover1", "mover2", "mover3"]);
    let settings = slurm.folder.path().join("etc");
    let conf = settings.join("slurm.conf");
    let running = || processes_with("SLURM_CONF", &conf) + processes_with(SETTINGS, &settings);
    assert!(running() > 4, "the daemons are marked");
    drop(slurm);
    wait_until("all have ended", || running() == 0);
}

/// The processes that copy a part of this plan.
fn copying(copies: &Copies) -> Vec<u32> {
    let run = copies.run.clone();
    let ids = fs::read_dir("/proc").expect("/proc can be read").filter_map(|entry| {
        let id = entry.ok()?.file_name().to_str()?.parse::<u32>().ok()?;
        let words = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        let words: Vec<_> = words.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
        let is_ours = words.first()?.ends_with("/longhaul")
            && words.get(1)? == "cp"
            && words.get(3)? == run.to_str()?;
        is_ours.then_some(id)
    });
    ids.collect()
}

#[test]
fn a_small_job_of_which_a_part_is_killed_ends_right_by_itself() {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = Copies::of(&Scenario::new(10.0, 20.0), [700_000; 6]) else { return };
    copies.submit(&["--array", "6%3"]);
    copies.await_bytes(500_000);
    let mut one = None;
    wait_until("a part is copied", || {
        one = copying(&copies).pop();
        one.is_some()
    });
    send_to(one.expect("one was found"), Signal::KILL);
    copies.await_jobs();
    copies.assert_complete();
    let logs = copies.logs();
    assert!(logs.contains("Killed"), "one was killed: {logs}");
}

#[test]
fn a_job_that_was_cancelled_is_resumed() {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = Copies::of(&Scenario::new(4.0, 20.0), [700_000; 3]) else { return };
    let refused = copies.submit_command(&["--partition", "nowhere"]).finish().expect_code(1);
    assert!(
        refused.stderr.contains("invalid partition") && refused.stderr.lines().count() == 1,
        "{refused:?}"
    );
    assert!(!copies.run.exists(), "nothing was planned");

    copies.submit(&["--array", "3%1"]);
    copies.await_bytes(300_000);
    let said = copies.ask(&["job", "status"]).expect_code(0).stdout;
    assert!(said.contains("pending") && said.contains(" of 3 parts"), "{said}");
    let all = copies.ask(&["job", "status", "--json"]).expect_code(0).json();
    let tasks = all["parts"]["tasks"].as_array().expect("they are a list");
    let numbers: Vec<_> = tasks.iter().map(|task| task["task"].as_u64()).collect();
    assert_eq!(numbers, [Some(0), Some(1), Some(2)], "{all}");
    let at_work: Vec<_> = tasks.iter().filter(|task| task["state"] == "running").collect();
    assert!(at_work.len() <= 1 && tasks.iter().any(|task| task["state"] == "pending"), "{all}");
    assert!(
        at_work.iter().all(|task| task["nodes"].as_str().is_some_and(|nodes| nodes.starts_with("mover")))
    );
    assert!(tasks.iter().all(|task| task["restarts"] == 0), "{all}");
    let last = &all["finish"]["tasks"][0];
    assert_eq!((&last["state"], &last["reason"]), (&"pending".into(), &"Dependency".into()), "{all}");
    assert_eq!((&all["engine"], &all["copy"]["parts"]), (&"slurm".into(), &3.into()), "{all}");
    let early = copies.ask(&["job", "resume"]).expect_code(1).stderr;
    assert!(early.contains("job cancel") && early.lines().count() == 1, "{early}");
    copies.ask(&["job", "cancel"]).expect_code(0);
    copies.await_jobs();
    assert_ne!(copies.status()["parts_done"], 3, "it was cut off");

    copies.ask(&["job", "resume"]).expect_code(0);
    copies.await_jobs();
    copies.assert_complete();
    let said = copies.ask(&["job", "status"]).expect_code(0).stdout;
    assert!(said.matches("not in the queue").count() == 2 && said.contains("3 of 3 parts"), "{said}");
    let all = copies.ask(&["job", "status", "--json"]).expect_code(0).json();
    for job in ["parts", "finish"] {
        let tasks = all[job]["tasks"].as_array().expect("they are a list");
        assert!(!tasks.is_empty() && tasks.iter().all(|task| task["state"] == "completed"), "{all}");
    }
    assert_eq!(all["copy"]["parts_done"], 3, "{all}");
}

#[test]
fn without_slurm_a_job_is_refused_in_a_line_that_names_what_to_do() {
    let here = folder();
    write_noise(here.path().join("file"), 10, 1);
    let mut command = longhaul();
    command
        .args(["job", "submit", "-o", "run", "file", "longhaul://127.0.0.1/"])
        .env("PATH", here.path())
        .current_dir(here.path());
    let ended = Running::start(&mut command).finish().expect_code(1);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("sbatch is not on the PATH") && ended.stderr.contains("longhaul plan"),
        "{}",
        ended.stderr
    );
    assert!(!here.path().join("run").exists(), "nothing was planned");
    for command in ["status", "cancel", "resume"] {
        write(here.path().join("cut/job.json"), "{\"parts\":");
        let cut = Running::start(longhaul().args(["job", command]).arg(here.path().join("cut")))
            .finish()
            .expect_code(1);
        assert!(cut.stderr.contains("by hand") && cut.stderr.lines().count() == 1, "{}", cut.stderr);
        let ended =
            Running::start(longhaul().args(["job", command]).arg(here.path())).finish().expect_code(1);
        assert!(
            ended.stderr.contains("no job was submitted") && ended.stderr.lines().count() == 1,
            "{}",
            ended.stderr
        );
    }
}
