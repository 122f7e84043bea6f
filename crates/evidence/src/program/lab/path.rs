//! A path for somebody's own programs, and what it did.

use crate::program::args::LabPcapArgs;
use crate::program::args::SideArg;
use crate::program::output::{self, bytes_text, share_text};
use crate::program::{log, signals};
use longhaul_cli::failure::Failure;
use longhaul_lab::{
    Capture, Captured, Counters, DirectionCounters, Lab, LabError, Scenario, Side, TrafficCounters,
};
use serde_json::{Value as Json, json};
use std::cell::Cell;
use std::fmt::Write as _;
use std::path::{self, Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// A path that goes on.
pub struct OpenPath {
    /// With both hosts.
    pub lab: Lab,
    /// Set by Ctrl-C.
    pub stop: Arc<AtomicBool>,
    scenario: Scenario,
    captures: Vec<(PathBuf, Capture)>,
    since: Cell<Instant>,
}

/// What it did.
pub struct Record {
    scenario: Scenario,
    seconds: f64,
    counters: Counters,
    traffic: Option<TrafficCounters>,
    captured: Vec<(PathBuf, Captured)>,
}

impl OpenPath {
    /// Open the path that a file describes, and record packets if asked to. Must be called before the program starts its
    /// first thread.
    pub fn open(file: &Path, pcap: &LabPcapArgs) -> Result<OpenPath, Failure> {
        let scenario = Scenario::load(file).map_err(|error| Failure::Usage(error.to_string()))?;
        refuse_one_file_for_both(pcap)?;
        longhaul_lab::ensure_privileges().map_err(failed)?;
        log::start("error")?;
        let stop = signals::stop_flag()?;
        let lab = Lab::start(&scenario).map_err(|error| match error {
            LabError::Scenario(reason) => Failure::Usage(format!("{}: {reason}", file.display())),
            other => failed(other),
        })?;
        let mut captures = vec![];
        for (end, file) in [(Side::Left, &pcap.pcap), (Side::Right, &pcap.pcap_right)] {
            if let Some(file) = file {
                captures.push((file.clone(), lab.capture(end, file).map_err(failed)?));
            }
        }
        Ok(OpenPath { lab, stop, scenario, captures, since: Cell::new(Instant::now()) })
    }

    /// What the programs at its ends are told.
    pub fn furnish(&self, command: &mut Command, end: Side) {
        command.env("LEFT", self.lab.address(Side::Left).to_string());
        command.env("RIGHT", self.lab.address(Side::Right).to_string());
        command.env(END, if end == Side::Left { "left" } else { "right" });
    }

    /// The scenario's time and the counters begin now.
    pub fn begin(&self) -> Result<(), Failure> {
        self.lab.restart_clock().map_err(failed)?;
        self.lab.reset_counters();
        self.since.set(Instant::now());
        Ok(())
    }

    /// Close it.
    pub fn close(self) -> Result<Record, Failure> {
        let (seconds, counters) = (self.since.get().elapsed().as_secs_f64(), self.lab.counters());
        let traffic = self.lab.traffic();
        let captured = self.captures.into_iter().map(|(file, capture)| Ok((file, capture.finish()?)));
        let captured = captured.collect::<Result<_, LabError>>().map_err(failed)?;
        Ok(Record { scenario: self.scenario, seconds, counters, traffic, captured })
    }
}

impl Record {
    /// For people.
    pub fn text(&self) -> String {
        let ways = [&self.counters.left_to_right, &self.counters.right_to_left];
        let mut out = format!("{:<28}{:>16}{:>16}\n", "the path", "left to right", "right to left");
        let mut line = |name: &str, value: &dyn Fn(&DirectionCounters) -> String, is_always: bool| {
            let [there, back] = ways.map(value);
            if is_always || there != "0" || back != "0" {
                let _ = writeln!(out, "  {name:<26}{there:>16}{back:>16}");
            }
        };
        line("packets sent", &|way| way.packets_in.to_string(), true);
        line("packets delivered", &|way| way.packets_delivered.to_string(), true);
        line("bytes delivered", &|way| bytes_text(way.bytes_delivered), true);
        line("delivered, Mb/s", &|way| format!("{:.1}", self.mbps(way)), true);
        line("dropped, queue full", &|way| way.dropped_queue.to_string(), true);
        line("dropped by a policer", &|way| way.dropped_policed.to_string(), false);
        line("marked by the queue", &|way| way.marked.to_string(), false);
        line("lost at random", &|way| way.dropped_loss.to_string(), true);
        line("dropped, path cut", &|way| way.dropped_cut.to_string(), false);
        line("corrupted", &|way| way.corrupted.to_string(), false);
        line("duplicated", &|way| way.duplicated.to_string(), false);
        line("held back", &|way| way.reordered.to_string(), false);
        line("queue, mean", &|way| bytes_text(way.waiting_bytes.mean_bytes.round() as u64), true);
        line("queue, 95th percentile", &|way| bytes_text(way.waiting_bytes.p95_bytes), true);
        line("queue, most", &|way| bytes_text(way.waiting_bytes.max_bytes), true);
        let tolerance_ms = self.counters.left_to_right.lateness.tolerance_ms;
        line(&format!("late by over {tolerance_ms} ms"), &|way| share_text(way.lateness.late_share), true);
        line("dropped by this machine", &|way| unasked(way).to_string(), false);
        if let Some(traffic) = &self.traffic {
            let _ = writeln!(
                out,
                "  of it the scenario's traffic: {} to the right, {} to the left; flows: {} begun, {} done, {} failed",
                bytes_text(traffic.bytes_to_right),
                bytes_text(traffic.bytes_to_left),
                traffic.flows_begun,
                traffic.flows_done,
                traffic.flows_failed,
            );
        }
        for (file, captured) in &self.captured {
            let _ = writeln!(
                out,
                "  {}: {} packets, {} missed",
                file.display(),
                captured.packets,
                captured.missed
            );
        }
        if self.counters.cpu_limited() {
            out.push_str(
                "  this machine was too busy to emulate the path well: these figures prove little\n",
            );
        }
        out.trim_end().to_owned()
    }

    /// For programs. The command's status stands in it too.
    pub fn json(&self, command: &str, exit: u8) -> Json {
        let way = |way: &DirectionCounters| {
            json!({
                "packets_in": way.packets_in,
                "packets_delivered": way.packets_delivered,
                "bytes_in": way.bytes_in,
                "bytes_delivered": way.bytes_delivered,
                "delivered_mbps": self.mbps(way),
                "dropped_queue": way.dropped_queue,
                "dropped_policed": way.dropped_policed,
                "marked": way.marked,
                "dropped_loss": way.dropped_loss,
                "dropped_cut": way.dropped_cut,
                "dropped_by_machine": unasked(way),
                "corrupted": way.corrupted,
                "duplicated": way.duplicated,
                "reordered": way.reordered,
                "queue_bytes_mean": way.waiting_bytes.mean_bytes,
                "queue_bytes_p95": way.waiting_bytes.p95_bytes,
                "queue_bytes_max": way.waiting_bytes.max_bytes,
                "late_tolerance_ms": way.lateness.tolerance_ms,
                "late_share": way.lateness.late_share,
            })
        };
        let captured = self.captured.iter().map(|(file, captured)| {
            json!({"file": file.to_string_lossy(), "packets": captured.packets, "missed": captured.missed})
        });
        json!({
            "command": command,
            "exit": exit,
            "scenario": self.scenario,
            "seconds": self.seconds,
            "left_to_right": way(&self.counters.left_to_right),
            "right_to_left": way(&self.counters.right_to_left),
            "traffic": self.traffic.map(|traffic| json!({
                "flows_begun": traffic.flows_begun,
                "flows_done": traffic.flows_done,
                "flows_failed": traffic.flows_failed,
                "bytes_to_right": traffic.bytes_to_right,
                "bytes_to_left": traffic.bytes_to_left,
            })),
            "captured": captured.collect::<Vec<Json>>(),
            "cpu_limited": self.counters.cpu_limited(),
        })
    }

    /// Print the table beside what the programs print.
    pub fn say(&self) {
        output::say(&self.text());
    }

    fn mbps(&self, way: &DirectionCounters) -> f64 {
        way.bytes_delivered as f64 * 8.0 / self.seconds / 1e6
    }
}

/// Two that write to one file would leave nothing of either.
fn refuse_one_file_for_both(pcap: &LabPcapArgs) -> Result<(), Failure> {
    // What is not there yet has no other names.
    let place = |file: &PathBuf| file.canonicalize().or_else(|_| path::absolute(file)).ok();
    match (&pcap.pcap, &pcap.pcap_right) {
        (Some(left), Some(right)) if place(left) == place(right) => {
            Err(Failure::Usage("--pcap and --pcap-right need a file each; name two".into()))
        }
        _ => Ok(()),
    }
}

/// Packets that no scenario asked to drop.
fn unasked(way: &DirectionCounters) -> u64 {
    way.dropped_by_emulator + way.dropped_by_card + way.refused_by_host
}

/// A lab's error as the program's.
pub fn failed(error: LabError) -> Failure {
    Failure::Failed(error.to_string())
}

/// What an end is called.
pub fn name(end: SideArg) -> &'static str {
    match end {
        SideArg::Left => "left",
        SideArg::Right => "right",
    }
}

/// The variable that says at which end a program runs.
pub const END: &str = "LONGHAUL_END";
