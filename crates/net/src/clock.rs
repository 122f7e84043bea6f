//! The driver's clock: nanoseconds since its first use.

use longhaul_proto::units::Time;
use std::sync::OnceLock;
use std::time::Instant;

static START: OnceLock<Instant> = OnceLock::new();

/// Now, since the first use of the clock.
pub fn now() -> Time {
    let start = START.get_or_init(Instant::now);
    Time(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
}
