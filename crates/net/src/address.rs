//! Where a link's peer is, and how far that can be trusted.
//!
//! A datagram that is authentic may have been sent by somebody who has recorded it, and its sender's address may be anybody's.
//! An address is proven when it has repeated what was told only there, or when it is that of the host that the control stream
//! comes from, which is there. Until then no more than three times what came from it goes to it (RFC 9000 §8.1).

use std::net::{IpAddr, SocketAddr};

/// See the [module](self).
pub struct Address {
    origin: Origin,
    peer: Option<SocketAddr>,
    proven: bool,
    /// Bytes that came from it, and that went to it, while it was not proven.
    came: usize,
    went: usize,
    /// Where something authentic came from that is not the peer's address.
    newcomer: Option<SocketAddr>,
}

/// By whom it is known.
#[derive(PartialEq)]
enum Origin {
    /// The owner has chosen it: nobody else is listened to.
    Chosen,
    /// One of several that somebody else has named, who may be the peer himself: only what was told to none of the others proves it.
    Named,
    /// A client's, which speaks first. Its control stream comes from this host, where that is known.
    Client(Option<IpAddr>),
}

impl Address {
    /// Of a server, as its client knows it.
    pub fn chosen() -> Address {
        Address { proven: true, ..Address::new(Origin::Chosen) }
    }

    /// Of a server, as somebody else has named several. Until one of them has answered each gets what there is.
    pub fn named() -> Address {
        Address::new(Origin::Named)
    }

    /// Of a client that has not been heard of; its control stream comes from `host`.
    pub fn of_client(host: Option<IpAddr>) -> Address {
        Address::new(Origin::Client(host.map(|host| host.to_canonical())))
    }

    fn new(origin: Origin) -> Address {
        Address { origin, peer: None, proven: false, came: 0, went: 0, newcomer: None }
    }

    /// Whether it is of no interest where further datagrams come from: the socket takes those of the peer only.
    pub fn is_settled(&self) -> bool {
        self.proven && self.peer.is_some()
    }

    /// Something authentic of `len` bytes came from `from`. Whether the peer is to be looked for there.
    pub fn came_from(&mut self, from: SocketAddr, len: usize) -> bool {
        if self.origin == Origin::Named && !self.proven {
            self.newcomer = Some(from);
        }
        if self.peer == Some(from) {
            self.came += if self.proven { 0 } else { len };
            return false;
        }
        if self.peer.is_none() || self.is_of_host(from) {
            (self.came, self.went) = (len, 0);
            return true;
        }
        self.newcomer = Some(from);
        false
    }

    /// The peer is there from now on.
    pub fn moved(&mut self, peer: SocketAddr) {
        self.peer = Some(peer);
        self.proven = self.origin == Origin::Chosen || self.is_of_host(peer);
    }

    /// The same, and it has repeated what was told only there.
    pub fn moved_and_proven(&mut self, peer: SocketAddr) {
        self.moved(peer);
        self.proven = true;
    }

    /// The peer has repeated what went to all addresses that it may have.
    pub fn note_proven(&mut self) {
        self.proven |= self.peer.is_some() && self.origin != Origin::Named;
    }

    /// Whether so many bytes may go there.
    pub fn allows(&self, len: usize) -> bool {
        let is_open = self.origin == Origin::Named && self.peer.is_none();
        self.proven || is_open || self.went + len <= AMPLIFICATION_MAX * self.came
    }

    /// The same, and they go.
    pub fn take(&mut self, len: usize) -> bool {
        let allows = self.allows(len);
        self.went += if allows && !self.proven { len } else { 0 };
        allows
    }

    /// Another address from which something came since this was last asked.
    pub fn take_newcomer(&mut self) -> Option<SocketAddr> {
        self.newcomer.take()
    }

    fn is_of_host(&self, address: SocketAddr) -> bool {
        self.origin == Origin::Client(Some(address.ip().to_canonical()))
    }
}

/// RFC 9000 §8.1.
const AMPLIFICATION_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: &str) -> SocketAddr {
        address.parse().unwrap()
    }

    #[test]
    fn the_host_of_the_control_stream_is_trusted_from_whatever_port() {
        let mut address = Address::of_client(Some("192.0.2.1".parse().unwrap()));
        for peer in ["[::ffff:192.0.2.1]:5", "192.0.2.1:6"] {
            assert!(address.came_from(at(peer), 40));
            address.moved(at(peer));
            assert!(address.is_settled() && address.take(1 << 30));
        }
    }

    #[test]
    fn an_address_that_has_shown_nothing_gets_three_times_what_it_sent() {
        let mut address = Address::of_client(Some("192.0.2.1".parse().unwrap()));
        assert!(!address.take(1), "nobody is there");
        let victim = at("198.51.100.1:5");
        assert!(address.came_from(victim, 1000));
        address.moved(victim);
        assert!(!address.is_settled());
        assert!(address.take(2000) && !address.allows(1001) && address.take(1000) && !address.take(1));
        assert!(!address.came_from(victim, 10));
        assert!(address.take(30) && !address.take(1));
        address.note_proven();
        assert!(address.is_settled() && address.take(1 << 30));
    }

    #[test]
    fn one_of_several_that_somebody_named_repeats_what_was_told_there_alone() {
        let mut address = Address::named();
        let (peer, other) = (at("192.0.2.1:5"), at("198.51.100.1:5"));
        assert!(address.take(100) && !address.is_settled());
        assert!(address.came_from(peer, 100));
        address.moved(peer);
        address.note_proven();
        assert!(address.take(300) && !address.take(1), "all of them know that word");
        assert_eq!(address.take_newcomer(), Some(peer));
        // The question may be lost.
        assert!(!address.came_from(peer, 100) && !address.came_from(other, 100));
        assert_eq!(address.take_newcomer(), Some(other));
        assert!(!address.came_from(peer, 100));
        assert_eq!(address.take_newcomer(), Some(peer));
        address.moved_and_proven(peer);
        assert!(address.is_settled() && address.take(1 << 30));
    }

    #[test]
    fn a_peer_is_not_looked_for_elsewhere_before_it_has_shown_that_it_is_there() {
        let mut address = Address::of_client(None);
        let (peer, other) = (at("192.0.2.1:5"), at("198.51.100.1:5"));
        assert!(address.came_from(peer, 1000));
        address.moved(peer);
        address.note_proven();
        assert!(!address.came_from(other, 1000) && address.take(1 << 20));
        assert_eq!((address.take_newcomer(), address.take_newcomer()), (Some(other), None));
    }
}
