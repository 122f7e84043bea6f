//! Striped streams over a path: both ends are the built program, each on its host.

use super::ExperimentError;
use super::bench::Bench;
use super::process::Process;
use crate::{End, Lab};
use serde::Deserialize;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// A stream to measure.
#[derive(Clone, Debug)]
pub(super) struct Striped {
    pub(super) streams: Streams,
    /// Size of each socket's buffers; the kernel's own sizing where absent.
    pub(super) window_bytes: Option<u64>,
    pub(super) partition: Partition,
    /// What the program hands over with each call.
    pub(super) write_bytes: u64,
    pub(super) is_sealed: bool,
    /// Both ends on the left host, not over the path.
    pub(super) is_loopback: bool,
    /// Named, so that results do not depend on what a host's administrator prefers.
    pub(super) congestion: &'static str,
    pub(super) amount: Amount,
}

/// How many sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Streams {
    Auto,
    Fixed(u32),
}

/// How what is written is spread over them, as the program's option names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partition {
    /// The next block goes to whichever has room.
    Auto,
    /// PSockets: each write in equal partitions.
    Equal,
}

/// When a stream is at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    /// After so many bytes.
    Bytes(u64),
    /// When the receiver has measured for so long; what came in during the first seconds does not count.
    Seconds { skip: f64, measure: f64 },
}

/// What came of a stream.
#[derive(Clone, Debug)]
pub(super) struct Streamed {
    pub(super) received: Received,
    pub(super) sent: Sent,
}

/// What the receiver measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Received {
    /// Of the program's bytes; without those that do not count.
    pub(super) goodput_mbps: f64,
    /// Seconds since the first byte, and bytes that had arrived by then.
    pub(super) arrived: Vec<(f64, u64)>,
}

/// What the sender measured.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    /// From when it was told to begin until the other side had everything.
    pub(super) seconds: f64,
    /// Seconds, and from then on so many lanes carried data.
    pub(super) course: Vec<(f64, u32)>,
    /// Numbers of lanes that were tried last, and Mb/s with each.
    pub(super) tried_mbps: Vec<(u32, f64)>,
}

impl Default for Striped {
    fn default() -> Striped {
        Striped {
            streams: Streams::Fixed(1),
            window_bytes: None,
            partition: Partition::Auto,
            write_bytes: 1 << 20,
            is_sealed: false,
            is_loopback: false,
            congestion: CONGESTION_CONTROL,
            amount: Amount::Seconds { skip: 1.0, measure: 2.0 },
        }
    }
}

impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Streams::Auto => f.write_str("auto"),
            Streams::Fixed(streams) => write!(f, "{streams}"),
        }
    }
}

impl Streamed {
    /// How many sockets carried data at the end.
    pub(super) fn streams(&self) -> u32 {
        self.sent.course.last().map_or(1, |(_, streams)| *streams)
    }

    /// Mb/s from the first byte until so many seconds later.
    pub(super) fn mbps_until(&self, at_s: f64) -> f64 {
        let arrived =
            self.received.arrived.iter().find(|(at, _)| *at >= at_s).or(self.received.arrived.last());
        arrived.map_or(0.0, |(at, bytes)| *bytes as f64 * 8e-6 / at.max(f64::MIN_POSITIVE))
    }
}

impl Striped {
    /// Send from left to right, one stream, and see what comes of it.
    pub(super) fn run(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Streamed, ExperimentError> {
        let mut streamed = run_together(bench, lab, std::slice::from_ref(self))?;
        Ok(streamed.remove(0))
    }

    /// Begin to send from left to right, until what this returns is dropped.
    pub(super) fn begin(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Underway, ExperimentError> {
        let mut underway = self.connect(bench, lab)?;
        underway.go(bench)?;
        Ok(underway)
    }

    fn connect(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Underway, ExperimentError> {
        let mut receiver = self.receiver(bench, lab)?;
        let Listening { listening } = said(&mut receiver, bench, START_TIME_MAX)?;
        Ok(Underway { sender: self.sender(bench, lab, listening)?, receiver, port: listening.port() })
    }

    /// Options that both ends need.
    fn shared_args(&self) -> Vec<String> {
        let mut args = vec!["--congestion".into(), self.congestion.into()];
        if let Some(bytes) = self.window_bytes {
            args.extend(["--window".into(), bytes.to_string()]);
        }
        if !self.is_sealed {
            args.push("--plain".into());
        }
        args
    }

    fn receiver(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Process, ExperimentError> {
        let (host, address) = if self.is_loopback {
            (End::Left, Ipv4Addr::LOCALHOST)
        } else {
            (End::Right, lab.address(End::Right))
        };
        let mut command = lab.command(host, bench.options.program);
        command.args(["lab-stream", "receive", "--listen", &format!("{address}:0")]);
        command.args(self.shared_args());
        if let Amount::Seconds { skip, measure } = self.amount {
            command.args(["--skip", &skip.to_string(), "--seconds", &measure.to_string()]);
        }
        Process::start("the receiver", &mut command)
    }

    fn sender(&self, bench: &Bench<'_>, lab: &Lab, to: SocketAddr) -> Result<Process, ExperimentError> {
        let mut command = lab.command(End::Left, bench.options.program);
        command.args(["lab-stream", "send", "--to", &to.to_string(), "--streams", &self.streams.to_string()]);
        command.args(self.shared_args()).args(["--write", &self.write_bytes.to_string()]);
        if self.partition == Partition::Equal {
            command.args(["--partition", "equal"]);
        }
        if let Amount::Bytes(bytes) = self.amount {
            command.args(["--bytes", &bytes.to_string()]);
        }
        Process::start("the sender", &mut command)
    }

    fn limit(&self) -> Duration {
        match self.amount {
            Amount::Bytes(_) => BYTES_TIME_MAX,
            Amount::Seconds { skip, measure } => Duration::from_secs_f64(skip + measure) + SECONDS_GRACE,
        }
    }
}

/// Send several streams from left to right, from the same moment on.
pub(super) fn run_together(
    bench: &Bench<'_>,
    lab: &Lab,
    streams: &[Striped],
) -> Result<Vec<Streamed>, ExperimentError> {
    bench.run(lab, || {
        let mut underway =
            streams.iter().map(|one| one.connect(bench, lab)).collect::<Result<Vec<_>, _>>()?;
        for one in &mut underway {
            let Connected { .. } = said(&mut one.sender, bench, START_TIME_MAX)?;
        }
        for one in &mut underway {
            one.sender.tell("go")?;
        }
        let ends = underway.iter_mut().zip(streams);
        ends.map(|(one, stream)| {
            Ok(Streamed {
                received: said(&mut one.receiver, bench, stream.limit())?,
                sent: said(&mut one.sender, bench, SECONDS_GRACE)?,
            })
        })
        .collect()
    })
}

/// A stream on its way.
pub(super) struct Underway {
    sender: Process,
    receiver: Process,
    /// Where it arrives.
    pub(super) port: u16,
}

impl Underway {
    fn go(&mut self, bench: &Bench<'_>) -> Result<(), ExperimentError> {
        let Connected { .. } = said(&mut self.sender, bench, START_TIME_MAX)?;
        self.sender.tell("go")
    }

    /// Whether both ends are still at it.
    pub(super) fn is_running(&mut self) -> bool {
        self.sender.is_running() && self.receiver.is_running()
    }
}

/// Where the receiver waits.
#[derive(Deserialize)]
struct Listening {
    listening: SocketAddr,
}

/// The sender is ready to begin.
#[derive(Deserialize)]
struct Connected {
    #[serde(rename = "connected")]
    _peer: SocketAddr,
}

/// The next line of JSON that a program says.
fn said<T: for<'de> Deserialize<'de>>(
    process: &mut Process,
    bench: &Bench<'_>,
    limit: Duration,
) -> Result<T, ExperimentError> {
    let line = process.line(bench, limit)?;
    serde_json::from_str(&line).map_err(|error| {
        process.failed(format!("says what nobody understands: {error}; is it this version?"))
    })
}

/// What programs use where an experiment does not ask for another.
pub(super) const CONGESTION_CONTROL: &str = "cubic";
const START_TIME_MAX: Duration = Duration::from_secs(20);
const BYTES_TIME_MAX: Duration = Duration::from_secs(120);
const SECONDS_GRACE: Duration = Duration::from_secs(20);
