//! What `longhaul cp` reaches over emulated paths: `make bench`, or
//! `cargo bench -p longhaul-evidence --bench paths [-- FILTER…]` beside a `cargo build --release -p longhaul-cli`.
//!
//! Every row runs the real program in two network namespaces, compares the files afterwards and prints one line.
//! The payload limit is bottleneck × 1448/1500, what a perfect TCP stream would carry.

use longhaul_evidence::Scale;
use longhaul_evidence::lab::Options;
use longhaul_evidence::lab::race::{Load, Outcome, Race};
use longhaul_lab::{Scenario, ensure_privileges};
use serde::Deserialize;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

fn main() {
    let filters: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    if let Err(error) = ensure_privileges() {
        println!("no emulated paths here: {error}");
        return;
    }
    println!(
        "{:<34} {:>8} {:>8} {:>7} {:>7} {:>7}  limited by",
        "path", "seconds", "Mb/s", "limit", "waste", "queue"
    );
    let Rows { rows } = toml::from_str(ROWS).expect("the table");
    for row in rows {
        if filters.is_empty() || filters.iter().any(|filter| row.name.contains(filter.as_str())) {
            row.run();
        }
    }
}

/// A line of the table in `scenarios/sets/bench.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(rename = "path")]
    scenario: Scenario,
    file_mb: Option<u64>,
    #[serde(default)]
    files: u32,
    #[serde(default)]
    bytes_each: u64,
    #[serde(default)]
    flags: String,
    /// Whether it is the second copy to the same server that counts.
    #[serde(default)]
    again: bool,
    /// Whether kernel TCP under BBR and uftp move the same in the same run.
    #[serde(default)]
    has_rivals: bool,
}

#[derive(Deserialize)]
struct Rows {
    rows: Vec<Row>,
}

impl Row {
    fn run(&self) {
        let lab_program = Path::new(env!("CARGO_BIN_EXE_longhaul-lab"));
        let options = Options {
            scale: Scale::Full,
            seed: self.scenario.seed,
            program: &lab_program.with_file_name("longhaul"),
            lab_program,
            only: None,
            stop: &AtomicBool::new(false),
            progress: &|_, _| {},
            kept: None,
        };
        let load =
            self.file_mb.map_or(Load::Files(self.files, self.bytes_each), |mb| Load::File(mb * 1_000_000));
        let race = Race::open(options, &self.scenario, load).expect("the path");
        let race = if self.again { race.remembering() } else { race };
        // The start is not counted: handshake, train and the first round trips.
        let skip = Duration::from_secs_f64(self.scenario.rtt_ms / 1e3 * 6.0);
        let flags: Vec<_> = self.flags.split_whitespace().collect();
        let copy = || race.longhaul(&flags, PATIENCE, skip).expect("a copy");
        let first = copy();
        let copied = if self.again { copy() } else { first };
        let counters = race.counters();
        let queue =
            counters.left_to_right.waiting_bytes.mean_bytes / (self.scenario.bdp_bytes() as f64).max(1.0);
        let late = if counters.cpu_limited() { "(the emulator was late at times)" } else { "" };
        let beside = match &copied {
            Outcome::Done { waste, limited_by, .. } => {
                let waste = 100.0 * waste.unwrap_or(f64::NAN);
                format!(" {waste:>6.2}% {:>6.1}%  {limited_by} {late}", 100.0 * queue)
            }
            _ => format!(" {late}"),
        };
        self.print(&race, &self.name, &copied, &beside);
        if self.has_rivals {
            let kernel = race.kernel("bbr", PATIENCE).expect("a transfer");
            self.print(&race, "  kernel bbr", &kernel, "");
            self.print(&race, "  uftp", &race.uftp(PATIENCE).expect("a transfer"), "");
        }
    }

    fn print(&self, race: &Race<'_>, name: &str, outcome: &Outcome, beside: &str) {
        let limit_mbps = self.scenario.nic_mbit.unwrap_or(self.scenario.bottleneck_mbit) * 1448.0 / 1500.0;
        match outcome {
            Outcome::Done { seconds, .. } => {
                let mbps = race.bytes() as f64 * 8e-6 / seconds;
                println!("{name:<34} {seconds:>8.3} {mbps:>8.1} {:>6.1}%{beside}", 100.0 * mbps / limit_mbps);
            }
            Outcome::TooSlow { seconds, .. } => println!("{name:<34} stopped after {seconds:.1} s{beside}"),
            Outcome::Failed(reason) => println!("{name:<34} FAILED: {reason}{beside}"),
        }
    }
}

const ROWS: &str = include_str!("../../../scenarios/sets/bench.toml");
/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(60);
