//! `longhaul demo`: a real copy beside kernel TCP over an emulated long haul.
//!
//! The program runs itself as two child processes, `serve` at the far end and `cp` at the near one, over a path that
//! the lab emulates; nothing about the copy is special. Kernel TCP moves as many bytes from memory to memory.

mod children;
mod folder;
mod table;

use crate::args::DemoArgs;
use crate::output::{self, Exit};
use crate::{log, signals};
use children::{CopyReport, Server};
use folder::Folder;
use longhaul::Failure;
use longhaul_lab::{Counters, Lab, LabError, Scenario, tcp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use table::{Outcome, Row, Table};

/// Run the races and print the table, a line as soon as it is known.
pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    // Before any thread starts: an ordinary user changes into a user namespace here.
    longhaul_lab::ensure_privileges().map_err(|e| failed(&e))?;
    log::start("error")?;
    let stop = signals::stop_flag()?;
    let bytes = args.megabytes * 1_000_000;
    let folder = Folder::create(bytes)?;
    let table = Table::new(PAYLOAD_LIMIT_MBPS);
    output::result(&table.head(&intro(args.megabytes)));
    let verified = race(&table, &folder, &stop);
    if stop.load(Ordering::Relaxed) {
        // Whatever went wrong then, went wrong because Ctrl-C reached the children too.
        output::error("interrupted");
        return Ok(Exit::Interrupted);
    }
    let exit = if verified? { Exit::Done } else { Exit::Failed };
    output::result(NOTES);
    Ok(exit)
}

/// All runs on all paths; says whether every copy of this program's arrived as it was.
fn race(table: &Table, folder: &Folder, stop: &Arc<AtomicBool>) -> Result<bool, Failure> {
    let mut verified = true;
    for loss in LOSSES {
        let scenario = Scenario { loss, name: path_name(loss), ..Scenario::new(BOTTLENECK_MBIT, RTT_MS) };
        let lab = Arc::new(Lab::start(&scenario).map_err(|e| failed(&e))?);
        let path = Path { lab, scenario, stop: Arc::clone(stop) };
        verified &= path.longhaul(table, folder)?;
        for control in TCP_CONTROLS {
            path.kernel_tcp(table, folder.bytes(), control)?;
        }
    }
    Ok(verified)
}

/// One path and what happens on it.
struct Path {
    lab: Arc<Lab>,
    scenario: Scenario,
    stop: Arc<AtomicBool>,
}

impl Path {
    /// Copy the file with this program; says whether it arrived as it was.
    fn longhaul(&self, table: &Table, folder: &Folder) -> Result<bool, Failure> {
        self.lab.reset_counters();
        let server = Server::start(&self.lab, folder)?;
        let report = children::copy(&self.lab, folder, &server, &self.stop)?;
        server.stop();
        let row = match report {
            CopyReport::Failed(reason) => self.row("longhaul", Outcome::Failed(reason)),
            CopyReport::Done { seconds, waste } => {
                let verified = folder.copy_is_equal()?;
                let mbps = folder.bytes() as f64 * 8.0 / seconds / 1e6;
                self.row(
                    "longhaul",
                    Outcome::Done { seconds, mbps, waste: Some(waste), verified: Some(verified) },
                )
            }
        };
        folder.remove_copy()?;
        output::result(&table.row(&row));
        self.warn_about_emulator();
        Ok(matches!(row.outcome, Outcome::Done { verified: Some(true), .. }))
    }

    /// Move as many bytes with the kernel's TCP.
    fn kernel_tcp(&self, table: &Table, bytes: u64, control: &'static str) -> Result<(), Failure> {
        self.lab.reset_counters();
        // On a thread that is left behind when the user stops the demo: it ends with the program.
        let (done, outcome) = channel();
        let lab = Arc::clone(&self.lab);
        thread::spawn(move || done.send(tcp::transfer_within(&lab, bytes, control, TCP_TIME_MAX)));
        let run = loop {
            match outcome.recv_timeout(STOP_POLL) {
                Ok(run) => break run,
                Err(RecvTimeoutError::Timeout) if self.stop.load(Ordering::Relaxed) => {
                    return Err(Failure::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Failure::Failed("the kernel TCP transfer ended without a result".into()));
                }
            }
        };
        let outcome = match run {
            Ok(run) => Outcome::Done { seconds: run.seconds, mbps: run.mbps, waste: None, verified: None },
            Err(LabError::TooSlow { seconds, bytes_received }) => {
                Outcome::TooSlow { seconds, mbps: bytes_received as f64 * 8.0 / seconds / 1e6 }
            }
            Err(LabError::NoCongestionControl { .. }) => Outcome::Failed("not in this kernel".into()),
            Err(error) => Outcome::Failed(error.to_string()),
        };
        output::result(&table.row(&self.row(&format!("TCP {control}"), outcome)));
        self.warn_about_emulator();
        Ok(())
    }

    fn row(&self, tool: &str, outcome: Outcome) -> Row {
        Row { path: self.scenario.name.clone(), tool: tool.into(), outcome }
    }

    /// A figure is only worth something if the path was what it is said to be.
    fn warn_about_emulator(&self) {
        let counters = self.lab.counters();
        if counters.cpu_limited() {
            output::warn("this host is too busy to emulate the path well; the line above proves little");
        }
        if self.scenario.loss > 0.0 && !lost_any(&counters) {
            output::warn("no packet was lost on a path that should lose some; the line above proves little");
        }
    }
}

fn lost_any(counters: &Counters) -> bool {
    counters.left_to_right.dropped_loss > 0
}

fn path_name(loss: f64) -> String {
    let loss = if loss > 0.0 { format!("loss {} %", loss * 100.0) } else { "no loss".into() };
    format!("{BOTTLENECK_MBIT} Mb/s, {RTT_MS} ms, {loss}")
}

fn intro(megabytes: u64) -> String {
    format!(
        "One file of {megabytes} MB over an emulated path ({BOTTLENECK_MBIT} Mb/s, round trip {RTT_MS} ms, queue of one \
         bandwidth-delay product).\nLimit: {PAYLOAD_LIMIT_MBPS:.1} Mb/s, what TCP could carry in packets of 1500 bytes.\n"
    )
}

fn failed(error: &LabError) -> Failure {
    Failure::Failed(error.to_string())
}

/// The long haul of the FOBS paper: 100 Mb/s, 65 ms.
const BOTTLENECK_MBIT: f64 = 100.0;
const RTT_MS: f64 = 65.0;
/// Shares of packets lost from the sender to the receiver.
const LOSSES: [f64; 2] = [0.0, 0.01];
/// Kernel congestion controls to compare with: the usual default, and the strongest rival on such paths.
const TCP_CONTROLS: [&str; 2] = ["cubic", "bbr"];
/// 1448 payload bytes in each IP packet of 1500: IPv4, TCP, time stamps.
const PAYLOAD_LIMIT_MBPS: f64 = BOTTLENECK_MBIT * 1448.0 / 1500.0;
/// A TCP that needs longer has made its point.
const TCP_TIME_MAX: Duration = Duration::from_secs(30);
/// How soon a signal is noticed.
const STOP_POLL: Duration = Duration::from_millis(50);
const NOTES: &str = "
longhaul: from the start of the program to the verified file (BLAKE3 of both compared), encrypted, file to file.
TCP: from connect to the receiver's last byte, in clear, memory to memory. Waste: packets sent beyond those needed.";
