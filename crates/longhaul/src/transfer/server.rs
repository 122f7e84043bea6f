//! The side that is asked: a daemon that serves a folder, or the agent at the far end of an ssh.

use super::ports::{bind_both, bind_in};
use super::probe;
use super::reach::random;
use super::receiving::{ListingHead, aside, await_confirmation, get_listing, receive};
use super::replays::{Moment, Replays};
use super::sending::{listing_of, send, send_listing};
use super::session::Session;
use super::strangers::{Guest, Strangers};
use super::switchboard::{POLL, Switchboard};
use crate::api::ServeOptions;
use crate::clock;
use crate::error::Error;
use crate::files::{Base, Exclude, Root, ScanOptions, SourceSpec, scan};
use crate::listing;
use crate::net::aead::has_aes;
use crate::net::control::{self, Control, HandshakeError, Stream, psk_of_token, tcp_stream};
use crate::net::deadline::{Deadline, DeadlineStream, SILENCE};
use crate::net::link::Link;
use crate::net::noise::Psk;
use crate::net::seal::{Keys, Side};
use crate::net::tcp_set::{self, StreamAcceptor, StreamSet, stream_key};
use crate::net::wake::{Interest, Waker, precise_timers, wait};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::{Answer, Direction, Offer};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What every session of a server shares.
struct Server {
    root: Root,
    psk: Psk,
    read_only: bool,
    max_rate: Option<Rate>,
    udp_port: u16,
    udp_hosts: Vec<IpAddr>,
    /// The control stream runs inside ssh.
    is_ssh: bool,
    /// Why no offer can be accepted.
    unable: Option<Reason>,
    /// Which offers came for the first time.
    replays: Replays,
    /// Sessions under way.
    sessions: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

/// Serve a folder until `stop`. `ready` is told the address that was bound.
pub fn serve(
    options: ServeOptions,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let root =
        Root::confined(&options.root).map_err(|source| Error::Root { root: options.root.clone(), source })?;
    let listen = options.listen;
    let (listener, socket, local) = bind_both(listen).map_err(|source| Error::Listen { listen, source })?;
    let switchboard = Arc::new(Switchboard::default());
    let server = Arc::new(Server {
        root,
        psk: psk_of_token(options.token.secret()),
        read_only: options.read_only,
        max_rate: options.max_rate,
        udp_port: local.port(),
        udp_hosts: vec![],
        is_ssh: false,
        unable: None,
        replays: Replays::new(Moment::now()),
        sessions: Arc::default(),
        stop: stop.clone(),
    });
    ready(local);
    let (waker, datagrams) = (Waker::new()?, Waker::new()?);
    let strangers = Strangers::default();
    // Why connections are not accepted at the moment: told once.
    let mut refusing = None;
    std::thread::scope(|scope| {
        let receiving = std::thread::Builder::new().name("switchboard".into());
        receiving.spawn_scoped(scope, || switchboard.run(socket, &datagrams, &stop))?;
        while !stop.load(Ordering::Relaxed) {
            let now = clock::now();
            let interest = Interest { socket: Some(listener.as_fd()), writable: false };
            if let Err(error) = wait(interest, &waker, now, now + POLL) {
                tracing::error!("waiting for connections failed: {error}");
                std::thread::sleep(ACCEPT_AGAIN);
            }
            loop {
                let (socket, peer) = match listener.accept() {
                    Ok(accepted) => accepted,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => {
                        let was = refusing.replace(error.kind());
                        if was != refusing {
                            tracing::warn!("cannot accept a connection: {error}");
                        }
                        std::thread::sleep(ACCEPT_AGAIN);
                        break;
                    }
                };
                refusing = None;
                let Ok(guest) = strangers.admit(&socket, peer.ip()) else { continue };
                let (server, switchboard) = (server.clone(), switchboard.clone());
                let serve = move || {
                    log_outcome(peer, serve_connection(&server, &switchboard, (socket, guest)));
                };
                let thread = std::thread::Builder::new().name("connection".into());
                // One that cannot be served is closed; the others go on.
                if let Err(error) = thread.spawn_scoped(scope, serve) {
                    tracing::warn!("{peer}: cannot be served: {error}");
                }
            }
        }
        Ok(())
    })
}

fn log_outcome(peer: SocketAddr, outcome: Result<Option<String>, Error>) {
    let error = match outcome {
        Ok(None) => return,
        Ok(Some(line)) => return tracing::info!("{peer}: {line}"),
        Err(error) => error,
    };
    // The words of a handshake are for the client.
    match error {
        Error::Handshake(HandshakeError::WrongKey) => tracing::warn!("{peer}: refused: wrong token"),
        Error::Handshake(HandshakeError::WrongVersion { theirs }) => {
            tracing::warn!("{peer}: refused: speaks protocol version {theirs}");
        }
        Error::Handshake(HandshakeError::NotLonghaul(what)) => {
            tracing::warn!("{peer}: not a longhaul client ({what})");
        }
        Error::Interrupted => tracing::warn!("{peer}: interrupted"),
        error => tracing::warn!("{peer}: {error}"),
    }
}

fn serve_connection(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    (socket, guest): (TcpStream, Guest<'_>),
) -> Result<Option<String>, Error> {
    // Datagrams are to leave from the address that they come to, whichever of this host's that is.
    let (local, peer) = (socket.local_addr()?, socket.peer_addr()?);
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let deadline = Instant::now() + HANDSHAKE_PATIENCE;
    let Some(magic) = read_magic(&socket, deadline)? else {
        tracing::debug!("somebody left before saying what he wants");
        return Ok(None);
    };
    guest.speaks();
    if magic == tcp_set::MAGIC {
        match tcp_set::admit(socket, |id| switchboard.acceptor(id)) {
            Ok(()) => tracing::debug!("a TCP stream joined"),
            // Mostly one that was on its way when its transfer ended.
            Err(error) => tracing::debug!("no TCP stream: {error}"),
        }
        return Ok(None);
    }
    let mut stream = tcp_stream(socket, deadline.saturating_duration_since(Instant::now()))?;
    stream.reader = Box::new(io::Cursor::new(magic).chain(stream.reader));
    let waker = Waker::new()?;
    let streams = StreamSet::default();
    let mut line = None;
    let place = Place::default();
    let hands = shake_hands(server, stream, &waker, &place, |offer, secret| {
        let acceptor =
            streams.acceptor_of(stream_key(secret, offer.connection_id), &offer.transfer, waker.clone());
        line = switchboard.connect(offer.connection_id, waker.clone(), acceptor);
        line.is_some()
    })?;
    let Some(line) = line else { return Err(Error::Protocol("made no offer")) };
    let early = hands.early_keys(server);
    let link = Link::shared(local, peer.ip(), line.strays.clone(), early).with_streams(streams);
    serve_session(server, hands, link, waker, (&place, Some(guest))).map(Some)
}

/// The first bytes tell what somebody wants, who may leave before saying it.
fn read_magic(socket: &TcpStream, deadline: Instant) -> Result<Option<[u8; tcp_set::MAGIC_LEN]>, Error> {
    let mut magic = [0; tcp_set::MAGIC_LEN];
    match DeadlineStream::new(socket, Deadline::at(deadline), SILENCE).read_exact(&mut magic) {
        Ok(()) => Ok(Some(magic)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::Stranger(error)),
    }
}

/// What a handshake leaves.
struct Hands {
    control: Control,
    offer: Offer,
    /// That of the datagrams' keys.
    secret: [u8; 32],
    /// The offer is no replay for certain.
    is_first: bool,
}

impl Hands {
    fn early_keys(&self, server: &Server) -> Keys {
        Keys::early_server(&server.psk, &self.offer.early_salt, &self.secret, self.offer.connection_id)
    }
}

/// Accept or refuse. `accepted` says whether nobody else has the offer's connection id.
fn shake_hands(
    server: &Server,
    stream: Stream,
    waker: &Waker,
    place: &Place,
    accepted: impl FnOnce(&Offer, &[u8; 32]) -> bool,
) -> Result<Hands, Error> {
    let secret = random()?;
    let mut is_first = false;
    let decide = |offer: &Offer| {
        // The key of an agent is a new one.
        is_first = server.is_ssh || server.replays.is_first(&offer.early_salt, offer.made_s, Moment::now());
        let taken = || {
            let line = "a copy of this name is under way; run the same command again";
            (!accepted(offer, &secret)).then(|| Reason::new(Cause::Refused, line))
        };
        // What may be a replay takes nobody's place.
        let place = || if is_first { place.take(server) } else { None };
        match objection(server, offer).or_else(place).or_else(taken) {
            Some(reason) => Answer::Refuse(reason),
            None => Answer::Accept {
                aes: offer.aes && has_aes(),
                udp_secret: secret,
                udp_port: server.udp_port,
                udp_hosts: server.udp_hosts.clone(),
            },
        }
    };
    let (control, offer) = control::accept(stream, &server.psk, waker.clone(), decide)?;
    Ok(Hands { control, offer, secret, is_first })
}

/// A session's place among those that a server has, given back when it ends.
#[derive(Default)]
struct Place {
    taken: OnceCell<Arc<AtomicUsize>>,
}

impl Place {
    /// Take a place; why there is none.
    fn take(&self, server: &Server) -> Option<Reason> {
        let sessions = self.taken.get_or_init(|| server.sessions.clone());
        (sessions.fetch_add(1, Ordering::Relaxed) >= SESSIONS_MAX).then(|| {
            let line = format!(
                "the server has {SESSIONS_MAX} copies under way, as many as it takes; try again later"
            );
            Reason::new(Cause::Refused, line)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(sessions) = self.taken.get() {
            sessions.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Why an offer cannot be accepted.
fn objection(server: &Server, offer: &Offer) -> Option<Reason> {
    if server.unable.is_some() {
        return server.unable.clone();
    }
    let classes = &offer.transfer.classes;
    let sizes = wire::MIN_DATAGRAM_LEN..=wire::MAX_DATAGRAM_LEN;
    if classes.is_empty() || classes.len() > wire::MAX_CLASSES || classes.iter().any(|c| !sizes.contains(c)) {
        return Some(Reason::new(Cause::Refused, "the datagram sizes offered make no sense"));
    }
    if server.read_only && matches!(offer.direction, Direction::Push { .. }) {
        return Some(Reason::new(Cause::Refused, "this server only sends; it was started read-only"));
    }
    None
}

fn serve_session(
    server: &Server,
    hands: Hands,
    mut link: Link,
    waker: Waker,
    stranger: (&Place, Option<Guest<'_>>),
) -> Result<String, Error> {
    let Hands { control, offer, secret, is_first } = hands;
    precise_timers();
    link.set_main_keys(Keys::main(&secret, offer.aes && has_aes(), offer.connection_id, Side::Server));
    let sends = matches!(offer.direction, Direction::Pull { .. });
    let mut transfer = offer.transfer.clone();
    if let (true, Some(max)) = (sends, server.max_rate) {
        transfer.rate_cap = Some(transfer.rate_cap.map_or(max, |cap| cap.min(max)));
    }
    let mut nobody = ();
    let mut session = Session {
        link,
        control,
        waker,
        stop: server.stop.clone(),
        check: PathCheck::new(transfer.classes.clone(), sends, u64::from_be_bytes(random()?)),
        options: transfer,
        rtt: RTT_GUESS,
        observer: &mut nobody,
        began: Instant::now(),
        remembered: None,
        told: None,
        scratch: vec![],
        last_word: clock::now(),
        talks_since: clock::now(),
        turned_at: clock::now(),
        awake_since: clock::now(),
        asked: None,
        answered: Time::ZERO,
        opener: None,
        streams_wanted: 0,
        no_streams: None,
        is_ssh: server.is_ssh,
        confirmed: false,
        asked_at: None,
    };
    if let (true, Some(name)) = (sends, session.options.congestion.clone())
        && let Err(error) = tcp_set::check_congestion(&name)
    {
        session.warn(format!("over TCP the other host sends as it usually does: {error}"));
    }
    let began = clock::now();
    let outcome =
        welcome(server, &mut session, is_first, stranger).and_then(|()| match offer.direction.clone() {
            Direction::Push { dest } => take_push(server, &mut session, dest, offer),
            Direction::Pull { sources } => give_pull(server, &mut session, sources, offer),
            Direction::Probe => probe::answer(&mut session),
        });
    session.control.finish();
    outcome.map(|line| format!("{line} in {:.1} s", clock::now().since(began).as_secs_f64()))
}

/// Before anything is done for a client whose offer may be a replay it has shown that it is there. Then it is no stranger any
/// more.
fn welcome(
    server: &Server,
    session: &mut Session<'_>,
    is_first: bool,
    (place, guest): (&Place, Option<Guest<'_>>),
) -> Result<(), Error> {
    if !is_first {
        await_confirmation(session)?;
        if let Some(reason) = place.take(server) {
            return Err(session.abort(Error::Busy(reason)));
        }
    }
    drop(guest);
    Ok(())
}

fn take_push(
    server: &Server,
    session: &mut Session<'_>,
    dest: Vec<u8>,
    offer: Offer,
) -> Result<String, Error> {
    let shown = String::from_utf8_lossy(&dest).into_owned();
    let base = Base::new(server.root.clone(), PathBuf::from(OsString::from_vec(dest)));
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let received = receive(session, base, offer.files, head)?;
    let (done, failed) = (received.report.files_done, received.report.failed.count());
    let removed = match received.report.removed.count() {
        0 => String::new(),
        removed => format!(", {removed} removed"),
    };
    Ok(format!(
        "received {} files ({} bytes) into {shown:?}, {done} new, {failed} failed{removed}",
        received.files, received.total
    ))
}

fn give_pull(
    server: &Server,
    session: &mut Session<'_>,
    sources: Vec<Vec<u8>>,
    offer: Offer,
) -> Result<String, Error> {
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let names = match offer.listing_len {
        0 => None,
        _ => {
            let bytes = get_listing(session, head)?;
            Some(listing::decode_names(&bytes).map_err(|error| session.abort(error))?)
        }
    };
    let paths = sources.into_iter().map(|path| SourceSpec { path: PathBuf::from(OsString::from_vec(path)) });
    let options = ScanOptions {
        exclude: Exclude::new(&offer.files.exclude).map_err(|error| session.abort(error))?,
        files_from: names.map(|names| names.into_iter().map(|p| OsString::from_vec(p).into()).collect()),
        stop: Arc::default(),
    };
    let (root, paths) = (server.root.clone(), paths.collect::<Vec<_>>());
    let scanned =
        aside(session, "list", move |over| scan(&root, &paths, &ScanOptions { stop: over, ..options }))?;
    if let Some(reason) = scanned.emptiness() {
        return Err(session.abort(Error::Empty(reason)));
    }
    scanned.warnings().into_iter().for_each(|line| session.warn(line));
    let listing = listing_of(&scanned)?;
    send_listing(session, &listing, listing.len());
    let files = scanned.manifest.entries.len();
    let sent = send(session, Arc::new(scanned))?;
    let failed = sent.report.failed.count();
    Ok(format!("sent {files} entries, {} of them new, {failed} failed", sent.report.files_done))
}

/// The far side of an ssh copy: talks over stdin and stdout, on a UDP port out of `ports`.
pub fn agent(ports: Option<RangeInclusive<u16>>, stop: Arc<AtomicBool>) -> Result<(), Error> {
    run_agent(ports, stop.clone()).map_err(|error| error.unless_stopped(&stop))
}

fn run_agent(ports: Option<RangeInclusive<u16>>, stop: Arc<AtomicBool>) -> Result<(), Error> {
    let mut psk = [0; 32];
    io::stdin().read_exact(&mut psk).map_err(Error::NoKey)?;
    let bound = bind_in(ports);
    let (udp_port, unable) = match &bound {
        Ok(bound) => (bound.port, None),
        // The client is told in the answer to its offer: what we print here may be seen by nobody.
        Err(error) => (0, Some(error.reason())),
    };
    let (root, udp_hosts) = (Root::ambient(), ssh_address());
    let server = Server {
        root,
        psk,
        read_only: false,
        max_rate: None,
        udp_port,
        udp_hosts,
        is_ssh: true,
        unable,
        replays: Replays::new(Moment::now()),
        sessions: Arc::default(),
        stop,
    };
    let waker = Waker::new()?;
    let stream = Stream {
        reader: Box::new(io::stdin()),
        writer: Box::new(io::stdout()),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
    };
    let streams = StreamSet::default();
    let mut acceptor = None;
    let place = Place::default();
    let hands = shake_hands(&server, stream, &waker, &place, |offer, secret| {
        let key = stream_key(secret, offer.connection_id);
        acceptor = Some((offer.connection_id, streams.acceptor_of(key, &offer.transfer, waker.clone())));
        true
    })?;
    let bound = bound?;
    if let (Some(listener), Some((id, acceptor))) = (bound.listener, acceptor) {
        admit_streams(listener, id, acceptor)?;
    }
    let link = Link::waiting(bound.socket, ssh_client(), hands.early_keys(&server)).with_streams(streams);
    serve_session(&server, hands, link, waker, (&place, None)).map(drop)
}

/// Admit TCP streams of this one transfer for as long as the process lives.
fn admit_streams(listener: TcpListener, connection_id: u64, acceptor: StreamAcceptor) -> io::Result<()> {
    let pending = Arc::new(AtomicUsize::new(0));
    let body = move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            };
            if pending.fetch_add(1, Ordering::Relaxed) >= JOINS_MAX {
                pending.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (acceptor, done) = (acceptor.clone(), pending.clone());
            let admit = move || {
                let outcome = admit_one(socket, |id| (id == connection_id).then_some(acceptor));
                done.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = outcome {
                    tracing::debug!("no TCP stream: {error:?}");
                }
            };
            // The client tries again.
            if std::thread::Builder::new().name("stream-admit".into()).spawn(admit).is_err() {
                pending.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::Builder::new().name("streams".into()).spawn(body).map(drop)
}

fn admit_one(
    socket: TcpStream,
    acceptor_of: impl FnOnce(u64) -> Option<StreamAcceptor>,
) -> Result<(), Error> {
    if read_magic(&socket, Instant::now() + HANDSHAKE_PATIENCE)? == Some(tcp_set::MAGIC) {
        tcp_set::admit(socket, acceptor_of).map_err(Error::Join)?;
    }
    Ok(())
}

/// The address at which the ssh client reached this host.
fn ssh_address() -> Vec<IpAddr> {
    ssh_connection(2).into_iter().collect()
}

/// The address from which it did.
fn ssh_client() -> Option<IpAddr> {
    ssh_connection(0)
}

/// `SSH_CONNECTION` is client, port, server, port.
fn ssh_connection(at: usize) -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split(' ').nth(at)?.parse().ok()
}

/// What keeps a connection from being accepted, mostly that no more descriptors are to be had, may pass.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// A client that says nothing for this long is no client.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Before anything is measured.
const RTT_GUESS: Duration = Duration::from_millis(50);
/// TCP streams of an agent that are about to join.
const JOINS_MAX: usize = 64;
/// Sessions served at once.
const SESSIONS_MAX: usize = 256;
