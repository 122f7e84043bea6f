//! The driver's clock: nanoseconds since its first use, which is the program's start where that matters.

use longhaul_proto::units::Time;
use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// When the program began. The first call, which belongs at the top of `main`, fixes it.
pub fn program_start() -> Instant {
    *START.get_or_init(Instant::now)
}

/// Now, since the first use of the clock.
pub fn now() -> Time {
    Time(u64::try_from(program_start().elapsed().as_nanos()).unwrap_or(u64::MAX))
}
