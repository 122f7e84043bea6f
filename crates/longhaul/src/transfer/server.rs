//! The side that is asked: a daemon that serves folders, or the agent at the far end of an ssh.

use super::absent::{Absent, VANISHED_PATIENCE, Waiting};
use super::meeting::{Doors, Met, Server, shake_hands, shown_folder, take_place};
use super::outset::list_first;
use super::ports::{bind_both, bind_in};
use super::probe;
use super::reach::random;
use super::receiving::{ListingHead, aside, await_confirmation, get_listing, receive, serve_until};
use super::replays::{Moment, Replays};
use super::sending::{send, send_listing};
use super::session::Session;
use super::strangers::{Guest, Strangers};
use super::switchboard::{POLL, Switchboard};
use crate::budget::{Allowance, Budget};
use crate::clock;
use crate::daemon::ServeOptions;
use crate::daemon::admission::{Account, Room};
use crate::daemon::places::Place;
use crate::daemon::policy::Access;
use crate::daemon::records::{Event, Records};
use crate::daemon::schedule;
use crate::daemon::supervision::{Meter, Supervision};
use crate::daemon::throttle::Throttle;
use crate::error::{Error, PolicyError};
use crate::files::{Base, Exclude, Root, ScanOptions, SourceSpec, prime};
use crate::listing;
use crate::net::aead::has_aes;
use crate::net::control::{HandshakeError, Stream, tcp_stream};
use crate::net::deadline::{Deadline, DeadlineStream, SILENCE};
use crate::net::link::Link;
use crate::net::seal::{Keys, Side};
use crate::net::tcp_set::{self, StreamAcceptor, StreamSet, control_key, stream_key};
use crate::net::wake::{Interest, Waker, precise_timers, wait};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::{Delta, Direction, FileOptions, Fsync, Offer};
use longhaul_proto::units::Time;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Serve until `stop`. `ready` is told the address that was bound, before any thread is started.
pub fn serve(
    options: ServeOptions,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    let listen = options.listen;
    let (listener, socket, local) = bind_both(listen).map_err(|source| Error::Listen { listen, source })?;
    let switchboard = Arc::new(Switchboard::default());
    let server = Arc::new(Server {
        throttle: Some(Arc::new(Throttle::new(options.admission.clone()))),
        doors: Doors::Daemon(options.admission),
        places: Arc::default(),
        budget: Arc::new(Budget::of_host()),
        absent: Absent::default(),
        records: options.records,
        udp_port: local.port(),
        udp_hosts: vec![],
        is_ssh: false,
        unable: None,
        replays: Replays::new(Moment::now()),
        stop: stop.clone(),
    });
    // What is read once is read before files are given up.
    prime();
    schedule::Moment::now();
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
                server.records.note(&Event::Connected);
                let Ok(guest) = strangers.admit(&socket, peer.ip()) else { continue };
                let (server, switchboard) = (server.clone(), switchboard.clone());
                let serve = move || {
                    let outcome = serve_connection(&server, &switchboard, (socket, guest));
                    log_outcome(&*server.records, peer, outcome);
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

/// Tell what came of a connection: a line, or who it was and what went wrong.
fn log_outcome(records: &dyn Records, peer: SocketAddr, outcome: Result<Option<String>, Ended>) {
    let error = match outcome {
        Ok(None) => return,
        Ok(Some(line)) => return tracing::info!("{peer}: {line}"),
        Err(Ended { user: Some(user), error }) => return tracing::warn!("{peer}: {user}: {error}"),
        Err(Ended { user: None, error }) => error,
    };
    if let Error::Handshake(
        HandshakeError::WrongKey | HandshakeError::WrongVersion { .. } | HandshakeError::NotLonghaul(_),
    ) = &error
    {
        records.note(&Event::TurnedAway);
    }
    // The words of a handshake are for the client.
    match error {
        Error::Handshake(HandshakeError::WrongKey) => tracing::warn!("{peer}: refused: wrong token"),
        Error::Handshake(HandshakeError::WrongVersion { theirs, ours }) => {
            tracing::warn!("{peer}: refused: speaks {theirs} of the protocol, this program {ours}");
        }
        Error::Handshake(HandshakeError::NotLonghaul(what)) => {
            tracing::warn!("{peer}: not a longhaul client ({what})");
        }
        Error::Interrupted => tracing::warn!("{peer}: interrupted"),
        error => tracing::warn!("{peer}: {error}"),
    }
}

/// A connection that came to nothing.
struct Ended {
    /// Whose it was, if that is known.
    user: Option<String>,
    error: Error,
}

impl<E: Into<Error>> From<E> for Ended {
    fn from(error: E) -> Ended {
        Ended { user: None, error: error.into() }
    }
}

fn serve_connection(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    (socket, guest): (TcpStream, Guest<'_>),
) -> Result<Option<String>, Ended> {
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
    if magic == tcp_set::CONTROL_MAGIC {
        match tcp_set::admit_control(socket, |id| switchboard.control(id)) {
            Ok(()) => tracing::info!("{peer}: a copy goes on over this connection"),
            Err(error) => tracing::debug!("{peer}: no copy goes on over this connection: {error}"),
        }
        return Ok(None);
    }
    let mut stream = tcp_stream(socket, deadline.saturating_duration_since(Instant::now()))?;
    stream.reader = Box::new(io::Cursor::new(magic).chain(stream.reader));
    let waker = Waker::new()?;
    let streams = StreamSet::default();
    let mut line = None;
    let met = shake_hands(server, (stream, peer.ip()), &waker, |offer, secret| {
        let acceptor =
            streams.acceptor_of(stream_key(secret, offer.connection_id), &offer.transfer, waker.clone());
        line = switchboard.connect(offer.connection_id, waker.clone(), acceptor);
        line.is_some()
    })?;
    let Some(line) = line else { return Err(Error::Protocol("made no offer").into()) };
    let link = Link::shared(local, peer.ip(), line.strays.clone(), met.early_keys()).with_streams(streams);
    let user = met.ward.account.user.name.clone();
    if let Some(control) = met.control.resumable() {
        line.let_go_on(control_key(&met.secret, met.offer.connection_id), control.clone());
    }
    match serve_session(server, met, link, waker, Some(guest)) {
        Ok(line) => Ok(Some(format!("{user}: {line}"))),
        Err(error) => Err(Ended { user: Some(user), error }),
    }
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

fn serve_session(
    server: &Server,
    met: Met,
    mut link: Link,
    waker: Waker,
    guest: Option<Guest<'_>>,
) -> Result<String, Error> {
    let Met { control, mut offer, secret, rtt, ward, room, inside, mut place } = met;
    if server.doors.syncs_all() {
        offer.files.fsync = Fsync::Always;
    }
    precise_timers();
    link.set_main_keys(Keys::main(&secret, offer.aes && has_aes(), offer.connection_id, Side::Server));
    let sends = matches!(offer.direction, Direction::Pull { .. });
    let mut transfer = offer.transfer.clone();
    if !server.is_ssh {
        transfer.stall_timeout_ms = transfer.stall_timeout_ms.min(STALL_MAX_MS);
    }
    let mut meter = Meter::begin(ward.clone());
    let mut session = Session {
        link,
        control,
        waker,
        stop: server.stop.clone(),
        check: PathCheck::new(transfer.classes.clone(), sends, u64::from_be_bytes(random()?)),
        options: transfer,
        rtt,
        observer: &mut meter,
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
        supervision: None,
        rate_told: None,
        budget: server.budget.clone(),
        breaks: 0,
    };
    if let (true, Some(name)) = (sends, session.options.congestion.clone())
        && let Err(error) = tcp_set::check_congestion(&name)
    {
        session.warn(format!("over TCP the other host sends as it usually does: {error}"));
    }
    let began = clock::now();
    let newcomer = (&*ward.account, &offer.direction);
    let outcome = welcome(server, &mut session, newcomer, (&mut place, guest)).and_then(|()| {
        if let Some(control) = session.control.resumable() {
            control.allow(session.stall_timeout());
            server.absent.note(&ward.account.user.name, &offer.direction, control);
        }
        let share = server.throttle.as_ref().map(|throttle| throttle.join(&ward.account, sends));
        session.supervision = Some(Supervision::new(ward, share, shown_folder(&offer.direction, &inside)));
        match (inside, room) {
            (Direction::Push { dest }, Some(room)) => take_push(&room, &mut session, dest, offer),
            (Direction::Pull { sources }, Some(room)) => give_pull(&room, &mut session, sources, offer),
            _ => probe::answer(&mut session),
        }
    });
    match &outcome {
        Ok(_) => session.control.finish_heard(),
        Err(_) => session.control.finish(),
    }
    meter.end(outcome.is_ok());
    outcome.map(|line| format!("{line} in {:.1} s", clock::now().since(began).as_secs_f64()))
}

/// Before anything is done for a client whose offer may be a replay it has shown that it is there. Then it is no stranger any
/// more.
fn welcome(
    server: &Server,
    session: &mut Session<'_>,
    (account, direction): (&Account, &Direction),
    (place, guest): (&mut Option<Place>, Option<Guest<'_>>),
) -> Result<(), Error> {
    if place.is_none() {
        await_confirmation(session)?;
        match take_place(server, account, direction) {
            Ok(taken) => *place = Some(taken),
            Err(reason) => return Err(session.abort(Error::Busy(reason))),
        }
    }
    drop(guest);
    await_vanished(server, session, (account, direction))
}

/// An earlier session for the same copy may be one whose host has vanished. What this client says meanwhile is for later.
fn await_vanished(
    server: &Server,
    session: &mut Session<'_>,
    (account, direction): (&Account, &Direction),
) -> Result<(), Error> {
    let (began, mut told) = (Instant::now(), false);
    serve_until(session, |session| {
        session.last_word = clock::now();
        let waiting = server.absent.awaits_vanished(&account.user.name, direction);
        if waiting == Waiting::ToSpeak && !std::mem::replace(&mut told, true) {
            session.warn(WAITS_FOR_VANISHED.into());
        }
        Ok((waiting == Waiting::Done || began.elapsed() > VANISHED_PATIENCE).then_some(()))
    })
}

fn take_push(room: &Room, session: &mut Session<'_>, dest: Vec<u8>, offer: Offer) -> Result<String, Error> {
    let shown = match &offer.direction {
        Direction::Push { dest } => String::from_utf8_lossy(dest).into_owned(),
        _ => String::new(),
    };
    let base = Base::new(room.root.clone(), PathBuf::from(OsString::from_vec(dest)));
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let files = match room.access {
        // Nothing that is there may show in what comes of the copy but that a name is taken.
        Access::WriteOnly => {
            FileOptions { new_only: true, checksum: false, delta: Delta::Never, ..offer.files }
        }
        _ => offer.files,
    };
    let received = receive(session, base, files, head)?;
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
    room: &Room,
    session: &mut Session<'_>,
    sources: Vec<Vec<u8>>,
    offer: Offer,
) -> Result<String, Error> {
    let head = ListingHead { total: Some(offer.listing_len), bytes: offer.listing_head };
    let mut listed = Allowance::of(&session.budget);
    let names = match offer.listing_len {
        0 => None,
        _ => {
            let bytes = get_listing(session, head)?;
            let names = listing::decode_names(&bytes, &mut |len| listed.take(len));
            Some(names.map_err(|error| session.abort(error))?)
        }
    };
    let paths = sources.into_iter().map(|path| SourceSpec { path: PathBuf::from(OsString::from_vec(path)) });
    let options = ScanOptions {
        exclude: Exclude::new(&offer.files.exclude).map_err(|error| session.abort(error))?,
        files_from: names.map(|names| names.into_iter().map(|p| OsString::from_vec(p).into()).collect()),
        stop: Arc::default(),
    };
    let (root, paths) = (room.root.clone(), paths.collect::<Vec<_>>());
    let listed = aside(session, "list", move |over| list_first(root, paths, options, &over))?;
    let (first, lister) = listed.map_err(|error| session.abort(error))?;
    first.scan.warnings().into_iter().for_each(|line| session.warn(line));
    send_listing(session, &first.listing, first.listing.len());
    let (sent, totals) = send(session, first, lister)?;
    let (entries, failed) = (totals.entries, sent.report.failed.count());
    Ok(format!("sent {entries} entries, {} of them new, {failed} failed", sent.report.files_done))
}

/// How the far side of an ssh copy is to run.
#[derive(Clone, Debug, Default)]
pub struct AgentOptions {
    /// UDP ports to choose from.
    pub ports: Option<RangeInclusive<u16>>,
    /// The folder that it does not leave; `None`: all that the user may touch.
    pub root: Option<PathBuf>,
    /// What may be done there.
    pub access: Access,
}

/// The far side of an ssh copy: talks over stdin and stdout.
pub fn agent(options: AgentOptions, stop: Arc<AtomicBool>) -> Result<(), Error> {
    run_agent(options, stop.clone()).map_err(|error| error.unless_stopped(&stop))
}

fn run_agent(options: AgentOptions, stop: Arc<AtomicBool>) -> Result<(), Error> {
    let root = match options.root {
        None => Root::ambient(),
        Some(folder) => Root::confined(&folder).map_err(|source| PolicyError::Folder { folder, source })?,
    };
    let mut psk = [0; 32];
    io::stdin().read_exact(&mut psk).map_err(Error::NoKey)?;
    let bound = bind_in(options.ports);
    let (udp_port, unable) = match &bound {
        Ok(bound) => (bound.port, None),
        // The client is told in the answer to its offer: what we print here may be seen by nobody.
        Err(error) => (0, Some(error.reason())),
    };
    let server = Server {
        doors: Doors::Login(Arc::new(Account::of_login(root, options.access, psk))),
        throttle: None,
        places: Arc::default(),
        budget: Arc::default(),
        absent: Absent::default(),
        records: Arc::new(()),
        udp_port,
        udp_hosts: ssh_address(),
        is_ssh: true,
        unable,
        replays: Replays::new(Moment::now()),
        stop,
    };
    let waker = Waker::new()?;
    let stream = Stream {
        reader: Box::new(io::stdin()),
        writer: Box::new(io::stdout()),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
        socket: None,
    };
    let streams = StreamSet::default();
    let mut acceptor = None;
    let from = Ipv4Addr::UNSPECIFIED.into();
    let met = shake_hands(&server, (stream, from), &waker, |offer, secret| {
        let key = stream_key(secret, offer.connection_id);
        acceptor = Some((offer.connection_id, streams.acceptor_of(key, &offer.transfer, waker.clone())));
        true
    })?;
    let bound = bound?;
    if let (Some(listener), Some((id, acceptor))) = (bound.listener, acceptor) {
        admit_streams(listener, id, acceptor)?;
    }
    let link = Link::waiting(bound.socket, ssh_client(), met.early_keys()).with_streams(streams);
    serve_session(&server, met, link, waker, None).map(drop)
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

/// Said once.
const WAITS_FOR_VANISHED: &str =
    "the client of an earlier copy to the same place does not answer; waiting for it to speak or be given up";
/// What keeps a connection from being accepted, mostly that no more descriptors are to be had, may pass.
const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// A client that says nothing for this long is no client.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// TCP streams of an agent that are about to join.
const JOINS_MAX: usize = 64;
/// A client's word on how long it may be silent counts up to here, or dead ones would keep their places.
const STALL_MAX_MS: u64 = 3_600_000;
