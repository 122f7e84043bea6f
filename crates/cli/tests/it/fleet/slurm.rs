//! Slurm as a site has it: munge, one slurmctld, a slurmd on each mover, from an empty slurm.conf.

use super::block;
use super::network::{Mover, Network, ROUTER, has_programs, is_root, mover_address, mover_name};
use crate::common::{Ended, Running, tree, undisturbed, wait_until};
use longhaul_lab::{Scenario, Side};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A site that Slurm runs. Dropping it ends all that it has started.
pub struct Slurm {
    movers: Vec<Option<Mover>>,
    controller: Running,
    _munge: Running,
    pub network: Network,
    pub folder: tempfile::TempDir,
}

impl Slurm {
    /// Start all of it, with movers that are ready for jobs. Nothing where that cannot be, which is said.
    pub fn start(scenario: &Scenario) -> Option<Slurm> {
        let has_all = is_root() && has_programs(&PROGRAMS);
        has_all.then(|| Slurm::start_here(scenario))
    }

    fn start_here(scenario: &Scenario) -> Slurm {
        let folder = tree::folder();
        let network = Network::start(scenario);
        let munge = start_munge(&network, folder.path());
        let conf = conf_in(folder.path());
        tree::write(&conf, conf_text(folder.path()));
        fs::create_dir(folder.path().join("state")).expect("a folder can be made");
        let mut controller = network.own_processes(Side::Left, &[]);
        controller.args(["sh", "-c", &format!("hostname {CONTROLLER} && exec slurmctld -D")]);
        let controller = Running::start(controller.env(CONF, &conf));
        let slurm =
            Slurm { movers: (0..MOVERS).map(|_| None).collect(), controller, _munge: munge, network, folder };
        let mut slurm = slurm;
        (1..=MOVERS).for_each(|number| slurm.power_on(number));
        wait_until("all movers are ready", || slurm.is_ready());
        slurm
    }

    /// Switch a mover on, which joins its site.
    pub fn power_on(&mut self, number: usize) {
        let conf = conf_in(self.folder.path());
        let settings = conf.parent().expect("it is in a folder");
        let mover = self.network.start_mover(number, "slurmd -D", settings);
        self.movers[number - 1] = Some(mover);
    }

    /// Cut a mover's power: all its processes and its network are gone at once.
    pub fn power_off(&mut self, number: usize) {
        assert!(self.movers[number - 1].take().is_some(), "it was on");
    }

    /// A command as a user gives it on the site's login host.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = undisturbed(self.network.lab.command(Side::Left, program));
        command.env(CONF, conf_in(self.folder.path()));
        command
    }

    /// Run one of Slurm's programs and hand out what it prints.
    pub fn ask(&self, words: &[&str]) -> String {
        let ended = Ended::of(self.command(words[0]).args(&words[1..]).output().expect("it is installed"));
        ended.expect_code(0).stdout
    }

    /// Whether all movers can take jobs.
    fn is_ready(&self) -> bool {
        let sinfo = self.command("sinfo").args(["--noheader", "--states=idle", "--format=%D"]).output();
        let sinfo = sinfo.expect("it is installed");
        String::from_utf8_lossy(&sinfo.stdout).trim() == MOVERS.to_string()
    }

    /// What Slurm's daemons have said, for the message of a test that fails.
    pub fn log(&self) -> String {
        let [_, controller] = self.controller.said();
        let movers = self.movers.iter().flatten().map(Mover::said);
        [controller].into_iter().chain(movers).collect::<Vec<_>>().join("\n")
    }
}

fn start_munge(network: &Network, folder: &Path) -> Running {
    let munge = folder.join("munge");
    tree::write_noise(munge.join("key"), 128, 1);
    tree::set_mode(&munge, 0o711);
    tree::set_mode(munge.join("key"), 0o600);
    let mut command = network.own_processes(Side::Left, &["munged", "--foreground"]);
    for (flag, name) in [
        ("key-file", "key"),
        ("socket", "socket"),
        ("pid-file", "pid"),
        ("seed-file", "seed"),
        ("log-file", "log"),
    ] {
        command.arg(format!("--{flag}={}", munge.join(name).display()));
    }
    let running = Running::start(&mut command);
    wait_until("munge answers", || munge.join("socket").exists());
    running
}

/// What the guide has a site write, but for what is special here: all of it is on one machine.
fn conf_text(folder: &Path) -> String {
    let folder = folder.display();
    let mut here = format!(
        "SlurmctldHost={CONTROLLER}({ROUTER})
AuthInfo=socket={folder}/munge/socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
MailProg=/bin/true
MpiDefault=none
SwitchType=switch/none
SlurmdTimeout=10
KillWait=5
SchedulerParameters=batch_sched_delay=0,bf_interval=1,sched_interval=2
# Movers here share one machine's processors, and promise more than it has.
SlurmdParameters=config_overrides
"
    );
    for number in 1..=MOVERS {
        let (name, address) = (mover_name(number), mover_address(number));
        writeln!(here, "NodeName={name} NodeAddr={address} CPUs={MOVER_CPUS} RealMemory=8000")
            .expect("text can grow");
    }
    let is_special = |line: &&str| {
        let key = line.split_inclusive('=').next().unwrap_or_default();
        key.ends_with('=') && here.lines().any(|line| line.starts_with(key))
    };
    let page = block(include_str!("../../../../../docs/slurm.md"), "conf");
    let usual: Vec<_> = page.lines().filter(|line| !is_special(line)).collect();
    assert!(usual.len() > 5, "the guide says more: {usual:?}");
    here + &usual.join("\n") + "\n"
}

fn conf_in(folder: &Path) -> PathBuf {
    folder.join("etc/slurm.conf")
}

const PROGRAMS: [&str; 6] = ["munged", "slurmctld", "slurmd", "sbatch", "unshare", "ip"];
/// As many as the guide speaks of.
pub const MOVERS: usize = 3;
const CONF: &str = "SLURM_CONF";
const CONTROLLER: &str = "controller";
/// As many parts run on a mover at a time, if they ask for one processor each.
const MOVER_CPUS: u32 = 24;
