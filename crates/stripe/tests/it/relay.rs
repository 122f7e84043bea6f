//! A box between the two ends that passes connections on, and can break any of them in the ways that networks do.

use super::common::{PATIENCE, bind};
use longhaul_stripe::{StripeOptions, StripedStream};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// See the [module](self). Dropping it ends it and all its connections.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    stop: AtomicBool,
    refuse: AtomicBool,
    server: SocketAddr,
    /// Of new connections.
    pause_ms: AtomicU64,
    /// Of the first one.
    pause_first_ms: AtomicU64,
    wires: Mutex<Vec<Arc<Wire>>>,
}

/// Both ends of a stream through a relay.
pub fn through_relay(options: &StripeOptions) -> (StripedStream, StripedStream, Relay) {
    let listener = bind(options);
    let relay = Relay::start(listener.local_addr().expect("it is bound"));
    let near = options.connect(relay.address()).expect("it listens");
    let (far, _) = listener.accept_timeout(PATIENCE).expect("somebody has connected");
    (near, far, relay)
}

/// A connection through the relay.
struct Wire {
    client: TcpStream,
    server: TcpStream,
    swallows: AtomicBool,
    /// Time for each piece, in milliseconds.
    pause_ms: AtomicU64,
}

impl Relay {
    /// A relay in front of a server on loopback.
    pub fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        listener.set_nonblocking(true).expect("it can be set");
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            refuse: AtomicBool::new(false),
            server,
            pause_ms: AtomicU64::new(0),
            pause_first_ms: AtomicU64::new(0),
            wires: Mutex::default(),
        });
        let accepting = shared.clone();
        thread::spawn(move || accepting.accept(&listener));
        Relay { address, shared }
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Connections so far, those that ended too.
    pub fn connections(&self) -> usize {
        self.shared.wires.lock().expect("no thread panicked").len()
    }

    fn wire(&self, at: usize) -> Arc<Wire> {
        self.shared.wires.lock().expect("no thread panicked")[at].clone()
    }

    /// Break a connection: both ends get a reset.
    pub fn reset(&self, at: usize) {
        let wire = self.wire(at);
        for socket in [&wire.client, &wire.server] {
            // Closing with a linger time of zero sends a reset; a shut down lets the passing threads let go of it.
            let _ = socket2::SockRef::from(socket).set_linger(Some(Duration::ZERO));
            let _ = socket2::SockRef::from(socket).shutdown(Shutdown::Both);
        }
        disconnect(&wire.client);
        disconnect(&wire.server);
    }

    /// From now on take what comes on a connection and pass nothing on, either way.
    pub fn swallow(&self, at: usize) {
        self.wire(at).swallows.store(true, Ordering::Relaxed);
    }

    /// Slip bytes of our own into what goes to the server.
    pub fn tamper(&self, at: usize, bytes: &[u8]) {
        let wire = self.wire(at);
        // A connection that has ended meanwhile shows in the test.
        let _ = (&wire.server).write_all(bytes);
    }

    /// Let a connection pass 64 KiB in so long.
    pub fn slow_down(&self, at: usize, pause: Duration) {
        self.wire(at).pause_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// The same for all connections that are yet to come.
    pub fn slow_down_new(&self, pause: Duration) {
        self.shared.pause_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// The same for the first connection, which is yet to come.
    pub fn slow_down_first(&self, pause: Duration) {
        self.shared.pause_first_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, on: bool) {
        self.shared.refuse.store(on, Ordering::Relaxed);
    }
}

/// Reset a connection whatever other descriptors of it there are.
fn disconnect(socket: &TcpStream) {
    use std::os::fd::AsRawFd;
    let nowhere = libc::sockaddr { sa_family: libc::AF_UNSPEC as u16, sa_data: [0; 14] };
    // SAFETY: the address is as long as it is said to be, and the descriptor is open. Connecting to AF_UNSPEC ends a
    // connection.
    unsafe {
        libc::connect(socket.as_raw_fd(), &raw const nowhere, size_of::<libc::sockaddr>() as libc::socklen_t);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for wire in self.shared.wires.lock().expect("no thread panicked").iter() {
            let _ = (wire.client.shutdown(Shutdown::Both), wire.server.shutdown(Shutdown::Both));
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((client, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            if self.refuse.load(Ordering::Relaxed) {
                continue;
            }
            client.set_nonblocking(false).expect("a socket can block");
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("it can be set");
            }
            let swallows = AtomicBool::new(false);
            let pause_ms = self.pause_ms.load(Ordering::Relaxed);
            let pause_ms = pause_ms.max(self.pause_first_ms.swap(0, Ordering::Relaxed)).into();
            let wire = Arc::new(Wire { client, server, swallows, pause_ms });
            self.wires.lock().expect("no thread panicked").push(wire.clone());
            for up in [true, false] {
                let wire = wire.clone();
                thread::spawn(move || pass(&wire, up));
            }
        }
    }
}

fn pass(wire: &Wire, up: bool) {
    let (mut from, mut to) = if up { (&wire.client, &wire.server) } else { (&wire.server, &wire.client) };
    let mut buffer = vec![0; 64 << 10];
    let mut due = Instant::now();
    loop {
        let waits_since = Instant::now();
        let Ok(len @ 1..) = from.read(&mut buffer) else { break };
        if wire.swallows.load(Ordering::Relaxed) {
            continue;
        }
        let (now, pause) = (Instant::now(), Duration::from_millis(wire.pause_ms.load(Ordering::Relaxed)));
        // By a clock, so that a thread that the host held up catches up; what nobody sent meanwhile is not made up for.
        let is_idle = pause.is_zero() || now - waits_since > CATCH_UP;
        due = if is_idle { now } else { due.max(now - CATCH_UP) } + pause;
        thread::sleep(due.saturating_duration_since(now));
        if to.write_all(&buffer[..len]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}

/// For so long a connection that is slowed down may be held up by the host and be none the slower.
const CATCH_UP: Duration = Duration::from_millis(500);
