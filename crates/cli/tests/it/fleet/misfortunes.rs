//! What befalls jobs: movers and daemons that are gone, a path that is cut, time limits. Minutes each.

use super::copies::Copies;
use crate::common::tree::write;
use crate::common::{LONGHAUL, Running, wait_until};
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Some 100 MB in large and small files.
fn lengths() -> impl Iterator<Item = usize> {
    [60_000_000, 20_000_000].into_iter().chain((0..200).map(|number| 1_000 * number))
}

fn bytes() -> u64 {
    lengths().map(|length| length as u64).sum()
}

/// Submit a copy, let something befall it when half has come, and see that it ends right by itself, without sending again
/// more than a tenth of what had come. Of what was cut off, each part loses the groups of 1 MiB that had come in pieces.
fn befalls(flags: &[&str], mbit: f64, misfortune: impl FnOnce(&mut Copies)) {
    let Some(_shared) = machine::wait() else { return };
    let Some(mut copies) = Copies::of(&Scenario::new(mbit, 20.0), lengths()) else { return };
    let start = Instant::now();
    copies.submit(flags);
    copies.await_bytes(bytes() / 2);
    let had_come = copies.sent();
    misfortune(&mut copies);
    copies.await_jobs();
    copies.assert_complete();
    let again = copies.sent() as f64 - bytes() as f64 * WITH_HEADERS;
    println!("{:?}; had come {had_come}, sent in all {}, of {}", start.elapsed(), copies.sent(), bytes());
    assert!(again < had_come as f64 / 10.0, "{again} of {had_come} bytes were sent again\n{}", copies.logs());
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn a_mover_whose_power_is_cut_has_its_parts_copied_by_others() {
    befalls(&["--array", "12%3"], 80.0, |copies| copies.slurm.power_off(1));
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn an_allocation_that_loses_a_mover_begins_again_where_it_was() {
    befalls(&["-N", "2", "--parts", "4"], 80.0, |copies| copies.slurm.power_off(1));
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn a_daemon_that_is_killed_leaves_its_parts_to_the_others() {
    befalls(&["--array", "12%3"], 80.0, |copies| copies.kill_daemon(2));
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn a_path_that_is_cut_for_twenty_seconds_ends_no_job() {
    befalls(&["--array", "12%3"], 80.0, |copies| {
        copies.slurm.network.lab.cut(true);
        sleep(Duration::from_secs(20));
        copies.slurm.network.lab.cut(false);
        let counters = copies.slurm.network.lab.counters();
        assert!(counters.left_to_right.dropped_cut > 0, "nothing was cut");
    });
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn parts_whose_time_is_over_go_on_in_another_turn() {
    // A minute is the shortest that Slurm knows. The second turn has the time it needs.
    let flags = ["--array", "3", "--time", "1", "--sbatch=--signal=TERM@20"];
    befalls(&flags, 25.0, |copies| {
        wait_until("a part is stopped before its time", || copies.logs().contains("exit code 130"));
        let jobs = copies.slurm.ask(&["squeue", "--array", "--noheader", "--format=%A"]);
        for job in jobs.lines().map(str::trim) {
            let mut more = copies.slurm.command("scontrol");
            // One that has ended meanwhile has no limit any more.
            more.args(["update", &format!("JobId={job}"), "TimeLimit=30"]).status().expect("it is installed");
        }
    });
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn a_part_that_always_fails_is_given_up_and_named() {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = Copies::of(&Scenario::new(100.0, 20.0), [50_000; 4]) else { return };
    let obstacle = copies.far_folder().join("data/2/2");
    write(obstacle.join("file"), "in the way");
    copies.submit(&["--array", "4", "--requeues", "1"]);
    copies.await_jobs();
    let logs = copies.logs();
    assert!(logs.contains("parts are missing: 2;"), "{logs}");
    assert_eq!(logs.matches("task 0: Exited with exit code 1").count(), 2, "once, and once more: {logs}");
    assert_eq!(copies.status()["parts_done"], 3, "the others are there");
    fs::remove_dir_all(obstacle).expect("it can be removed");
    copies.ask(&["job", "resume"]).expect_code(0);
    copies.await_jobs();
    copies.assert_complete();
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn of_two_that_take_the_same_part_one_says_who_has_it() {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = Copies::of(&Scenario::new(10.0, 20.0), [4_000_000]) else { return };
    let (near, run, url) = (copies.near(), copies.run.clone(), copies.far_url());
    let plan =
        [near.as_os_str(), url.as_ref(), "-o".as_ref(), run.as_os_str(), "--parts".as_ref(), "1".as_ref()];
    Running::start(&mut copies.longhaul([&["plan".as_ref()], &plan[..]].concat())).finish().expect_code(0);
    let on = |mover: &str| {
        let mut command = copies.slurm.command("srun");
        command
            .env("LONGHAUL_TOKEN", copies.token())
            .args(["-w", mover, LONGHAUL, "cp", "--part", "0", "--plan"])
            .arg(&run);
        Running::start(&mut command)
    };
    let first = on("mover1");
    copies.await_bytes(500_000);
    let second = on("mover2").finish().expect_code(1);
    assert!(second.stderr.contains("part 0") && second.stderr.contains("mover1"), "{}", second.stderr);
    first.finish().expect_code(0);
    copies.ask(&["finish"]).expect_code(0);
    copies.assert_complete();
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn a_job_of_512_parts_takes_little_longer_than_one_that_does_nothing() {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = Copies::of(&Scenario::new(1000.0, 20.0), [2_000; 512]) else { return };
    let start = Instant::now();
    let nothing = ["sbatch", "--parsable", "--output=/dev/null", "--array=0-511%64", "--wrap=srun true"];
    copies.slurm.ask(&nothing);
    copies.await_jobs();
    let slurm_alone = start.elapsed();
    let start = Instant::now();
    copies.submit(&["--array", "512%64"]);
    copies.await_jobs();
    let took = start.elapsed();
    copies.assert_complete();
    assert_eq!(copies.status()["parts"], 512);
    let each = took.saturating_sub(slurm_alone) / 512;
    println!("{took:?}, and {slurm_alone:?} of jobs that do nothing: {each:?} more for each part");
    assert!(each < Duration::from_millis(500), "{each:?} for each part");
}

/// A byte of data takes so many in packets of their own with all that is around it, and what is said besides.
const WITH_HEADERS: f64 = 1.05;
