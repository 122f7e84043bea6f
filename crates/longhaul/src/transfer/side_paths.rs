//! Further paths between the two hosts of a session, beside the one that it began with.
//!
//! A client that may send from several places asks the server where else that is reached, and pairs the two up
//! ([`pairs`]): a path of its own begins where no other does, or ends in a network in which no other ends that begins there.
//! Each is then looked at like the first one, while data already moves over that. Where nothing answers, another of the
//! server's addresses is tried.

mod path;

pub use path::SidePath;

use super::connect::open_link;
use super::ports::bind_in;
use super::switchboard::Switchboard;
use crate::api::{CopyOptions, Paths};
use crate::clock;
use crate::error::Error;
use crate::net::link::PeerLink;
use crate::net::local::LocalEnd;
use crate::net::marks::Marks;
use crate::net::seal::{KeyPhase, Keys, Side, path_secret};
use crate::net::wake::Waker;
use longhaul_proto::endpoint::{Arrival, Endpoint};
use longhaul_proto::session::message::several::{self, PATHS_MAX, WantPaths};
use longhaul_proto::units::Time;
use rustix::event::PollFd;
use std::collections::VecDeque;
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
    /// How packets are marked.
    pub marks: Marks,
}

/// The further paths of a session.
#[derive(Default)]
pub struct SidePaths {
    common: Option<Common>,
    /// The client, until it has the server's answer.
    asks: Option<Asks>,
    /// From then on: where its first path begins and leads to, and by which ways its control stream may go on.
    first: Option<(Option<LocalEnd>, SocketAddr)>,
    ways: Ways,
    /// The server: where it takes in what comes over further paths, and whether it was asked for them.
    doors: Option<Doors>,
    was_asked: bool,
    list: Vec<SidePath>,
}

/// What a client asks for.
struct Asks {
    bind: Vec<LocalEnd>,
    is_auto: bool,
    ways: Ways,
    /// The answer, as long as it is not known where the first path leads.
    told: Option<several::Paths>,
}

/// Where a server takes in what comes over further paths.
pub enum Doors {
    /// At a daemon's port; it is reached at these addresses.
    Daemon { board: Arc<Switchboard>, local: SocketAddr, hosts: Vec<IpAddr> },
    /// At sockets of their own.
    Own { ports: Option<RangeInclusive<u16>>, hosts: Vec<IpAddr> },
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
        let is_auto = options.paths == Paths::Auto;
        if places.is_empty() && is_auto {
            places = own_places(first);
        }
        if places.len() < 2 && !is_auto || !options.transport.allows_udp() {
            return None;
        }
        let want = WantPaths { places: places.len().clamp(1, usize::from(PATHS_MAX)) as u16 };
        let asks = Asks { bind: options.bind.clone(), is_auto, ways, told: None };
        Some((SidePaths { common: Some(common), asks: Some(asks), ..SidePaths::default() }, want))
    }

    /// A server's.
    pub fn of_server(common: Common, doors: Doors) -> SidePaths {
        SidePaths { common: Some(common), doors: Some(doors), ..SidePaths::default() }
    }

    /// What the server answers to a client that asks, which it does once.
    pub fn welcome(&mut self, want: &WantPaths, waker: &Waker) -> Result<Option<several::Paths>, Error> {
        if std::mem::replace(&mut self.was_asked, true) {
            return Ok(None);
        }
        let (Some(doors), Some(common)) = (self.doors.take(), &self.common) else {
            return Ok(Some(several::Paths::default()));
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
                    // It is to answer from the address that the client looks for it at.
                    bound.socket.tell_own_address();
                    (PeerLink::waiting(bound.socket, None, early), None, bound.port)
                }
            };
            link.set_marks(common.marks.clone());
            link.set_main_keys(main);
            ports.push(port);
            self.list.push(SidePath::new(common, link, number, clock::now(), line)?);
        }
        Ok(Some(several::Paths { hosts, ports }))
    }

    /// The client has the server's answer.
    pub fn note_answer(&mut self, told: several::Paths) {
        if let Some(asks) = &mut self.asks {
            asks.told.get_or_insert(told);
        }
    }

    /// Open them, once it is known where `first` leads to. Lines for the user.
    pub fn open(&mut self, first: &PeerLink) -> Vec<String> {
        let (Some(common), Some((_, peer))) = (&self.common, first.ends()) else { return vec![] };
        let Some(told) = self.asks.as_mut().and_then(|asks| asks.told.take()) else { return vec![] };
        let Some(asks) = self.asks.take() else { return vec![] };
        let mut places: Vec<_> = asks.bind.into_iter().map(Some).collect();
        if places.is_empty() {
            places = own_places(first);
        }
        let now = clock::now();
        let mut problems = vec![];
        let paths = pairs(&places, peer.ip(), &told.hosts, asks.is_auto);
        for ((place, hosts), (number, port)) in paths.into_iter().zip((1..).zip(&told.ports)) {
            let peers: VecDeque<_> = hosts.into_iter().map(|host| SocketAddr::new(host, *port)).collect();
            let Some(peer) = peers.front().copied() else { continue };
            let link = common.open(number, place.as_ref(), peer);
            match link.and_then(|link| SidePath::new(common, link, number, now, None)) {
                Ok(path) => self.list.push(path.between(place, peers)),
                Err(error) => problems.push(format!("one path less: {error}")),
            }
        }
        self.first = Some((places.swap_remove(0), peer));
        self.ways = asks.ways;
        problems
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// All of them, with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut SidePath)> {
        self.list.iter_mut().map(|path| (usize::from(path.number), path))
    }

    /// Take what has come in; the transfer's datagrams go to `handle` with the path's number. A path that fails is one over which
    /// nothing comes.
    pub fn receive(&mut self, mut handle: impl FnMut(usize, Time, Arrival, &mut [u8])) -> bool {
        let mut any = false;
        for path in &mut self.list {
            let (check, number) = (&mut path.check, usize::from(path.number));
            let heard_at = &mut path.heard_at;
            let came = path.link.receive(|phase, arrival, body| {
                let now = clock::now();
                *heard_at = Some(now);
                match phase {
                    KeyPhase::Main => handle(number, now, arrival, body),
                    _ => check.handle_datagram(now, arrival, body),
                }
                true
            });
            any |= came.unwrap_or_else(|error| {
                tracing::debug!("path {number}: {error}");
                false
            });
        }
        any
    }

    /// No data keeps them open at the moment: ask over each.
    pub fn keep_open(&mut self) {
        self.list.iter_mut().for_each(SidePath::keep_open);
    }

    /// Send what the checks have to send, and begin anew where nothing comes.
    pub fn run_checks(&mut self, now: Time) {
        self.list.iter_mut().for_each(|path| path.run_check(now));
        // A server waits to be looked for.
        if self.first.is_none() {
            return;
        }
        for at in 0..self.list.len() {
            let path = &mut self.list[at];
            if path.check.answers() > 0 && !std::mem::replace(&mut path.is_way, true) {
                let mut ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner);
                // A daemon has the same port everywhere.
                let port = ways.first().map_or(0, |(_, known)| known.port());
                ways.push((path.place.clone(), SocketAddr::new(path.peers[0].ip(), port)));
            }
            let (since, patience) = match path.heard_at {
                Some(at) => (at.max(path.tried_at), FORGOTTEN),
                None => (path.tried_at, SILENT),
            };
            if now.since(since) <= patience {
                continue;
            }
            path.tried_at = now;
            if path.heard_at.is_none() {
                self.try_elsewhere(at);
            }
            let path = &mut self.list[at];
            let opened = self
                .common
                .as_ref()
                .map(|common| common.open(path.number, path.place.as_ref(), path.peers[0]));
            if let Some(Ok(link)) = opened {
                path.begin_anew(link);
            }
        }
    }

    /// The next of the server's addresses that no other path leads to from the same place.
    fn try_elsewhere(&mut self, at: usize) {
        let place = &self.list[at].place;
        let others =
            self.list.iter().enumerate().filter(|(other, path)| *other != at && path.place == *place);
        let mut taken: Vec<IpAddr> = others.map(|(_, path)| path.peers[0].ip()).collect();
        taken.extend(
            self.first.iter().filter(|(first, _)| first == place).map(|(_, to)| to.ip().to_canonical()),
        );
        let peers = &mut self.list[at].peers;
        for _ in 0..peers.len() {
            peers.rotate_left(1);
            if !taken.contains(&peers[0].ip()) {
                break;
            }
        }
    }

    /// When to look after them at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.list.iter().filter_map(SidePath::poll_timeout).min()
    }

    /// What to wait for.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list.iter().flat_map(|path| path.link.poll_fds())
    }
}

impl Common {
    fn keys(&self, connection_id: u64, secret: &[u8; 32], side: Side) -> (Keys, Keys) {
        (Keys::check(secret, connection_id, side), Keys::main(secret, self.aes, connection_id, side))
    }

    /// A client's link to `peer`.
    fn open(&self, number: u16, place: Option<&LocalEnd>, peer: SocketAddr) -> Result<PeerLink, Error> {
        let (connection_id, secret) = path_secret(&self.secret, number);
        let (early, main) = self.keys(connection_id, &secret, Side::Client);
        let mut link = open_link(vec![peer], place, early)?;
        link.set_marks(self.marks.clone());
        link.set_main_keys(main);
        Ok(link)
    }
}

/// Paths 1, 2, … of a client that sends from `places`, the first of which is path 0's to `first`, to a server with these
/// addresses: from where, and the addresses to try, the one first that no other path leads to. Where places are fewer than
/// addresses they are taken again, for addresses [apart](are_apart) from those that a path leads to from there already.
fn pairs(
    places: &[Option<LocalEnd>],
    first: IpAddr,
    hosts: &[IpAddr],
    is_auto: bool,
) -> Vec<(Option<LocalEnd>, Vec<IpAddr>)> {
    let mut all = vec![first.to_canonical()];
    for host in hosts.iter().map(IpAddr::to_canonical) {
        if !all.contains(&host) && is_like(host, all[0]) && all.len() < usize::from(PATHS_MAX) {
            all.push(host);
        }
    }
    let ends = if is_auto { places.len().max(all.len()) } else { places.len() };
    let count = ends.min(usize::from(PATHS_MAX));
    // Which place each path begins at, and where it leads to.
    let mut taken = vec![(0, all[0])];
    let paths = (1..count).filter_map(|number| {
        let at = number % places.len();
        let place = places[at].clone();
        let leads = |host: &IpAddr| place.as_ref().is_none_or(|place| place.fits(*host));
        let mut to: Vec<_> = all.iter().copied().filter(leads).collect();
        if let Some(at) = all.get(number).and_then(|own| to.iter().position(|host| host == own)) {
            to.rotate_left(at);
        }
        if number >= places.len() {
            let from_here = taken.iter().filter(|(other, _)| *other == at);
            from_here.for_each(|(_, other)| to.retain(|host| are_apart(*host, *other)));
        }
        taken.push((at, *to.first()?));
        Some((place, to))
    });
    paths.collect()
}

/// Whether a server that is reached at `first` may say that it is at `host` as well: not on this very host, unless it is, and not
/// everywhere.
fn is_like(host: IpAddr, first: IpAddr) -> bool {
    let is_broadcast = matches!(host, IpAddr::V4(host) if host.is_broadcast());
    let is_everywhere = host.is_multicast() || host.is_unspecified() || is_broadcast;
    !is_everywhere && (!host.is_loopback() || first.is_loopback())
}

/// Whether two addresses of a host are in different networks, as far as addresses tell: providers tell each other of networks
/// with 24 bits of an IPv4 address at most, and a link has 64 of an IPv6 address. A link often has addresses of both families,
/// so that these tell nothing.
fn are_apart(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.octets()[..3] != other.octets()[..3],
        (IpAddr::V6(one), IpAddr::V6(other)) => one.segments()[..4] != other.segments()[..4],
        _ => false,
    }
}

/// Where a client may send from that names nothing: the place of its first path at the head. Each leaves by its own interface:
/// an address of another may be sent from by the interface that another path has, as those of virtual machines' bridges are.
fn own_places(first: &PeerLink) -> Vec<Option<LocalEnd>> {
    let used = first.ends().map(|(from, _)| from.ip().to_canonical());
    let own = own_interfaces(used).into_iter();
    let places: Vec<_> = own.map(|(name, address)| Some(LocalEnd::AddressOf(address, name))).collect();
    if places.is_empty() { vec![None] } else { places }
}

/// An address of each network interface of this host that others may reach.
pub fn own_addresses() -> Vec<IpAddr> {
    own_interfaces(None).into_iter().map(|(_, address)| address).collect()
}

/// Each network interface of this host that others may reach, with an address: `used`, where it has that.
fn own_interfaces(used: Option<IpAddr>) -> Vec<(String, IpAddr)> {
    let mut interfaces = if_addrs::get_if_addrs().unwrap_or_else(|error| {
        tracing::warn!("the addresses of this host cannot be listed: {error}");
        vec![]
    });
    interfaces.retain(|interface| !interface.is_loopback() && !interface.is_link_local());
    interfaces.sort_by_key(|interface| (Some(interface.ip()) != used, interface.ip()));
    let mut named: Vec<(String, IpAddr)> = vec![];
    for interface in interfaces {
        if named.iter().all(|(name, _)| *name != interface.name) {
            named.push((interface.name.clone(), interface.ip()));
        }
    }
    named
}

/// Where nothing has answered for so long another address is tried.
const SILENT: Duration = Duration::from_secs(3);
/// Where something had come and nothing has for so long, longer than most outages, it is begun anew.
pub const FORGOTTEN: Duration = Duration::from_secs(6);

#[cfg(test)]
mod tests {
    use super::*;

    /// Longer than a busy host takes.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// A client with a further path, and its server, both on this host.
    fn both() -> (SidePaths, SidePaths) {
        let common = |sends| {
            let (secret, classes, marks) = ([7; 32], vec![1200], Marks::default());
            Common { secret, aes: true, classes, sends, marks }
        };
        let bind = [ip("127.0.0.1"), ip("127.0.0.2")].map(LocalEnd::Address).to_vec();
        let first = common(true).open(0, Some(&bind[0]), SocketAddr::new(ip("127.0.0.1"), 9)).unwrap();
        let options = CopyOptions { bind, ..CopyOptions::default() };
        let (mut client, want) =
            SidePaths::of_client(common(true), &first, Ways::default(), &options).unwrap();
        let doors = Doors::Own { ports: None, hosts: vec![ip("127.0.0.1")] };
        let mut server = SidePaths::of_server(common(false), doors);
        client.note_answer(server.welcome(&want, &Waker::new().unwrap()).unwrap().unwrap());
        assert_eq!(client.open(&first), Vec::<String>::new());
        (client, server)
    }

    #[test]
    fn a_path_over_which_nothing_but_questions_goes_is_not_begun_anew() {
        let (mut client, mut server) = both();
        let (waker, gives_up_at) = (Waker::new().unwrap(), clock::now() + PATIENCE);
        let mut heard_first_at = None;
        // More answers than there were probes at first; what is lost is asked again.
        while client.list[0].check.answers() < 40 {
            assert!(clock::now() < gives_up_at);
            client.keep_open();
            let fds = client.poll_fds().chain(server.poll_fds()).collect();
            waker.wait_many(fds, Duration::from_millis(10)).unwrap();
            for side in [&mut client, &mut server] {
                side.receive(|_, _, _, _| {});
                side.run_checks(clock::now());
            }
            heard_first_at = heard_first_at.or(client.list[0].heard_at);
        }
        let port = client.list[0].link.ends();
        let heard_again_at = client.list[0].heard_at.unwrap();
        assert!(Some(heard_again_at) > heard_first_at);
        client.run_checks(heard_again_at + FORGOTTEN);
        assert_eq!(client.list[0].link.ends(), port);
        client.run_checks(heard_again_at + FORGOTTEN + Duration::from_millis(1));
        assert_ne!(client.list[0].link.ends(), port);
    }

    #[test]
    fn a_path_of_its_own_begins_where_no_other_does_or_ends_in_another_network() {
        let place = |text: &str| text.parse::<LocalEnd>().ok();
        let (a, b) = (ip("10.0.0.1"), ip("10.1.0.1"));
        let two = [place("10.0.0.9"), place("wlan0")];
        assert_eq!(pairs(&two, a, &[a, b], false), [(place("wlan0"), vec![b, a])]);
        assert_eq!(pairs(&two, b, &[a, b], true), [(place("wlan0"), vec![a, b])]);
        assert_eq!(pairs(&two, a, &[], true), [(place("wlan0"), vec![a])]);
        assert_eq!(pairs(&[None], a, &[b, a], true), [(None, vec![b])]);
        assert_eq!(pairs(&[None], a, &[a], true), []);
        let mixed = [place("10.0.0.9"), place("2001:db8::9")];
        assert_eq!(
            pairs(&mixed, a, &[a, ip("2001:db8::1")], false),
            [(place("2001:db8::9"), vec![ip("2001:db8::1")])]
        );
        assert_eq!(pairs(&[place("eth0")], a, &[a, b], false), [], "one is what was asked for");
        // From one place: in a network of its own, which only one of them has.
        let (beside, sixth) = (ip("10.0.0.2"), ip("2001:db8::1"));
        assert_eq!(pairs(&[place("eth0")], a, &[a, beside, sixth], true), []);
        assert_eq!(pairs(&[place("eth0")], a, &[beside, b, a], true), [(place("eth0"), vec![b])]);
        let further = [ip("2001:db8:0:1::1"), ip("2001:db8::2")];
        assert_eq!(pairs(&[None], sixth, &further, true), [(None, vec![further[0]])]);
        // From two: each leads to the first network once.
        assert_eq!(pairs(&two, a, &[a, beside], true), [(place("wlan0"), vec![beside, a])]);
        assert_eq!(
            pairs(&two, a, &[a, beside, ip("10.0.0.3")], true),
            [(place("wlan0"), vec![beside, ip("10.0.0.3"), a])]
        );
        // Named twice it is meant twice.
        let twice = [place("eth0"), place("eth0")];
        assert_eq!(pairs(&twice, a, &[a, beside], false), [(place("eth0"), vec![beside, a])]);
    }

    #[test]
    fn a_server_does_not_send_its_client_anywhere() {
        let a = ip("10.0.0.1");
        let many: Vec<_> = (0..100).map(|n| ip(&format!("10.1.{n}.1"))).collect();
        assert_eq!(pairs(&[None], a, &many, true).len(), 7);
        let nobody = ["127.0.0.1", "::1", "224.0.0.1", "ff02::1", "0.0.0.0", "::", "255.255.255.255"].map(ip);
        assert_eq!(pairs(&[None], a, &nobody, true), []);
        assert_eq!(pairs(&[None], ip("127.0.0.1"), &[ip("127.0.1.1")], true).len(), 1);
    }
}
