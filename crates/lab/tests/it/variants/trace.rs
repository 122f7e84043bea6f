//! A connection that always has data to send, and what the kernel says of it, sample by sample.

use longhaul_lab::{Lab, Side};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What `TCP_INFO` tells at one time. Windows are in segments.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Since the first one, in seconds.
    pub at_s: f64,
    pub window: f64,
    pub threshold: f64,
    /// Segments acknowledged so far.
    pub acked: f64,
    /// A loss is being repaired, or a timeout.
    pub is_repairing: bool,
    pub has_sack: bool,
    pub rtt_us: f64,
    pub rtt_min_us: f64,
}

impl Sample {
    pub fn is_in_avoidance(&self) -> bool {
        !self.is_repairing && self.window >= self.threshold
    }
}

/// Send from left to right for a while, under this congestion control or else the host's own, and look at it all the
/// time.
pub fn record(lab: &Lab, control: Option<&str>, seconds: f64) -> Result<Vec<Sample>, String> {
    let (sender, receiver) = connect(lab, control).map_err(|error| format!("connecting: {error}"))?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| pump(&sender, &stop));
        scope.spawn(|| drain(&receiver, &stop));
        let samples = watch(&sender, seconds);
        stop.store(true, Ordering::Relaxed);
        samples.map_err(|error| format!("TCP_INFO: {error}"))
    })
}

fn connect(lab: &Lab, control: Option<&str>) -> io::Result<(TcpStream, TcpStream)> {
    let on = |end, what: &(dyn Fn() -> io::Result<Socket> + Sync)| {
        lab.enter(end, what).map_err(io::Error::other)?
    };
    let right = lab.address(Side::Right);
    let listener = TcpListener::from(on(Side::Right, &|| Ok(TcpListener::bind((right, 0))?.into()))?);
    let address = listener.local_addr()?;
    let socket = on(Side::Left, &|| Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP)))?;
    if let Some(control) = control {
        socket.set_tcp_congestion(control.as_bytes())?;
    }
    socket.connect_timeout(&address.into(), PATIENCE)?;
    let (receiver, _) = listener.accept()?;
    Ok((socket.into(), receiver))
}

fn pump(mut sender: &TcpStream, stop: &AtomicBool) {
    let block = vec![0; 65_536];
    // Whether it fails the samples tell: nothing is acknowledged then.
    while !stop.load(Ordering::Relaxed) && sender.set_write_timeout(Some(TURN)).is_ok() {
        let _ = sender.write(&block);
    }
    // What is still unsent is of no interest.
    let _ = SockRef::from(sender).set_linger(Some(Duration::ZERO));
}

fn drain(mut receiver: &TcpStream, stop: &AtomicBool) {
    let mut block = vec![0; 262_144];
    while !stop.load(Ordering::Relaxed) && receiver.set_read_timeout(Some(TURN)).is_ok() {
        let _ = receiver.read(&mut block);
    }
}

fn watch(sender: &TcpStream, seconds: f64) -> io::Result<Vec<Sample>> {
    let (start, mut samples) = (Instant::now(), vec![]);
    while start.elapsed().as_secs_f64() < seconds {
        samples.push(sample(sender, start)?);
        thread::sleep(BETWEEN_SAMPLES);
    }
    Ok(samples)
}

fn sample(sender: &TcpStream, start: Instant) -> io::Result<Sample> {
    let mut info = [0u32; INFO_WORDS];
    let mut len = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes to `info`, which is that long, and the descriptor is open.
    let code = unsafe {
        libc::getsockopt(
            sender.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    if (len as usize) < size_of_val(&info) {
        return Err(io::Error::other("the kernel tells too little"));
    }
    let at_s = start.elapsed().as_secs_f64();
    let [_, state, ..] = info[0].to_ne_bytes();
    let [_, options, ..] = info[1].to_ne_bytes();
    let word = |at: usize| f64::from(info[at]);
    let acked_bytes = word(BYTES_ACKED) + word(BYTES_ACKED + 1) * 4_294_967_296.0;
    Ok(Sample {
        at_s,
        window: word(WINDOW),
        threshold: word(THRESHOLD),
        acked: acked_bytes / word(SEGMENT_BYTES).max(1.0),
        is_repairing: state >= CWR,
        has_sack: options & OPTION_SACK != 0,
        rtt_us: word(RTT),
        rtt_min_us: word(RTT_MIN),
    })
}

/// Words of `struct tcp_info` in linux/tcp.h, all on a little-endian machine as far as they are 64 bits wide.
const SEGMENT_BYTES: usize = 4;
const RTT: usize = 17;
const THRESHOLD: usize = 19;
const WINDOW: usize = 20;
const BYTES_ACKED: usize = 30;
const RTT_MIN: usize = 37;
const INFO_WORDS: usize = 38;
/// `TCP_CA_CWR`: this state and those above it reduce the window.
const CWR: u8 = 2;
/// `TCPI_OPT_SACK`.
const OPTION_SACK: u8 = 2;

const BETWEEN_SAMPLES: Duration = Duration::from_millis(1);
const TURN: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(5);
