//! Striped streams over a path: each end on threads of this process, with sockets of its own host.

use super::bench::Bench;
use crate::ExperimentError;
use longhaul_lab::{Lab, Side};
use longhaul_stripe::{LocalEnd, StripeOptions, StripeStats, StripedListener, StripedStream};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Shutdown};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub(crate) use longhaul_stripe::{Partition, Streams};

/// A stream to measure.
#[derive(Clone, Debug)]
pub(crate) struct Striped {
    pub(crate) streams: Streams,
    /// Size of each socket's buffers; the kernel's own sizing where absent.
    pub(crate) window_bytes: Option<u64>,
    pub(crate) partition: Partition,
    /// What the program hands over with each call.
    pub(crate) write_bytes: u64,
    pub(crate) is_sealed: bool,
    /// The interfaces that lanes leave by in turn, or none: as the routes say.
    pub(crate) interfaces: Vec<String>,
    /// Both ends on the left host, not over the path.
    pub(crate) is_loopback: bool,
    /// Named, so that results do not depend on what a host's administrator prefers.
    pub(crate) congestion: &'static str,
    pub(crate) amount: Amount,
}

/// When a stream is at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Amount {
    /// After so many bytes.
    Bytes(u64),
    /// When the receiver has measured for so long; what came in during the first seconds does not count.
    Seconds { skip: f64, measure: f64 },
}

/// What came of a stream.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    pub(crate) received: Received,
    pub(crate) sent: Sent,
}

/// What the receiver measured.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Of the bytes that the program could read, in order; without those that had come in during the time that does not count.
    pub(crate) goodput_mbps: f64,
    /// Seconds since the first byte, and bytes that the program could read by then.
    pub(crate) arrived: Vec<(f64, u64)>,
}

/// What the sender measured.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) bytes: u64,
    /// From when it was told to begin until the other side had everything.
    pub(crate) seconds: f64,
    /// Seconds, and from then on so many lanes carried data.
    pub(crate) course: Vec<(f64, u32)>,
    /// Numbers of lanes that were tried last, and Mb/s with each.
    pub(crate) tried_mbps: Vec<(u32, f64)>,
}

impl Default for Striped {
    fn default() -> Striped {
        Striped {
            streams: Streams::Fixed(1),
            window_bytes: None,
            partition: Partition::Auto,
            write_bytes: 1 << 20,
            is_sealed: false,
            interfaces: vec![],
            is_loopback: false,
            congestion: CONGESTION_CONTROL,
            amount: Amount::Seconds { skip: 1.0, measure: 2.0 },
        }
    }
}

impl Streamed {
    /// How many sockets carried data at the end.
    pub(crate) fn streams(&self) -> u32 {
        self.sent.course.last().map_or(1, |(_, streams)| *streams)
    }

    /// Mb/s from the first byte until so many seconds later.
    pub(crate) fn mbps_until(&self, at_s: f64) -> f64 {
        let arrived =
            self.received.arrived.iter().find(|(at, _)| *at >= at_s).or(self.received.arrived.last());
        arrived.map_or(0.0, |(at, bytes)| *bytes as f64 * 8e-6 / at.max(f64::MIN_POSITIVE))
    }
}

impl Striped {
    /// Send from left to right, one stream, and see what comes of it.
    pub(crate) fn run(&self, bench: &Bench<'_>, lab: &Lab) -> Result<Streamed, ExperimentError> {
        let mut streamed = run_together(bench, lab, std::slice::from_ref(self))?;
        Ok(streamed.remove(0))
    }

    /// Both ends, the sending one ready to begin.
    fn connect(&self, lab: &Lab) -> Result<Underway, ExperimentError> {
        let (host, address) = if self.is_loopback {
            (Side::Left, Ipv4Addr::LOCALHOST)
        } else {
            (Side::Right, lab.address(Side::Right))
        };
        let options = self.options();
        // Threads that these start belong to the host, and so do the sockets that they make.
        let listener = lab.enter(host, || options.bind((address, 0)))?.map_err(failed(RECEIVER))?;
        let to = listener.local_addr().map_err(failed(RECEIVER))?;
        let amount = self.amount;
        let receiver = thread::spawn(move || receive(&listener, amount));
        let options = options.streams(self.streams).partition(self.partition);
        let stream = lab.enter(Side::Left, || options.connect(to))?.map_err(failed(SENDER))?;
        let handle = stream.try_clone().map_err(failed(SENDER))?;
        let (start, started) = channel();
        let load = Load { write_bytes: self.write_bytes, amount };
        let sender = thread::spawn(move || send(stream, load, &started));
        Ok(Underway { sender: Some(sender), receiver: Some(receiver), handle, start })
    }

    fn options(&self) -> StripeOptions {
        // What was learnt on one emulated path is wrong on the next, which has the same addresses.
        let mut options = StripeOptions::new().remember(false).congestion(self.congestion);
        options = options.local_ends(self.interfaces.iter().cloned().map(LocalEnd::Interface));
        if let Some(bytes) = self.window_bytes {
            options = options.window(bytes as usize);
        }
        if self.is_sealed { options } else { options.plain() }
    }

    fn limit(&self) -> Duration {
        match self.amount {
            Amount::Bytes(_) => BYTES_TIME_MAX,
            Amount::Seconds { skip, measure } => Duration::from_secs_f64(skip + measure) + SECONDS_GRACE,
        }
    }
}

/// Send several streams from left to right, from the same moment on.
pub(crate) fn run_together(
    bench: &Bench<'_>,
    lab: &Lab,
    streams: &[Striped],
) -> Result<Vec<Streamed>, ExperimentError> {
    bench.run(lab, || {
        let underway = streams.iter().map(|one| one.connect(lab)).collect::<Result<Vec<_>, _>>()?;
        underway.iter().for_each(Underway::go);
        let ends = underway.into_iter().zip(streams);
        ends.map(|(one, stream)| one.end(bench, stream.limit())).collect()
    })
}

/// A stream on its way. Dropping it ends it.
struct Underway {
    sender: Option<JoinHandle<io::Result<Sent>>>,
    receiver: Option<JoinHandle<io::Result<Received>>>,
    /// To end it by.
    handle: StripedStream,
    start: Sender<()>,
}

impl Underway {
    fn go(&self) {
        // Fails where the sender has failed already, which then says why.
        let _ = self.start.send(());
    }

    fn has_ended(&self) -> bool {
        self.sender.as_ref().is_none_or(JoinHandle::is_finished)
            && self.receiver.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Wait for its end, which must come within `limit`.
    fn end(mut self, bench: &Bench<'_>, limit: Duration) -> Result<Streamed, ExperimentError> {
        let begun = Instant::now();
        while !self.has_ended() {
            bench.check()?;
            if begun.elapsed() >= limit {
                let reason = format!("not done after {} s", limit.as_secs());
                return Err(ExperimentError::Program { program: RECEIVER.into(), reason });
            }
            thread::sleep(END_POLL);
        }
        let received = self.receiver.take().map(joined);
        let sent = self.sender.take().map(joined);
        Ok(Streamed {
            received: received.unwrap_or_else(gone).map_err(failed(RECEIVER))?,
            sent: sent.unwrap_or_else(gone).map_err(failed(SENDER))?,
        })
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        // Fails only where it has ended already.
        let _ = self.handle.shutdown(Shutdown::Both);
    }
}

/// Its thread has been waited for already.
fn gone<T>() -> io::Result<T> {
    Err(io::ErrorKind::Interrupted.into())
}

fn joined<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

fn failed(end: &'static str) -> impl Fn(io::Error) -> ExperimentError {
    move |error| ExperimentError::Program { program: end.into(), reason: error.to_string() }
}

fn receive(listener: &StripedListener, amount: Amount) -> io::Result<Received> {
    let (skip, until) = match amount {
        Amount::Bytes(_) => (0.0, None),
        Amount::Seconds { skip, measure } => (skip, Some(Duration::from_secs_f64(skip + measure))),
    };
    let (stream, _) = listener.accept_timeout(PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut block = stream.read_block(vec![])?;
    let (began, over, in_order) = (Instant::now(), AtomicBool::new(false), AtomicU64::new(0));
    let watched = stream.try_clone()?;
    let (seen, read) = thread::scope(|scope| {
        let arrivals = scope.spawn(|| arrivals(&watched, &in_order, began, until, &over));
        let mut read = Ok(());
        while !block.is_empty() && !arrivals.is_finished() {
            in_order.fetch_add(block.len() as u64, Ordering::Relaxed);
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
    // The sender learns from it that this is all.
    stream.shutdown(Shutdown::Both)?;
    stream.close().or_else(ended_by_receiver)?;
    Ok(Received::of(&seen, skip))
}

/// What had come by then.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    at_s: f64,
    /// Whichever lane brought it, and whether or not bytes before it were still missing.
    bytes: u64,
    /// Of these, what the program could read.
    in_order: u64,
}

fn arrivals(
    stream: &StripedStream,
    in_order: &AtomicU64,
    began: Instant,
    until: Option<Duration>,
    over: &AtomicBool,
) -> Vec<Arrival> {
    let mut of_lanes = BTreeMap::new();
    let mut seen = vec![];
    loop {
        let is_last = over.load(Ordering::Relaxed);
        for lane in stream.stats().lanes {
            of_lanes.insert(lane.id, lane.bytes_received);
        }
        let now = began.elapsed();
        seen.push(Arrival {
            at_s: now.as_secs_f64(),
            bytes: of_lanes.values().sum(),
            in_order: in_order.load(Ordering::Relaxed),
        });
        if is_last || until.is_some_and(|until| now >= until) {
            return seen;
        }
        let next = SAMPLE_EVERY * seen.len() as u32;
        thread::sleep(next.min(until.unwrap_or(next)).saturating_sub(began.elapsed()));
    }
}

impl Received {
    fn of(seen: &[Arrival], skip_s: f64) -> Received {
        let first = seen.iter().find(|one| one.at_s >= skip_s).or(seen.first()).copied().unwrap_or_default();
        let last = seen.last().copied().unwrap_or_default();
        let seconds = last.at_s - first.at_s;
        // What waits for earlier bytes is readable later than it came: no more counts than came in this time.
        let readable = last.in_order.saturating_sub(first.in_order);
        let bytes = readable.min(last.bytes.saturating_sub(first.bytes));
        let goodput_mbps = if seconds > 0.0 { bytes as f64 * 8e-6 / seconds } else { 0.0 };
        Received { goodput_mbps, arrived: seen.iter().map(|one| (one.at_s, one.in_order)).collect() }
    }
}

/// What a sender writes.
struct Load {
    write_bytes: u64,
    amount: Amount,
}

fn send(stream: StripedStream, load: Load, started: &Receiver<()>) -> io::Result<Sent> {
    if started.recv().is_err() {
        return Err(io::ErrorKind::Interrupted.into());
    }
    let (began, over) = (Instant::now(), AtomicBool::new(false));
    let watched = stream.try_clone()?;
    let (bytes, seconds, (course, last)) = thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&watched, began, &over));
        let sent = write(stream, &load);
        // Whoever watches sleeps for a while yet.
        let seconds = began.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        (sent, seconds, watch.join().unwrap_or_default())
    });
    let tried = last.map_or(vec![], |stats| stats.lanes_tried);
    let tried_mbps = tried.into_iter().map(|(lanes, rate)| (lanes, rate * 8e-6)).collect();
    Ok(Sent { bytes: bytes?, seconds, course, tried_mbps })
}

/// Write until all is written, or until the receiver has enough; says how many bytes went out.
fn write(stream: StripedStream, load: &Load) -> io::Result<u64> {
    let len_max = load.write_bytes as usize;
    let all = if let Amount::Bytes(bytes) = load.amount { bytes } else { u64::MAX };
    let mut piece = vec![7; len_max];
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut sent = 0;
    while sent < all {
        let len = len_max.min(usize::try_from(all - sent).unwrap_or(usize::MAX));
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

/// When so many lanes began to carry data, and how the stream was when last seen with all its lanes.
type Course = (Vec<(f64, u32)>, Option<StripeStats>);

fn watch(stream: &StripedStream, began: Instant, over: &AtomicBool) -> Course {
    let (mut course, mut last): Course = (vec![], None);
    while !over.load(Ordering::Relaxed) {
        let stats = stream.stats();
        if !stats.lanes.is_empty() {
            let active = stats.lanes_active as u32;
            if course.last().is_none_or(|(_, lanes)| *lanes != active) {
                course.push((began.elapsed().as_secs_f64(), active));
            }
            last = Some(stats);
        }
        thread::sleep(WATCH_EVERY);
    }
    (course, last)
}

/// What programs use where an experiment does not ask for another.
pub(crate) const CONGESTION_CONTROL: &str = "cubic";
const RECEIVER: &str = "the receiver";
const SENDER: &str = "the sender";
/// Neither end waits longer for the other.
const PATIENCE: Duration = Duration::from_secs(15);
const BYTES_TIME_MAX: Duration = Duration::from_secs(120);
const SECONDS_GRACE: Duration = Duration::from_secs(20);
const WATCH_EVERY: Duration = Duration::from_millis(50);
/// How soon the end is noticed.
const END_POLL: Duration = Duration::from_millis(5);
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_read_counts_but_no_more_than_came_meanwhile() {
        let goodput_mbps = |seen: [(f64, u64, u64); 3]| {
            let seen = seen.map(|(at_s, bytes, in_order)| Arrival { at_s, bytes, in_order });
            let received = Received::of(&seen, 1.0);
            assert_eq!(received.arrived.last(), Some(&(2.0, seen[2].in_order)));
            received.goodput_mbps
        };
        // As much waits at the end as at the beginning.
        let steady = goodput_mbps([(0.0, 0, 0), (1.0, 5_000_000, 4_000_000), (2.0, 10_000_000, 9_000_000)]);
        assert!((steady - 40.0).abs() < 1e-9, "{steady}");
        let gap_filled =
            goodput_mbps([(0.0, 0, 0), (1.0, 5_000_000, 1_000_000), (2.0, 10_000_000, 9_000_000)]);
        assert!((gap_filled - 40.0).abs() < 1e-9, "{gap_filled}");
        let gap_opened =
            goodput_mbps([(0.0, 0, 0), (1.0, 5_000_000, 5_000_000), (2.0, 10_000_000, 8_000_000)]);
        assert!((gap_opened - 24.0).abs() < 1e-9, "{gap_opened}");
        assert_eq!(Received::of(&[], 1.0).goodput_mbps, 0.0);
    }
}
