//! Waiting for streams, and letting further lanes in.

use super::handshake::{Greeting, House, Opened, Step};
use super::options::StripeOptions;
use super::state::{Core, locked};
use super::stream::StripedStream;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use longhaul_net::control::{ServerKey, TokenId};
use longhaul_net::join::JoinKey;
use longhaul_net::seal::Side;
use longhaul_net::tcp::new_socket;
use longhaul_net::wake::Waker;
use longhaul_proto::stripe::hello::ID_LEN;
use rustix::event::{PollFd, PollFlags};
use socket2::SockRef;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// Waits for [`StripedStream`]s at an address.
///
/// One thread meets whoever connects. When the listener is dropped no further stream is taken, but the port stays open
/// as long as streams live that came through it: their further lanes come there too.
#[derive(Debug)]
pub struct StripedListener {
    local: SocketAddr,
    accepted: Receiver<(StripedStream, SocketAddr)>,
    closed: Arc<AtomicBool>,
    waker: Waker,
    announced: Announced,
}

/// What is written to when a stream has come.
type Announced = Arc<Mutex<Option<OwnedFd>>>;

impl StripeOptions {
    /// Wait for streams at an address.
    pub fn bind(&self, address: impl ToSocketAddrs) -> io::Result<StripedListener> {
        StripedListener::open(self, address)
    }
}

impl StripedListener {
    /// Wait for streams with the usual options. See [`StripeOptions::bind`].
    pub fn bind(address: impl ToSocketAddrs) -> io::Result<StripedListener> {
        StripeOptions::new().bind(address)
    }

    pub(super) fn open(options: &StripeOptions, address: impl ToSocketAddrs) -> io::Result<StripedListener> {
        let mut last = io::Error::new(ErrorKind::InvalidInput, "the name stands for no address");
        let mut bound = None;
        for address in address.to_socket_addrs()? {
            match listen(options, address) {
                Ok(socket) => {
                    bound = Some(socket);
                    break;
                }
                Err(error) => last = error,
            }
        }
        let socket = bound.ok_or(last)?;
        let local = socket.local_addr()?;
        let (sender, accepted) = bounded(ACCEPT_MAX);
        let (waker, closed) = (Waker::new()?, Arc::new(AtomicBool::new(false)));
        let announced = Announced::default();
        let porter = Porter {
            socket,
            options: options.clone(),
            waiting: vec![],
            streams: HashMap::new(),
            accepted: sender,
            closed: closed.clone(),
            waker: waker.clone(),
            announced: announced.clone(),
            complaints: Complaints::default(),
        };
        std::thread::Builder::new().name("stripe-accept".into()).spawn(move || porter.run())?;
        Ok(StripedListener { local, accepted, closed, waker, announced })
    }

    /// Wait for the next stream. It has one lane then; others join it while it is used.
    pub fn accept(&self) -> io::Result<(StripedStream, SocketAddr)> {
        self.accepted.recv().map_err(|_| gone())
    }

    /// [`StripedListener::accept`], but not longer than this. Then it fails with [`ErrorKind::TimedOut`].
    pub fn accept_timeout(&self, timeout: Duration) -> io::Result<(StripedStream, SocketAddr)> {
        self.accepted.recv_timeout(timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => ErrorKind::TimedOut.into(),
            RecvTimeoutError::Disconnected => gone(),
        })
    }

    /// From now on add one to this eventfd (see eventfd(2)) when a stream has come, for who waits in `poll`. One that waits
    /// already counts as well.
    pub fn announce(&self, eventfd: OwnedFd) {
        *locked(&self.announced) = Some(eventfd);
        if self.has_waiting() {
            announce(&self.announced);
        }
    }

    /// Whether a stream waits to be accepted.
    pub fn has_waiting(&self) -> bool {
        !self.accepted.is_empty()
    }

    /// One stream after the other.
    pub fn incoming(&self) -> impl Iterator<Item = io::Result<StripedStream>> + '_ {
        std::iter::repeat_with(|| self.accept().map(|(stream, _)| stream))
    }

    /// Where it waits.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Drop for StripedListener {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
        self.waker.wake();
        // Those that nobody will accept are told, as a kernel resets their like.
        self.accepted.try_iter().for_each(|(stream, _)| stream.abort(GIVEN_UP));
    }
}

fn gone() -> io::Error {
    io::Error::other("the listener's thread has ended; bind again")
}

fn listen(options: &StripeOptions, address: SocketAddr) -> io::Result<TcpListener> {
    let socket = new_socket(address)?;
    socket.set_reuse_address(true)?;
    options.tcp.set_up(&SockRef::from(&socket))?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn announce(announced: &Announced) {
    if let Some(eventfd) = &*locked(announced) {
        // Fails only where nobody has looked for longer than there are numbers.
        let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
    }
}

/// Meets everybody who connects, without waiting for anybody.
struct Porter {
    socket: TcpListener,
    options: StripeOptions,
    /// Those who have not yet shown what they are, the oldest first.
    waiting: Vec<Guest>,
    streams: HashMap<[u8; ID_LEN], Weak<Core>>,
    accepted: Sender<(StripedStream, SocketAddr)>,
    closed: Arc<AtomicBool>,
    waker: Waker,
    announced: Announced,
    complaints: Complaints,
}

/// Somebody who has connected.
struct Guest {
    socket: TcpStream,
    peer: SocketAddr,
    since: Instant,
    greeting: Greeting,
    /// Bytes of what the greeting needs next.
    have: Vec<u8>,
    /// Has said something that makes sense.
    spoke: bool,
}

impl Guest {
    /// Has said all that is needed, and waits for another one.
    fn was_early(&self) -> bool {
        self.have.len() == self.greeting.needs()
    }
}

/// What is to become of a guest.
enum Fate {
    Waits,
    Leaves,
    Opens(Box<Opened>),
    Joins { id: [u8; ID_LEN], nonces: Box<longhaul_net::join::Nonces> },
}

impl Porter {
    fn run(mut self) {
        loop {
            self.streams.retain(|_, core| core.upgrade().is_some_and(|core| !core.lock().is_over()));
            if self.closed.load(Ordering::Relaxed) && self.streams.is_empty() {
                return;
            }
            let fds = std::iter::once(PollFd::new(&self.socket, PollFlags::IN))
                .chain(self.waiting.iter().map(|guest| PollFd::new(&guest.socket, PollFlags::IN)));
            let ready = match self.waker.wait_many(fds.collect(), self.patience()) {
                Ok(ready) => ready,
                Err(error) => {
                    tracing::error!("the striped listener cannot wait for connections: {error}");
                    return;
                }
            };
            self.meet(&ready[1..]);
            if ready[0] {
                self.let_in();
            }
            self.send_away_late_ones();
        }
    }

    /// Until the next guest's time is up, or a look at which streams still live.
    fn patience(&self) -> Duration {
        let oldest = self.waiting.first().map(|guest| GUEST_PATIENCE.saturating_sub(guest.since.elapsed()));
        oldest.unwrap_or(LOOK_AROUND).min(LOOK_AROUND)
    }

    fn let_in(&mut self) {
        for _ in 0..GUESTS_MAX {
            match self.socket.accept() {
                Ok((socket, peer)) if socket.set_nonblocking(true).is_ok() => {
                    if self.waiting.len() >= GUESTS_MAX {
                        self.make_room();
                    }
                    let (since, greeting) = (Instant::now(), Greeting::default());
                    self.waiting.push(Guest { socket, peer, since, greeting, have: vec![], spoke: false });
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, most likely: those who wait leave in time.
                    self.complaints.add(&format!("cannot take a connection: {error}"));
                    self.make_room();
                    std::thread::sleep(REST);
                    return;
                }
            }
        }
    }

    /// Too many wait: the oldest of those who have said nothing goes first.
    fn make_room(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        let silent = self.waiting.iter().position(|guest| !guest.spoke).unwrap_or(0);
        let guest = self.waiting.remove(silent);
        self.complaints.add(&format!("{}: sent away, {GUESTS_MAX} others wait", guest.peer));
    }

    fn send_away_late_ones(&mut self) {
        let late = self.waiting.iter().take_while(|guest| guest.since.elapsed() >= GUEST_PATIENCE).count();
        for guest in self.waiting.drain(..late) {
            self.complaints.add(&format!("{}: says too little for {GUEST_PATIENCE:?}", guest.peer));
        }
    }

    /// Hear what guests have to say; `ready` tells which of them have said something.
    fn meet(&mut self, ready: &[bool]) {
        let guests = std::mem::take(&mut self.waiting);
        let opening: Vec<[u8; ID_LEN]> = guests.iter().filter_map(|g| g.greeting.opens().copied()).collect();
        for (at, mut guest) in guests.into_iter().enumerate() {
            match (ready.get(at).copied().unwrap_or(false), guest.was_early()) {
                (false, false) => {
                    self.waiting.push(guest);
                    continue;
                }
                // It has nothing to say before it is answered, so it has left, or is not what it seems.
                (true, true) => continue,
                _ => {}
            }
            match self.hear(&mut guest, &opening) {
                Fate::Waits => self.waiting.push(guest),
                Fate::Leaves => {}
                Fate::Opens(opened) => self.open(guest, *opened),
                Fate::Joins { id, nonces } => self.join(guest, &id, &nonces),
            }
        }
    }

    fn hear(&mut self, guest: &mut Guest, opening: &[[u8; ID_LEN]]) -> Fate {
        loop {
            let missing = guest.greeting.needs() - guest.have.len();
            if missing > 0 {
                let mut room = vec![0; missing];
                match guest.socket.read(&mut room) {
                    Ok(0) => return Fate::Leaves,
                    Ok(len) => guest.have.extend_from_slice(&room[..len]),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Fate::Waits,
                    Err(_) => return Fate::Leaves,
                }
                if guest.have.len() < guest.greeting.needs() {
                    continue;
                }
            }
            let asked = guest.greeting.asks_to_join(&guest.have);
            if asked.is_some_and(|id| opening.contains(&id) && !self.streams.contains_key(&id)) {
                // A further lane has overtaken the last word of the first.
                return Fate::Waits;
            }
            let said = std::mem::take(&mut guest.have);
            let is_busy = self.closed.load(Ordering::Relaxed) || self.accepted.is_full();
            let mut house = Inside { options: &self.options, streams: &self.streams, is_busy };
            match guest.greeting.take(&said, &self.options, &mut house) {
                Ok(Step::More(reply)) => {
                    guest.spoke = true;
                    // A few hundred bytes: a new socket that does not take them at once is not worth waiting for.
                    if !matches!((&guest.socket).write(&reply), Ok(len) if len == reply.len()) {
                        return Fate::Leaves;
                    }
                }
                Ok(Step::Opened(opened)) => return Fate::Opens(opened),
                Ok(Step::Joined { id, nonces }) => return Fate::Joins { id, nonces },
                Ok(Step::Refused(refusal, reply)) => {
                    self.complaints.add(&format!("{}: refused: {refusal}", guest.peer));
                    let _ = (&guest.socket).write(&reply);
                    return Fate::Leaves;
                }
                Ok(Step::Stranger(what)) => {
                    self.complaints.add(&format!("{}: not let in ({what})", guest.peer));
                    return Fate::Leaves;
                }
                Err(error) => {
                    self.complaints.add(&format!("{}: cannot answer: {error}", guest.peer));
                    return Fate::Leaves;
                }
            }
        }
    }

    fn open(&mut self, guest: Guest, opened: Opened) {
        let id = opened.agreed.secrets.id;
        let stream = Core::new(&self.options, opened.agreed, &guest.socket, Side::Server)
            .and_then(|core| StripedStream::start(core, guest.socket, 0));
        match stream {
            Ok(stream) => {
                self.streams.insert(id, Arc::downgrade(stream.core()));
                match self.accepted.try_send((stream, guest.peer)) {
                    Ok(()) => announce(&self.announced),
                    Err(refused) => {
                        self.complaints.add(&format!("{}: nobody takes its stream", guest.peer));
                        refused.into_inner().0.abort(GIVEN_UP);
                    }
                }
            }
            Err(error) => self.complaints.add(&format!("{}: cannot open its stream: {error}", guest.peer)),
        }
    }

    fn join(&mut self, guest: Guest, id: &[u8; ID_LEN], nonces: &longhaul_net::join::Nonces) {
        let Some(core) = self.streams.get(id).and_then(Weak::upgrade) else { return };
        let (sealer, opener) = core.secrets.lane(Side::Server, nonces);
        if let Err(error) = core.add_lane(guest.socket, 0, sealer, opener) {
            self.complaints.add(&format!("{}: its lane is of no use: {error}", guest.peer));
        }
    }
}

/// What guests may find out of a porter's house.
struct Inside<'a> {
    options: &'a StripeOptions,
    streams: &'a HashMap<[u8; ID_LEN], Weak<Core>>,
    is_busy: bool,
}

impl House for Inside<'_> {
    fn wants_key(&self) -> bool {
        self.options.key.is_some()
    }

    fn key(&mut self, id: Option<TokenId>) -> Option<ServerKey> {
        self.options.key.filter(|_| id.is_none()).map(ServerKey::from)
    }

    fn joined(&self, id: &[u8; ID_LEN]) -> Option<JoinKey> {
        self.streams.get(id)?.upgrade()?.join_key()
    }

    fn first_limit(&self) -> Option<u64> {
        (!self.is_busy).then_some(self.options.buffer)
    }
}

/// The log of what strangers do: a line now and then, however many come.
#[derive(Default)]
struct Complaints {
    last: Option<Instant>,
    unreported: u64,
}

impl Complaints {
    fn add(&mut self, line: &str) {
        if self.last.is_some_and(|last| last.elapsed() < COMPLAIN_EVERY) {
            self.unreported += 1;
            return;
        }
        match std::mem::take(&mut self.unreported) {
            0 => tracing::warn!("{line}"),
            more => tracing::warn!("{line} (and {more} others since the last such line)"),
        }
        self.last = Some(Instant::now());
    }
}

/// What the other side of a stream is told that nobody accepts.
const GIVEN_UP: &str = "given up";
/// Streams that wait to be accepted.
const ACCEPT_MAX: usize = 128;
/// Connections that the kernel holds until they are taken.
const BACKLOG: i32 = 1024;
/// Guests that have not shown what they are. Each takes a descriptor and about a kilobyte.
const GUESTS_MAX: usize = 512;
/// How long a guest has for the handshake: three round trips of the longest path, with losses.
const GUEST_PATIENCE: Duration = Duration::from_secs(10);
/// When connections cannot be taken, there is no use in trying at once.
const REST: Duration = Duration::from_millis(20);
/// Streams that have ended are forgotten so often.
const LOOK_AROUND: Duration = Duration::from_secs(1);
/// A line about strangers at most so often.
const COMPLAIN_EVERY: Duration = Duration::from_secs(10);
