//! Further paths between the two hosts of a session, beside the one that it began with.
//!
//! A client that may send from several places asks the server where else that is reached, and pairs the two up
//! ([`pairs`]): a path of its own begins or ends where no other does. Each is then looked at like the first one, while data
//! already moves over that. Where nothing answers, another of the server's addresses is tried.

use super::connect::{open_link, random};
use super::ports::bind_in;
use super::switchboard::{Line, Switchboard};
use crate::api::{CopyOptions, Paths};
use crate::clock;
use crate::error::Error;
use crate::net::link::PeerLink;
use crate::net::local::LocalEnd;
use crate::net::seal::{KeyPhase, Keys, Side, path_secret};
use crate::net::wake::Waker;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::several::{self, PATHS_MAX, WantPaths};
use longhaul_proto::units::Time;
use rustix::event::PollFd;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Where on this host a connection begins, and where it leads to.
pub type Ways = Arc<Mutex<Vec<(Option<LocalEnd>, SocketAddr)>>>;

/// What the paths of a session have in common.
pub struct Common {
    /// The session's secret.
    pub secret: [u8; 32],
    /// Datagrams are sealed with AES-GCM.
    pub aes: bool,
    /// Sizes of datagrams.
    pub classes: Vec<u16>,
    /// This side sends the object.
    pub sends: bool,
}

/// The further paths of a session.
#[derive(Default)]
pub struct SidePaths {
    common: Option<Common>,
    /// The client: where it may send from.
    places: Vec<Option<LocalEnd>>,
    /// The same: by which ways its control stream may go on.
    ways: Ways,
    /// The server: where it takes in what comes over further paths.
    doors: Option<Doors>,
    list: Vec<SidePath>,
}

/// Where a server takes in what comes over further paths.
pub enum Doors {
    /// At a daemon's port; it is reached at these addresses.
    Daemon { board: Arc<Switchboard>, local: SocketAddr, hosts: Vec<IpAddr> },
    /// At sockets of their own.
    Own { ports: Option<RangeInclusive<u16>>, hosts: Vec<IpAddr> },
}

/// A path beside the first one.
pub struct SidePath {
    /// Its datagrams.
    pub link: PeerLink,
    /// Looks at it.
    pub check: PathCheck,
    scratch: Vec<u8>,
    number: u16,
    /// The client: from where, and to which addresses, of which the first is being tried.
    place: Option<LocalEnd>,
    peers: VecDeque<SocketAddr>,
    tried_at: Time,
    /// The daemon's: where its datagrams come from.
    _line: Option<Line>,
}

impl SidePaths {
    /// A client's beside `first`, if it wants any. What it asks of the server.
    pub fn of_client(
        common: Common,
        first: &PeerLink,
        ways: Ways,
        options: &CopyOptions,
    ) -> Option<(SidePaths, WantPaths)> {
        let mut places: Vec<_> = options.bind.iter().cloned().map(Some).collect();
        if places.is_empty() && options.paths == Paths::Auto {
            let used = first.ends().map(|(from, _)| from.ip().to_canonical());
            let own = own_addresses(used).into_iter().map(|address| Some(LocalEnd::Address(address)));
            places = own.collect();
        }
        if places.is_empty() {
            places.push(None);
        }
        places.truncate(usize::from(PATHS_MAX));
        if places.len() < 2 && options.paths == Paths::One || !options.transport.allows_udp() {
            return None;
        }
        let want = WantPaths { places: places.len() as u16 };
        Some((SidePaths { common: Some(common), places, ways, ..SidePaths::default() }, want))
    }

    /// A server's.
    pub fn of_server(common: Common, doors: Doors) -> SidePaths {
        SidePaths { common: Some(common), doors: Some(doors), ..SidePaths::default() }
    }

    /// What the server answers to a client that asks, which it does once.
    pub fn welcome(&mut self, want: &WantPaths, waker: &Waker) -> Result<several::Paths, Error> {
        let (Some(doors), Some(common)) = (self.doors.take(), &self.common) else {
            return Ok(several::Paths::default());
        };
        let (Doors::Daemon { hosts, .. } | Doors::Own { hosts, .. }) = &doors;
        let hosts = hosts.clone();
        let wanted = usize::from(want.places).max(hosts.len()).min(usize::from(PATHS_MAX));
        let mut ports = vec![];
        for number in 1..wanted as u16 {
            let (connection_id, secret) = path_secret(&common.secret, number);
            let (early, main) = common.keys(connection_id, &secret, Side::Server);
            let (mut link, line, port) = match &doors {
                Doors::Daemon { board, local, .. } => {
                    let Some(line) = board.connect(connection_id, waker.clone(), None) else { break };
                    let link = PeerLink::shared(*local, None, line.strays.clone(), early);
                    (link, Some(line), local.port())
                }
                Doors::Own { ports, .. } => {
                    let Ok(bound) = bind_in(ports.clone()) else { break };
                    (PeerLink::waiting(bound.socket, None, early), None, bound.port)
                }
            };
            link.set_main_keys(main);
            ports.push(port);
            self.list.push(SidePath::new(link, common.check()?, number, line));
        }
        Ok(several::Paths { hosts, ports })
    }

    /// The client has the server's answer; the session began over a path to `first`.
    pub fn open(&mut self, told: &several::Paths, first: IpAddr) -> Result<(), Error> {
        let Some(common) = &self.common else { return Ok(()) };
        let paths = pairs(&self.places, first, &told.hosts);
        for ((place, hosts), (number, port)) in paths.into_iter().zip((1..).zip(&told.ports)) {
            let peers: VecDeque<_> = hosts.into_iter().map(|host| SocketAddr::new(host, *port)).collect();
            let Some(peer) = peers.front().copied() else { continue };
            let link = match common.open(number, place.as_ref(), peer) {
                Ok(link) => link,
                Err(error) => {
                    tracing::debug!("no path to {peer}: {error}");
                    continue;
                }
            };
            let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((_, known)) = ways.first() {
                // A daemon has the same port everywhere.
                let way = (place.clone(), SocketAddr::new(peer.ip(), known.port()));
                ways.push(way);
            }
            let path = SidePath::new(link, common.check()?, number, None);
            self.list.push(SidePath { place, peers, ..path });
        }
        Ok(())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut SidePath)> {
        self.list.iter_mut().map(|path| (usize::from(path.number), path))
    }

    /// Take what has come in; the transfer's datagrams go to `handle` with the path's number.
    pub fn receive(&mut self, mut handle: impl FnMut(usize, Time, Arrival, &mut [u8])) -> io::Result<bool> {
        let mut any = false;
        for path in &mut self.list {
            let (check, number) = (&mut path.check, usize::from(path.number));
            any |= path.link.receive(|phase, arrival, body| {
                let now = clock::now();
                match phase {
                    KeyPhase::Main => handle(number, now, arrival, body),
                    _ => check.handle_datagram(now, arrival, body),
                }
                true
            })?;
        }
        Ok(any)
    }

    /// Send what the checks have to send, and look elsewhere where nothing answers.
    pub fn run_checks(&mut self, now: Time) {
        let Some(common) = &self.common else { return };
        for path in &mut self.list {
            path.run_check(now);
            if path.peers.len() > 1 && path.check.answers() == 0 && now.since(path.tried_at) > SILENT {
                path.peers.rotate_left(1);
                path.tried_at = now;
                if let Ok(link) = common.open(path.number, path.place.as_ref(), path.peers[0]) {
                    path.link = link;
                }
            }
        }
    }

    /// When to look after them at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.list.iter().filter_map(|path| path.check.poll_timeout()).min()
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list.iter().flat_map(|path| path.link.poll_fds())
    }
}

impl SidePath {
    fn new(link: PeerLink, check: PathCheck, number: u16, line: Option<Line>) -> SidePath {
        SidePath {
            link,
            check,
            scratch: vec![],
            number,
            place: None,
            peers: VecDeque::new(),
            tried_at: clock::now(),
            _line: line,
        }
    }

    fn run_check(&mut self, now: Time) {
        let (link, check) = (&mut self.link, &mut self.check);
        if check.poll_timeout().is_some_and(|at| now >= at) {
            check.handle_timeout(now);
        }
        if check.answers() > 0 {
            link.note_proven();
        }
        while check.poll_event().is_some() {}
        while link.has_peer()
            && check.next_len().is_some_and(|len| link.allows(len))
            && link.send_one(KeyPhase::Early, &mut self.scratch, |buf| check.poll_transmit(now, buf))
        {
        }
    }

    /// Send what `write` has, under the main keys.
    pub fn send_one(&mut self, write: impl FnOnce(&mut [u8]) -> Option<Transmit>) -> bool {
        self.link.send_one(KeyPhase::Main, &mut self.scratch, write)
    }
}

impl Common {
    fn check(&self) -> Result<PathCheck, Error> {
        let token = u64::from_be_bytes(random()?);
        Ok(PathCheck::new(self.classes.clone(), self.sends, token))
    }

    fn keys(&self, connection_id: u64, secret: &[u8; 32], side: Side) -> (Keys, Keys) {
        (Keys::check(secret, connection_id, side), Keys::main(secret, self.aes, connection_id, side))
    }

    /// A client's link to `peer`.
    fn open(&self, number: u16, place: Option<&LocalEnd>, peer: SocketAddr) -> Result<PeerLink, Error> {
        let (connection_id, secret) = path_secret(&self.secret, number);
        let (early, main) = self.keys(connection_id, &secret, Side::Client);
        let mut link = open_link(vec![peer], place, early)?;
        link.set_main_keys(main);
        Ok(link)
    }
}

/// Paths 1, 2, … of a client that sends from `places`, the first of which is path 0's to `first`, to a server with these
/// addresses: from where, and the addresses to try, the one first that no other path leads to.
fn pairs(
    places: &[Option<LocalEnd>],
    first: IpAddr,
    hosts: &[IpAddr],
) -> Vec<(Option<LocalEnd>, Vec<IpAddr>)> {
    let mut all = vec![first.to_canonical()];
    for host in hosts.iter().map(IpAddr::to_canonical) {
        if !all.contains(&host) {
            all.push(host);
        }
    }
    let count = places.len().max(all.len()).min(usize::from(PATHS_MAX));
    let paths = (1..count).map(|number| {
        let place = places[number % places.len()].clone();
        let leads = |host: &IpAddr| place.as_ref().is_none_or(|place| place.fits(*host));
        let mut to: Vec<_> = all.iter().copied().filter(leads).collect();
        if let Some(at) = all.get(number).and_then(|own| to.iter().position(|host| host == own)) {
            to.rotate_left(at);
        }
        // With no place of its own it needs another address than the first.
        if number >= places.len() {
            to.retain(|host| *host != all[0]);
        }
        (place, to)
    });
    paths.collect()
}

/// An address of each network interface of this host that others may reach: `used`, where it has that.
pub fn own_addresses(used: Option<IpAddr>) -> Vec<IpAddr> {
    let mut interfaces = if_addrs::get_if_addrs().unwrap_or_default();
    interfaces.retain(|interface| !interface.is_loopback() && !interface.is_link_local());
    interfaces.sort_by_key(|interface| (Some(interface.ip()) != used, interface.ip()));
    let mut named: Vec<(String, IpAddr)> = vec![];
    for interface in interfaces {
        if named.iter().all(|(name, _)| *name != interface.name) {
            named.push((interface.name.clone(), interface.ip()));
        }
    }
    named.into_iter().map(|(_, address)| address).collect()
}

/// Where nothing has answered for so long another address is tried.
const SILENT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_path_of_its_own_begins_or_ends_where_no_other_does() {
        let place = |text: &str| text.parse::<LocalEnd>().ok();
        let (a, b) = (ip("10.0.0.1"), ip("10.1.0.1"));
        let two = [place("10.0.0.9"), place("wlan0")];
        assert_eq!(pairs(&two, a, &[a, b]), [(place("wlan0"), vec![b, a])]);
        assert_eq!(pairs(&two, b, &[a, b]), [(place("wlan0"), vec![a, b])]);
        assert_eq!(pairs(&two, a, &[]), [(place("wlan0"), vec![a])]);
        assert_eq!(pairs(&[None], a, &[b, a]), [(None, vec![b])]);
        assert_eq!(pairs(&[None], a, &[a]), []);
        let mixed = [place("10.0.0.9"), place("2001:db8::9")];
        assert_eq!(
            pairs(&mixed, a, &[a, ip("2001:db8::1")]),
            [(place("2001:db8::9"), vec![ip("2001:db8::1")])]
        );
        assert_eq!(
            pairs(&[None], a, &(0..100).map(|n| ip(&format!("10.0.1.{n}"))).collect::<Vec<_>>()).len(),
            7
        );
    }
}
