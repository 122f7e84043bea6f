//! Many connections of the kernel's own TCP over a path, one after another or all at once: a thread at either end
//! looks after all of them. They are what an experiment measures, or the traffic of others that it measures beside.

use crate::ExperimentError;
use fastrand::Rng;
use longhaul_lab::LabError;
use longhaul_lab::{Lab, Side};
use longhaul_sim::traffic::Distribution;
use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// A connection to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coming {
    /// When it is made, after the generator's start.
    pub(crate) at: Duration,
    /// What it carries; [`ENDLESS`] until the generator is dropped.
    pub(crate) bytes: u64,
}

/// More than any connection comes to carry.
pub(crate) const ENDLESS: u64 = u64::MAX;

/// So many connections without an end, one after another.
pub(crate) fn staggered(count: u64, gap: Duration) -> impl Iterator<Item = Coming> + Send {
    (0..count).map(move |number| Coming { at: gap.mul_f64(number as f64), bytes: ENDLESS })
}

/// Connections at random moments, of random lengths, for ever.
pub(crate) fn random(
    gap_s: Distribution,
    bytes: Distribution,
    seed: u64,
) -> impl Iterator<Item = Coming> + Send {
    let (mut rng, mut at) = (Rng::with_seed(seed), Duration::ZERO);
    std::iter::repeat_with(move || {
        at += Duration::from_secs_f64(gap_s.sample(&mut rng));
        Coming { at, bytes: (bytes.sample(&mut rng) as u64).max(1) }
    })
}

/// Connections that come and go, from left to right. Dropping it ends them at once.
pub(crate) struct FlowGenerator {
    over: Arc<AtomicBool>,
    received: Arc<Mutex<Vec<u64>>>,
    ends: Vec<JoinHandle<io::Result<()>>>,
}

impl FlowGenerator {
    /// Let them come under this congestion control.
    pub(crate) fn start(
        lab: &Lab,
        congestion_control: &str,
        comings: impl Iterator<Item = Coming> + Send + 'static,
    ) -> Result<FlowGenerator, LabError> {
        // A host that makes hundreds of connections a second soon has no port that has not just been used.
        lab.set_sysctl(Side::Left, "net.ipv4.tcp_tw_reuse", "1")?;
        let listener = lab
            .enter(Side::Right, || TcpListener::bind((lab.address(Side::Right), 0)))?
            .map_err(LabError::at("listening on the right host"))?;
        let to = listener.local_addr().map_err(LabError::at("listening on the right host"))?;
        let (over, received) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<Vec<u64>>>::default());
        let receiver = Receivers { listener, streams: BTreeMap::new(), received: received.clone() };
        let seen = over.clone();
        let receiving = thread::Builder::new().name("lab-flows-in".into());
        let receiving =
            receiving.spawn(move || receiver.run(&seen)).map_err(LabError::at("starting a thread"))?;
        let control = congestion_control.to_owned();
        let seen = over.clone();
        // Threads begin in the namespace of whoever starts them.
        let sending = lab.enter(Side::Left, || {
            let sending = thread::Builder::new().name("lab-flows-out".into());
            sending.spawn(move || Senders { to, control, streams: BTreeMap::new() }.run(comings, &seen))
        })?;
        match sending {
            Ok(sending) => Ok(FlowGenerator { over, received, ends: vec![sending, receiving] }),
            Err(error) => {
                over.store(true, Ordering::Relaxed);
                Err(LabError::at("starting a thread")(error))
            }
        }
    }

    /// What each has brought so far, bytes, in the order in which they came.
    pub(crate) fn received(&self) -> Vec<u64> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether both its ends still go on.
    pub(crate) fn check(&self) -> Result<(), ExperimentError> {
        match self.ends.iter().find(|end| end.is_finished()) {
            None => Ok(()),
            Some(end) => {
                let name = end.thread().name().unwrap_or("a thread");
                let reason =
                    "it ended too early; is there enough memory, and are there enough files (ulimit -n)?";
                Err(ExperimentError::Program { program: name.into(), reason: reason.into() })
            }
        }
    }
}

impl Drop for FlowGenerator {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for end in self.ends.drain(..) {
            match end.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "an end of the flow generator failed"),
                Err(_) => tracing::error!("an end of the flow generator panicked"),
            }
        }
    }
}

/// The right end: takes in whatever comes.
struct Receivers {
    listener: TcpListener,
    /// By number, in the order in which they came.
    streams: BTreeMap<u64, TcpStream>,
    received: Arc<Mutex<Vec<u64>>>,
}

impl Receivers {
    fn run(mut self, over: &AtomicBool) -> io::Result<()> {
        self.listener.set_nonblocking(true)?;
        let mut poll = Poll::new()?;
        epoll::add(&poll.epoll, &self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut block = vec![0; BLOCK_BYTES];
        while !over.load(Ordering::Relaxed) {
            for number in poll.wait(POLL_MAX)? {
                if number == LISTENER {
                    self.accept(&poll)?;
                } else {
                    self.take_in(number, &mut block);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, poll: &Poll) -> io::Result<()> {
        loop {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
                    let number = received.len() as u64;
                    received.push(0);
                    epoll::add(&poll.epoll, &stream, EventData::new_u64(number), EventFlags::IN)?;
                    self.streams.insert(number, stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The other end has given up before it was its turn.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn take_in(&mut self, number: u64, block: &mut [u8]) {
        let Some(stream) = self.streams.get_mut(&number) else { return };
        match stream.read(block) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            // Its end, or what came of a connection whose sender was stopped.
            Ok(0) | Err(_) => drop(self.streams.remove(&number)),
            Ok(len) => {
                let mut received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
                received[number as usize] += len as u64;
            }
        }
    }
}

/// The left end: makes connections and fills them.
struct Senders {
    to: SocketAddr,
    control: String,
    streams: BTreeMap<u64, Sending>,
}

struct Sending {
    stream: TcpStream,
    left: u64,
}

impl Senders {
    fn run(mut self, comings: impl Iterator<Item = Coming>, over: &AtomicBool) -> io::Result<()> {
        let (start, mut poll) = (Instant::now(), Poll::new()?);
        let mut comings = comings.zip(0..).peekable();
        let block = vec![7; BLOCK_BYTES];
        while !over.load(Ordering::Relaxed) {
            while let Some((coming, number)) = comings.next_if(|(one, _)| one.at <= start.elapsed()) {
                self.begin(number, coming.bytes, &poll)?;
            }
            let idle = comings.peek().map_or(POLL_MAX, |(one, _)| one.at.saturating_sub(start.elapsed()));
            for number in poll.wait(idle.min(POLL_MAX))? {
                self.go_on(number, &block, &poll)?;
            }
        }
        // What is on its way is not to outlive the run.
        for one in self.streams.into_values() {
            Socket::from(one.stream).set_linger(Some(Duration::ZERO))?;
        }
        Ok(())
    }

    fn begin(&mut self, number: u64, bytes: u64, poll: &Poll) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_congestion(self.control.as_bytes())?;
        socket.set_nonblocking(true)?;
        match socket.connect(&self.to.into()) {
            Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => return Err(error),
            _ => {}
        }
        let stream = TcpStream::from(socket);
        epoll::add(&poll.epoll, &stream, EventData::new_u64(number), EventFlags::OUT)?;
        self.streams.insert(number, Sending { stream, left: bytes });
        Ok(())
    }

    /// Fill it; when all is in, wait for the other side to close, so that the kernel is left with nothing.
    fn go_on(&mut self, number: u64, block: &[u8], poll: &Poll) -> io::Result<()> {
        let Some(one) = self.streams.get_mut(&number) else { return Ok(()) };
        let mut is_gone = one.left == 0;
        while one.left > 0 {
            let len = block.len().min(usize::try_from(one.left).unwrap_or(usize::MAX));
            match one.stream.write(&block[..len]) {
                Ok(written) if one.left != ENDLESS => one.left -= written as u64,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => {
                    is_gone = true;
                    break;
                }
            }
        }
        if !is_gone && one.stream.shutdown(std::net::Shutdown::Write).is_ok() {
            epoll::modify(&poll.epoll, &one.stream, EventData::new_u64(number), EventFlags::RDHUP)?;
        } else {
            self.streams.remove(&number);
        }
        Ok(())
    }
}

/// Which of many sockets can go on.
struct Poll {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poll {
    fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(EVENTS) })
    }

    /// Their numbers, as soon as there is one, or none after `span`.
    fn wait(&mut self, span: Duration) -> io::Result<Vec<u64>> {
        let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), Some(&span)) {
            Ok(_) | Err(Errno::INTR) => Ok(self.events.iter().map(|event| event.data.u64()).collect()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// No connection's number.
const LISTENER: u64 = u64::MAX;
const BLOCK_BYTES: usize = 64 * 1024;
/// How soon the end is noticed.
const POLL_MAX: Duration = Duration::from_millis(20);
const EVENTS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_connections_ask_for_what_they_are_said_to() {
        let gap_s = Distribution::Exponential { mean: 0.01 };
        let bytes = Distribution::Uniform { from: 1000.0, to: 3000.0 };
        let comings: Vec<Coming> = random(gap_s, bytes, 5).take(10_000).collect();
        let span = comings.last().map_or(0.0, |one| one.at.as_secs_f64());
        let sum: u64 = comings.iter().map(|one| one.bytes).sum();
        let rate = sum as f64 / span;
        assert!((rate / 200_000.0 - 1.0).abs() < 0.05, "{rate}");
        assert!(comings.is_sorted_by_key(|one| one.at));
        assert!(random(gap_s, bytes, 5).take(100).eq(comings[..100].iter().copied()));
    }

    #[test]
    fn staggered_connections_never_end() {
        let at: Vec<_> =
            staggered(3, Duration::from_millis(200)).map(|one| (one.at.as_millis(), one.bytes)).collect();
        assert_eq!(at, [(0, ENDLESS), (200, ENDLESS), (400, ENDLESS)]);
    }
}
