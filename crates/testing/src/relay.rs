//! A box between client and server on loopback that passes everything on, TCP and UDP, counts, remembers, and can break or
//! slow down any connection in the ways that networks do, slip in bytes and datagrams of its own that come from the right
//! address, spoil some, pass nothing on for a while, or give the client another address.

use fastrand::Rng;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The two ways through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the client.
    ToServer,
    /// From the server.
    ToClient,
}

/// See the [module](self). Dropping it ends it.
pub struct Relay {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: AtomicBool,
    server: SocketAddr,
    /// Towards the client: has the address that the client knows.
    near: UdpSocket,
    /// Towards the server, connected to it.
    far: Mutex<Arc<UdpSocket>>,
    is_cut: AtomicBool,
    blocks_udp: AtomicBool,
    /// New connections are closed at once.
    refuses: AtomicBool,
    /// Of the connections to come, and of the first of them.
    pauses_ms: [AtomicU64; 2],
    /// Of a thousand datagrams so many are lost, come twice, or come with a wrong byte: a third each.
    spoilt_of_1000: AtomicU64,
    client: Mutex<Option<SocketAddr>>,
    bytes: [AtomicU64; 2],
    remembered: [Mutex<Vec<Vec<u8>>>; 2],
    connections: Mutex<Vec<Connection>>,
}

/// A TCP connection that goes through.
struct Connection {
    client: TcpStream,
    server: TcpStream,
    fate: Arc<Fate>,
}

/// What becomes of what comes over a TCP connection.
#[derive(Default)]
struct Fate {
    swallows: AtomicBool,
    /// Time for each piece, in milliseconds.
    pause_ms: AtomicU64,
    /// Bytes that came, both ways together, and of these the ones that were swallowed.
    came: AtomicU64,
    swallowed: AtomicU64,
    /// The first of what the client says.
    opening: Mutex<Vec<u8>>,
}

impl Relay {
    /// A relay in front of a server on loopback.
    pub fn start(server: SocketAddr) -> Relay {
        let (listener, near) = bind_both();
        near.set_read_timeout(Some(POLL)).expect("a timeout can be set");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            stop: AtomicBool::new(false),
            server,
            near,
            far: Mutex::new(far_socket(Ipv4Addr::LOCALHOST, server)),
            is_cut: AtomicBool::new(false),
            blocks_udp: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            pauses_ms: Default::default(),
            spoilt_of_1000: AtomicU64::new(0),
            client: Mutex::default(),
            bytes: Default::default(),
            remembered: Default::default(),
            connections: Mutex::default(),
        });
        let threads = vec![
            spawn(&shared, move |shared| shared.pass_tcp(&listener)),
            spawn(&shared, |shared| shared.pass_datagrams(Way::ToServer)),
            spawn(&shared, |shared| shared.pass_datagrams(Way::ToClient)),
        ];
        Relay { address, shared, threads }
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `longhaul://` of the server as seen through the relay.
    pub fn url(&self, path: &str) -> String {
        format!("longhaul://{}/{path}", self.address)
    }

    /// From now on datagrams come to the server from this host of loopback.
    pub fn move_to(&self, host: Ipv4Addr) {
        *self.shared.far.lock().expect("no thread panicked") = far_socket(host, self.shared.server);
    }

    /// Bytes of datagrams that were passed on this way.
    pub fn bytes(&self, way: Way) -> u64 {
        self.shared.bytes[way as usize].load(Ordering::Relaxed)
    }

    /// Whether nothing passes: as if somebody had pulled the cable, so that no connection breaks by itself.
    pub fn cut(&self, is_cut: bool) {
        self.shared.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// From now on no datagram passes.
    pub fn block_udp(&self) {
        self.shared.blocks_udp.store(true, Ordering::Relaxed);
    }

    /// Spoil so many of a thousand datagrams.
    pub fn spoil(&self, of_1000: u64) {
        self.shared.spoilt_of_1000.store(of_1000, Ordering::Relaxed);
    }

    /// Some of the datagrams that were passed on this way.
    pub fn remembered(&self, way: Way) -> Vec<Vec<u8>> {
        self.shared.remembered[way as usize].lock().expect("no thread panicked").clone()
    }

    /// TCP connections that have been passed on, closed ones included.
    pub fn connections(&self) -> usize {
        self.shared.connections.lock().expect("no thread panicked").len()
    }

    /// Break a connection, counted from 0 in the order in which they came: both ends get a reset.
    pub fn reset(&self, index: usize) {
        let connections = self.shared.connections.lock().expect("no thread panicked");
        for socket in [&connections[index].client, &connections[index].server] {
            // No time to linger, and no end that the other side could take for one: the kernel sends a reset, whatever other
            // descriptors of the connection there are. The threads that pass it on let go of one that is shut down.
            let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
            let _ = socket.shutdown(Shutdown::Both);
            let _ = rustix::net::connect_unspec(socket);
        }
    }

    /// Slip bytes of our own into what goes to the server over a connection.
    pub fn tamper(&self, index: usize, bytes: &[u8]) {
        let connections = self.shared.connections.lock().expect("no thread panicked");
        // A connection that has ended meanwhile shows in the test.
        let _ = (&connections[index].server).write_all(bytes);
    }

    /// Let a connection pass 64 KiB in so long.
    pub fn slow_down(&self, index: usize, pause: Duration) {
        self.fate(index).pause_ms.store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// The same for all connections that are yet to come.
    pub fn slow_down_new(&self, pause: Duration) {
        self.shared.pauses_ms[0].store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// The same for the first connection, which is yet to come.
    pub fn slow_down_first(&self, pause: Duration) {
        self.shared.pauses_ms[1].store(pause.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, on: bool) {
        self.shared.refuses.store(on, Ordering::Relaxed);
    }

    /// From now on take what comes over a connection, and pass nothing on.
    pub fn swallow(&self, index: usize) {
        self.fate(index).swallows.store(true, Ordering::Relaxed);
    }

    /// The connections that carry the control stream, one after the other: those that open it and that go on with it.
    pub fn controls(&self) -> Vec<usize> {
        let is_control =
            |index: &usize| matches!(self.opening(*index).get(..3), Some(b"LHC" | b"LHF" | b"LHR"));
        (0..self.connections()).filter(is_control).collect()
    }

    /// The first bytes that the client said over a connection.
    pub fn opening(&self, index: usize) -> Vec<u8> {
        self.fate(index).opening.lock().expect("no thread panicked").clone()
    }

    /// Bytes that have come over a connection, both ways together.
    pub fn came(&self, index: usize) -> u64 {
        self.fate(index).came.load(Ordering::Relaxed)
    }

    /// Those of them that were not passed on.
    pub fn swallowed(&self, index: usize) -> u64 {
        self.fate(index).swallowed.load(Ordering::Relaxed)
    }

    fn fate(&self, index: usize) -> Arc<Fate> {
        self.shared.connections.lock().expect("no thread panicked")[index].fate.clone()
    }

    /// Pass on no more datagrams.
    pub fn stop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }

    /// Slip in a datagram. What the kernel has no room for is lost, as anywhere.
    pub fn slip_in(&self, way: Way, datagram: &[u8]) {
        let _ = self.shared.pass(way, datagram);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
        for Connection { client, server, .. } in
            self.shared.connections.lock().expect("no thread panicked").iter()
        {
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }
}

/// A port that is free for TCP and for UDP.
fn bind_both() -> (TcpListener, UdpSocket) {
    let both = || -> io::Result<_> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let socket = UdpSocket::bind(listener.local_addr()?)?;
        listener.set_nonblocking(true)?;
        Ok((listener, socket))
    };
    (0..20).find_map(|_| both().ok()).expect("a port that is free for both")
}

fn far_socket(host: Ipv4Addr, server: SocketAddr) -> Arc<UdpSocket> {
    let far = UdpSocket::bind((host, 0)).expect("a UDP port");
    far.connect(server).expect("loopback is there");
    far.set_read_timeout(Some(POLL)).expect("a timeout can be set");
    Arc::new(far)
}

fn spawn(shared: &Arc<Shared>, run: impl FnOnce(&Arc<Shared>) + Send + 'static) -> JoinHandle<()> {
    let shared = shared.clone();
    thread::spawn(move || run(&shared))
}

impl Shared {
    fn far(&self) -> Arc<UdpSocket> {
        self.far.lock().expect("no thread panicked").clone()
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn pass_tcp(self: &Arc<Self>, listener: &TcpListener) {
        while !self.is_over() {
            let Ok((client, _)) = listener.accept() else {
                thread::sleep(Duration::from_millis(2));
                continue;
            };
            if self.refuses.load(Ordering::Relaxed) {
                continue;
            }
            client.set_nonblocking(false).expect("a socket can block");
            let Ok(server) = TcpStream::connect(self.server) else { continue };
            for socket in [&client, &server] {
                socket.set_nodelay(true).expect("it can be set");
            }
            let pauses =
                [self.pauses_ms[0].load(Ordering::Relaxed), self.pauses_ms[1].swap(0, Ordering::Relaxed)];
            let pause_ms = pauses[0].max(pauses[1]).into();
            let fate = Arc::new(Fate { pause_ms, ..Fate::default() });
            for (way, from, to) in [(Way::ToServer, &client, &server), (Way::ToClient, &server, &client)] {
                let (from, to) =
                    (from.try_clone().expect("a descriptor"), to.try_clone().expect("a descriptor"));
                let (shared, fate) = (self.clone(), fate.clone());
                // These end with their connections.
                thread::spawn(move || shared.pass_stream(way, (from, to), &fate));
            }
            let connection = Connection { client, server, fate };
            self.connections.lock().expect("no thread panicked").push(connection);
        }
    }

    fn pass_datagrams(&self, way: Way) {
        let mut buffer = vec![0; 1 << 16];
        let mut rng = Rng::with_seed(way as u64);
        while !self.is_over() {
            let received = match way {
                Way::ToServer => self.near.recv_from(&mut buffer).map(|(len, from)| {
                    *self.client.lock().expect("no thread panicked") = Some(from);
                    len
                }),
                Way::ToClient => self.far().recv(&mut buffer),
            };
            // Time to look whether it is over, or the other side's port is closed for now.
            let Ok(len) = received else { continue };
            if self.is_cut.load(Ordering::Relaxed) || self.blocks_udp.load(Ordering::Relaxed) {
                continue;
            }
            let datagram = &mut buffer[..len];
            match self.accident(&mut rng) {
                Some(Accident::Lost) => continue,
                Some(Accident::Twice) => drop(self.pass(way, datagram)),
                Some(Accident::WrongByte) => datagram[rng.usize(..len)] ^= 1 << rng.u32(..8),
                None => {}
            }
            if self.pass(way, datagram).is_ok() {
                self.bytes[way as usize].fetch_add(len as u64, Ordering::Relaxed);
            }
            let mut remembered = self.remembered[way as usize].lock().expect("no thread panicked");
            if remembered.len() < REMEMBERED {
                remembered.push(datagram.to_vec());
            }
        }
    }

    fn accident(&self, rng: &mut Rng) -> Option<Accident> {
        let kinds = [Accident::Lost, Accident::Twice, Accident::WrongByte];
        (rng.u64(..1000) < self.spoilt_of_1000.load(Ordering::Relaxed)).then(|| kinds[rng.usize(..3)])
    }

    fn pass(&self, way: Way, datagram: &[u8]) -> io::Result<usize> {
        match way {
            Way::ToServer => self.far().send(datagram),
            Way::ToClient => match *self.client.lock().expect("no thread panicked") {
                Some(client) => self.near.send_to(datagram, client),
                None => Ok(0),
            },
        }
    }

    fn pass_stream(&self, way: Way, (mut from, mut to): (TcpStream, TcpStream), fate: &Fate) {
        let mut buffer = vec![0; 1 << 16];
        let mut due = Instant::now();
        loop {
            let waits_since = Instant::now();
            let Ok(len @ 1..) = from.read(&mut buffer) else { break };
            if way == Way::ToServer {
                let mut opening = fate.opening.lock().expect("no thread panicked");
                let room = OPENING - opening.len();
                opening.extend_from_slice(&buffer[..len.min(room)]);
            }
            fate.came.fetch_add(len as u64, Ordering::Relaxed);
            let (now, pause) = (Instant::now(), Duration::from_millis(fate.pause_ms.load(Ordering::Relaxed)));
            // By a clock, so that a thread that the host held up catches up; what nobody sent meanwhile is not made up for.
            let is_idle = pause.is_zero() || now - waits_since > CATCH_UP;
            due = if is_idle { now } else { due.max(now - CATCH_UP) } + pause;
            thread::sleep(due.saturating_duration_since(now));
            // TCP itself would bring it later.
            while self.is_cut.load(Ordering::Relaxed) && !self.is_over() {
                thread::sleep(POLL);
            }
            if fate.swallows.load(Ordering::Relaxed) {
                fate.swallowed.fetch_add(len as u64, Ordering::Relaxed);
            } else if to.write_all(&buffer[..len]).is_err() {
                break;
            }
        }
        // Nor does an end get through a cut.
        while self.is_cut.load(Ordering::Relaxed) && !self.is_over() {
            thread::sleep(POLL);
        }
        let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
    }
}

/// What can befall a datagram.
#[derive(Clone, Copy)]
enum Accident {
    Lost,
    Twice,
    WrongByte,
}

const POLL: Duration = Duration::from_millis(50);
/// For so long a connection that is slowed down may be held up by the host and be none the slower.
const CATCH_UP: Duration = Duration::from_millis(500);
/// Bytes remembered of what a client says first: all that it says to be let in, and some more.
const OPENING: usize = 512;
/// Datagrams remembered of each way.
const REMEMBERED: usize = 500;
