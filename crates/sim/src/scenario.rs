//! One path description, read by the simulator and by the emulated WAN alike.

use crate::queue::QueueDiscipline;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use toml::de::DeTable;

/// A path between two hosts, the same in both directions but for the share of loss.
///
/// In order, a packet meets: the sending host's device (`nic_mbit`), the bottleneck with its drop-tail queue, the
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
    /// Room of the bottleneck's queue in bandwidth-delay products; 1 where neither this nor `queue_kb` is given.
    pub queue_bdp: Option<f64>,
    /// Room of the bottleneck's queue in 1000 bytes.
    pub queue_kb: Option<f64>,
    /// Who is served next, and what is dropped: `drop-tail`, `fq` or `codel`.
    pub queue_discipline: QueueDiscipline,
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
    /// Everything random follows from it.
    pub seed: u64,
}

impl Scenario {
    /// A clean path: 1 bandwidth-delay product of queue, no impairment, MTU 1500.
    pub fn new(bottleneck_mbit: f64, rtt_ms: f64) -> Scenario {
        Scenario {
            name: String::new(),
            nic_mbit: None,
            bottleneck_mbit,
            rtt_ms,
            queue_bdp: None,
            queue_kb: None,
            queue_discipline: QueueDiscipline::DropTail,
            loss: 0.0,
            loss_reverse: 0.0,
            burst: None,
            jitter_ms: 0.0,
            reorder: 0.0,
            duplicate: 0.0,
            corrupt: 0.0,
            mtu: 1500,
            seed: 1,
        }
    }

    /// Read a scenario from TOML text and check it.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let lines = FieldLines::read(text)?;
        let scenario: Scenario = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        for required in REQUIRED {
            if lines.of(required).is_none() {
                return Err(ScenarioError::Invalid {
                    file: None,
                    line: None,
                    problem: format!("{required} is missing; it must be given"),
                });
            }
        }
        scenario.validate().map_err(|bad| ScenarioError::Invalid {
            file: None,
            line: lines.of(bad.field),
            problem: bad.to_string(),
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

    /// Refuse what no path can be.
    pub fn validate(&self) -> Result<(), InvalidField> {
        positive("bottleneck_mbit", self.bottleneck_mbit, RATE_MAX_MBIT)?;
        if let Some(nic) = self.nic_mbit {
            positive("nic_mbit", nic, RATE_MAX_MBIT)?;
        }
        not_negative("rtt_ms", self.rtt_ms, DELAY_MAX_MS)?;
        not_negative("jitter_ms", self.jitter_ms, DELAY_MAX_MS)?;
        if let Some(bdp) = self.queue_bdp {
            not_negative("queue_bdp", bdp, QUEUE_MAX_BDP)?;
        }
        if let Some(kb) = self.queue_kb {
            not_negative("queue_kb", kb, QUEUE_MAX_KB)?;
            if self.queue_bdp.is_some() {
                return refuse("queue_kb", "cannot stand beside queue_bdp; give one of the two");
            }
        }
        for (field, value) in [
            ("loss", self.loss),
            ("loss_reverse", self.loss_reverse),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ] {
            if !(0.0..=1.0).contains(&value) {
                return refuse(field, format!("must be a share from 0 to 1, not {value}"));
            }
        }
        if let Some(burst) = self.burst {
            self.validate_burst(burst)?;
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return refuse("mtu", format!("must be {MTU_MIN} to {MTU_MAX} bytes, not {}", self.mtu));
        }
        Ok(())
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
        writeln!(f, "name = {}", toml::Value::from(self.name.as_str()))?;
        for (field, value) in [
            ("nic_mbit", self.nic_mbit),
            ("bottleneck_mbit", Some(self.bottleneck_mbit)),
            ("rtt_ms", Some(self.rtt_ms)),
            ("queue_bdp", self.queue_bdp),
            ("queue_kb", self.queue_kb),
            ("loss", Some(self.loss)),
            ("loss_reverse", Some(self.loss_reverse)),
            ("burst", self.burst),
            ("jitter_ms", Some(self.jitter_ms)),
            ("reorder", Some(self.reorder)),
            ("duplicate", Some(self.duplicate)),
            ("corrupt", Some(self.corrupt)),
        ] {
            if let Some(value) = value {
                writeln!(f, "{field} = {value:?}")?;
            }
        }
        if self.queue_discipline != QueueDiscipline::DropTail {
            writeln!(f, "queue_discipline = \"{}\"", self.queue_discipline)?;
        }
        writeln!(f, "mtu = {}\nseed = {}", self.mtu, self.seed)
    }
}

/// A field of a scenario that no path can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} {reason}")]
pub struct InvalidField {
    /// Which.
    pub field: &'static str,
    /// Why, to be read after the name of the field.
    pub reason: String,
}

/// Why a scenario could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read the scenario {}: {source}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or says what no scenario can say.
    #[error("{}{problem}", place(file.as_deref(), *line))]
    Invalid {
        /// The file, where it came from one.
        file: Option<PathBuf>,
        /// The line at fault, counted from 1.
        line: Option<usize>,
        /// What is wrong, in one line.
        problem: String,
    },
}

impl ScenarioError {
    fn in_file(self, path: &Path) -> ScenarioError {
        match self {
            ScenarioError::Invalid { line, problem, .. } => {
                ScenarioError::Invalid { file: Some(path.to_owned()), line, problem }
            }
            other => other,
        }
    }
}

/// Where each field stands in the text.
struct FieldLines(Vec<(String, usize)>);

impl FieldLines {
    fn read(text: &str) -> Result<FieldLines, ScenarioError> {
        let table = DeTable::parse(text).map_err(|error| syntax_error(text, &error))?;
        let mut fields: Vec<(String, usize)> = table
            .get_ref()
            .iter()
            .map(|(key, _)| (key.get_ref().to_string(), line_of(text, key.span().start)))
            .collect();
        fields.sort_by_key(|(_, line)| *line);
        match fields.iter().find(|(field, _)| !FIELDS.contains(&field.as_str())) {
            None => Ok(FieldLines(fields)),
            Some((unknown, line)) => Err(ScenarioError::Invalid {
                file: None,
                line: Some(*line),
                problem: longhaul_proto::suggest::unknown("field", unknown, FIELDS.iter().copied()),
            }),
        }
    }

    fn of(&self, field: &str) -> Option<usize> {
        self.0.iter().find(|(name, _)| name == field).map(|(_, line)| *line)
    }
}

fn syntax_error(text: &str, error: &toml::de::Error) -> ScenarioError {
    ScenarioError::Invalid {
        file: None,
        line: error.span().map(|span| line_of(text, span.start)),
        problem: error.message().replace('\n', " "),
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

fn place(file: Option<&Path>, line: Option<usize>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!("{}:{line}: ", file.display()),
        (Some(file), None) => format!("{}: ", file.display()),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}

fn positive(field: &'static str, value: f64, max: f64) -> Result<(), InvalidField> {
    if value > 0.0 && value <= max {
        return Ok(());
    }
    refuse(field, format!("must be above 0 and at most {max}, not {value}"))
}

fn not_negative(field: &'static str, value: f64, max: f64) -> Result<(), InvalidField> {
    if (0.0..=max).contains(&value) {
        return Ok(());
    }
    refuse(field, format!("must be 0 to {max}, not {value}"))
}

fn refuse(field: &'static str, reason: impl Into<String>) -> Result<(), InvalidField> {
    Err(InvalidField { field, reason: reason.into() })
}

const FIELDS: [&str; 16] = [
    "name",
    "nic_mbit",
    "bottleneck_mbit",
    "rtt_ms",
    "queue_bdp",
    "queue_kb",
    "queue_discipline",
    "loss",
    "loss_reverse",
    "burst",
    "jitter_ms",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "seed",
];

const REQUIRED: [&str; 2] = ["bottleneck_mbit", "rtt_ms"];

/// 10 Tb/s: where a packet of the least MTU still lasts longer than a tenth of a nanosecond.
const RATE_MAX_MBIT: f64 = 1e7;
/// One hour.
const DELAY_MAX_MS: f64 = 3.6e6;
/// Far more than any queue; keeps products within 64 bits.
const QUEUE_MAX_BDP: f64 = 1e6;
/// 1 PB: far more than any queue.
const QUEUE_MAX_KB: f64 = 1e12;
/// Smallest packet that every IPv4 link must pass, in bytes (RFC 791).
const MTU_MIN: u32 = 68;
/// Largest IPv4 packet, in bytes (RFC 791).
const MTU_MAX: u32 = 65_535;

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Scenario::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = "name = 'far'\nnic_mbit = 100\nbottleneck_mbit = 622.08\nrtt_ms = 65\nqueue_bdp = 0.5\n\
                    loss = 0.01\nloss_reverse = 1e-3\nburst = 3\njitter_ms = 2\nreorder = 0.1\n\
                    duplicate = 0.2\ncorrupt = 0.3\nmtu = 9000\nseed = 7\n";
        let scenario = Scenario::parse(text).unwrap();
        assert_eq!(scenario.name, "far");
        assert_eq!((scenario.nic_mbit, scenario.bottleneck_mbit), (Some(100.0), 622.08));
        assert_eq!((scenario.burst, scenario.mtu, scenario.seed), (Some(3.0), 9000, 7));
        assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario);
    }

    #[test]
    fn the_list_of_fields_is_that_of_the_type() {
        let mut scenario = Scenario::new(1.0, 1.0);
        (scenario.nic_mbit, scenario.queue_bdp) = (Some(1.0), Some(1.0));
        (scenario.queue_kb, scenario.burst) = (Some(1.0), Some(1.0));
        let table = toml::Table::try_from(&scenario).unwrap();
        let mut fields = FIELDS.to_vec();
        fields.sort_unstable();
        assert_eq!(table.keys().map(String::as_str).collect::<Vec<_>>(), fields);
    }

    #[test]
    fn queue_and_product() {
        let mut scenario = Scenario::new(100.0, 65.0);
        assert_eq!(scenario.bdp_bytes(), 812_500);
        assert_eq!(scenario.queue_bytes(), 812_500);
        scenario.queue_bdp = Some(0.25);
        assert_eq!(scenario.queue_bytes(), 203_125);
        scenario.queue_bdp = Some(0.0);
        assert_eq!(scenario.queue_bytes(), 1500);
        (scenario.queue_bdp, scenario.queue_kb) = (None, Some(64.0));
        assert_eq!(scenario.queue_bytes(), 64_000);
    }

    #[test]
    fn unknown_fields_name_line_and_near_matches() {
        let text = "bottleneck_mbit = 1\nrtt_ms = 1\n\nlos = 0.1\n";
        assert_eq!(problem(text), "line 4: there is no field \"los\"; did you mean loss?");
        let text = "queue_bytes = 1\nbottleneck_mbit = 1\nrtt_ms = 1\n";
        assert_eq!(
            problem(text),
            "line 1: there is no field \"queue_bytes\"; did you mean queue_bdp or queue_kb or queue_discipline?"
        );
        assert!(problem("colour = 1").contains("choose one of name, nic_mbit"));
    }

    #[test]
    fn impossible_values_are_refused_with_their_line() {
        for (line, expected) in [
            ("nic_mbit = 0", "line 3: nic_mbit must be above 0"),
            ("nic_mbit = nan", "line 3: nic_mbit must be above 0"),
            ("queue_bdp = -1", "line 3: queue_bdp must be 0 to"),
            ("queue_kb = inf", "line 3: queue_kb must be 0 to"),
            ("loss = 1.5", "line 3: loss must be a share from 0 to 1, not 1.5"),
            ("loss_reverse = -0.1", "line 3: loss_reverse must be a share"),
            ("burst = 0.5", "line 3: burst must be at least 1 packet"),
            ("burst = 2\nloss = 0.9", "line 3: burst of 2 packets cannot lose a share of 0.9"),
            ("reorder = nan", "line 3: reorder must be a share"),
            ("duplicate = 2", "line 3: duplicate must be a share"),
            ("corrupt = 2", "line 3: corrupt must be a share"),
            ("jitter_ms = -1", "line 3: jitter_ms must be 0 to"),
            ("mtu = 0", "line 3: mtu must be 68 to 65535 bytes, not 0"),
            ("queue_bdp = 1\nqueue_kb = 1", "line 4: queue_kb cannot stand beside queue_bdp"),
        ] {
            let found = problem(&format!("bottleneck_mbit = 1\nrtt_ms = 1\n{line}\n"));
            assert!(found.starts_with(expected), "{line}: {found}");
        }
        assert!(problem("bottleneck_mbit = -5\nrtt_ms = 1").starts_with("line 1: bottleneck_mbit"));
        assert!(problem("bottleneck_mbit = 5\nrtt_ms = nan").starts_with("line 2: rtt_ms"));
    }

    #[test]
    fn what_is_not_a_scenario_is_refused_in_one_line() {
        assert_eq!(problem("rtt_ms = 1"), "bottleneck_mbit is missing; it must be given");
        for text in ["bottleneck_mbit = 'fast'\nrtt_ms = 1", "bottleneck_mbit = = 1", "rtt_ms = 1\nseed = -1"]
        {
            let found = problem(text);
            assert!(found.starts_with("line ") && !found.contains('\n'), "{found}");
        }
    }

    #[test]
    fn files_are_named_in_errors() {
        let missing = Path::new("/nonexistent/path.toml");
        let found = Scenario::load(missing).unwrap_err().to_string();
        assert!(found.starts_with("cannot read the scenario /nonexistent/path.toml: "), "{found}");
        let found =
            Scenario::parse("rtt_ms = -1\nbottleneck_mbit = 1").unwrap_err().in_file(missing).to_string();
        assert!(found.starts_with("/nonexistent/path.toml:1: rtt_ms must be"), "{found}");
    }
}
