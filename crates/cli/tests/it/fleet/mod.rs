//! Copies with many movers, run by the engines that sites run: the real ones.

mod network;
mod slurm;

use longhaul_lab::Scenario;
use longhaul_testing::machine;
use longhaul_testing::running::processes_with;
use slurm::Slurm;

#[test]
fn a_site_of_three_movers_runs_jobs_and_leaves_nothing() {
    let Some(_shared) = machine::wait() else { return };
    let Some(slurm) = Slurm::start(&Scenario::new(100.0, 20.0), 3) else { return };
    let said = slurm.ask(&["srun", "-N3", "hostname"]);
    let mut names: Vec<_> = said.lines().collect();
    names.sort_unstable();
    assert_eq!(names, ["mover1", "mover2", "mover3"]);
    let conf = slurm.folder.path().join("slurm.conf");
    assert!(processes_with("SLURM_CONF", &conf) > 4, "the daemons are marked");
    drop(slurm);
    crate::common::wait_until("all have ended", || processes_with("SLURM_CONF", &conf) == 0);
}
