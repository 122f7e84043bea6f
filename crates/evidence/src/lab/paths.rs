//! The paths that an experiment goes over, as a table of `scenarios/sets` has them.

use longhaul_lab::Scenario;
use serde::Deserialize;

/// A path, and how it is used.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Path {
    /// Whether a quick run takes it.
    #[serde(default, rename = "quick")]
    pub(crate) is_quick: bool,
    /// What sockets have for a window; the kernel's own sizing where absent.
    pub(crate) window_bytes: Option<u64>,
    /// What happens to UDP alone.
    #[serde(default)]
    pub(crate) udp: Treatment,
    /// Under its name.
    #[serde(rename = "path")]
    pub(crate) scenario: Scenario,
}

/// What happens to UDP alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Treatment {
    /// The same as to everything else.
    #[default]
    None,
    /// Dropped above so many Mb/s.
    PolicedMbit(f64),
    /// Dropped for the first part of every second, in milliseconds.
    BurstsMs(u64),
    /// Dropped from the start.
    Blocked,
    /// Dropped from so many milliseconds on.
    BlockedAfterMs(u64),
}

impl Path {
    /// All of a table.
    ///
    /// # Panics
    /// If it is none: they come with the program.
    pub(crate) fn table(text: &str) -> Vec<Path> {
        let Table { paths } = toml::from_str(text).unwrap_or_else(|error| panic!("{error}"));
        let checked = |path: Path| {
            path.scenario.validate().unwrap_or_else(|bad| panic!("{bad}"));
            path.named()
        };
        paths.into_iter().map(checked).collect()
    }

    /// One that no table has.
    pub(crate) fn of(scenario: Scenario) -> Path {
        Path { is_quick: false, window_bytes: None, udp: Treatment::None, scenario }.named()
    }

    /// What tables call it.
    pub(crate) fn name(&self) -> &str {
        &self.scenario.name
    }

    /// The same, named after what it does.
    pub(crate) fn named(mut self) -> Path {
        let Scenario { bottleneck_mbit, rtt_ms, loss, jitter_ms, queue_bdp, .. } = self.scenario;
        let parts = [
            (loss > 0.0).then(|| format!("loss {} %", loss * 100.0)),
            queue_bdp.map(|bdp| format!("queue {bdp} BDP")),
            (jitter_ms > 0.0).then(|| format!("jitter {jitter_ms} ms")),
            self.window_bytes.map(|bytes| format!("{} KB windows", bytes >> 10)),
            self.udp.name(),
        ];
        let path = format!("{bottleneck_mbit} Mb/s, {rtt_ms} ms");
        let parts: Vec<String> = [path].into_iter().chain(parts.into_iter().flatten()).collect();
        self.scenario.name = parts.join(", ");
        self
    }
}

impl Treatment {
    /// Nothing, or next to nothing, ever passes from some moment on.
    pub(crate) fn is_for_good(self) -> bool {
        matches!(self, Treatment::Blocked | Treatment::BlockedAfterMs(_) | Treatment::PolicedMbit(_))
    }

    fn name(self) -> Option<String> {
        match self {
            Treatment::None => None,
            Treatment::PolicedMbit(mbit) => Some(format!("UDP policed to {mbit} Mb/s")),
            Treatment::BurstsMs(ms) => Some(format!("UDP dropped {ms} ms of each second")),
            Treatment::Blocked => Some("UDP blocked".into()),
            Treatment::BlockedAfterMs(ms) => Some(format!("UDP blocked after {} s", ms / 1000)),
        }
    }
}

#[derive(Deserialize)]
struct Table {
    paths: Vec<Path>,
}

/// Tables, by what goes over them.
pub(crate) const VERSUS: &str = include_str!("../../../../scenarios/sets/versus.toml");
pub(crate) const TRANSPORTS: &str = include_str!("../../../../scenarios/sets/transports.toml");
pub(crate) const STREAMS: &str = include_str!("../../../../scenarios/sets/streams.toml");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_special() {
        let names = |table| Path::table(table).iter().map(|path| path.name().to_owned()).collect::<Vec<_>>();
        let [versus, transports, streams] = [VERSUS, TRANSPORTS, STREAMS].map(names);
        assert_eq!([versus.len(), transports.len(), streams.len()], [14, 12, 10]);
        assert_eq!(
            (versus[0].as_str(), versus[2].as_str()),
            ("100 Mb/s, 65 ms", "500 Mb/s, 40 ms, loss 0.01 %")
        );
        assert_eq!(versus[12], "100 Mb/s, 65 ms, queue 0.2 BDP");
        assert_eq!(transports[4], "100 Mb/s, 20 ms, UDP policed to 10 Mb/s");
        assert_eq!(
            transports[9..],
            ["100 Mb/s, 40 ms, UDP blocked after 4 s", "100 Mb/s, 65 ms", "20 Mb/s, 150 ms, jitter 2 ms"]
        );
        assert_eq!(streams[1], "20 Mb/s, 150 ms, 64 KB windows");
        assert_eq!(streams[9], "200 Mb/s, 40 ms, loss 0.02 %");
    }
}
