//! One path description, read by the simulator and by the emulated WAN alike.

mod checks;
mod cross;
mod library;
mod lines;
mod step;

pub use checks::InvalidField;
pub use cross::CrossTraffic;
pub use lines::ScenarioError;
pub use step::Step;

use crate::link::Marks;
use crate::queue::QueueDiscipline;
use crate::traffic::Traffic;
use checks::{
    DELAY_MAX_MS, MTU_MAX, MTU_MIN, QUEUE_MAX_BDP, QUEUE_MAX_KB, RATE_MAX_MBIT, not_negative, positive,
    refuse, share,
};
use lines::FieldLines;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;

/// A path between two hosts, the same in both directions but for the share of loss.
///
/// In order, a packet meets: the sending host's device (`nic_mbit`), the policer, the bottleneck with its queue, the
/// impairments (`loss`, `corrupt`, `duplicate`, `reorder`, `jitter_ms`), and half of `rtt_ms`. Sizes are those of
/// whole IP packets. In a file, `bottleneck_mbit` and `rtt_ms` must be given; the rest has defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// What to call it in tables and reports.
    pub name: String,
    /// Rate of each host's device in 10⁶ bit/s: back-pressure on the sender, never a drop. Absent: the host is not
    /// the limit.
    pub nic_mbit: Option<f64>,
    /// Rate of the narrowest link in 10⁶ bit/s.
    pub bottleneck_mbit: f64,
    /// Round-trip time of an empty path, without serialisation.
    pub rtt_ms: f64,
    /// A policer before the bottleneck's queue lets pass this rate, in 10⁶ bit/s, and drops the rest; absent: there is none.
    pub policer_mbit: Option<f64>,
    /// With `policer_mbit`: what it lets pass at once, as the time that it takes at that rate, in milliseconds; 100 where it
    /// is not given.
    pub policer_burst_ms: Option<f64>,
    /// Room of the bottleneck's queue in bandwidth-delay products; 1 where neither this nor `queue_kb` is given.
    pub queue_bdp: Option<f64>,
    /// Room of the bottleneck's queue in 1000 bytes.
    pub queue_kb: Option<f64>,
    /// Who is served next, and what is dropped or marked: `drop-tail`, `fq`, `codel`, `codel-ecn`, `step` or `dualpi2`.
    pub queue_discipline: QueueDiscipline,
    /// With `step`: packets that wait longer are marked, in milliseconds; 1 where it is not given.
    pub mark_ms: Option<f64>,
    /// What becomes of marks beyond the queue, and of packets that could be marked: `kept`, `cleared` (no mark is left),
    /// `forged` (all that can be marked is), or `dropped` (what can be marked is dropped).
    pub marks: Marks,
    /// Share of packets lost at random from left to right, 0 to 1.
    pub loss: f64,
    /// Share of packets lost at random from right to left, 0 to 1.
    pub loss_reverse: f64,
    /// Mean number of packets lost in a row (Gilbert–Elliott), at least 1; absent: each loss is independent.
    pub burst: Option<f64>,
    /// Each packet takes up to this much longer, uniformly; order is kept.
    pub jitter_ms: f64,
    /// Share of packets held back by 2 to 8 packet times, so that later ones overtake them.
    pub reorder: f64,
    /// Share of packets that arrive twice.
    pub duplicate: f64,
    /// Share of packets that arrive with wrong bytes.
    pub corrupt: f64,
    /// Largest IP packet that passes, in bytes.
    pub mtu: u32,
    /// Hosts may hand many packets of a flow to the path at once, as to a card that cuts them up, and receive them so: the
    /// emulator reaches higher rates. What befalls each packet does not change; they arrive in groups. The simulator has
    /// no need of it.
    pub super_packets: bool,
    /// Everything random follows from it.
    pub seed: u64,
    /// How the path changes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Flows that share it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<CrossTraffic>,
}

impl Scenario {
    /// A clean path: 1 bandwidth-delay product of queue, no impairment, MTU 1500.
    pub fn new(bottleneck_mbit: f64, rtt_ms: f64) -> Scenario {
        Scenario {
            name: String::new(),
            nic_mbit: None,
            bottleneck_mbit,
            rtt_ms,
            policer_mbit: None,
            policer_burst_ms: None,
            queue_bdp: None,
            queue_kb: None,
            queue_discipline: QueueDiscipline::DropTail,
            mark_ms: None,
            marks: Marks::Kept,
            loss: 0.0,
            loss_reverse: 0.0,
            burst: None,
            jitter_ms: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            mtu: 1500,
            super_packets: false,
            seed: 1,
            steps: Vec::new(),
            traffic: Vec::new(),
        }
    }

    /// Read a scenario from TOML text and check it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let lines = FieldLines::read(text)?;
        let scenario: Scenario = toml::from_str(text).map_err(|error| ScenarioError::syntax(text, &error))?;
        if let Some(missing) = REQUIRED.iter().find(|field| lines.of(field).is_none()) {
            return Err(ScenarioError::invalid(None, format!("{missing} is missing; it must be given")));
        }
        scenario.validate().map_err(|bad| {
            let line = lines.of_invalid(&bad);
            // the line tells the entry
            let bad = if line.is_some() { InvalidField { entry: None, ..bad } } else { bad };
            ScenarioError::invalid(line, bad.to_string())
        })?;
        Ok(scenario)
    }

    /// Read a scenario from a TOML file and check it.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Unreadable { file: path.to_owned(), source })?;
        Scenario::parse(&text).map_err(|error| error.in_file(path))
    }

    /// Room of the bottleneck's queue: what may wait, in bytes. At least one packet of the MTU.
    pub fn queue_bytes(&self) -> u64 {
        let asked = match self.queue_kb {
            Some(kb) => kb * 1000.0,
            None => self.queue_bdp.unwrap_or(1.0) * self.bdp(),
        };
        (asked.round() as u64).max(u64::from(self.mtu))
    }

    /// Bandwidth-delay product: what fills the empty path, in bytes.
    pub fn bdp_bytes(&self) -> u64 {
        self.bdp().round() as u64
    }

    /// What passes, in 10⁶ bit/s: a policer may be slower than the bottleneck.
    pub fn passing_mbit(&self) -> f64 {
        self.policer_mbit.unwrap_or(f64::INFINITY).min(self.bottleneck_mbit)
    }

    /// What a policer of this rate lets pass at once, in bytes. At least one packet of the MTU.
    pub(crate) fn policer_burst_bytes(&self, mbit: f64) -> u64 {
        let burst_ms = self.policer_burst_ms.unwrap_or(POLICER_BURST_MS);
        ((mbit * burst_ms * 125.0).round() as u64).max(u64::from(self.mtu))
    }

    /// Refuse what no path can be.
    pub fn validate(&self) -> Result<(), InvalidField> {
        positive("bottleneck_mbit", self.bottleneck_mbit, RATE_MAX_MBIT)?;
        if let Some(nic) = self.nic_mbit {
            positive("nic_mbit", nic, RATE_MAX_MBIT)?;
        }
        not_negative("rtt_ms", self.rtt_ms, DELAY_MAX_MS)?;
        not_negative("jitter_ms", self.jitter_ms, DELAY_MAX_MS)?;
        if let Some(mbit) = self.policer_mbit {
            positive("policer_mbit", mbit, RATE_MAX_MBIT)?;
        }
        if let Some(burst_ms) = self.policer_burst_ms {
            not_negative("policer_burst_ms", burst_ms, DELAY_MAX_MS)?;
            if self.policer_mbit.is_none() {
                return refuse("policer_burst_ms", "goes with policer_mbit");
            }
        }
        if let Some(bdp) = self.queue_bdp {
            not_negative("queue_bdp", bdp, QUEUE_MAX_BDP)?;
        }
        if let Some(kb) = self.queue_kb {
            not_negative("queue_kb", kb, QUEUE_MAX_KB)?;
            if self.queue_bdp.is_some() {
                return refuse("queue_kb", "cannot stand beside queue_bdp; give one of the two");
            }
        }
        if let Some(mark_ms) = self.mark_ms {
            not_negative("mark_ms", mark_ms, DELAY_MAX_MS)?;
            if self.queue_discipline != QueueDiscipline::Step {
                return refuse("mark_ms", "goes with queue_discipline = \"step\"");
            }
        }
        for (field, value) in [
            ("loss", self.loss),
            ("loss_reverse", self.loss_reverse),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ] {
            share(field, value)?;
        }
        if let Some(burst) = self.burst {
            self.validate_burst(burst)?;
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return refuse("mtu", format!("must be {MTU_MIN} to {MTU_MAX} bytes, not {}", self.mtu));
        }
        if self.super_packets {
            self.validate_super_packets()?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            step.validate(self.burst).map_err(|bad| bad.in_entry("steps", index))?;
        }
        for (index, traffic) in self.traffic.iter().enumerate() {
            traffic.validate().map_err(|bad| bad.in_entry("traffic", index))?;
        }
        Ok(())
    }

    /// The flows that share the path, as traffic for a workload, in the background.
    pub fn cross_traffic(&self) -> Result<Vec<Traffic>, InvalidField> {
        let traffic = self.traffic.iter().enumerate();
        traffic.map(|(index, one)| one.traffic(self).map_err(|bad| bad.in_entry("traffic", index))).collect()
    }

    fn validate_burst(&self, burst: f64) -> Result<(), InvalidField> {
        if !(burst.is_finite() && burst >= 1.0) {
            return refuse("burst", format!("must be at least 1 packet, not {burst}"));
        }
        let share = self.loss.max(self.loss_reverse);
        // Between two bursts at least one packet passes, so a burst of b packets loses at most b of b + 1.
        if share > burst / (burst + 1.0) {
            let reason = format!("of {burst} packets cannot lose a share of {share}; give longer bursts");
            return refuse("burst", reason);
        }
        Ok(())
    }

    /// Packets that go on together are neither changed nor moved apart.
    fn validate_super_packets(&self) -> Result<(), InvalidField> {
        let apart = [
            ("jitter_ms", self.jitter_ms),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ];
        match apart.iter().find(|(_, value)| *value > 0.0) {
            Some((field, _)) => {
                refuse("super_packets", format!("cannot stand beside {field}; take one of the two out"))
            }
            None => Ok(()),
        }
    }

    fn bdp(&self) -> f64 {
        // Mbit/s × ms = 1000 bits
        self.bottleneck_mbit * self.rtt_ms * 1000.0 / 8.0
    }
}

/// The long haul that FOBS was made for: 100 Mb/s, 65 ms.
impl Default for Scenario {
    fn default() -> Scenario {
        Scenario::new(100.0, 65.0)
    }
}

/// As a scenario file: the output can be pasted into one.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&toml::to_string(self).map_err(|_| fmt::Error)?)
    }
}

/// What policers let pass at once is mostly configured as a time; this one is common.
const POLICER_BURST_MS: f64 = 100.0;
const REQUIRED: [&str; 2] = ["bottleneck_mbit", "rtt_ms"];

#[cfg(test)]
mod tests;
