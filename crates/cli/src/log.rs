//! What the library logs, on standard error.

use crate::failure::Failure;
use crate::values::LOG_ENV;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

/// Log at `level` and above, or as the environment says.
pub fn start(level: &str) -> Result<(), Failure> {
    let asked = std::env::var(LOG_ENV).ok().filter(|text| !text.is_empty());
    let filter: Targets = asked
        .as_deref()
        .unwrap_or(level)
        .parse()
        .map_err(|e| Failure::Usage(format!("{LOG_ENV}: {e}; write it like info or longhaul=debug")))?;
    // The filter decides what is logged, the format alone would stop at info.
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    let log = log.with_target(false).with_writer(std::io::stderr);
    // Writing an error about a closed standard error to standard error would panic.
    log.log_internal_errors(false).finish().with(filter).init();
    Ok(())
}
