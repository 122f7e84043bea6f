//! `longhaul status`.

use crate::args::planned::StatusArgs;
use crate::failure::Failure;
use crate::output::{self, Exit, bytes_text, harmless, seconds_text};
use crate::signals;
use longhaul::planned::{PartState, Run, Stage, Status};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Say how far a planned copy is.
pub fn run(args: &StatusArgs) -> Result<Exit, Failure> {
    let run = Run::open(&args.run)?;
    let stop = signals::stop_flag()?;
    loop {
        let status = run.status()?;
        if args.json {
            output::json(&status, false);
        } else {
            output::result(&lines(&status).join("\n"));
        }
        let is_over = status.parts_done == status.parts;
        if !args.watch || is_over {
            return Ok(Exit::Done);
        }
        let until = Instant::now() + WATCH_EVERY;
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(Failure::Interrupted);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// All in one line, then each part that is not done.
fn lines(status: &Status) -> Vec<String> {
    let share = 100.0 * status.bytes_done as f64 / status.bytes_total.max(1) as f64;
    let left = status.seconds_left.map(|left| format!(", {} to go", seconds_text(left)));
    let all = format!(
        "{} of {} parts, {} of {} ({share:.1} %), {:.1} Mb/s by {} at work{}{}",
        status.parts_done,
        status.parts,
        bytes_text(status.bytes_done),
        bytes_text(status.bytes_total),
        status.goodput_mbps,
        status.parts_copying,
        left.unwrap_or_default(),
        if status.paused { ", paused" } else { "" },
    );
    let open = status.known.iter().filter(|state| state.stage != Stage::Done);
    [all].into_iter().chain(open.map(part_line)).collect()
}

fn part_line(state: &PartState) -> String {
    let PartState { part, host, to, bytes_done, bytes_total, goodput_mbps, limited_by, .. } = state;
    let (there, all) = (bytes_text(*bytes_done), bytes_text(*bytes_total));
    let line = match (state.stage, &state.error) {
        (Stage::Copying, _) => {
            format!("{there} of {all} at {goodput_mbps:.1} Mb/s from {host} to {to}, limited by {limited_by}")
        }
        (Stage::Silent, _) => format!("{there} of {all}; {host} has not said anything of it for a while"),
        (Stage::Stopped, _) => format!("{there} of {all}; was stopped on {host}"),
        (Stage::Failed, Some(error)) => format!("failed on {host}: {error}"),
        (Stage::Failed, None) => format!("failed on {host}"),
        (Stage::Done, _) => String::new(),
    };
    harmless(&format!("  part {part}: {line}"))
}

const WATCH_EVERY: Duration = Duration::from_secs(2);
/// How soon Ctrl-C is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);
