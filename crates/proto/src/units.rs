//! Time, rate and the names of things that are counted. Arithmetic saturates: a hostile or absurd value never
//! panics.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;
use serde::{Deserialize, Serialize};

/// A moment in nanoseconds since the driver's epoch (program start, or the start of a simulation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(pub u64);

impl Time {
    /// The driver's epoch.
    pub const ZERO: Time = Time(0);
    /// Later than anything that happens.
    pub const MAX: Time = Time(u64::MAX);

    /// From whole milliseconds since the epoch.
    pub const fn from_millis(ms: u64) -> Time {
        Time(ms.saturating_mul(1_000_000))
    }

    /// How long after `earlier` this is; zero if it is not.
    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Seconds since the epoch.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(nanos(span)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(span)))
    }
}

/// A span in whole nanoseconds, saturating at 584 years.
pub fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

/// A rate in bits per second of UDP payload (IP and UDP headers not counted), unless a name says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Rate(pub u64);

impl Rate {
    /// From megabits (10⁶ bits) per second; negative and NaN become zero.
    pub fn from_mbps(mbps: f64) -> Rate {
        Rate((mbps.max(0.0) * 1e6) as u64)
    }

    /// In megabits (10⁶ bits) per second.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// `bytes` moved in `span`; the fastest rate there is for an empty span.
    pub fn from_bytes_over(bytes: u64, span: Duration) -> Rate {
        let ns = span.as_nanos();
        if ns == 0 {
            return Rate(u64::MAX);
        }
        Rate(u64::try_from(u128::from(bytes) * 8_000_000_000 / ns).unwrap_or(u64::MAX))
    }

    /// Faster than any path there is: 1 Tb/s.
    pub const FASTEST: Rate = Rate(1_000_000_000_000);

    /// `bytes` found to have moved in `span`, [`Rate::FASTEST`] at most: whatever clocks and counters say.
    pub fn measured(bytes: u64, span: Duration) -> Rate {
        Rate::from_bytes_over(bytes, span).min(Rate::FASTEST)
    }

    /// How long `bytes` take at this rate; a zero rate takes 584 years.
    pub fn time_for(self, bytes: u64) -> Duration {
        if self.0 == 0 {
            return Duration::from_nanos(u64::MAX);
        }
        let ns = u128::from(bytes) * 8_000_000_000 / u128::from(self.0);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// How many whole bytes pass in `span`.
    pub fn bytes_in(self, span: Duration) -> u64 {
        u64::try_from(u128::from(self.0) * span.as_nanos() / 8_000_000_000).unwrap_or(u64::MAX)
    }

    /// This rate times `factor`; a factor that is negative or not a number gives zero.
    pub fn scale(self, factor: f64) -> Rate {
        Rate((self.0 as f64 * factor.max(0.0)) as u64)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000_000 => write!(f, "{:.1} kb/s", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.1} Mb/s", self.0 as f64 / 1e6),
            _ => write!(f, "{:.2} Gb/s", self.0 as f64 / 1e9),
        }
    }
}

/// Number of a fixed-size packet of the object: packet *n* carries the bytes from *n* × packet payload on.
pub type PacketNumber = u64;

/// Number of a datagram: unique per direction and key, one higher for each sent. A packet sent twice travels in two
/// datagrams. Below 2⁴⁸.
pub type DatagramNumber = u64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_spans_agree() {
        let rate = Rate::from_mbps(100.0);
        assert_eq!(rate.time_for(1250), Duration::from_micros(100));
        assert_eq!(rate.bytes_in(Duration::from_micros(100)), 1250);
        assert_eq!(Rate::from_bytes_over(1250, Duration::from_micros(100)), rate);
    }

    #[test]
    fn extremes_saturate() {
        assert_eq!(Rate(0).time_for(1), Duration::from_nanos(u64::MAX));
        assert_eq!(Rate::from_bytes_over(1, Duration::ZERO), Rate(u64::MAX));
        assert_eq!(Time(5) - Duration::from_secs(9), Time::ZERO);
        assert_eq!(Time::MAX + Duration::MAX, Time::MAX);
        assert_eq!(Rate(7).scale(f64::NAN), Rate(0));
    }
}
