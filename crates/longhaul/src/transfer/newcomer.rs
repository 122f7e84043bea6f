//! Whether the peer is where its datagrams seem to come from, when that is another address than its own (RFC 9000 §8.2, §9.3).

use crate::net::link::PeerLink;
use crate::net::random::random;
use longhaul_proto::path::{PathCheck, PathEvent};
use longhaul_proto::units::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// Another address at which the peer was last looked for, with what token and when.
#[derive(Default)]
pub struct Newcomer(Option<(SocketAddr, u64, Time)>);

impl Newcomer {
    /// Ask whoever is at the address that something authentic last came from, if it is not the peer's.
    pub fn ask(&mut self, link: &mut PeerLink, check: &mut PathCheck, scratch: &mut Vec<u8>, now: Time) {
        let Some(peer) = link.take_newcomer() else { return };
        let before = self.0.filter(|(asked, ..)| *asked == peer);
        if before.is_some_and(|(.., at)| now.since(at) < ASK_AGAIN) {
            return;
        }
        // Asked again it is the same question: the answer to the first may be on its way.
        let token = before.map(|(_, token, _)| token).or_else(|| random().map(u64::from_be_bytes).ok());
        if let Some(token) = token {
            self.0 = Some((peer, token, now));
            link.ask_at(peer, scratch, |buf| check.ask_who(token, buf));
        }
    }

    /// Whether the token came back that was told there alone: then the peer is there.
    pub fn heed(&mut self, event: PathEvent, link: &mut PeerLink) -> bool {
        let moved = self.0.take_if(|(_, token, _)| event == PathEvent::Echoed(*token));
        moved.inspect(|(peer, ..)| link.move_to(*peer)).is_some()
    }
}

/// Whoever something still comes from is asked again so soon.
const ASK_AGAIN: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::net::seal::{Keys, Side};
    use crate::net::strays::{Stray, Strays};
    use longhaul_proto::wire::SEAL_OVERHEAD;
    use std::sync::Arc;

    const SECRET: [u8; 32] = [7; 32];

    #[test]
    fn who_repeats_what_was_told_elsewhere_has_not_moved() {
        let [client, elsewhere] = ["127.0.0.1:9", "127.0.0.2:9"].map(|at| at.parse::<SocketAddr>().unwrap());
        let strays = Arc::new(Strays::default());
        let keys = Keys::check(&SECRET, 1, Side::Server);
        let local = "127.0.0.1:0".parse().unwrap();
        let mut link = PeerLink::shared(local, None, strays.clone(), keys);
        for (number, from) in [(0, client), (1, elsewhere)] {
            let mut bytes = vec![0; 100 + SEAL_OVERHEAD];
            Keys::check(&SECRET, 1, Side::Client).seal(&mut bytes, number);
            assert!(strays.push(Stray { bytes, time: clock::now(), ecn: None, from, to: None }));
        }
        assert!(link.receive(|_, _, _| true).unwrap());
        let mut newcomer = Newcomer::default();
        let mut check = PathCheck::new(vec![1200], false, 5);
        newcomer.ask(&mut link, &mut check, &mut vec![], clock::now());
        let (asked, token, _) = newcomer.0.unwrap();
        assert_eq!(asked, elsewhere);
        let peer = |link: &PeerLink| link.ends().unwrap().1;
        assert!(!newcomer.heed(PathEvent::Echoed(token ^ 1), &mut link));
        assert_eq!(peer(&link), client);
        assert!(newcomer.heed(PathEvent::Echoed(token), &mut link));
        assert_eq!(peer(&link), elsewhere);
        assert!(!newcomer.heed(PathEvent::Echoed(token), &mut link), "once");
    }
}
