//! The side that is asked: a daemon that serves a folder, or the agent at the far end of an ssh.

use super::listing;
use super::probe;
use super::receiving::{ListingHead, aside, get_listing, receive};
use super::sending::{listing_of, send, send_listing};
use super::session::{Broken, Session};
use super::switchboard::Switchboard;
use crate::api::{Failure, ServeOptions};
use crate::clock;
use crate::files::{Base, Exclude, Root, ScanOptions, SourceSpec, scan};
use crate::net::control::{self, Control, HandshakeError, Psk, Stream, psk_of_token, tcp_stream};
use crate::net::hurried::Hurried;
use crate::net::lanes::{self, Door, LaneKey, Lanes};
use crate::net::link::Link;
use crate::net::seal::{Keys, Side, has_aes};
use crate::net::udp::UdpSocket;
use crate::net::wake::{Interest, Waker, precise_timers, wait};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::{Answer, Direction, Offer};
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire;
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
    unable: Option<String>,
    stop: Arc<AtomicBool>,
}

/// Serve a folder until `stop`. `ready` is told the address that was bound.
pub fn serve(
    options: ServeOptions,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Failure> {
    let failed = |what: &str, e: io::Error| Failure::Failed(format!("{what}: {e}"));
    let root = Root::confined(&options.root)
        .map_err(|e| Failure::Usage(format!("cannot serve {}: {e}", options.root.display())))?;
    let cannot = format!("cannot listen at {}; is the port taken, or below 1024?", options.listen);
    let (listener, socket, local) = bind_both(options.listen).map_err(|e| failed(&cannot, e))?;
    let switchboard = Arc::new(Switchboard::default());
    let server = Arc::new(Server {
        root,
        psk: psk_of_token(&options.token),
        read_only: options.read_only,
        max_rate: options.max_rate,
        udp_port: local.port(),
        udp_hosts: vec![],
        is_ssh: false,
        unable: None,
        stop: stop.clone(),
    });
    ready(local);
    let waker = Waker::new().map_err(|e| failed("cannot wait", e))?;
    let active = Arc::new(AtomicUsize::new(0));
    // Why connections are not accepted at the moment: told once.
    let mut refusing = None;
    std::thread::scope(|scope| {
        scope.spawn(|| switchboard.run(socket, &stop));
        while !stop.load(Ordering::Relaxed) {
            let now = clock::now();
            let interest = Interest { socket: Some(listener.as_fd()), writable: false };
            if let Err(error) = wait(interest, &waker, now, now + POLL) {
                tracing::error!("waiting for connections failed: {error}");
                break;
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
                if active.load(Ordering::Relaxed) >= SESSIONS_MAX {
                    tracing::warn!("{peer}: refused, {SESSIONS_MAX} connections are open");
                    continue;
                }
                active.fetch_add(1, Ordering::Relaxed);
                let (server, switchboard, active) = (server.clone(), switchboard.clone(), active.clone());
                scope.spawn(move || {
                    let outcome = serve_connection(&server, &switchboard, socket, local);
                    active.fetch_sub(1, Ordering::Relaxed);
                    log_outcome(peer, outcome);
                });
            }
        }
    });
    Ok(())
}

/// The same port for TCP and UDP.
fn bind_both(listen: SocketAddr) -> io::Result<(TcpListener, UdpSocket, SocketAddr)> {
    let mut attempts = if listen.port() == 0 { ANY_PORT_ATTEMPTS } else { 1 };
    loop {
        let listener = TcpListener::bind(listen)?;
        let local = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        attempts -= 1;
        match UdpSocket::bind(local, true) {
            // The port that TCP was given is somebody's for UDP.
            Err(error) if error.kind() == ErrorKind::AddrInUse && attempts > 0 => {}
            socket => return Ok((listener, socket?, local)),
        }
    }
}

fn log_outcome(peer: SocketAddr, outcome: Result<Option<String>, Broken>) {
    match outcome {
        Ok(None) => {}
        Ok(Some(line)) => tracing::info!("{peer}: {line}"),
        Err(Broken::Interrupted) => tracing::warn!("{peer}: interrupted"),
        Err(Broken::Failed(line)) => tracing::warn!("{peer}: {line}"),
    }
}

fn serve_connection(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    socket: TcpStream,
    local: SocketAddr,
) -> Result<Option<String>, Broken> {
    socket.set_nonblocking(false)?;
    socket.set_nodelay(true)?;
    let deadline = Instant::now() + HANDSHAKE_PATIENCE;
    let Some(magic) = read_magic(&socket, deadline)? else {
        tracing::debug!("somebody left before saying what he wants");
        return Ok(None);
    };
    if magic == lanes::MAGIC {
        match lanes::admit(socket, |id| switchboard.door(id)) {
            Ok(()) => tracing::debug!("a lane joined"),
            // Mostly one that was on its way when its transfer ended.
            Err(error) => tracing::debug!("no lane: {error}"),
        }
        return Ok(None);
    }
    let mut stream = tcp_stream(socket, deadline.saturating_duration_since(Instant::now()))?;
    stream.reader = Box::new(io::Cursor::new(magic).chain(stream.reader));
    let waker = Waker::new()?;
    let lanes = Lanes::default();
    let mut line = None;
    let (control, offer, secret, rtt) = shake_hands(server, stream, &waker, |offer, secret| {
        let door = lanes.door_of(LaneKey::new(secret, offer.connection_id), &offer.transfer, waker.clone());
        line = Some(switchboard.connect(offer.connection_id, waker.clone(), door));
    })?;
    let Some(line) = line else { return Err(Broken::Failed("no offer".into())) };
    let early = Keys::early(&server.psk, &offer.early_salt, offer.connection_id, Side::Server);
    let link = Link::shared(local, line.strays.clone(), early).with_lanes(lanes);
    serve_session(server, Met { control, offer, secret, link, waker, rtt }).map(Some)
}

/// The first bytes tell what somebody wants, who may leave before saying it.
fn read_magic(socket: &TcpStream, deadline: Instant) -> Result<Option<[u8; lanes::MAGIC_LEN]>, Broken> {
    let mut magic = [0; lanes::MAGIC_LEN];
    match (Hurried { socket, deadline, silence: lanes::SILENCE }).read_exact(&mut magic) {
        Ok(()) => Ok(Some(magic)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Broken::Failed(format!("not a longhaul client ({error})"))),
    }
}

/// Accept or refuse. Returns the control stream, the offer, the secret of the datagrams' keys and the round trip.
fn shake_hands(
    server: &Server,
    stream: Stream,
    waker: &Waker,
    accepted: impl FnOnce(&Offer, &[u8; 32]),
) -> Result<(Control, Offer, [u8; 32], Duration), Broken> {
    let mut secret = [0; 32];
    getrandom::fill(&mut secret).map_err(|e| format!("the system gives no random bytes: {e}"))?;
    let decide = |offer: &Offer| match objection(server, offer) {
        Some(line) => Answer::Refuse(line),
        None => {
            accepted(offer, &secret);
            Answer::Accept {
                aes: offer.aes && has_aes(),
                udp_secret: secret,
                udp_port: server.udp_port,
                udp_hosts: server.udp_hosts.clone(),
            }
        }
    };
    let (control, offer) =
        control::accept(stream, &server.psk, waker.clone(), decide).map_err(|e| match e {
            HandshakeError::WrongKey => Broken::Failed("refused: wrong token".into()),
            HandshakeError::WrongVersion { theirs } => {
                Broken::Failed(format!("refused: speaks protocol version {theirs}"))
            }
            HandshakeError::NotLonghaul(what) => Broken::Failed(format!("not a longhaul client ({what})")),
            other => Broken::Failed(other.to_string()),
        })?;
    Ok((control, offer, secret, RTT_GUESS))
}

/// Why an offer cannot be accepted.
fn objection(server: &Server, offer: &Offer) -> Option<String> {
    if server.unable.is_some() {
        return server.unable.clone();
    }
    let classes = &offer.transfer.classes;
    let sizes = wire::MIN_DATAGRAM_LEN..=wire::MAX_DATAGRAM_LEN;
    if classes.is_empty() || classes.len() > wire::MAX_CLASSES || classes.iter().any(|c| !sizes.contains(c)) {
        return Some("the datagram sizes offered make no sense".into());
    }
    if server.read_only && matches!(offer.direction, Direction::Push { .. }) {
        return Some("this server is read-only; it was started with --read-only".into());
    }
    None
}

/// A client that was accepted.
struct Met {
    control: Control,
    offer: Offer,
    secret: [u8; 32],
    link: Link,
    waker: Waker,
    rtt: Duration,
}

fn serve_session(server: &Server, met: Met) -> Result<String, Broken> {
    let Met { control, offer, secret, mut link, waker, rtt } = met;
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
        check: PathCheck::new(transfer.classes.clone(), sends),
        options: transfer,
        rtt,
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
        lanes_wanted: 0,
        no_lanes: None,
        is_ssh: server.is_ssh,
        confirmed: false,
    };
    if let (true, Some(name)) = (sends, session.options.congestion.clone())
        && let Err(error) = lanes::check_congestion(&name)
    {
        session.warn(format!("over TCP the other host sends as it usually does: {error}"));
    }
    let began = clock::now();
    let outcome = match offer.direction.clone() {
        Direction::Push { dest } => take_push(server, &mut session, dest, offer),
        Direction::Pull { sources } => give_pull(server, &mut session, sources, offer),
        Direction::Probe => probe::answer(&mut session),
    };
    session.control.finish();
    outcome.map(|line| format!("{line} in {:.1} s", clock::now().since(began).as_secs_f64()))
}

fn take_push(
    server: &Server,
    session: &mut Session<'_>,
    dest: Vec<u8>,
    offer: Offer,
) -> Result<String, Broken> {
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
) -> Result<String, Broken> {
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let names = match offer.listing_len {
        0 => None,
        _ => {
            let bytes = get_listing(session, head)?;
            Some(listing::decode_names(&bytes).map_err(|line| session.abort(line))?)
        }
    };
    let paths = sources.into_iter().map(|path| SourceSpec { path: PathBuf::from(OsString::from_vec(path)) });
    let options = ScanOptions {
        exclude: Exclude::new(&offer.files.exclude).map_err(|line| session.abort(line))?,
        files_from: names.map(|names| names.into_iter().map(|p| OsString::from_vec(p).into()).collect()),
        checksum: offer.files.checksum,
        stop: Arc::default(),
    };
    let (root, paths) = (server.root.clone(), paths.collect::<Vec<_>>());
    let scanned =
        aside(session, "list", move |over| scan(&root, &paths, &ScanOptions { stop: over, ..options }))?;
    if let Some(line) = scanned.emptiness() {
        return Err(session.abort(line));
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
pub fn agent(ports: Option<RangeInclusive<u16>>, stop: Arc<AtomicBool>) -> Result<(), Failure> {
    run_agent(ports, stop.clone()).map_err(|broken| broken.into_failure(&stop))
}

fn run_agent(ports: Option<RangeInclusive<u16>>, stop: Arc<AtomicBool>) -> Result<(), Broken> {
    let mut psk = [0; 32];
    io::stdin().read_exact(&mut psk).map_err(|e| format!("no key came over stdin: {e}"))?;
    let bound = bind_in(ports);
    let (udp_port, unable) = match &bound {
        Ok(bound) => (bound.port, None),
        // The client is told in the answer to its offer: what we print here may be seen by nobody.
        Err(line) => (0, Some(line.clone())),
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
        stop,
    };
    let waker = Waker::new()?;
    let stream = Stream {
        reader: Box::new(io::stdin()),
        writer: Box::new(io::stdout()),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
    };
    let lanes = Lanes::default();
    let mut door = None;
    let (control, offer, secret, rtt) = shake_hands(&server, stream, &waker, |offer, secret| {
        let key = LaneKey::new(secret, offer.connection_id);
        door = Some((offer.connection_id, lanes.door_of(key, &offer.transfer, waker.clone())));
    })?;
    let bound = bound?;
    if let (Some(listener), Some((id, door))) = (bound.listener, door) {
        admit_lanes(listener, id, door)?;
    }
    let early = Keys::early(&server.psk, &offer.early_salt, offer.connection_id, Side::Server);
    let link = Link::open(bound.socket, vec![], early)?.with_lanes(lanes);
    serve_session(&server, Met { control, offer, secret, link, waker, rtt }).map(drop)
}

/// Admit lanes of this one transfer for as long as the process lives.
fn admit_lanes(listener: TcpListener, connection_id: u64, door: Door) -> io::Result<()> {
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
            let (door, pending) = (door.clone(), pending.clone());
            std::thread::spawn(move || {
                let outcome = admit_one(socket, |id| (id == connection_id).then_some(door));
                pending.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = outcome {
                    tracing::debug!("no lane: {error:?}");
                }
            });
        }
    };
    std::thread::Builder::new().name("lanes".into()).spawn(body).map(drop)
}

fn admit_one(socket: TcpStream, door_of: impl FnOnce(u64) -> Option<Door>) -> Result<(), Broken> {
    if read_magic(&socket, Instant::now() + HANDSHAKE_PATIENCE)? == Some(lanes::MAGIC) {
        lanes::admit(socket, door_of)?;
    }
    Ok(())
}

/// What an agent listens at.
struct Bound {
    socket: UdpSocket,
    /// At the same port, for lanes.
    listener: Option<TcpListener>,
    port: u16,
}

fn bind_in(ports: Option<RangeInclusive<u16>>) -> Result<Bound, String> {
    let any = |port| [SocketAddr::from(([0u16; 8], port)), SocketAddr::from(([0u8; 4], port))];
    let shown = ports.clone();
    for address in ports.unwrap_or(0..=0).flat_map(any) {
        if let Ok(socket) = UdpSocket::bind(address, false)
            && let Ok(local) = socket.local_addr()
        {
            // Taken already? Then without: UDP is what matters.
            let listener = TcpListener::bind(local).ok();
            return Ok(Bound { socket, listener, port: local.port() });
        }
    }
    Err(match shown {
        Some(ports) => {
            format!("no UDP port from {} to {} is free; name others with --ports", ports.start(), ports.end())
        }
        None => "the far side has no UDP".into(),
    })
}

/// The address at which the ssh client reached this host: `SSH_CONNECTION` is client, port, server, port.
fn ssh_address() -> Vec<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").unwrap_or_default();
    connection.split(' ').nth(2).and_then(|ip| ip.parse().ok()).into_iter().collect()
}

/// Random ports that are tried before none is called free.
const ANY_PORT_ATTEMPTS: u32 = 16;
/// What keeps a connection from being accepted, mostly that no more descriptors are to be had, may pass.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// Look at the stop flag this often.
pub const POLL: Duration = Duration::from_millis(100);
/// A client that says nothing for this long is no client.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// Before anything is measured.
const RTT_GUESS: Duration = Duration::from_millis(50);
/// Lanes of an agent that are about to join.
const JOINS_MAX: usize = 64;
/// Connections served at once.
const SESSIONS_MAX: usize = 256;
