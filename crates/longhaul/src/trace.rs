//! The lines of a trace: what a copy did, moment by moment, as one of its two sides knows it.
//!
//! They are those of a [qlog] file as JSON text sequences (RFC 7464): a [`Header`], then a [`Record`] for each event, in the
//! order of time. What qlog's events of QUIC have a name for goes by that name, with fields as there: times in
//! milliseconds, sizes in bytes, rates in bit/s. Everything else is in a namespace of ours.
//!
//! Packets are not told one by one: at 10 Gb/s that would be a million lines a second. Counters are, every 50 ms, and after
//! the first minute every 1200th of the time that the copy has taken: a trace of a day has some megabytes. The states of
//! controllers are looked at ten times as often; they, what limits and what carries the data are told when they change.
//!
//! [qlog]: https://datatracker.ietf.org/doc/draft-ietf-quic-qlog-main-schema/

use longhaul_proto::object::PathFigures;
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::transport::{Carrier, Switch};
use longhaul_proto::units::Rate;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The first line. Its first two fields say what the file is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FILE_SCHEMA`].
    pub file_schema: String,
    /// [`SERIALIZATION_FORMAT`].
    pub serialization_format: String,
    /// What wrote it.
    #[serde(default)]
    pub code_version: String,
    /// What its events have in common.
    pub trace: Head,
}

/// What the events of a trace have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// Whose view it is.
    pub vantage_point: VantagePoint,
    /// [`EVENT_SCHEMAS`].
    pub event_schemas: Vec<String>,
    /// How to read their times.
    pub common_fields: CommonFields,
}

/// Whose view a trace is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VantagePoint {
    /// What this side does in the copy.
    pub name: Role,
    /// `client`: the side that was told to copy.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What a side does in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It has the data.
    Sender,
    /// It gets the data.
    Receiver,
    /// It had two other hosts copy: it knows what they tell.
    Arranger,
}

/// How to read the times of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommonFields {
    /// `relative_to_epoch`.
    pub time_format: String,
    /// When the copy began.
    pub reference_time: ReferenceTime,
}

/// When a copy began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReferenceTime {
    /// `monotonic`.
    pub clock_type: String,
    /// `unknown`.
    pub epoch: String,
    /// The same as date and time (RFC 3339).
    pub wall_clock_time: String,
}

impl Header {
    /// Of a trace that this program writes; the copy began at `wall_clock_time`.
    pub fn new(role: Role, wall_clock_time: String) -> Header {
        Header {
            file_schema: FILE_SCHEMA.into(),
            serialization_format: SERIALIZATION_FORMAT.into(),
            code_version: concat!("longhaul ", env!("CARGO_PKG_VERSION")).into(),
            trace: Head {
                vantage_point: VantagePoint { name: role, kind: "client".into() },
                event_schemas: EVENT_SCHEMAS.map(String::from).into(),
                common_fields: CommonFields {
                    time_format: "relative_to_epoch".into(),
                    reference_time: ReferenceTime {
                        clock_type: "monotonic".into(),
                        epoch: "unknown".into(),
                        wall_clock_time,
                    },
                },
            },
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Milliseconds since the copy began.
    pub time: f64,
    /// Which path it concerns: empty for the first, and for what concerns no path; `1`, `2`, … for further ones.
    #[serde(default, rename = "tuple", alias = "path", skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// What happened.
    #[serde(flatten)]
    pub event: Event,
}

impl Record {
    /// Of the path of that number, so long after the copy began.
    pub fn new(since_began: Duration, path: usize, event: Event) -> Record {
        let path = if path == 0 { String::new() } else { path.to_string() };
        Record { time: millis(since_began), path, event }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", content = "data")]
pub enum Event {
    /// A session with the other side begins to move data; counters begin anew.
    #[serde(rename = "longhaul:session_started")]
    SessionStarted(SessionStarted),
    /// What the check of a path found.
    #[serde(rename = "longhaul:path_checked")]
    PathChecked(PathChecked),
    /// The counters of a path.
    #[serde(rename = "longhaul:path_counted")]
    PathCounted(PathCounted),
    /// How much of the data there is.
    #[serde(rename = "longhaul:data_counted")]
    DataCounted(DataCounted),
    /// What was measured of a path, and what its controller makes of it.
    #[serde(rename = "quic:recovery_metrics_updated")]
    Recovery(Recovery),
    /// A controller does something else: a state of `adaptive`, a phase of BBR.
    #[serde(rename = "quic:congestion_state_updated")]
    State(Change<String>),
    /// Bytes of UDP payload in a full datagram.
    #[serde(rename = "quic:mtu_updated")]
    Mtu(Change<u32>),
    /// What holds the copy back: what did for most of the time since the figures before.
    #[serde(rename = "longhaul:limit_updated")]
    Limit(Change<Limit>),
    /// The rate that the user allows.
    #[serde(rename = "longhaul:rate_limit_updated")]
    RateLimit(RateLimit),
    /// What carries the data.
    #[serde(rename = "longhaul:transport_updated")]
    Transport(TransportUpdated),
    /// What the copy is doing.
    #[serde(rename = "longhaul:phase_updated")]
    Phase(Change<String>),
    /// How the TCP streams do.
    #[serde(rename = "longhaul:streams_counted")]
    Streams(StreamsCounted),
    /// A line of the story that `--why` tells.
    #[serde(rename = "loglevel:info")]
    Info(Line),
    /// Something the user was told in any case.
    #[serde(rename = "loglevel:warning")]
    Warning(Line),
    /// The copy has ended: what `--json` says of it.
    #[serde(rename = "longhaul:copy_ended")]
    Ended(serde_json::Value),
}

impl Event {
    /// A change of what carries the data.
    pub(crate) fn transport(switch: &Switch) -> Event {
        Event::Transport(TransportUpdated { new: switch.to, why: switch.why.clone(), is_trial: switch.trial })
    }
}

/// See [`Event::SessionStarted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStarted {
    /// What this side does.
    pub role: Role,
    /// Name of the controller.
    pub control: String,
    /// Name of what chooses the next packet.
    pub select: String,
    /// What carries the data to begin with, where this side decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transport: Option<Carrier>,
}

/// See [`Event::PathChecked`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathChecked {
    /// This side's address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<IpAddr>,
    /// The other's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<IpAddr>,
    /// Bytes of UDP payload in the datagrams to begin with.
    pub datagram_bytes: u32,
    /// Shortest round trip of the probes, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt: Option<f64>,
    /// At what rate the train of probes came in, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train_rate: Option<u64>,
    /// It came in slower than it left: that is the bottleneck's rate, and else the path may carry more.
    #[serde(default)]
    pub is_bottleneck: bool,
}

/// See [`Event::PathCounted`]. A count is missing where this side does not know it. All are since the session began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PathCounted {
    /// Data datagrams sent, over UDP and over TCP streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_sent: Option<u64>,
    /// Of those, with a packet that had been sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_resent: Option<u64>,
    /// Data datagrams that came in.
    pub packets_received: u64,
    /// Data datagrams that the path lost: the numbers that are missing below the largest that came in. What comes late is
    /// counted until it comes.
    pub packets_lost: u64,
    /// Datagrams that the receiving host dropped, or could not take.
    pub packets_dropped: u64,
    /// Bytes sent, counted as full datagrams of UDP payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_sent: Option<u64>,
    /// Bytes that came in, likewise.
    pub bytes_received: u64,
    /// What the controller takes the path to carry, bit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bandwidth: Option<u64>,
    /// How long the controller takes a packet to wait in the bottleneck's queue, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_delay: Option<f64>,
    /// Share that the controller takes to be lost whatever the rate, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_loss: Option<f64>,
    /// Nothing comes back over it.
    #[serde(default)]
    pub is_silent: bool,
}

impl PathCounted {
    /// What a sender knows of a path over which so many bytes were sent and came in.
    pub fn of_sender(figures: &PathFigures, [sent, received]: [u64; 2]) -> PathCounted {
        let (stats, controller) = (&figures.stats, &figures.controller);
        PathCounted {
            packets_sent: Some(stats.packets_sent),
            packets_resent: Some(stats.packets_resent),
            packets_received: stats.received,
            packets_lost: stats.path_losses(),
            packets_dropped: stats.overruns(),
            bytes_sent: Some(sent),
            bytes_received: received,
            bandwidth: controller.bandwidth.map(|rate| rate.0),
            queue_delay: Some(millis(controller.queue_delay)),
            random_loss: Some(controller.random_loss),
            is_silent: figures.is_silent,
        }
    }
}

/// See [`Event::DataCounted`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataCounted {
    /// Data bytes that the receiver has, with those that it had before.
    pub bytes_done: u64,
    /// Data bytes in all, as far as they are listed.
    pub bytes_total: u64,
}

/// See [`Event::Recovery`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Shortest round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_rtt: Option<f64>,
    /// Smoothed round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smoothed_rtt: Option<f64>,
    /// The round trip measured last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_rtt: Option<f64>,
    /// Mean deviation of the round trip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rtt_variance: Option<f64>,
    /// Bytes that may be on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub congestion_window: Option<u64>,
    /// Bytes on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_in_flight: Option<u64>,
    /// Datagrams on their way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets_in_flight: Option<u64>,
    /// What it is paced at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing_rate: Option<u64>,
}

impl Recovery {
    /// What a sender knows of a path over which it sends datagrams of this length.
    pub fn of_sender(figures: &PathFigures, datagram_len: u64) -> Recovery {
        let rtt = figures.rtt;
        Recovery {
            min_rtt: Some(millis(rtt.min())),
            smoothed_rtt: Some(millis(rtt.smoothed())),
            latest_rtt: Some(millis(rtt.latest())).filter(|_| rtt.is_measured()),
            rtt_variance: Some(millis(rtt.deviation())),
            congestion_window: figures.controller.window,
            bytes_in_flight: Some(figures.packets_in_flight * datagram_len),
            packets_in_flight: Some(figures.packets_in_flight),
            pacing_rate: figures.pacing_rate.filter(|rate| *rate < Rate::FASTEST).map(|rate| rate.0),
        }
    }
}

/// Something is another one from now on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change<T> {
    /// What it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<T>,
    /// What it is.
    pub new: T,
}

/// See [`Event::RateLimit`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateLimit {
    /// In bit/s; `null`: any.
    pub new: Option<u64>,
}

/// See [`Event::Transport`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportUpdated {
    /// What carries the data from now on.
    pub new: Carrier,
    /// Why, in a line.
    pub why: String,
    /// It begins a trial, or ends one that brought nothing.
    pub is_trial: bool,
}

/// See [`Event::Streams`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamsCounted {
    /// Each that there is.
    pub streams: Vec<StreamCounted>,
}

/// A TCP stream, as this host's kernel sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamCounted {
    /// This host's end.
    pub from: SocketAddr,
    /// The other one's.
    pub to: SocketAddr,
    /// Bytes sent and received over it.
    pub bytes: u64,
    /// Its smoothed round trip, milliseconds.
    pub smoothed_rtt: f64,
}

/// A line for people.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The line.
    pub message: String,
}

/// When something is to be told again that may always be told: in a copy that has just begun often, and more and more rarely the
/// longer it has taken.
#[derive(Clone, Debug)]
pub struct Cadence {
    least: Duration,
    last: Option<Duration>,
}

impl Cadence {
    /// So often in the first minute.
    pub fn new(least: Duration) -> Cadence {
        Cadence { least, last: None }
    }

    /// Whether it is time again, so long after the copy began.
    pub fn is_due(&mut self, since_began: Duration) -> bool {
        let every = self.least.max(self.least.mul_f64(since_began.as_secs_f64() / 60.0));
        let is_due = self.last.is_none_or(|last| since_began.saturating_sub(last) >= every);
        if is_due {
            self.last = Some(since_began);
        }
        is_due
    }
}

/// In milliseconds, to the microsecond.
pub fn millis(span: Duration) -> f64 {
    span.as_micros() as f64 / 1e3
}

/// Of a file that is written event by event.
pub const FILE_SCHEMA: &str = "urn:ietf:params:qlog:file:sequential";
/// JSON text sequences.
pub const SERIALIZATION_FORMAT: &str = "application/qlog+json-seq";
/// Those of QUIC by the draft that they follow, that of lines of a log, and ours.
pub const EVENT_SCHEMAS: [&str; 3] =
    ["urn:ietf:params:qlog:events:quic-13", "urn:ietf:params:qlog:events:loglevel", OUR_EVENTS];
/// The events that are ours, by version.
pub const OUR_EVENTS: &str = "urn:longhaul:qlog:events:1";
/// Stands before each line (RFC 7464 §2.2).
pub const RECORD_SEPARATOR: u8 = 0x1E;

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a copy of so many seconds that asks each millisecond.
    fn count(seconds: u64) -> usize {
        let mut cadence = Cadence::new(Duration::from_millis(50));
        (0..seconds * 1000).filter(|ms| cadence.is_due(Duration::from_millis(*ms))).count()
    }

    #[test]
    fn a_short_copy_is_told_closely_and_a_long_one_does_not_fill_the_disk() {
        assert_eq!((count(10), count(60)), (200, 1200));
        assert!((5000..8000).contains(&count(3600)), "{}", count(3600));
    }

    #[test]
    fn a_line_is_as_qlog_has_it() {
        let state = Event::State(Change { old: None, new: "train".into() });
        let record = Record::new(Duration::from_micros(1_234_567), 2, state);
        let text =
            r#"{"time":1234.567,"tuple":"2","name":"quic:congestion_state_updated","data":{"new":"train"}}"#;
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(text).unwrap(), record);
        let of_older_drafts = text.replace("tuple", "path");
        assert_eq!(serde_json::from_str::<Record>(&of_older_drafts).unwrap(), record);
        let shuffled =
            r#"{"data":{"bytes_done":1,"bytes_total":2,"more":3},"name":"longhaul:data_counted","time":5}"#;
        let data = Event::DataCounted(DataCounted { bytes_done: 1, bytes_total: 2 });
        assert_eq!(
            serde_json::from_str::<Record>(shuffled).unwrap(),
            Record::new(Duration::from_millis(5), 0, data)
        );
    }

    #[test]
    fn the_header_says_at_once_what_the_file_is() {
        let header = Header::new(Role::Receiver, "2026-11-27T00:00:00Z".into());
        let text = serde_json::to_string(&header).unwrap();
        assert!(
            text.starts_with(&format!("{{\"file_schema\":\"{FILE_SCHEMA}\",\"serialization_format\"")),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Header>(&text).unwrap(), header);
    }
}
