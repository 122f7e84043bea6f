//! The paths over which the number of streams is searched for.

use crate::Scenario;

/// A path, and how sockets are on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    mbit: f64,
    pub(super) rtt_ms: f64,
    loss: f64,
    pub(super) window_bytes: Option<u64>,
    /// Whether a quick run takes it: one of each kind.
    pub(super) is_quick: bool,
}

/// Ten, from 20 to 500 Mb/s, 5 to 150 ms and no loss to 0.5 %. What holds back one stream is the path alone, its window,
/// or loss.
pub(super) const PATHS: [Path; 10] = [
    clean(20.0, 5.0),
    windowed(20.0, 150.0),
    windowed(100.0, 20.0).quick(),
    windowed(100.0, 65.0),
    windowed(500.0, 10.0),
    clean(100.0, 65.0).quick(),
    clean(500.0, 20.0),
    lossy(100.0, 65.0, 0.001).quick(),
    lossy(50.0, 150.0, 0.005),
    lossy(200.0, 40.0, 0.0002).quick(),
];

const fn clean(mbit: f64, rtt_ms: f64) -> Path {
    Path { mbit, rtt_ms, loss: 0.0, window_bytes: None, is_quick: false }
}

const fn windowed(mbit: f64, rtt_ms: f64) -> Path {
    Path { window_bytes: Some(64 << 10), ..clean(mbit, rtt_ms) }
}

const fn lossy(mbit: f64, rtt_ms: f64, loss: f64) -> Path {
    Path { loss, ..clean(mbit, rtt_ms) }
}

impl Path {
    const fn quick(self) -> Path {
        Path { is_quick: true, ..self }
    }

    pub(super) fn name(&self) -> String {
        let mut name = format!("{} Mb/s, {} ms", self.mbit, self.rtt_ms);
        if self.loss > 0.0 {
            name.push_str(&format!(", loss {} %", self.loss * 100.0));
        }
        if let Some(bytes) = self.window_bytes {
            name.push_str(&format!(", {} KB windows", bytes >> 10));
        }
        name
    }

    /// Nearly what TCP could carry over it: packets of 1500 bytes with 1448 bytes of data.
    pub(super) fn full_mbps(&self) -> f64 {
        FULL * self.mbit * 1448.0 / 1500.0
    }

    pub(super) fn scenario(&self) -> Scenario {
        Scenario { name: self.name(), loss: self.loss, ..Scenario::new(self.mbit, self.rtt_ms) }
    }
}

/// Within what runs differ.
const FULL: f64 = 0.98;
