//! Four movers at a time, whose network cards are what limits them.

use crate::common::tree::*;
use crate::common::{LONGHAUL, Running, Server, longhaul, undisturbed};
use longhaul_lab::{Lab, Scenario, Side};
use longhaul_testing::machine;
use std::ffi::OsString;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

const MOVERS: usize = 4;
/// Of a card. The long haul that they have in common would carry five times what they do.
const CARD_MBIT: f64 = 50.0;
const RTT_MS: f64 = 65.0;
const PARTS: u32 = 32;

/// Movers, each with a card and a daemon of its own at the other end of it; files are in common on either side.
struct Movers {
    folder: TempDir,
    movers: Vec<(Lab, Server)>,
}

impl Movers {
    fn start() -> Movers {
        let folder = folder();
        let to = folder.path().join("to");
        fs::create_dir(&to).expect("it is new");
        let movers = (0..MOVERS).map(|_| {
            let lab = Lab::start(&Scenario::new(CARD_MBIT, RTT_MS)).expect("a lab can be made here");
            let mut command = undisturbed(lab.command(Side::Right, LONGHAUL));
            command.env("XDG_STATE_HOME", folder.path().join("state"));
            // Each has a network of its own, so that all may have the same address there.
            let listen = format!("{}:7700", lab.address(Side::Right));
            let server = Server::start_with(command, &to, &["--listen", &listen]);
            (lab, server)
        });
        let movers = movers.collect();
        Movers { folder, movers }
    }

    fn with_token(&self, mut command: Command, args: &[&str]) -> Command {
        let token = fs::read_to_string(self.movers[0].1.token_file()).expect("it is there");
        command.args(args).current_dir(self.folder.path()).env("LONGHAUL_TOKEN", token.trim());
        command
    }

    /// Seconds from the plan to the last step, with so many movers.
    fn copy(&self, what: &str, movers: usize) -> f64 {
        let to = format!("{what}-by-{movers}");
        let dest = self.movers[0].1.url(&to);
        let (run, parts) = (format!("run-{to}"), format!("--parts={PARTS}"));
        let began = Instant::now();
        let mut plan = self.with_token(longhaul(), &["plan", "-o", &run, &parts, &format!("{what}/"), &dest]);
        Running::start(&mut plan).finish().expect_code(0);
        let next = AtomicU32::new(0);
        thread::scope(|scope| {
            for (lab, _) in &self.movers[..movers] {
                let (next, run) = (&next, &run);
                scope.spawn(move || {
                    loop {
                        let part = next.fetch_add(1, Ordering::Relaxed).to_string();
                        let cp = undisturbed(lab.command(Side::Left, LONGHAUL));
                        let mut cp = self.with_token(cp, &["cp", "--quiet", "--plan", run, "--part", &part]);
                        let ended = Running::start(&mut cp).finish();
                        if ended.stderr.contains("there is no part") {
                            return;
                        }
                        ended.expect_code(0);
                    }
                });
            }
        });
        let last = undisturbed(self.movers[0].0.command(Side::Left, LONGHAUL));
        Running::start(&mut self.with_token(last, &["finish", &run])).finish().expect_code(0);
        let seconds = began.elapsed().as_secs_f64();
        let there = self.folder.path().join("to").join(&to);
        assert_eq!(snapshot(&there), snapshot(&self.folder.path().join(what)));
        fs::remove_dir_all(there).expect("nothing needs it");
        seconds
    }

    /// By how much four are faster than one.
    fn assert_scales(&self, what: &str) {
        let [one, four] = [1, MOVERS].map(|movers| self.copy(what, movers));
        println!(
            "{what}: one mover {one:.1} s, {MOVERS} movers {four:.1} s: {:.2} times as fast",
            one / four
        );
        assert!(one / four >= 0.9 * MOVERS as f64, "{what}: {one:.1} s by one, {four:.1} s by {MOVERS}");
    }
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn four_movers_are_nearly_four_times_as_fast_as_one() {
    let Some(_alone) = machine::measure() else { return };
    let movers = Movers::start();
    let path = |name: OsString| movers.folder.path().join(name);
    for number in 0..2000 {
        let name = format!("tree/{}/{number}", number % 20);
        write_noise(path(name.into()), 20_000 + 80 * number, number as u64);
    }
    write_noise(path("huge/one".into()), 1_000_000_000, 1);
    movers.assert_scales("tree");
    movers.assert_scales("huge");
}
