//! Four movers at a time, whose network cards are what limits them.

use super::network::has_programs;
use crate::common::tree::{folder, snapshot, write_noise};
use crate::common::{LONGHAUL, Running, Server, longhaul, undisturbed};
use longhaul_lab::{Lab, Place, Scenario, Side};
use longhaul_testing::machine::{self, Hold};
use std::env;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// Movers, each with a card and a daemon of its own on the other side; files are in common on either side, and the long haul is.
struct Movers {
    folder: TempDir,
    lab: Lab,
    daemons: Vec<Server>,
}

impl Movers {
    fn start() -> Movers {
        let folder = folder();
        let to = folder.path().join("to");
        fs::create_dir(&to).expect("it is new");
        let path = Scenario { nic_mbit: Some(CARD_MBIT), ..Scenario::new(LONG_HAUL_MBIT, RTT_MS) };
        let lab = Lab::start_pairs(&path, &[0.0; MOVERS]).expect("a lab can be made here");
        let daemon = |number| {
            let [near, far] = [Side::Left, Side::Right].map(|side| Place::of(side, number));
            // All have one name, which leads each mover to its own.
            let ip = |at, args: &[&str]| {
                let done = lab.command(at, "ip").args(args).status().expect("ip comes with iproute2");
                assert!(done.success(), "ip {args:?}");
            };
            ip(far, &["address", "add", FAR, "dev", "lo"]);
            ip(near, &["route", "add", FAR, "via", &lab.address(far).to_string()]);
            let mut command = undisturbed(lab.command(far, LONGHAUL));
            command.env("XDG_STATE_HOME", folder.path().join("state"));
            Server::start_with(command, &to, &["--listen", &format!("{FAR}:7700")])
        };
        let daemons = (0..MOVERS).map(daemon).collect();
        Movers { folder, lab, daemons }
    }

    fn with_token(&self, mut command: Command, args: &[&str]) -> Command {
        let token = fs::read_to_string(self.daemons[0].token_file()).expect("it is there");
        command.args(args).current_dir(self.folder.path()).env("LONGHAUL_TOKEN", token.trim());
        command
    }

    /// longhaul on the mover with this number.
    fn on(&self, mover: usize, args: &[&str]) -> Command {
        self.with_token(undisturbed(self.lab.command(Place::of(Side::Left, mover), LONGHAUL)), args)
    }

    /// Seconds from the plan to the last step, with so many movers.
    fn copy(&self, alone: &Hold, what: &str, movers: usize) -> f64 {
        let to = format!("{what}-by-{movers}");
        let (dest, run) = (self.daemons[0].url(&to), format!("run-{to}"));
        let (from, parts) = (format!("{what}/"), PARTS.to_string());
        let began = Instant::now();
        let plan = ["plan", "-o", &run, "--parts", &parts, &from, &dest];
        Running::start(&mut self.with_token(longhaul(), &plan)).finish().expect_code(0);
        let next = AtomicU32::new(0);
        thread::scope(|scope| {
            for mover in 0..movers {
                let (next, run) = (&next, &run);
                scope.spawn(move || {
                    let _alone = alone.lend();
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed).to_string();
                        let mut cp = self.on(mover, &["cp", "--quiet", "--plan", run, "--part", &part]);
                        let ended = Running::start(&mut cp).finish();
                        if ended.stderr.contains("there is no part") {
                            return;
                        }
                        ended.expect_code(0);
                    }
                });
            }
        });
        Running::start(&mut self.on(0, &["finish", &run])).finish().expect_code(0);
        let seconds = began.elapsed().as_secs_f64();
        let there = self.folder.path().join("to").join(&to);
        assert_eq!(snapshot(&there), snapshot(&self.folder.path().join(what)));
        fs::remove_dir_all(there).expect("nothing needs it");
        seconds
    }

    /// By how much four are faster than one.
    fn speedup(&self, alone: &Hold, what: &str) -> f64 {
        let [one, four] = [1, MOVERS].map(|movers| self.copy(alone, what, movers));
        println!(
            "{what}: one mover {one:.1} s, {MOVERS} movers {four:.1} s: {:.2} times as fast",
            one / four
        );
        one / four
    }
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn four_movers_are_nearly_four_times_as_fast_as_one() {
    let Some(alone) = machine::measure() else { return };
    if !has_programs(&["ip"]) {
        return;
    }
    let share: Option<f64> = env::var(SHARE).ok().map(|text| text.parse().expect("a share of 1"));
    let len = |bytes: f64| (bytes * share.unwrap_or(1.0)) as usize;
    let movers = Movers::start();
    for number in 0..2000 {
        let name = format!("tree/{}/{number}", number % 20);
        write_noise(movers.folder.path().join(name), len(20_000.0 + 80.0 * f64::from(number)), number as u64);
    }
    write_noise(movers.folder.path().join("huge/one"), len(1e9), 1);
    let speedups = ["tree", "huge"].map(|what| movers.speedup(&alone, what));
    // Of less data the beginning and the end are too large a part.
    if share.is_none() {
        assert!(speedups.iter().all(|times| *times >= 0.9 * MOVERS as f64), "{speedups:?}");
    }
}

const MOVERS: usize = 4;
const CARD_MBIT: f64 = 50.0;
/// Five times what the movers do.
const LONG_HAUL_MBIT: f64 = 1000.0;
const RTT_MS: f64 = 65.0;
const PARTS: u32 = 32;
/// The daemons' address on the far side.
const FAR: &str = "10.75.0.1";
/// To try this itself with such a share of the data.
const SHARE: &str = "LONGHAUL_MOVERS_SHARE";
