//! Flows of the simulator over real UDP sockets: the same endpoints, driven by threads at both ends of a path. In
//! clear, with datagrams as long as sealed ones would be.

use super::side_by_side::Halt;
use crate::ExperimentError;
use longhaul_lab::LabError;
use longhaul_lab::{Lab, Side};
use longhaul_net::plain::{Driver, Ran};
use longhaul_proto::control::Remembered;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSpec, KnownPath, Protocol};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    /// From the beginning of its set-up until the receiver had everything, or until it was given up.
    pub(crate) seconds: f64,
    /// What its controller has learnt of the path, for the next.
    pub(crate) learnt: Option<Remembered>,
    /// The receiving host dropped datagrams for want of buffer.
    pub(crate) is_late: bool,
}

/// A flow with its sockets, about to begin.
pub(crate) struct Ends {
    left: Driver<Clear>,
    right: Driver<Clear>,
    setup: Duration,
}

impl Ends {
    /// From left to right, over a path that is known to be like this.
    pub(crate) fn new(lab: &Lab, spec: &FlowSpec, path: KnownPath) -> Result<Ends, LabError> {
        let (sender, receiver) = spec.build(path);
        let any = SocketAddr::from((lab.address(Side::Right), 0));
        let right = lab.enter(Side::Right, || Driver::listen(Clear::new(receiver), any))?;
        let right = right.map_err(LabError::at("listening on the right host"))?;
        let to = right.local_addr().map_err(LabError::at("listening on the right host"))?;
        let left = lab.enter(Side::Left, || Driver::connect(Clear::new(sender), to))?;
        let left = left.map_err(LabError::at("making a socket on the left host"))?;
        // A TCP's is part of what it sends.
        let setup = match &spec.protocol {
            Protocol::Object(flow) => path.rtt * flow.setup_round_trips,
            Protocol::Tcp(_) => Duration::ZERO,
        };
        Ok(Ends { left, right, setup })
    }

    /// Move everything, within `limit`.
    pub(crate) fn transfer(self, limit: Duration, halt: Halt<'_>) -> Result<Moved, ExperimentError> {
        let Ends { mut left, mut right, setup } = self;
        let (start, over) = (Instant::now(), AtomicBool::new(false));
        let is_due = || start.elapsed() >= limit;
        let (delivered, sent) = thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let delivered = right.run_until(FlowNews::Delivered, || over.load(Ordering::Relaxed));
                let delivered = delivered?.then(|| start.elapsed());
                // The last acknowledgement may get lost.
                right.run_until(FlowNews::Delivered, || over.load(Ordering::Relaxed))?;
                io::Result::Ok(delivered)
            });
            let mut sent = halt.sleep(setup).map(|()| false);
            while let Ok(false) = sent {
                let done = left.run(SLICE, |news| news == FlowNews::Acknowledged);
                sent = done.map(|ran| ran == Ran::Stopped || is_due()).map_err(failed);
                sent = sent.and_then(|is_over| halt.check().map(|()| is_over));
            }
            over.store(true, Ordering::Relaxed);
            (joined(receiving), sent)
        });
        sent?;
        let delivered = delivered.map_err(failed)?;
        let (seconds, is_late) = (delivered.unwrap_or(limit).as_secs_f64(), right.drops() > 0);
        Ok(Moved { seconds, learnt: left.endpoint().end.learnt(), is_late })
    }

    /// Send until `over`, and count the bytes that have arrived. A failure makes it over, for whatever goes along.
    pub(crate) fn stream(self, over: &AtomicBool, arrived: &AtomicU64) -> Result<(), ExperimentError> {
        let Ends { mut left, mut right, setup } = self;
        let is_over = || over.load(Ordering::Relaxed);
        let receive = || {
            while !is_over() {
                right.run(SLICE, |_| false)?;
                arrived.store(right.endpoint().received_bytes(), Ordering::Relaxed);
            }
            Ok(())
        };
        let send = || {
            thread::sleep(setup);
            left.run_until(FlowNews::Acknowledged, is_over).map(drop)
        };
        both(over, receive, send).map_err(failed)
    }
}

/// Two ends at a time, until `over`. The failure of one makes it over.
fn both(
    over: &AtomicBool,
    one: impl FnOnce() -> io::Result<()> + Send,
    other: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let end = |_: &io::Error| over.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let one = scope.spawn(move || one().inspect_err(end));
        let other = other().inspect_err(end);
        other.and(joined(one))
    })
}

/// Drivers that look now and then whether they are to go on.
trait RunUntil {
    /// Run until this is the news, which is true, or until it is over.
    fn run_until(&mut self, awaited: FlowNews, is_over: impl Fn() -> bool) -> io::Result<bool>;
}

impl RunUntil for Driver<Clear> {
    fn run_until(&mut self, awaited: FlowNews, is_over: impl Fn() -> bool) -> io::Result<bool> {
        while !is_over() {
            if self.run(SLICE, |news| news == awaited)? == Ran::Stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What a thread came to; a panic in it goes on here.
pub(crate) fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

fn failed(error: io::Error) -> ExperimentError {
    LabError::at("a transfer over UDP")(error).into()
}

/// An endpoint whose datagrams go in clear: where the seal would be, their number and blank space.
struct Clear {
    end: FlowEnd,
    framing: usize,
}

impl Clear {
    fn new(end: FlowEnd) -> Clear {
        let framing = end.framing();
        Clear { end, framing }
    }

    /// Different bytes that a receiver has.
    fn received_bytes(&self) -> u64 {
        match &self.end {
            FlowEnd::ObjectReceiver(receiver) => receiver.received() * u64::from(receiver.shape().packet_len),
            FlowEnd::TcpReceiver(receiver) => receiver.delivered_bytes(),
            FlowEnd::ObjectSender(_) | FlowEnd::TcpSender(..) => 0,
        }
    }
}

impl Endpoint for Clear {
    type Event = FlowNews;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, datagram: &[u8]) {
        if self.framing == 0 {
            return self.end.handle_datagram(now, arrival, datagram);
        }
        if let (Some((number, _)), Some(body)) =
            (datagram.split_first_chunk::<NUMBER_LEN>(), datagram.get(self.framing..))
        {
            let arrival = Arrival { number: u64::from_be_bytes(*number), ..arrival };
            self.end.handle_datagram(now, arrival, body);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.end.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let (frame, body) = buf.split_at_mut(self.framing);
        let sent = self.end.poll_transmit(now, body)?;
        if let Some(place) = frame.first_chunk_mut::<NUMBER_LEN>() {
            *place = sent.number.to_be_bytes();
        }
        Some(Transmit { len: self.framing + sent.len, ..sent })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.end.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<FlowNews> {
        self.end.poll_event()
    }

    fn framing(&self) -> usize {
        0
    }
}

const NUMBER_LEN: usize = size_of::<u64>();
/// How soon the end is noticed.
const SLICE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_fails_ends_the_other_and_is_heard_of() {
        let over = AtomicBool::new(false);
        let goes_on = || {
            while !over.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Ok(())
        };
        let fails = || Err(io::Error::other("no"));
        assert!(both(&over, fails, goes_on).is_err());
        over.store(false, Ordering::Relaxed);
        assert!(both(&over, goes_on, fails).is_err());
    }
}
