//! One end of a copy between two hosts that a third one arranges. The end does for its user what it would do in a copy with the
//! arranger itself, within the same limits, and is told whether it is the server or the client of the copy.
//!
//! As the server it hears of the other end by way of the arranger alone, and sends to nobody who has not shown the copy's key:
//! whoever may copy here may have that. As the client it connects to addresses that the arranger names. That is for those who
//! are allowed to ([`Server::connects`]); others are clients only where all goes by way of the arranger.

mod copying;

use super::super::absent::CopyKey;
use super::super::accept::{AcceptedClient, Accounts, Caller, Ended, Server, Terms, shake_hands};
use super::super::connect::{At, Channel, Connection, Inside, candidates};
use super::super::joins::admit_streams;
use super::super::ports::Bound;
use super::super::receiving::{ListingHead, get_expanded, on_thread, serve_until};
use super::super::replays::{Moment, Replays};
use super::super::session::Session;
use super::super::strangers::Guest;
use super::super::switchboard::{Line, Switchboard};
use super::super::tunnel::Tunnel;
use super::{begin, serve_session, tell_end, welcome};
use crate::api::Transport;
use crate::clock;
use crate::daemon::admission::Room;
use crate::daemon::supervision::{Meter, SessionOwner};
use crate::error::Error;
use crate::listing;
use crate::live::LiveControl;
use crate::net::link::PeerLink;
use crate::net::tcp_set::{StreamSet, check_congestion, stream_key};
use crate::net::wake::Waker;
use copying::{Copy, Relay, options_of};
use crossbeam_channel::{Receiver, TryRecvError, bounded, unbounded};
use longhaul_proto::session::message::third_party::{ClientPart, Ready, ServerPart, Whereabouts};
use longhaul_proto::session::message::{Message, Offer, Operation};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a session with the other end stands on.
pub enum Ground {
    /// The ports of an agent.
    Agent(Bound),
    /// A daemon's.
    Daemon {
        /// Sorts what comes to its port.
        board: Arc<Switchboard>,
        /// The address at which the arranger reaches it.
        reached: IpAddr,
    },
}

impl Ground {
    fn at(&self, server: &Server) -> Whereabouts {
        let (mut hosts, port) = (server.udp_hosts.clone(), server.udp_port);
        if let Ground::Daemon { reached, .. } = self {
            hosts.push(reached.to_canonical());
        }
        Whereabouts { hosts, name: None, port }
    }
}

/// Serve an arranger. A line of what came of it.
pub fn serve(
    server: &Server,
    client: AcceptedClient,
    (link, waker): (PeerLink, Waker),
    guest: Option<Guest<'_>>,
    ground: Option<Ground>,
) -> Result<String, Ended> {
    let AcceptedClient { control, offer, secret, rtt, owner, room, inside, mut place, .. } = client;
    let user = owner.account.user.name.clone();
    let mut unheard = ();
    let mut session = begin(server, (control, link, waker), (&offer, &secret, rtt), false, &mut unheard)?;
    // Before anything can come by it: that is when this side is said to be ready.
    let outcome = Tunnel::open(&session.control).map_err(Error::from).and_then(|tunnel| {
        if let Some(ground) = &ground {
            let ready = Ready { at: ground.at(server), connects: server.connects };
            session.control.send(Message::Ready(ready));
        }
        let newcomer = (&*owner.account, &offer);
        welcome(server, &mut session, newcomer, (&mut place, guest))?;
        if let Some(control) = session.control.resumable() {
            control.allow(session.stall_timeout());
            server.absent.note(CopyKey::of(&user, &offer), control);
        }
        let (Some(room), Some(ground)) = (room, ground) else {
            return Err(session.abort(Error::Protocol("arranges what cannot be arranged")));
        };
        let end = End { server, owner, room, inside, offer, tunnel };
        end.run(&mut session, ground)
    });
    let is_known = session.confirmed || place.is_some();
    match outcome {
        Ok(line) => {
            // The other end waits for the last word of this one.
            let patience = session.stall_timeout();
            session.control.await_pipe(patience, &session.stop);
            session.control.finish_heard(patience, &session.stop);
            Ok(line)
        }
        Err(error) => {
            tell_end(session.control, &error);
            Err(Ended { user: is_known.then_some(user), error })
        }
    }
}

/// See the [module](self).
struct End<'a> {
    server: &'a Server,
    owner: SessionOwner,
    room: Room,
    inside: Operation,
    offer: Offer,
    tunnel: Tunnel,
}

/// What the arranger wants next.
enum Order {
    Reach(Whereabouts),
    BeServer(ServerPart),
    BeClient(ClientPart),
}

impl End<'_> {
    fn run(mut self, session: &mut Session<'_>, ground: Ground) -> Result<String, Error> {
        let head = ListingHead {
            total: Some(self.offer.listing_len),
            bytes: std::mem::take(&mut self.offer.listing_head),
        };
        let (names, _listed) = match self.offer.listing_len {
            0 => (None, Default::default()),
            _ => {
                let (names, listed) = get_expanded(session, head, listing::decode_names)?;
                (Some(names), listed)
            }
        };
        for _ in 0..ORDERS_MAX {
            match next_order(session)? {
                Order::Reach(to) => {
                    let why_not = self.reach(session, to)?;
                    session.control.send(Message::Reached(why_not));
                }
                Order::BeServer(part) => return self.be_server(session, &part, ground),
                Order::BeClient(part) => return self.be_client(session, part, names),
            }
        }
        Err(session.abort(Error::Protocol("has no part for this side")))
    }

    /// Whether the other end is reached; else why not.
    fn reach(&self, session: &mut Session<'_>, to: Whereabouts) -> Result<Option<String>, Error> {
        self.check_may_connect(session)?;
        let peers = candidates(vec![], to.port, &self.known(to.clone()));
        on_thread(session, "reach", move |_| reach_one(&peers))
    }

    fn check_may_connect(&self, session: &Session<'_>) -> Result<(), Error> {
        match self.server.connects {
            true => Ok(()),
            false => Err(session.abort(Error::Protocol("asks for a connection that is not allowed"))),
        }
    }

    /// Where the other end may be. A daemon has no name looked up.
    fn known(&self, to: Whereabouts) -> At {
        let is_hearsay = self.server.accounts.of_daemon();
        At { hosts: to.hosts, name: to.name.filter(|_| !is_hearsay), port: Some(to.port), is_hearsay }
    }

    fn be_server(
        self,
        session: &mut Session<'_>,
        part: &ServerPart,
        ground: Ground,
    ) -> Result<String, Error> {
        let server = self.server;
        let account = Arc::new(self.owner.account.with_key(part.key.0));
        let stop = Arc::new(AtomicBool::new(false));
        let terms = Terms {
            operation: self.offer.operation,
            files: self.offer.files,
            is_daemon: server.accounts.of_daemon(),
            syncs_all: server.accounts.syncs_all(),
        };
        let inner = Server {
            accounts: Accounts::Arranged(account, terms),
            throttle: server.throttle.clone(),
            places: Arc::default(),
            budget: server.budget.clone(),
            absent: Default::default(),
            records: server.records.clone(),
            udp_port: server.udp_port,
            udp_ip: server.udp_ip,
            udp_hosts: ground.at(server).hosts,
            hosts: server.hosts.clone(),
            ports: server.ports.clone(),
            is_ssh: server.is_ssh,
            has_pipe: part.relayed,
            connects: false,
            may_set_all: server.may_set_all,
            fireflies: server.fireflies.clone(),
            unable: None,
            replays: Replays::new(Moment::now()),
            tickets: Default::default(),
            stop: stop.clone(),
        };
        let stream = self.tunnel.stream(server.budget.clone())?;
        let caller = Caller { stream, from: self.owner.from, is_unseen: false };
        let work = || serve_other(&inner, caller, ground).map_err(|ended| ended.error);
        let (tell, told) = unbounded();
        drop(tell);
        beside(session, (&self.tunnel, None), &stop, &told, work)?.map_err(|error| session.abort(error))
    }

    fn be_client(
        self,
        session: &mut Session<'_>,
        part: ClientPart,
        names: Option<Vec<Vec<u8>>>,
    ) -> Result<String, Error> {
        let is_relayed = part.transport == Transport::Ssh;
        if !is_relayed {
            self.check_may_connect(session)?;
        }
        let mut options = options_of(&self.offer, part.transport, names);
        if let (Operation::Pull { .. }, Some(name)) = (&self.offer.operation, &options.congestion)
            && let Err(error) = check_congestion(name)
        {
            let line = format!("over TCP the sending host sends as it usually does: {error}");
            session.control.send(Message::Warning(line));
            options.congestion = None;
        }
        let live = Arc::new(LiveControl::default());
        live.set(session.pace());
        options.live = Some(live.clone());
        options.fireflies.clone_from(&self.server.fireflies);
        let stream = self.tunnel.stream(self.server.budget.clone())?;
        let connection = Connection {
            channel: Channel::Pipes(stream),
            key: Box::new(part.key.0.into()),
            udp: None,
            at: self.known(part.to),
            far: None,
            inside: if is_relayed { Inside::DataAlone } else { Inside::Nothing },
        };
        let (tell, told) = unbounded();
        let stop = Arc::new(AtomicBool::new(false));
        let mut relay = Relay { tell, waker: session.waker.clone(), meter: Meter::begin(self.owner.clone()) };
        let (tunnel, room, inside) = (&self.tunnel, &self.room, self.inside.clone());
        let copy = Copy { end: &self, options, connection, stop: stop.clone() };
        let work = || {
            let outcome = match (inside, part.asks) {
                (Operation::Pull { sources }, asks @ Operation::Push { .. }) => {
                    copy.give(room, sources, asks, &mut relay)
                }
                (Operation::Push { dest }, asks @ Operation::Pull { .. }) => {
                    copy.take(room, dest, asks, &mut relay)
                }
                _ => Err(Error::Protocol("arranges what does not fit together")),
            };
            let Relay { meter, .. } = relay;
            meter.end(outcome.is_ok());
            outcome
        };
        let outcome = beside(session, (tunnel, Some(&*live)), &stop, &told, work)?;
        let outcome = outcome.map_err(|error| session.abort(error))?;
        let way = if matches!(self.offer.operation, Operation::Pull { .. }) { "sent" } else { "received" };
        let user = &self.owner.account.user.name;
        let line = format!(
            "{user}: {way} {} files ({} bytes) in a copy that was arranged, {} failed",
            outcome.files,
            outcome.bytes,
            outcome.report.failed.count()
        );
        session.control.send(Message::Copied(Box::new(outcome)));
        self.await_leave(session)?;
        Ok(line)
    }

    /// What was said last goes by way of the arranger, who ends this when it is through.
    fn await_leave(&self, session: &mut Session<'_>) -> Result<(), Error> {
        let until = Instant::now() + LEAVE_PATIENCE;
        serve_until(session, |session| {
            loop {
                match session.poll_message() {
                    Ok(Some(_)) => {}
                    Ok(None) => return Ok((Instant::now() > until).then_some(())),
                    Err(Error::PeerLeft) => return Ok(Some(())),
                    Err(error) => return Err(error),
                }
            }
        })
    }
}

/// Wait for orders as long as the arranger is there, who may be asked for a password by the other host.
fn next_order(session: &mut Session<'_>) -> Result<Order, Error> {
    let until = Instant::now() + ORDER_PATIENCE;
    serve_until(session, |session| {
        while let Some(message) = session.poll_message()? {
            match message {
                Message::Reach(to) => return Ok(Some(Order::Reach(to))),
                Message::BeServer(part) => return Ok(Some(Order::BeServer(part))),
                Message::BeClient(part) => return Ok(Some(Order::BeClient(*part))),
                _ => {}
            }
        }
        if Instant::now() > until {
            return Err(session.abort(Error::Protocol("gave this side no part in time")));
        }
        Ok(None)
    })
}

/// Do the work on a thread of its own while the arranger is there, who is told what is to be told and says how fast it may go.
/// Without it, or when this program is to stop, the work ends.
fn beside<T: Send>(
    session: &mut Session<'_>,
    (tunnel, live): (&Tunnel, Option<&LiveControl>),
    stop: &AtomicBool,
    told: &Receiver<Message>,
    work: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    let (done, result) = bounded(1);
    let waker = session.waker.clone();
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("third-party".into()).spawn_scoped(scope, move || {
            // Nobody waits any more if the session is over.
            let _ = done.send(work());
            waker.wake();
        });
        thread.map_err(|error| session.abort(Error::Threads(error)))?;
        let outcome = serve_until(session, |session| {
            if tunnel.was_heard() {
                session.last_word = clock::now();
            }
            while session.poll_message()?.is_some() {}
            if let Some(live) = live {
                live.set(session.pace());
            }
            let outcome = match result.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Err(session.abort(Error::Panicked)),
            };
            told.try_iter().for_each(|message| session.control.send(message));
            Ok(outcome)
        });
        if outcome.is_err() {
            stop.store(true, Ordering::Relaxed);
            tunnel.close();
        }
        outcome
    })
}

/// Serve the other end.
fn serve_other(server: &Server, caller: Caller, ground: Ground) -> Result<String, Ended> {
    let (waker, streams) = (Waker::new()?, StreamSet::default());
    let (mut line, mut bound) = (None, None);
    match ground {
        Ground::Agent(agent) => bound = Some(agent),
        Ground::Daemon { board, .. } => line = Some(Err(board)),
    }
    let mut acceptor = None;
    let client = shake_hands(server, caller, &waker, |offer, secret| {
        let joined =
            streams.acceptor_of(stream_key(secret, offer.connection_id), &offer.transfer, waker.clone());
        if let Some(Err(board)) = &line {
            let connected = board.connect(offer.connection_id, waker.clone(), Some(joined.clone()));
            let is_connected = connected.is_some();
            line = connected.map(Ok);
            return is_connected;
        }
        acceptor = Some((offer.connection_id, joined));
        true
    })?;
    let local = SocketAddr::new(server.udp_ip, server.udp_port);
    let early = client.early_keys();
    let line: Option<Line> = line.and_then(Result::ok);
    let link = match (&line, bound) {
        (Some(line), _) => PeerLink::shared(local, None, line.strays.clone(), early),
        (None, Some(Bound { socket, listener, .. })) => {
            if let (Some(listener), Some((id, acceptor))) = (listener, acceptor) {
                admit_streams(listener, id, acceptor)?;
            }
            PeerLink::waiting(socket, None, early)
        }
        (None, None) => return Err(Error::Protocol("made no offer").into()),
    };
    serve_session(server, client, (link.with_streams(streams), waker), None, None)
}

/// A TCP connection to one of these comes about, and is closed again; else why not.
fn reach_one(peers: &[SocketAddr]) -> Option<String> {
    let (tell, told) = unbounded();
    for &peer in peers {
        let tell = tell.clone();
        let work = move || {
            let outcome = TcpStream::connect_timeout(&peer, REACH_PATIENCE);
            // Another was quicker if nobody listens.
            let _ = tell.send(outcome.map(drop).map_err(|error| format!("{peer}: {error}")));
        };
        if let Err(error) = std::thread::Builder::new().name("reach".into()).spawn(work) {
            return Some(error.to_string());
        }
    }
    drop(tell);
    let mut why_not = "no address is known".to_string();
    for outcome in told {
        match outcome {
            Ok(()) => return None,
            Err(line) => why_not = line,
        }
    }
    Some(why_not)
}

/// An arranger looks whether the other end is reached, and gives a part.
const ORDERS_MAX: usize = 4;
/// How long the arranger may take to be let in at the other end.
const ORDER_PATIENCE: Duration = Duration::from_secs(600);
/// How long the other end may leave a connection without an answer, which it gives in a round trip.
const REACH_PATIENCE: Duration = Duration::from_secs(5);
/// How long the arranger may take to see that both ends are through.
const LEAVE_PATIENCE: Duration = Duration::from_secs(15);
