//! `longhaul lab-stream`: the two ends of a striped stream that the lab measures. Each says JSON lines on standard output:
//! first that it is ready, at last what it measured.

use crate::args::{LabReceiveArgs, LabSendArgs, LabSocketArgs, LabStreamArgs, LabStreamEnd};
use crate::log;
use crate::output::{self, Exit};
use longhaul::Failure;
use longhaul::stripe::{LaneStats, StripeOptions, StripeStats, StripedStream};
use serde_json::{Value as Json, json};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Be that end.
pub fn run(args: &LabStreamArgs) -> Result<Exit, Failure> {
    log::start("error")?;
    let done = match &args.end {
        LabStreamEnd::Receive(args) => receive(args),
        LabStreamEnd::Send(args) => send(args),
    };
    done.map(|()| Exit::Done).map_err(|error| Failure::Failed(error.to_string()))
}

fn options(args: &LabSocketArgs) -> StripeOptions {
    // What was learnt on one emulated path is wrong on the next, which has the same addresses.
    let mut options = StripeOptions::new().remember(false);
    if let Some(bytes) = args.window {
        options = options.window(bytes as usize);
    }
    if let Some(name) = &args.congestion {
        options = options.congestion(name);
    }
    if args.plain { options.plain() } else { options }
}

fn receive(args: &LabReceiveArgs) -> io::Result<()> {
    let listener = options(&args.socket).bind(args.listen)?;
    output::result(&json!({"listening": listener.local_addr()?}).to_string());
    let (mut stream, _) = listener.accept_timeout(PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut tally = Tally::new(args.skip);
    let mut piece = vec![0; PIECE_LEN];
    let until = args.seconds.map(|seconds| args.skip + seconds);
    while until.is_none_or(|until| tally.seconds() < until) {
        match stream.read(&mut piece)? {
            0 => break,
            len => tally.add(len as u64),
        }
    }
    output::result(&tally.json().to_string());
    // The sender learns from it that this is all.
    stream.shutdown(Shutdown::Both)?;
    stream.close().or_else(ended_by_receiver)
}

fn send(args: &LabSendArgs) -> io::Result<()> {
    let stream = options(&args.socket).streams(args.streams).partition(args.partition).connect(args.to)?;
    output::result(&json!({"connected": stream.peer_addr()?}).to_string());
    io::stdin().read_line(&mut String::new())?;
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let watched = stream.try_clone()?;
    let (sent, watch) = thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&watched, began, &over));
        let sent = write(stream, args);
        over.store(true, Ordering::Relaxed);
        (sent, watch.join().unwrap_or_default())
    });
    let bytes = sent?;
    output::result(&watch.json(bytes, began.elapsed()).to_string());
    Ok(())
}

/// Write until all is written, or until the receiver has enough; says how many bytes went out.
fn write(mut stream: StripedStream, args: &LabSendArgs) -> io::Result<u64> {
    let piece = vec![7; args.write as usize];
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sent = 0;
    while args.bytes.is_none_or(|bytes| sent < bytes) {
        let left = args.bytes.map_or(u64::MAX, |bytes| bytes - sent);
        let len = piece.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match stream.write_all(&piece[..len]) {
            Ok(()) => sent += len as u64,
            Err(error) => {
                ended_by_receiver(error)?;
                break;
            }
        }
    }
    stream.close().or_else(ended_by_receiver)?;
    Ok(sent)
}

/// The receiver reads no more when it has measured for long enough.
fn ended_by_receiver(error: io::Error) -> io::Result<()> {
    match error.kind() {
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Ok(()),
        _ => Err(error),
    }
}

/// What came in, over time.
struct Tally {
    /// When the first byte came.
    began: Option<Instant>,
    skip: f64,
    bytes: u64,
    per_tenth: Vec<u64>,
    /// Seconds and bytes when counting began, and at the last byte.
    from: Option<(f64, u64)>,
    until: (f64, u64),
}

impl Tally {
    fn new(skip: f64) -> Tally {
        Tally { began: None, skip, bytes: 0, per_tenth: vec![], from: None, until: (0.0, 0) }
    }

    /// Since the first byte.
    fn seconds(&self) -> f64 {
        self.began.map_or(0.0, |began| began.elapsed().as_secs_f64())
    }

    fn add(&mut self, bytes: u64) {
        self.began.get_or_insert_with(Instant::now);
        let now = self.seconds();
        let tenth = (now * 10.0) as usize;
        if self.per_tenth.len() <= tenth {
            self.per_tenth.resize(tenth + 1, 0);
        }
        self.per_tenth[tenth] += bytes;
        self.bytes += bytes;
        if self.from.is_none() && now >= self.skip {
            // What has just come in belongs to the time before.
            self.from = Some((now, self.bytes));
        }
        self.until = (now, self.bytes);
    }

    fn json(&self) -> Json {
        let (from_s, from_bytes) = self.from.unwrap_or_default();
        let (seconds, bytes) = (self.until.0 - from_s, self.until.1 - from_bytes);
        let mbps = if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 };
        json!({"bytes": bytes, "seconds": seconds, "goodput_mbps": mbps, "bytes_per_tenth": self.per_tenth})
    }
}

/// What was seen of a stream while it sent.
#[derive(Default)]
struct Watch {
    /// Seconds, and from then on so many lanes carried data.
    course: Vec<(f64, usize)>,
    /// When it was last seen with all its lanes.
    last: Option<StripeStats>,
}

fn watch(stream: &StripedStream, began: Instant, over: &AtomicBool) -> Watch {
    let mut watch = Watch::default();
    while !over.load(Ordering::Relaxed) {
        let stats = stream.stats();
        if !stats.lanes.is_empty() {
            if watch.course.last().is_none_or(|(_, lanes)| *lanes != stats.lanes_active) {
                watch.course.push((began.elapsed().as_secs_f64(), stats.lanes_active));
            }
            watch.last = Some(stats);
        }
        thread::sleep(WATCH_EVERY);
    }
    watch
}

impl Watch {
    fn json(&self, bytes: u64, took: Duration) -> Json {
        let last = self.last.as_ref();
        let tried = last.map_or(&[][..], |stats| &stats.lanes_tried);
        let tried: Vec<_> = tried.iter().map(|(lanes, rate)| (lanes, rate * 8e-6)).collect();
        json!({
            "bytes": bytes,
            "seconds": took.as_secs_f64(),
            "goodput_mbps": bytes as f64 * 8e-6 / took.as_secs_f64(),
            "course": self.course,
            "tried_mbps": tried,
            "lanes_lost": last.map_or(0, |stats| stats.lanes_lost),
            "lanes": last.map_or(vec![], |stats| stats.lanes.iter().map(lane).collect()),
        })
    }
}

fn lane(lane: &LaneStats) -> Json {
    json!({
        "bytes_sent": lane.bytes_sent,
        "retransmitted_bytes": lane.tcp.retransmitted_bytes,
        "rtt_ms": lane.tcp.rtt.as_secs_f64() * 1e3,
        "cwnd_bytes": lane.tcp.cwnd_bytes,
    })
}

/// Neither end waits longer for the other.
const PATIENCE: Duration = Duration::from_secs(15);
/// Read at a time.
const PIECE_LEN: usize = 1 << 20;
const WATCH_EVERY: Duration = Duration::from_millis(50);
