//! A stream behind a socket of the system's, for programs and libraries that know descriptors only.
//!
//! The socket is one end of a TCP connection on loopback; threads of ours pass on what comes at the other end (`pump`).
//! TCP, since there whatever breaks can be told from an end, by a reset.

use super::pump::{Local, NEVER, Pumped, Rules, pump, unlimited};
use super::state::locked;
use super::stream::StripedStream;
use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

impl StripedStream {
    /// The stream as a socket, which can do all that sockets can: it is waited for, duplicated and handed on. Its own
    /// addresses are of loopback.
    ///
    /// What is written to it counts as said: closing does not wait. When the process ends in an orderly way, it waits
    /// until the other side has all, unless nothing gets through for ten seconds. A stream that breaks shows as a
    /// connection that was reset.
    pub fn into_socket(self) -> io::Result<TcpStream> {
        let (ours, theirs) = pair()?;
        for socket in [&ours, &theirs] {
            socket.set_nodelay(true)?;
        }
        theirs.set_read_timeout(self.read_timeout()?)?;
        theirs.set_write_timeout(self.write_timeout()?)?;
        // The pump waits in its own way.
        self.set_nonblocking(false)?;
        let local = Local::socket(ours)?;
        let kept = Kept::add(&self)?;
        let pumped = move || {
            let rules = Rules { stop: &NEVER, drain: &SOCKETS.leaving, out: &unlimited, back: &unlimited };
            let Pumped { broken, .. } = pump(self, local, rules);
            if let Some(why) = broken {
                tracing::debug!(%why, "a stream behind a socket broke");
            }
            drop(kept);
        };
        std::thread::Builder::new().name("stripe-pump".into()).spawn(pumped)?;
        Ok(theirs)
    }
}

/// Two ends of a connection that nobody else has.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let theirs = TcpStream::connect(listener.local_addr()?)?;
    loop {
        let (ours, from) = listener.accept()?;
        // Anybody on this host may have connected just then.
        if from == theirs.local_addr()? {
            return Ok((ours, theirs));
        }
    }
}

/// The streams behind sockets.
struct Sockets {
    /// Whose threads these are: a child made by `fork` has none of them.
    process: u32,
    leaving: AtomicBool,
    streams: Mutex<Vec<Weak<StripedStream>>>,
    fewer: Condvar,
}

static SOCKETS: LazyLock<Sockets> = LazyLock::new(|| {
    // SAFETY: the function may be called at any time, and unwinds into nobody: it neither panics nor allocates much.
    unsafe { libc::atexit(wait_delivered) };
    Sockets {
        process: std::process::id(),
        leaving: AtomicBool::new(false),
        streams: Mutex::default(),
        fewer: Condvar::new(),
    }
});

/// A stream among those that the process waits for. It is let go of first, which says the last word to the other side.
struct Kept {
    _stream: Arc<StripedStream>,
    _place: Place,
}

/// That of a stream in the list.
struct Place(Weak<StripedStream>);

impl Kept {
    fn add(stream: &StripedStream) -> io::Result<Kept> {
        let stream = Arc::new(stream.try_clone()?);
        let place = Arc::downgrade(&stream);
        locked(&SOCKETS.streams).push(place.clone());
        Ok(Kept { _stream: stream, _place: Place(place) })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        locked(&SOCKETS.streams).retain(|stream| !stream.ptr_eq(&self.0));
        SOCKETS.fewer.notify_all();
    }
}

/// When the process ends: what its sockets hold is all that they get, nothing is received any more, and what is on its way
/// is waited for as long as something gets through.
extern "C" fn wait_delivered() {
    let sockets = &*SOCKETS;
    if sockets.process != std::process::id() {
        return;
    }
    sockets.leaving.store(true, Ordering::Release);
    let mut streams = locked(&sockets.streams);
    for stream in streams.iter().filter_map(Weak::upgrade) {
        let _ = stream.shutdown(Shutdown::Read);
    }
    let (mut acked, mut since) = (0, Instant::now());
    while !streams.is_empty() && since.elapsed() < EXIT_PATIENCE {
        let now: u64 =
            streams.iter().filter_map(Weak::upgrade).map(|stream| stream.stats().bytes_acked).sum();
        if now != acked {
            (acked, since) = (now, Instant::now());
        }
        streams = sockets.fewer.wait_timeout(streams, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
    }
}

/// As long as a stream that is closed waits where nothing gets through.
const EXIT_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(100);
