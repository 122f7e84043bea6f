//! `longhaul lab-stream`: the two ends of a striped stream that the lab measures. Each says JSON lines on standard output:
//! first that it is ready, at last what it measured.

use crate::args::{LabReceiveArgs, LabSendArgs, LabSocketArgs, LabStreamArgs, LabStreamEnd};
use crate::log;
use crate::output::{self, Exit};
use longhaul::Failure;
use longhaul::stripe::{LaneStats, StripeOptions, StripeStats, StripedStream};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
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
    let (stream, _) = listener.accept_timeout(PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut block = stream.read_block(vec![])?;
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let watched = stream.try_clone()?;
    let until = args.seconds.map(|seconds| Duration::from_secs_f64(args.skip + seconds));
    let (arrived, read) = thread::scope(|scope| {
        let arrivals = scope.spawn(|| arrivals(&watched, began, until, &over));
        let mut read = Ok(());
        while !block.is_empty() && !arrivals.is_finished() {
            match stream.read_block(std::mem::take(&mut block)) {
                Ok(next) => block = next,
                Err(error) => {
                    read = Err(error);
                    break;
                }
            }
        }
        over.store(true, Ordering::Relaxed);
        (arrivals.join().unwrap_or_default(), read)
    });
    read?;
    output::result(&arrivals_json(&arrived, args.skip).to_string());
    // The sender learns from it that this is all.
    stream.shutdown(Shutdown::Both)?;
    stream.close().or_else(ended_by_receiver)
}

/// Seconds, and bytes that had arrived by then: whichever lane brought them, and whether or not others before them are
/// still missing. What a program can read comes in leaps where lanes lose packets, which short runs would mistake for speed.
fn arrivals(
    stream: &StripedStream,
    began: Instant,
    until: Option<Duration>,
    over: &AtomicBool,
) -> Vec<(f64, u64)> {
    let mut of_lanes = BTreeMap::new();
    let mut seen = vec![];
    loop {
        let is_last = over.load(Ordering::Relaxed);
        for lane in stream.stats().lanes {
            of_lanes.insert(lane.id, lane.bytes_received);
        }
        let now = began.elapsed();
        seen.push((now.as_secs_f64(), of_lanes.values().sum()));
        if is_last || until.is_some_and(|until| now >= until) {
            return seen;
        }
        let next = SAMPLE_EVERY * seen.len() as u32;
        thread::sleep(next.min(until.unwrap_or(next)).saturating_sub(began.elapsed()));
    }
}

fn arrivals_json(arrived: &[(f64, u64)], skip_s: f64) -> Json {
    let first = arrived.iter().find(|(at, _)| *at >= skip_s).or(arrived.first()).copied().unwrap_or_default();
    let last = arrived.last().copied().unwrap_or_default();
    let (seconds, bytes) = (last.0 - first.0, last.1 - first.1);
    let mbps = if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 };
    json!({"bytes": bytes, "seconds": seconds, "goodput_mbps": mbps, "arrived": arrived})
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
fn write(stream: StripedStream, args: &LabSendArgs) -> io::Result<u64> {
    let len_max = args.write as usize;
    let mut piece = vec![7; len_max];
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sent = 0;
    while args.bytes.is_none_or(|bytes| sent < bytes) {
        let left = args.bytes.map_or(u64::MAX, |bytes| bytes - sent);
        let len = len_max.min(usize::try_from(left).unwrap_or(usize::MAX));
        piece.resize(len, 7);
        match stream.write_block(&mut piece) {
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
const WATCH_EVERY: Duration = Duration::from_millis(50);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
