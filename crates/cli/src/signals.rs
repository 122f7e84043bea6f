//! SIGINT, SIGTERM and SIGHUP: the first asks for a clean end, a second one ends the program at once. A daemon with a
//! configuration reads it again on SIGHUP.

use crate::failure::Failure;
use crate::output::Exit;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. Starts a thread.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    watch(&stop, None)?;
    Ok(stop)
}

/// Whether one of them has come.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// What SIGHUP asks for in place of an end.
pub type HangUp = Box<dyn FnMut() + Send>;

/// Set a flag when the first of these signals comes; SIGHUP calls `hang_up` if there is one. Starts a thread.
pub fn watch(stop: &Arc<AtomicBool>, hang_up: Option<HangUp>) -> Result<(), Failure> {
    install(stop.clone(), hang_up).map_err(unhandled)
}

fn unhandled(error: io::Error) -> Failure {
    Failure::Failed(format!("cannot handle signals: {error}"))
}

fn install(stop: Arc<AtomicBool>, hang_up: Option<HangUp>) -> io::Result<()> {
    let mut signals = taken(hang_up.is_some() || !ignores_hang_up())?;
    let hang_up = hang_up.map(beside).transpose()?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first: Option<Instant> = None;
        for signal in signals.forever() {
            if let (SIGHUP, Some(hang_up)) = (signal, &hang_up) {
                // One that waits already is as good.
                let _ = hang_up.try_send(());
                continue;
            }
            stop.store(true, Ordering::Relaxed);
            STOPPED.store(true, Ordering::Relaxed);
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() > SAME_WISH {
                low_level::exit(i32::from(Exit::Interrupted.code()));
            }
        }
    })?;
    Ok(())
}

/// Hang up, whenever told to, in a thread of its own: what it looks at may stand still, and this process is to be ended all the
/// same.
fn beside(mut hang_up: HangUp) -> io::Result<SyncSender<()>> {
    let (tell, told) = sync_channel(1);
    let work = move || told.into_iter().for_each(|()| hang_up());
    thread::Builder::new().name("hang-up".into()).spawn(work)?;
    Ok(tell)
}

/// They no longer end this process.
fn taken(hang_up_too: bool) -> io::Result<Signals> {
    let signals = Signals::new([SIGINT, SIGTERM])?;
    if hang_up_too {
        signals.add_signal(SIGHUP)?;
    }
    Ok(signals)
}

/// Signals that wait for the process that they are to be passed on to.
pub struct Held(Signals);

impl Held {
    /// From now on.
    pub fn new() -> Result<Held, Failure> {
        taken(!ignores_hang_up()).map(Held).map_err(unhandled)
    }

    /// Pass SIGTERM and SIGHUP on; a second one sets the flag, as SIGINT does when there is no such process any more: while there
    /// is, its terminal has told it too. Starts a thread.
    pub fn pass_on(mut self, process: Pid, stop: Arc<AtomicBool>) -> Result<(), Failure> {
        let mut passed_on = false;
        let serve = move || {
            for signal in self.0.forever() {
                let is_there = test_kill_process(process).is_ok();
                match Signal::from_named_raw(signal).filter(|_| is_there && !passed_on) {
                    Some(Signal::INT) => {}
                    Some(signal) => {
                        passed_on = true;
                        let _ = kill_process(process, signal);
                    }
                    None => stop.store(true, Ordering::Relaxed),
                }
            }
        };
        thread::Builder::new().name("signals".into()).spawn(serve).map(drop).map_err(unhandled)
    }
}

/// Whether this was started to outlive its terminal, as by nohup(1).
fn ignores_hang_up() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| is_ignored(&status, SIGHUP))
}

/// Whether a signal's bit is set in what /proc says of those that are ignored.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

static STOPPED: AtomicBool = AtomicBool::new(false);
/// Signals so close together are one wish: timeout(1) sends its signal to the program and then to the program's group.
const SAME_WISH: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_found_in_their_mask() {
        let status = "Name:\tlonghaul\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(is_ignored(status, SIGHUP) && is_ignored(status, 13));
        assert!(!is_ignored(status, SIGINT) && !is_ignored("", SIGHUP));
    }
}
