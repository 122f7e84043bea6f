//! One transfer by the kernel's own TCP over a lab's path, to compare with.

use crate::error::LabError;
use crate::lab::Lab;
use crate::place::Side;
use crate::socket::sender_socket_of;
use socket2::{Domain, Protocol, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How a transfer went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpRun {
    /// From the start of the connect until the sender knew that the receiver had every byte.
    pub seconds: f64,
    /// From the start of the connect until the receiver had every byte.
    pub delivered_seconds: f64,
    /// Payload over those seconds, 10⁶ bit/s.
    pub mbps: f64,
}

/// Send `bytes` from left to right under this congestion control; the kernel sizes the buffers.
pub fn transfer(lab: &Lab, bytes: u64, congestion_control: &str) -> Result<TcpRun, LabError> {
    transfer_within(lab, bytes, congestion_control, DAY)
}

/// [`transfer`] that gives up with [`LabError::TooSlow`] after `limit`.
pub fn transfer_within(
    lab: &Lab,
    bytes: u64,
    congestion_control: &str,
    limit: Duration,
) -> Result<TcpRun, LabError> {
    transfer_while(lab, bytes, congestion_control, limit, &|| true)
}

/// [`transfer_within`] that also gives up as soon as it is not `wanted` any more.
pub fn transfer_while(
    lab: &Lab,
    bytes: u64,
    congestion_control: &str,
    limit: Duration,
    wanted: &(dyn Fn() -> bool + Sync),
) -> Result<TcpRun, LabError> {
    transfer_by(lab, Protocol::TCP, (bytes, congestion_control), limit, wanted)
}

/// The same by MPTCP (RFC 8684). Over which paths besides the lab's own is up to the hosts' path managers.
pub fn transfer_by_mptcp(
    lab: &Lab,
    bytes: u64,
    congestion_control: &str,
    limit: Duration,
    wanted: &(dyn Fn() -> bool + Sync),
) -> Result<TcpRun, LabError> {
    transfer_by(lab, Protocol::MPTCP, (bytes, congestion_control), limit, wanted)
}

fn transfer_by(
    lab: &Lab,
    protocol: Protocol,
    (bytes, congestion_control): (u64, &str),
    limit: Duration,
    wanted: &(dyn Fn() -> bool + Sync),
) -> Result<TcpRun, LabError> {
    let listening = LabError::at("listening on the right host");
    let listen = || -> io::Result<Socket> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
        // At all addresses: MPTCP comes to any of them.
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into())?;
        socket.listen(1)?;
        Ok(socket)
    };
    let listener = lab.enter(Side::Right, listen)?.map_err(listening)?;
    let local = listener.local_addr().map_err(LabError::at("listening on the right host"))?;
    let port = local.as_socket().map_or(0, |local| local.port());
    let address = SocketAddr::from((lab.address(Side::Right), port));
    let socket = lab.enter(Side::Left, || sender_socket_of(protocol, congestion_control))??;
    let run = Run::new(bytes, limit.min(DAY), wanted);
    let outcome = thread::scope(|scope| {
        let receiver = scope.spawn(|| run.or_abandon(run.receive(&listener)));
        let sent = run.or_abandon(run.send(socket, address));
        let received = receiver.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload));
        sent.and(received)
    });
    let seconds = run.start.elapsed().as_secs_f64();
    match outcome {
        Ok(delivered) => {
            let delivered_seconds = delivered.saturating_duration_since(run.start).as_secs_f64();
            Ok(TcpRun { seconds, delivered_seconds, mbps: bytes as f64 * 8.0 / seconds / 1e6 })
        }
        Err(_) if Instant::now() >= run.deadline || !wanted() => {
            Err(LabError::TooSlow { seconds, bytes_received: run.received.into_inner() })
        }
        Err(error) => Err(LabError::at("a TCP transfer")(error)),
    }
}

/// What sender and receiver of one transfer share.
struct Run<'a> {
    bytes: u64,
    wanted: &'a (dyn Fn() -> bool + Sync),
    start: Instant,
    deadline: Instant,
    received: AtomicU64,
    /// One side failed; over a broken path the other would not hear of it.
    abandoned: AtomicBool,
}

impl<'a> Run<'a> {
    fn new(bytes: u64, limit: Duration, wanted: &'a (dyn Fn() -> bool + Sync)) -> Run<'a> {
        let start = Instant::now();
        Run { bytes, wanted, start, deadline: start + limit, received: 0.into(), abandoned: false.into() }
    }

    /// Connect, send, wait for the byte that says that all has arrived.
    fn send(&self, socket: Socket, address: SocketAddr) -> io::Result<()> {
        // Given up, the rest is thrown away instead of being sent on.
        socket.set_linger(Some(Duration::ZERO))?;
        socket.connect_timeout(&address.into(), self.deadline.saturating_duration_since(Instant::now()))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut stream = TcpStream::from(socket);
        let mut block = vec![0; BLOCK_BYTES];
        fastrand::Rng::with_seed(1).fill(&mut block);
        let mut left = self.bytes;
        while left > 0 {
            let len = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            left -= self.persist(|| stream.write(&block[..len]))? as u64;
        }
        self.persist(|| stream.read_exact(&mut [0]))
    }

    /// Take in everything; says when all was there.
    fn receive(&self, listener: &Socket) -> io::Result<Instant> {
        listener.set_read_timeout(Some(PATIENCE))?; // accept obeys it
        let (socket, _) = self.persist(|| listener.accept())?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut stream = TcpStream::from(socket);
        let mut block = vec![0; BLOCK_BYTES];
        while self.received.load(Ordering::Relaxed) < self.bytes {
            match self.persist(|| stream.read(&mut block))? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.received.fetch_add(len as u64, Ordering::Relaxed),
            };
        }
        let delivered = Instant::now();
        stream.write_all(&[1])?;
        Ok(delivered)
    }

    /// Try again while there is time.
    fn persist<T>(&self, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        loop {
            match attempt() {
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
                {
                    let is_abandoned = self.abandoned.load(Ordering::Relaxed) || !(self.wanted)();
                    if Instant::now() >= self.deadline || is_abandoned {
                        return Err(io::ErrorKind::TimedOut.into());
                    }
                }
                result => return result,
            }
        }
    }

    fn or_abandon<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if result.is_err() {
            self.abandoned.store(true, Ordering::Relaxed);
        }
        result
    }
}

const BLOCK_BYTES: usize = 256 * 1024;
/// How long a call blocks before it looks whether there is still time.
const PATIENCE: Duration = Duration::from_millis(100);
const DAY: Duration = Duration::from_secs(24 * 3600);
