//! The server's side: lets streams in, and connects to where they lead, if that is allowed.

use super::far::Whereabouts;
use super::{BUFFER_MAX, CONNECT_PATIENCE, forward_key, read_all, stream_options};
use crate::daemon::admission::{Account, Admission};
use crate::daemon::places::{Place, Places};
use crate::daemon::records::{Event, Forward, Records};
use crate::daemon::throttle::{Share, Throttle};
use crate::error::Error;
use crate::net::budget::{Allowance, Budget, Purpose};
use crate::net::control::{HandshakeError, ServerKey, TokenId};
use crate::net::noise::Psk;
use crate::transfer::joins::{ACCEPT_AGAIN, HANDSHAKE_PATIENCE, read_magic};
use crate::transfer::over_ssh::{key_from_stdin, ssh_address};
use crate::transfer::ports::bind_in;
use longhaul_proto::forward::{REQUEST_MAX, Reply, Request, Target};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_stripe::pump::{Local, NEVER, Pumped, Rules, pump};
use longhaul_stripe::{Door, Doorkeeper, Met, Refusal, StripedStream};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Lets streams in.
pub struct Gate {
    door: Door,
    guests: Guests,
    places: Arc<Places>,
    budget: Arc<Budget>,
    throttle: Option<Arc<Throttle>>,
    records: Arc<dyn Records>,
    stop: Arc<AtomicBool>,
}

/// Who comes.
enum Guests {
    /// Users of a daemon.
    Users(Admission),
    /// The one who logged in by ssh, and may connect to whatever this host reaches.
    Login(Psk),
}

/// What a daemon's forwards share with its copies.
pub struct Shared {
    pub admission: Admission,
    pub throttle: Arc<Throttle>,
    pub budget: Arc<Budget>,
    pub records: Arc<dyn Records>,
    pub stop: Arc<AtomicBool>,
}

/// What came of a connection: who it was, if that is known, and what went wrong.
pub type Outcome = Result<Option<String>, (Option<String>, Error)>;

impl Gate {
    /// Of a daemon.
    pub fn of_daemon(shared: Shared) -> Gate {
        let Shared { admission, throttle, budget, records, stop } = shared;
        Gate {
            door: Door::new(stream_options().remember_in_memory()),
            guests: Guests::Users(admission),
            places: Arc::default(),
            budget,
            throttle: Some(throttle),
            records,
            stop,
        }
    }

    fn of_login(psk: Psk, stop: Arc<AtomicBool>) -> Gate {
        Gate {
            door: Door::new(stream_options().remember_in_memory()),
            guests: Guests::Login(psk),
            places: Arc::default(),
            budget: Arc::default(),
            throttle: None,
            records: Arc::new(()),
            stop,
        }
    }

    /// Whether a connection that begins so is for a gate.
    pub fn is_for(said: &[u8]) -> bool {
        Door::is_for(said)
    }

    /// Meet somebody who has connected from `peer` and said the first few bytes. `known` is called when it has
    /// shown a key and said where it wants to go.
    pub fn meet(
        &self,
        socket: TcpStream,
        said: &[u8],
        (peer, deadline): (SocketAddr, Instant),
        known: impl FnOnce(),
    ) -> Outcome {
        let mut keeper = Keeper { gate: self, account: None, room: None };
        let met =
            self.door.meet(socket, said, deadline, &mut keeper).map_err(|error| nobody(error.into()))?;
        match met {
            Met::Joined => Ok(None),
            Met::Refused(Refusal::Key) => Err(nobody(HandshakeError::WrongKey.into())),
            Met::Refused(Refusal::Busy) => Err(nobody(Error::Protocol("got no memory for a stream"))),
            // Mostly one that was on its way when its stream ended.
            Met::Refused(_) => Ok(None),
            Met::Stranger(what) => Err(nobody(HandshakeError::NotLonghaul(what).into())),
            Met::Opened(stream) => {
                let guest = Guest { gate: self, account: keeper.account, from: peer.ip() };
                guest.serve(stream, known).map_err(|error| (guest.name(), error))
            }
        }
    }
}

fn nobody(error: Error) -> (Option<String>, Error) {
    (None, error)
}

/// Finds out who somebody is, and gives his stream memory.
struct Keeper<'a> {
    gate: &'a Gate,
    account: Option<Arc<Account>>,
    room: Option<Allowance>,
}

impl Doorkeeper for Keeper<'_> {
    fn key(&mut self, id: Option<TokenId>) -> ServerKey {
        let key = match &self.gate.guests {
            Guests::Users(admission) => {
                let (key, account) = admission.rules().find(id);
                self.account = account;
                key
            }
            Guests::Login(psk) => ServerKey::from(*psk),
        };
        ServerKey { psk: forward_key(&key.psk), ..key }
    }

    fn room(&mut self) -> u64 {
        let (room, buffer) = buffer_of(&self.gate.budget);
        self.room = Some(room);
        buffer
    }
}

/// What a stream holds each way at most. What makes it faster comes from the budget, where as much as it has each way is left for
/// the next one: the connection that only says what another will carry often comes first. The least that it can do with is
/// had in any case.
fn buffer_of(budget: &Arc<Budget>) -> (Allowance, u64) {
    let mut room = Allowance::of(budget, Purpose::Speed);
    let mut fits = |buffer: u64| {
        // The second time it asks for what is left beside what it has.
        let fits = room.take(buffer) && room.take(buffer);
        if !fits {
            room.keep(0);
        }
        fits
    };
    let steps = std::iter::successors(Some(BUFFER_MAX), |buffer| Some(buffer / 2));
    let buffer = steps.take_while(|buffer| *buffer > BUFFER_MIN).find(|buffer| fits(*buffer));
    (room, buffer.unwrap_or(BUFFER_MIN))
}

/// Somebody whose stream is open.
struct Guest<'a> {
    gate: &'a Gate,
    account: Option<Arc<Account>>,
    from: IpAddr,
}

impl Guest<'_> {
    fn name(&self) -> Option<String> {
        Some(self.account.as_ref().map_or("ssh", |account| &account.user.name).into())
    }

    /// `known` is called when it has a place: until then it counts as a stranger.
    fn serve(&self, stream: StripedStream, known: impl FnOnce()) -> Result<Option<String>, Error> {
        let Request { target, only_asks } = read_request(&stream, &self.gate.stop)?;
        // Held until all is said: who does not take the answer is waited for.
        let place = self.place().inspect(|_| known());
        let admitted = place.as_ref().map_err(Reason::clone).and_then(|_| self.admit(&target));
        let reached = admitted.and_then(|()| if only_asks { Ok(None) } else { reach(&target).map(Some) });
        let local = match reached {
            Ok(Some(local)) => local,
            Ok(None) => {
                (&stream).write_all(&Reply::Yes.encode())?;
                stream.close()?;
                return Ok(None);
            }
            Err(reason) => {
                self.note(&target, &Pumped::default(), Some(&reason));
                (&stream).write_all(&Reply::No(reason.clone()).encode())?;
                // What comes meanwhile is not read.
                stream.close()?;
                return Err(Error::Peer(reason));
            }
        };
        (&stream).write_all(&Reply::Yes.encode())?;
        let share =
            |sends| self.gate.throttle.as_ref().zip(self.account.as_ref()).map(|(t, a)| t.join(a, sends));
        let (sends, takes) = (share(true), share(false));
        let limit = |share: &Option<Share>, used| share.as_ref().and_then(|share| share.rate(used));
        let rules = Rules {
            stop: &self.gate.stop,
            drain: &NEVER,
            out: &|used| limit(&sends, used),
            back: &|used| limit(&takes, used),
        };
        let pumped = pump(stream, local, rules);
        let failure = pumped.broken.as_ref().map(|why| Reason::new(Cause::PeerLeft, why));
        self.note(&target, &pumped, failure.as_ref());
        let name = self.name().unwrap_or_default();
        let line = format!("{name}: forwarded to {target}: {} bytes there, {} back", pumped.back, pumped.out);
        Ok(Some(failure.map_or(line.clone(), |reason| format!("{line}, and then {reason}"))))
    }

    /// One of the user's places. Who came by ssh needs none.
    fn place(&self) -> Result<Option<Place>, Reason> {
        let Some(account) = &self.account else { return Ok(None) };
        let places = &self.gate.places;
        places.take(&account.user.name, OF_USER_MAX, FORWARDS_MAX, "forwarded connections").map(Some)
    }

    /// Whether the user may connect there. To look names up may take long.
    fn admit(&self, target: &Target) -> Result<(), Reason> {
        let Some(account) = &self.account else { return Ok(()) };
        let forwards = &account.user.forwards;
        if forwards.contains(target) || is_address_of_any(target, forwards) {
            return Ok(());
        }
        let line = match forwards.is_empty() {
            true => format!("the server forwards nothing for you; it would have to allow {target}"),
            false => format!("the server does not forward to {target}; it would have to allow that"),
        };
        Err(Reason::new(Cause::Refused, line))
    }

    fn note(&self, target: &Target, pumped: &Pumped, failure: Option<&Reason>) {
        let Some(account) = &self.account else { return };
        self.gate.records.note(&Event::Forwarded(Forward {
            user: &account.user.name,
            from: self.from,
            target,
            bytes_there: pumped.back,
            bytes_back: pumped.out,
            failure,
        }));
    }
}

/// Whether it is an address, and that of a host which is allowed by name: where names are looked up is up to who asks.
fn is_address_of_any(target: &Target, allowed: &[Target]) -> bool {
    let Ok(address) = target.host().parse::<IpAddr>() else { return false };
    let mut named = allowed
        .iter()
        .filter(|other| other.port() == target.port() && other.host().parse::<IpAddr>().is_err());
    named.any(|other| {
        let found = (other.host(), other.port()).to_socket_addrs();
        found.is_ok_and(|mut found| found.any(|at| at.ip().to_canonical() == address.to_canonical()))
    })
}

fn read_request(stream: &StripedStream, stop: &AtomicBool) -> Result<Request, Error> {
    let until = Instant::now() + HANDSHAKE_PATIENCE;
    let mut len = [0; 2];
    read_all(stream, &mut len, until, stop)?;
    let len = usize::from(u16::from_be_bytes(len));
    if len > REQUEST_MAX {
        return Err(Error::Protocol("asks for something too long to be a host"));
    }
    let mut bytes = vec![0; len];
    read_all(stream, &mut bytes, until, stop)?;
    Request::decode(&bytes).ok_or(Error::Protocol("asks for what is no host"))
}

/// Connect to it, at whatever address its name has now.
fn reach(target: &Target) -> Result<Local, Reason> {
    let failed = |error: &dyn std::fmt::Display| {
        Reason::new(Cause::Unreachable, format!("the other host cannot connect to {target}: {error}"))
    };
    let addresses = (target.host(), target.port()).to_socket_addrs().map_err(|error| failed(&error))?;
    let until = Instant::now() + CONNECT_PATIENCE;
    let mut last = failed(&"its name has no address");
    for address in addresses.take(ADDRESSES_MAX) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&address, left).and_then(Local::socket) {
            Ok(local) => return Ok(local),
            Err(error) => last = failed(&error),
        }
    }
    Err(last)
}

/// How the far side of an ssh is to run that forwards connections.
#[derive(Clone, Debug, Default)]
pub struct ForwardAgentOptions {
    /// TCP ports to choose from.
    pub ports: Option<RangeInclusive<u16>>,
}

/// The far side of an ssh that forwards connections, for as long as its standard input is open and `stop` is not set.
pub fn forward_agent(options: ForwardAgentOptions, stop: Arc<AtomicBool>) -> Result<(), Error> {
    let Some(psk) = key_from_stdin()? else { return Ok(()) };
    let bound = bind_in(options.ports.clone())?;
    let listener = bound.listener.ok_or(Error::NoPort { ports: options.ports })?;
    let whereabouts = Whereabouts { port: bound.port, hosts: ssh_address() };
    let mut stdout = io::stdout();
    stdout.write_all(&whereabouts.encode())?;
    stdout.flush()?;
    let gate = Arc::new(Gate::of_login(psk, stop.clone()));
    let accepting = gate.clone();
    std::thread::Builder::new().name("gate".into()).spawn(move || accept(&accepting, &listener))?;
    // The client says nothing more; its end is ours.
    let mut said = [0; 64];
    while !stop.load(Ordering::Relaxed) && matches!(io::stdin().read(&mut said), Ok(1..)) {}
    stop.store(true, Ordering::Relaxed);
    // Connections under way are reset by then, or with this process: this thread and the accepting one have the gate too.
    let until = Instant::now() + GOODBYE_PATIENCE;
    while Arc::strong_count(&gate) > 2 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn accept(gate: &Arc<Gate>, listener: &TcpListener) {
    loop {
        let Ok((socket, peer)) = listener.accept() else {
            std::thread::sleep(ACCEPT_AGAIN);
            continue;
        };
        // Whoever comes beyond that is not heard; the client tries again.
        if Arc::strong_count(gate) > FORWARDS_MAX + STRANGERS_MAX {
            continue;
        }
        let gate = gate.clone();
        let serve = move || {
            let deadline = Instant::now() + HANDSHAKE_PATIENCE;
            if let Ok(Some(said)) = read_magic(&socket, deadline)
                && Gate::is_for(&said)
                && let Err((_, error)) = gate.meet(socket, &said, (peer, deadline), || {})
            {
                tracing::debug!("{peer}: {error}");
            }
        };
        // The client tries again.
        let _ = std::thread::Builder::new().name("connection".into()).spawn(serve);
    }
}

/// Connections of all users of a daemon at a time: each has four threads and some MiB.
const FORWARDS_MAX: usize = 256;
/// And of one user.
const OF_USER_MAX: usize = 128;
/// Connections to an agent that have not said who they are, beside these.
const STRANGERS_MAX: usize = 64;
/// How long an agent that ends waits for its connections to do so.
const GOODBYE_PATIENCE: Duration = Duration::from_secs(1);
/// A host has a few; more are no host's.
const ADDRESSES_MAX: usize = 8;
/// Each way in any case.
const BUFFER_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_leaves_as_much_as_it_has_to_the_next() {
        let budget = Arc::new(Budget::new(128 << 20));
        let streams: Vec<(Allowance, u64)> = (0..6).map(|_| buffer_of(&budget)).collect();
        let buffers: Vec<u64> = streams.iter().map(|(_, buffer)| buffer >> 20).collect();
        assert_eq!(buffers, [16, 8, 4, 2, 1, 1]);
        drop(streams);
        assert_eq!(buffer_of(&budget).1, 16 << 20);
    }
}
