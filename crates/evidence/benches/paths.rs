//! What `longhaul cp` reaches over emulated paths: `make bench`, or
//! `cargo bench -p longhaul-evidence --bench paths [-- FILTER…]` beside a `cargo build --release -p longhaul-cli`.
//!
//! Every row runs the real program in two network namespaces, compares the files afterwards and prints one line.
//! The payload limit is bottleneck × 1448/1500, what a perfect TCP stream would carry.

use longhaul_evidence::Scale;
use longhaul_evidence::lab::Options;
use longhaul_evidence::lab::race::{Load, Outcome, Race};
use longhaul_lab::{Scenario, ensure_privileges};
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
    for row in rows() {
        if filters.is_empty() || filters.iter().any(|filter| row.name.contains(filter.as_str())) {
            row.run();
        }
    }
}

struct Row {
    name: String,
    scenario: Scenario,
    load: Load,
    flags: Vec<&'static str>,
    /// Whether kernel TCP under BBR and uftp move the same in the same run.
    has_rivals: bool,
}

const MB: u64 = 1_000_000;

fn rows() -> Vec<Row> {
    let row = |name: &str, rate, rtt, loss, load| Row {
        name: name.into(),
        scenario: Scenario { loss, ..Scenario::new(rate, rtt) },
        load,
        flags: vec![],
        has_rivals: false,
    };
    let mut rows = vec![
        row("short 100M 26ms 0", 100.0, 26.0, 0.0, Load::File(40 * MB)),
        row("long 100M 65ms 0", 100.0, 65.0, 0.0, Load::File(40 * MB)),
        row("long 100M 65ms 0.1%", 100.0, 65.0, 0.001, Load::File(40 * MB)),
        row("long 100M 65ms 1%", 100.0, 65.0, 0.01, Load::File(40 * MB)),
        row("long 100M 65ms 5%", 100.0, 65.0, 0.05, Load::File(40 * MB)),
        row("fast 500M 65ms 0", 500.0, 65.0, 0.0, Load::File(200 * MB)),
        row("fast 500M 65ms 0.1%", 500.0, 65.0, 0.001, Load::File(200 * MB)),
        row("giga 1000M 65ms 0", 1000.0, 65.0, 0.0, Load::File(400 * MB)),
        row("queue 100M 65ms 200MB", 100.0, 65.0, 0.0, Load::File(200 * MB)),
    ];
    for (rtt, every) in [26.0, 65.0].into_iter().flat_map(|rtt| ["8", "32", "128"].map(|every| (rtt, every)))
    {
        let mut fobs =
            row(&format!("fobs nic 100M {rtt}ms F={every}"), 1000.0, rtt, 0.0, Load::File(40 * MB));
        fobs.scenario.nic_mbit = Some(100.0);
        fobs.flags = vec!["--control", "greedy", "--select", "circular-strict", "--packet-size", "1062"];
        fobs.flags.extend(["--batch", "2", "--ack-every", every]);
        rows.push(fobs);
    }
    for rate in [50.0, 100.0] {
        let pcp = row(&format!("pcp {rate}M 40ms"), rate, 40.0, 0.0, Load::File(40 * MB));
        rows.push(Row { flags: vec!["--control", "pcp"], ..pcp });
    }
    rows.push(row("many one 160MB 100M 65ms", 100.0, 65.0, 0.0, Load::File(160 * MB)));
    rows.push(row("many 20000x8K 100M 65ms", 100.0, 65.0, 0.0, Load::Files(20_000, 8000)));
    rows.push(row("small 1000x4K 200M 100ms", 200.0, 100.0, 0.0, Load::Files(1000, 4096)));
    for loss in [0.0, 0.001, 0.01] {
        let name = format!("versus 200M 100ms {}%", loss * 100.0);
        rows.push(Row { has_rivals: true, ..row(&name, 200.0, 100.0, loss, Load::File(64 * MB)) });
    }
    rows
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
        };
        let race = Race::open(options, &self.scenario, self.load).expect("the path");
        // The start is not counted: handshake, train and the first round trips.
        let skip = Duration::from_secs_f64(self.scenario.rtt_ms / 1e3 * 6.0);
        let copied = race.longhaul(&self.flags, PATIENCE, skip).expect("a copy");
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

/// Nobody waits longer.
const PATIENCE: Duration = Duration::from_secs(60);
