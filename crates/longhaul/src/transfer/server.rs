//! The side that is asked: a daemon that serves folders, or the agent at the far end of an ssh.

use super::absent::Absent;
use super::accept::{AcceptedClient, Accounts, Caller, Ended, Server, shake_hands};
use super::forward::gate::{Gate, Shared};
use super::joins::{ACCEPT_AGAIN, HANDSHAKE_PATIENCE, admit_streams, read_magic};
use super::openings::{OPENINGS_MAX, Opening};
use super::over_ssh::{key_from_stdin, ssh_address, ssh_client};
use super::ports::{bind_both, bind_in};
use super::refusals::{Kind, Refusals};
use super::replays::{Moment, Replays};
use super::serving::{Ground, serve_session};
use super::side_paths::own_addresses;
use super::strangers::{Guest, Strangers};
use super::switchboard::{Line, POLL, Switchboard};
use crate::clock;
use crate::daemon::ServeOptions;
use crate::daemon::admission::Account;
use crate::daemon::policy::Access;
use crate::daemon::records::{Event, Records};
use crate::daemon::throttle::Throttle;
use crate::daemon::tickets::Tickets;
use crate::error::{Error, PolicyError};
use crate::files::{Root, prime, prime_names};
use crate::net::budget::{Budget, share_heaps};
use crate::net::control::{HandshakeError, Stream, read_first, tcp_stream, unconnected_stream};
use crate::net::link::PeerLink;
use crate::net::patient::{SILENCE, Watched};
use crate::net::tcp_set::{self, StreamSet, control_key, stream_key};
use crate::net::wake::{Interest, Waker, wait};
use crate::schedule;
use std::io::{self, ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

/// Serve until `stop`. `ready` is told the address that was bound, before any thread is started.
pub fn serve(
    options: ServeOptions,
    stop: Arc<AtomicBool>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    share_heaps();
    let listen = options.listen;
    let (listener, socket, local) = bind_both(listen).map_err(|source| Error::Listen { listen, source })?;
    let switchboard = Arc::new(Switchboard::default());
    let throttle = Arc::new(Throttle::new(options.admission.clone()));
    let budget = Arc::new(Budget::of_host(options.memory_bytes));
    let gate = &Gate::of_daemon(Shared {
        admission: options.admission.clone(),
        throttle: throttle.clone(),
        budget: budget.clone(),
        records: options.records.clone(),
        stop: stop.clone(),
    });
    let server = Arc::new(Server {
        throttle: Some(throttle),
        accounts: Accounts::Daemon(options.admission),
        places: Arc::default(),
        budget,
        absent: Absent::default(),
        records: options.records,
        udp_port: local.port(),
        udp_ip: local.ip(),
        udp_hosts: vec![],
        hosts: hosts_of(&options.announce, local.ip()),
        ports: None,
        is_ssh: false,
        has_pipe: false,
        connects: options.third_party,
        may_set_all: options.may_set_all,
        fireflies: options.fireflies,
        unable: None,
        replays: Replays::new(Moment::now()),
        tickets: Tickets::default(),
        stop: stop.clone(),
    });
    // What is read once is read before files are given up.
    prime();
    prime_names();
    schedule::Moment::now();
    ready(local);
    let (waker, datagrams) = (Waker::new()?, Waker::new()?);
    let strangers = Strangers::default();
    let refusals = &strangers.refusals;
    std::thread::scope(|scope| -> Result<(), Error> {
        let undecided = Arc::new(());
        let (to_server, to_board) = (server.clone(), switchboard.clone());
        let opened = move |opening: Opening| {
            // Beyond that it is left to TCP.
            if Arc::strong_count(&undecided) > OPENINGS_MAX {
                return;
            }
            let (server, switchboard, undecided) = (to_server.clone(), to_board.clone(), undecided.clone());
            let serve = move || {
                let peer = opening.from;
                match serve_opening(&server, &switchboard, opening, undecided) {
                    Err(Ended { user: None, error }) => tracing::debug!("{peer}: no opening: {error}"),
                    outcome => log_outcome(&*server.records, refusals, peer, outcome),
                }
            };
            let thread = std::thread::Builder::new().name("connection".into());
            // One that cannot be served is left to TCP as well.
            let _ = thread.spawn_scoped(scope, serve);
        };
        let receiving = std::thread::Builder::new().name("switchboard".into());
        let (board, alarm, until) = (switchboard.clone(), &datagrams, &stop);
        receiving.spawn_scoped(scope, move || board.run(socket, alarm, until, &opened))?;
        while !stop.load(Ordering::Relaxed) {
            refusals.tell();
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
                        let line = || format!("cannot accept a connection: {error}");
                        refusals.note(Kind::NotServed, None, line);
                        std::thread::sleep(ACCEPT_AGAIN);
                        break;
                    }
                };
                server.records.note(&Event::Connected);
                let Ok(guest) = strangers.admit(&socket, peer.ip()) else { continue };
                let (server, switchboard) = (server.clone(), switchboard.clone());
                let serve = move || {
                    let outcome = serve_connection(&server, &switchboard, gate, (socket, guest));
                    log_outcome(&*server.records, refusals, peer, outcome);
                };
                let thread = std::thread::Builder::new().name("connection".into());
                // One that cannot be served is closed; the others go on.
                if let Err(error) = thread.spawn_scoped(scope, serve) {
                    let line = || format!("{peer}: cannot be served: {error}");
                    refusals.note(Kind::NotServed, Some(peer.ip()), line);
                }
            }
        }
        Ok(())
    })?;
    refusals.tell_last();
    Ok(())
}

/// Where a daemon is reached that listens at `bound`: as it is told, or at all addresses that others may reach.
fn hosts_of(announced: &[IpAddr], bound: IpAddr) -> Vec<IpAddr> {
    match (announced, bound.is_unspecified()) {
        ([], true) => own_addresses(),
        ([], false) => vec![bound],
        (announced, _) => announced.to_vec(),
    }
}

/// Tell what came of a connection: a line, or who it was and what went wrong.
fn log_outcome(
    records: &dyn Records,
    refusals: &Refusals,
    peer: SocketAddr,
    outcome: Result<Option<String>, Ended>,
) {
    let error = match outcome {
        Ok(None) => return,
        Ok(Some(line)) => return tracing::info!("{peer}: {}", in_a_line(&line)),
        Err(Ended { user: Some(user), error }) => {
            return tracing::warn!("{peer}: {user}: {}", in_a_line(&error.to_string()));
        }
        Err(Ended { user: None, error }) => error,
    };
    // The words of a handshake are for the client.
    let (kind, line) = match error {
        Error::Handshake(HandshakeError::WrongKey) => (Kind::WrongToken, "refused: wrong token".into()),
        Error::Handshake(HandshakeError::WrongVersion { theirs, ours }) => {
            (Kind::OtherVersion, format!("refused: speaks {theirs} of the protocol, this program {ours}"))
        }
        Error::Handshake(HandshakeError::NotLonghaul(what)) => {
            (Kind::NotLonghaul, format!("not a longhaul client ({what})"))
        }
        Error::Handshake(HandshakeError::Refused(_)) | Error::Protocol(_) => {
            (Kind::Unconfirmed, error.to_string())
        }
        Error::Interrupted => (Kind::BrokenOff, "interrupted".into()),
        error => (Kind::BrokenOff, error.to_string()),
    };
    if matches!(kind, Kind::WrongToken | Kind::OtherVersion | Kind::NotLonghaul) {
        records.note(&Event::TurnedAway);
    }
    refusals.note(kind, Some(peer.ip()), || format!("{peer}: {}", in_a_line(&line)));
}

/// A line of the log may have words of a client's in it: they make no further lines, and no endless one.
fn in_a_line(words: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() { letter.escape_default().to_string() } else { letter.to_string() }
    };
    words.chars().take(LINE_MAX).map(shown).collect()
}

/// Letters of what is told of a session.
const LINE_MAX: usize = 2000;

fn serve_connection(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    gate: &Gate,
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
    if magic == tcp_set::FIRST_MAGIC {
        match tcp_set::admit_first(socket, |id| switchboard.control(id)) {
            Ok(()) => tracing::debug!("{peer}: the connection of a copy that was opened over UDP"),
            Err(error) => tracing::debug!("{peer}: no copy was opened over UDP for this connection: {error}"),
        }
        return Ok(None);
    }
    if Gate::is_for(&magic) {
        let known = || drop(guest);
        let met = gate.meet(socket, &magic, (peer, deadline), known);
        return met.map_err(|(user, error)| Ended { user, error });
    }
    let first = read_first(magic, &mut Watched::until(&socket, deadline, SILENCE));
    let first = first.map_err(Error::Handshake)?;
    // While this is looked at, the same by datagrams is not.
    let note = switchboard.known.begin(&first);
    if note.is_none()
        && let Some(decided) = switchboard.known.decided(&first)
    {
        decided.go_on_over(socket)?;
        return Ok(None);
    }
    let mut stream = tcp_stream(socket, deadline.saturating_duration_since(Instant::now()))?;
    stream.reader = Box::new(io::Cursor::new(first).chain(stream.reader));
    let caller = Caller { stream, from: peer.ip(), is_unseen: false };
    let Accepted { client, line, streams, waker } = accept(server, switchboard, Waker::new()?, caller)?;
    drop(note);
    let link = PeerLink::shared(local, Some(peer.ip()), line.strays.clone(), client.early_keys())
        .with_streams(streams);
    let ground = Ground::Daemon { board: switchboard.clone(), reached: local.ip() };
    serve_session(server, client, (link, waker), Some(guest), Some(ground)).map(Some)
}

/// Who opens a session by datagrams is answered so. Nothing is done for him but to look at what is there, until he has shown
/// that the answer reached him. `undecided` is let go of when it is known whether he has a key.
fn serve_opening(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    opening: Opening,
    undecided: Arc<()>,
) -> Result<Option<String>, Ended> {
    let Opening { first, from, local } = opening;
    let Some(note) = switchboard.known.begin(&first) else { return Ok(None) };
    let (waker, len) = (Waker::new()?, first.len());
    let (stream, answer) = unconnected_stream(first, HANDSHAKE_PATIENCE, waker.clone())?;
    let caller = Caller { stream, from: from.ip(), is_unseen: true };
    let Accepted { client, line, streams, waker } = accept(server, switchboard, waker, caller)?;
    drop(undecided);
    let (connection_id, strays) = (client.offer.connection_id, line.strays.clone());
    let mut link = PeerLink::opened(local, (from, len), strays, client.early_keys()).with_streams(streams);
    let answer = std::mem::take(&mut *answer.lock().unwrap_or_else(PoisonError::into_inner));
    if let Some(control) = client.control.resumable() {
        note.decide(&answer, control);
    }
    link.send_pieces(connection_id, &answer);
    let ground = Ground::Daemon { board: switchboard.clone(), reached: local.ip() };
    serve_session(server, client, (link, waker), None, Some(ground)).map(Some)
}

/// A session at a daemon that is to begin.
struct Accepted {
    client: AcceptedClient,
    line: Line,
    streams: StreamSet,
    waker: Waker,
}

/// Shake hands; the session gets its line.
fn accept(
    server: &Server,
    switchboard: &Arc<Switchboard>,
    waker: Waker,
    caller: Caller,
) -> Result<Accepted, Ended> {
    let streams = StreamSet::default();
    let mut line = None;
    let client = shake_hands(server, caller, &waker, |offer, secret| {
        let acceptor =
            streams.acceptor_of(stream_key(secret, offer.connection_id), &offer.transfer, waker.clone());
        line = switchboard.connect(offer.connection_id, waker.clone(), Some(acceptor));
        line.is_some()
    })?;
    let Some(line) = line else { return Err(Error::Protocol("made no offer").into()) };
    if let Some(control) = client.control.resumable() {
        line.let_go_on(control_key(&client.secret, client.offer.connection_id), control.clone());
    }
    Ok(Accepted { client, line, streams, waker })
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
    /// Whether, kept to a folder, it connects to hosts that the client names, for copies between it and those.
    pub third_party: bool,
    /// Whether, kept to a folder, it keeps owners, devices and all else that takes privileges.
    pub may_set_all: bool,
}

/// The far side of an ssh copy: talks over stdin and stdout.
pub fn agent(options: AgentOptions, stop: Arc<AtomicBool>) -> Result<(), Error> {
    run_agent(options, stop.clone()).map_err(|error| error.unless_stopped(&stop))
}

fn run_agent(options: AgentOptions, stop: Arc<AtomicBool>) -> Result<(), Error> {
    let connects = options.root.is_none() || options.third_party;
    let may_set_all = options.root.is_none() || options.may_set_all;
    let root = match options.root {
        None => Root::ambient(),
        Some(folder) => Root::confined(&folder).map_err(|source| PolicyError::Folder { folder, source })?,
    };
    let Some(psk) = key_from_stdin()? else { return Ok(()) };
    let bound = bind_in(options.ports.clone());
    let (udp_port, unable) = match &bound {
        Ok(bound) => (bound.port, None),
        // The client is told in the answer to its offer: what we print here may be seen by nobody.
        Err(error) => (0, Some(error.reason())),
    };
    let server = Server {
        accounts: Accounts::Login(Arc::new(Account::of_login(root, options.access, psk))),
        throttle: None,
        places: Arc::default(),
        budget: Arc::default(),
        absent: Absent::default(),
        records: Arc::new(()),
        udp_port,
        udp_ip: Ipv4Addr::UNSPECIFIED.into(),
        udp_hosts: ssh_address(),
        hosts: own_addresses(),
        ports: options.ports.clone(),
        is_ssh: true,
        has_pipe: true,
        connects,
        may_set_all,
        fireflies: None,
        unable,
        replays: Replays::new(Moment::now()),
        tickets: Tickets::default(),
        stop,
    };
    let waker = Waker::new()?;
    let stream = Stream {
        reader: Box::new(io::stdin()),
        writer: Box::new(io::stdout()),
        closer: Box::new(|| {}),
        settled: Box::new(|| {}),
        resumable: None,
        budget: Arc::default(),
    };
    let streams = StreamSet::default();
    let mut acceptor = None;
    let from = Ipv4Addr::UNSPECIFIED.into();
    let client = shake_hands(&server, Caller { stream, from, is_unseen: false }, &waker, |offer, secret| {
        let key = stream_key(secret, offer.connection_id);
        acceptor = Some((offer.connection_id, streams.acceptor_of(key, &offer.transfer, waker.clone())));
        true
    })
    .map_err(|ended| ended.error)?;
    let bound = bound?;
    let (socket, ground) = match client.offer.third_party {
        // No datagrams come from who arranges a copy.
        true => (bind_in(None)?.socket, Some(Ground::Agent(bound))),
        false => {
            if let (Some(listener), Some((id, acceptor))) = (bound.listener, acceptor) {
                admit_streams(listener, id, acceptor)?;
            }
            (bound.socket, None)
        }
    };
    let link = PeerLink::waiting(socket, ssh_client(), client.early_keys()).with_streams(streams);
    // The client has heard what went wrong, and says it, or it is gone.
    let _ = serve_session(&server, client, (link, waker), None, ground);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_words_make_no_further_line_and_no_endless_one() {
        assert_eq!(in_a_line("gone\n10.0.0.1:9: bob\r\u{1b}[2Jé"), "gone\\n10.0.0.1:9: bob\\r\\u{1b}[2Jé");
        assert_eq!(in_a_line(&"x".repeat(1 << 20)).len(), LINE_MAX);
    }
}
