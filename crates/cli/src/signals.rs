//! SIGINT and SIGTERM: the first asks for a clean end, a second one ends the program at once.

use crate::output::Exit;
use longhaul::Failure;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A flag that the first SIGINT or SIGTERM sets. Starts a thread.
pub fn stop_flag() -> Result<Arc<AtomicBool>, Failure> {
    install().map_err(|e| Failure::Failed(format!("cannot handle signals: {e}")))
}

fn install() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let flag = Arc::clone(&stop);
    thread::Builder::new().name("signals".into()).spawn(move || {
        let mut first: Option<Instant> = None;
        for _ in signals.forever() {
            flag.store(true, Ordering::Relaxed);
            let first = *first.get_or_insert_with(Instant::now);
            if first.elapsed() > SAME_WISH {
                low_level::exit(i32::from(Exit::Interrupted.code()));
            }
        }
    })?;
    Ok(stop)
}

/// Signals so close together are one wish: timeout(1) sends its signal to the program and then to the program's group.
const SAME_WISH: Duration = Duration::from_millis(250);
