//! What the library logs, on standard error.

use crate::values::LOG_ENV;
use longhaul::Failure;
use tracing_subscriber::EnvFilter;

/// Log at `level` and above, or as the environment says.
pub fn start(level: &str) -> Result<(), Failure> {
    let asked = std::env::var(LOG_ENV).ok().filter(|text| !text.is_empty());
    let filter = EnvFilter::try_new(asked.as_deref().unwrap_or(level))
        .map_err(|e| Failure::Usage(format!("{LOG_ENV}: {e}; write it like info or longhaul=debug")))?;
    let log =
        tracing_subscriber::fmt().with_env_filter(filter).with_target(false).with_writer(std::io::stderr);
    // Writing an error about a closed standard error to standard error would panic.
    log.log_internal_errors(false).init();
    Ok(())
}
