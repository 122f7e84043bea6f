//! Copies from a site with Slurm to one with three daemons, which share a folder.

use super::slurm::{MOVERS, Slurm};
use crate::common::tree::{snapshot, write_noise};
use crate::common::{Ended, LONGHAUL, Running, Server, tree, undisturbed};
use longhaul_lab::{Scenario, Side};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Both sites, and a tree to copy.
pub struct Copies {
    pub slurm: Slurm,
    daemons: Vec<Server>,
    far: tempfile::TempDir,
    /// The folder of the plan, with a name that a shell and Slurm would read as something else.
    pub run: PathBuf,
}

impl Copies {
    /// A tree of files with these lengths. Nothing where the tests of Slurm cannot run, which is said.
    pub fn of(scenario: &Scenario, lengths: impl IntoIterator<Item = usize>) -> Option<Copies> {
        let slurm = Slurm::start(scenario)?;
        let far = tree::folder();
        let daemons = (1..=MOVERS).map(|number| {
            let mut command = undisturbed(slurm.network.lab.command(Side::Right, LONGHAUL));
            command.env("XDG_STATE_HOME", slurm.folder.path().join("state-of-daemons"));
            slurm.network.add_far_address(number);
            let listen = format!("{}:{PORT}", slurm.network.far_address(number));
            Server::start_with(command, far.path(), &["--listen", &listen])
        });
        let daemons = daemons.collect();
        let run = slurm.folder.path().join("run 7's 100%");
        let copies = Copies { slurm, daemons, far, run };
        for (number, length) in lengths.into_iter().enumerate() {
            write_noise(copies.near().join(format!("{}/{number}", number % 10)), length, number as u64);
        }
        Some(copies)
    }

    /// What is copied.
    pub fn near(&self) -> PathBuf {
        self.slurm.folder.path().join("data")
    }

    /// Where to: the daemons at the addresses that end in 1, 2 and 3.
    pub fn far_url(&self) -> String {
        let first = self.slurm.network.far_address(1);
        format!("longhaul://{}[1-{MOVERS}]/in", first.strip_suffix('1').expect("it is the first"))
    }

    /// `longhaul` on the login host, with the daemons' token.
    pub fn longhaul<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.slurm.command(LONGHAUL);
        command.env("LONGHAUL_TOKEN", self.token()).args(args);
        command
    }

    /// What opens the daemons.
    pub fn token(&self) -> String {
        fs::read_to_string(self.daemons[0].token_file()).expect("it is there").trim().into()
    }

    /// `longhaul job submit` of the tree.
    pub fn submit_command(&self, more: &[&str]) -> Running {
        let (near, run, url) = (self.near(), &self.run, self.far_url());
        let flags: Vec<&OsStr> = more.iter().map(OsStr::new).collect();
        let ends = [near.as_os_str(), url.as_ref(), "-o".as_ref(), run.as_os_str()];
        let words = [&["job".as_ref(), "submit".as_ref()], &flags[..], &ends].concat();
        Running::start(&mut self.longhaul(words))
    }

    /// The same, which goes well.
    pub fn submit(&self, more: &[&str]) {
        let ended = self.submit_command(more).finish().expect_code(0);
        let last = ended.stdout.lines().last().unwrap_or_default();
        let jobs = last.split(' ').filter(|id| id.parse::<u32>().is_ok()).count();
        assert_eq!(jobs, 2, "{ended:?}");
    }

    /// `longhaul job` or another command on the plan, to its end.
    pub fn ask(&self, words: &[&str]) -> Ended {
        let run = &self.run;
        Running::start(&mut self.longhaul(words.iter().map(OsStr::new).chain([run.as_os_str()]))).finish()
    }

    /// Wait until no job of this site is left in the queue.
    pub fn await_jobs(&self) {
        let deadline = Instant::now() + JOBS_PATIENCE;
        while !self.slurm.ask(&["squeue", "--noheader"]).trim().is_empty() {
            assert!(Instant::now() < deadline, "jobs are left:\n{}\n{}", self.logs(), self.slurm.log());
            sleep(Duration::from_millis(100));
        }
    }

    /// Wait until so many bytes have come to the far site.
    pub fn await_bytes(&self, bytes: u64) {
        crate::common::wait_until("a part arrives", || self.sent() > bytes);
    }

    /// Bytes that have come to the far site, in whole packets.
    pub fn sent(&self) -> u64 {
        self.slurm.network.lab.counters().left_to_right.bytes_delivered
    }

    /// Kill a daemon as a crash does.
    pub fn kill_daemon(&mut self, number: usize) {
        self.daemons[number - 1].kill();
    }

    /// What the daemons' URL stands for.
    pub fn far_folder(&self) -> PathBuf {
        self.far.path().join("in")
    }

    /// All is there, and the last step says so.
    pub fn assert_complete(&self) {
        let far = self.far_folder().join("data");
        assert!(far.exists(), "nothing is there:\n{}", self.logs());
        assert_eq!(snapshot(&self.near()), snapshot(&far), "{}", self.logs());
        let status = self.status();
        assert_eq!(status["parts"], status["parts_done"], "{status}");
    }

    /// What `longhaul status --json` says.
    pub fn status(&self) -> Value {
        self.ask(&["status", "--json"]).expect_code(0).json()
    }

    /// What the jobs have said.
    pub fn logs(&self) -> String {
        let Ok(logs) = fs::read_dir(self.run.join("logs")) else { return "no logs".into() };
        let mut logs: Vec<_> = logs.map(|log| log.expect("a folder can be listed").path()).collect();
        logs.sort();
        let text = |log: &PathBuf| {
            format!("{}:\n{}", log.display(), String::from_utf8_lossy(&fs::read(log).unwrap_or_default()))
        };
        logs.iter().map(text).collect()
    }
}

/// The daemons'.
const PORT: u16 = 7700;
/// A mover that is lost is noticed after some ten seconds and its jobs begin again after some thirty more.
pub const JOBS_PATIENCE: Duration = Duration::from_secs(400);
