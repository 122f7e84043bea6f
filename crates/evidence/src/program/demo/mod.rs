//! `longhaul demo`: a real copy beside kernel TCP over an emulated long haul.
//!
//! The program longhaul is run as two child processes, `serve` at the far end and `cp` at the near one, over a path
//! that the lab emulates; nothing about the copy is special. Kernel TCP moves as many bytes from memory to memory.
//! Where no such path can be made, a relay on loopback takes its place, and a TCP in user space the kernel's.

mod table;

use crate::lab::Options;
use crate::lab::race::{Load, Outcome, Race};
use crate::lab::relayed::RelayedRace;
use crate::program::args::DemoArgs;
use crate::program::output::{self, Exit};
use crate::program::{log, programs, signals};
use crate::{ExperimentError, Scale, experiment};
use longhaul_cli::failure::Failure;
use longhaul_lab::{Counters, Lab, LabError, Scenario};
use longhaul_proto::control::ControllerKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use table::Table;

/// Run the races and print the table, a line as soon as it is known.
pub fn run(args: &DemoArgs) -> Result<Exit, Failure> {
    let paths = PATHS.map(experiment::path);
    // Before any thread starts: an ordinary user changes into a user namespace here.
    let refused = longhaul_lab::ensure_privileges().and_then(|()| Lab::start(&paths[0])).err();
    log::start("error")?;
    let stop = signals::stop_flag()?;
    let limit_mbps = paths[0].bottleneck_mbit * PAYLOAD_SHARE;
    let table = Table::new(limit_mbps);
    output::result(&table.head(&intro(args.megabytes, &paths[0], limit_mbps, refused.as_ref())));
    let verified = race(&table, &paths, args.megabytes * 1_000_000, refused.is_some(), &stop);
    if stop.load(Ordering::Relaxed) {
        // Whatever went wrong then, went wrong because Ctrl-C reached the children too.
        output::error("interrupted");
        return Ok(Exit::Interrupted);
    }
    let exit = if verified? { Exit::Done } else { Exit::Failed };
    output::result(&format!("\n{NOTES}\n{}", if refused.is_some() { RELAYED_TCP } else { KERNEL_TCP }));
    Ok(exit)
}

/// All runs on all paths; says whether every copy of this program's arrived as it was.
fn race(
    table: &Table,
    paths: &[Scenario],
    bytes: u64,
    is_relayed: bool,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    let (program, lab_program) = (programs::longhaul()?, programs::this()?);
    let mut verified = true;
    for scenario in paths {
        let options = Options {
            scale: Scale::Full,
            seed: scenario.seed,
            program: &program,
            lab_program: &lab_program,
            only: None,
            stop,
            progress: &|_, _| {},
            kept: None,
        };
        let course = Course::open(options, scenario, bytes, is_relayed).map_err(failed)?;
        let show = |tool: &str, outcome: &Outcome| {
            output::result(&table.row(&path_name(scenario), tool, bytes, outcome));
            warn_about_emulator(scenario, &course.counters());
        };
        let copied = course.longhaul().map_err(failed)?;
        show("longhaul", &copied);
        verified &= matches!(copied, Outcome::Done { .. });
        for control in TCP_CONTROLS {
            show(&format!("TCP {}", control.name()), &course.tcp(control).map_err(failed)?);
        }
    }
    Ok(verified)
}

/// Where a race takes place.
enum Course<'a> {
    /// Between two network namespaces.
    Emulated(Box<Race<'a>>),
    /// Through a relay on loopback.
    Relayed(Box<RelayedRace<'a>>),
}

impl<'a> Course<'a> {
    fn open(
        options: Options<'a>,
        scenario: &Scenario,
        bytes: u64,
        is_relayed: bool,
    ) -> Result<Course<'a>, ExperimentError> {
        let load = Load::File(bytes);
        if is_relayed {
            return Ok(Course::Relayed(Box::new(RelayedRace::open(options, scenario, load)?)));
        }
        Ok(Course::Emulated(Box::new(Race::open(options, scenario, load)?)))
    }

    fn counters(&self) -> Counters {
        match self {
            Course::Emulated(race) => race.counters(),
            Course::Relayed(race) => race.counters(),
        }
    }

    fn longhaul(&self) -> Result<Outcome, ExperimentError> {
        match self {
            Course::Emulated(race) => race.longhaul(&PATIENT, COPY_TIME_MAX, Duration::ZERO),
            // TCP would meet neither queue nor losses there.
            Course::Relayed(race) => {
                race.longhaul(&[&PATIENT[..], &["--transport", "object"]].concat(), COPY_TIME_MAX)
            }
        }
    }

    fn tcp(&self, control: ControllerKind) -> Result<Outcome, ExperimentError> {
        match self {
            Course::Emulated(race) => race.kernel(control.name(), TCP_TIME_MAX),
            Course::Relayed(race) => race.tcp(control, TCP_TIME_MAX),
        }
    }
}

/// A figure is only worth something if the path was what it is said to be.
fn warn_about_emulator(scenario: &Scenario, counters: &Counters) {
    if counters.cpu_limited() {
        output::warn("this host is too busy to emulate the path well; the line above proves little");
    }
    if scenario.loss > 0.0 && !lost_any(counters) {
        output::warn("no packet was lost on a path that should lose some; the line above proves little");
    }
}

fn lost_any(counters: &Counters) -> bool {
    counters.left_to_right.dropped_loss > 0
}

fn path_name(Scenario { bottleneck_mbit, rtt_ms, loss, .. }: &Scenario) -> String {
    let loss = if *loss > 0.0 { format!("loss {} %", loss * 100.0) } else { "no loss".into() };
    format!("{bottleneck_mbit} Mb/s, {rtt_ms} ms, {loss}")
}

fn intro(megabytes: u64, path: &Scenario, limit_mbps: f64, refused: Option<&LabError>) -> String {
    let how = refused.map_or(String::new(), |why| {
        format!(
            "No network namespaces can be used here, so a relay on loopback emulates the path, for datagrams alone, and\n\
             a TCP in user space, over UDP, takes the place of the kernel's.\nWhy: {why}.\n\n"
        )
    });
    format!(
        "{how}One file of {megabytes} MB over an emulated path ({} Mb/s, round trip {} ms, queue of one bandwidth-delay \
         product).\nLimit: {limit_mbps:.1} Mb/s, what TCP could carry in packets of 1500 bytes.\n",
        path.bottleneck_mbit, path.rtt_ms
    )
}

fn failed(error: ExperimentError) -> Failure {
    match error {
        ExperimentError::Interrupted => Failure::Interrupted,
        other => Failure::Failed(other.to_string()),
    }
}

/// The long haul of the FOBS paper, without loss and with it: the same rate and round trip.
const PATHS: [&str; 2] = ["long-haul-100m", "lossy-100m"];
/// Congestion controls of TCP to compare with: the usual default, and the strongest rival on such paths.
const TCP_CONTROLS: [ControllerKind; 2] = [ControllerKind::Cubic, ControllerKind::Bbr];
/// On a busy machine a copy may stand still for long.
const PATIENT: [&str; 2] = ["--stall-timeout", "20s"];
/// 1448 payload bytes in each IP packet of 1500: IPv4, TCP, time stamps.
const PAYLOAD_SHARE: f64 = 1448.0 / 1500.0;
/// A TCP that needs longer has made its point.
const TCP_TIME_MAX: Duration = Duration::from_secs(30);
/// Longer than any copy of the demo should take, at 1 Mb/s for the usual file.
const COPY_TIME_MAX: Duration = Duration::from_secs(320);
const NOTES: &str = "longhaul: from the start of the program to the verified file (BLAKE3 of both compared), encrypted, file \
    to file.\nWaste: packets sent beyond those needed.";
const KERNEL_TCP: &str =
    "TCP: the kernel's, from connect to the receiver's last byte, in clear, memory to memory.";
const RELAYED_TCP: &str = "TCP: in user space over UDP, from connect to the receiver's last byte, in clear, memory to memory.\n\
    longhaul's control connection, a TCP, was only delayed; all data went over UDP, through the relay.";
