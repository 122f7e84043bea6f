//! One path beside the first.
//!
//! Nobody sends more than a word over it before the other side has repeated that: whoever is said to be there may be somebody else.
//! Then it is looked at as the first one is. A client over whose path nothing comes for some seconds begins it anew from another
//! port, and says its word again: a translator of addresses on the way may have forgotten it, or its own address may be
//! another one. The server follows it there when the client has repeated a word that was sent there.

use super::super::connect::random;
use super::super::newcomer::Newcomer;
use super::super::switchboard::Line;
use super::Common;
use crate::net::link::PeerLink;
use crate::net::local::LocalEnd;
use crate::net::seal::KeyPhase;
use longhaul_proto::endpoint::{Endpoint, Transmit};
use longhaul_proto::path::{PathCheck, PathEvent};
use longhaul_proto::units::Time;
use longhaul_proto::wire::REPLY_LEN;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

/// See the [module](self).
pub struct SidePath {
    /// Its datagrams.
    pub link: PeerLink,
    /// Looks at it.
    pub check: PathCheck,
    pub(super) number: u16,
    /// When something last came.
    pub(super) heard_at: Option<Time>,
    /// The client: from where, and to which addresses, of which the first is being tried.
    pub(super) place: Option<LocalEnd>,
    pub(super) peers: VecDeque<SocketAddr>,
    pub(super) tried_at: Time,
    /// The client's control stream may go on over it.
    pub(super) is_way: bool,
    scratch: Vec<u8>,
    /// The word, and when it was last said.
    token: u64,
    said_at: Option<Time>,
    newcomer: Newcomer,
    is_met: bool,
    /// The daemon's: where its datagrams come from.
    _line: Option<Line>,
}

impl SidePath {
    /// One that was opened just now.
    pub(super) fn new(
        common: &Common,
        link: PeerLink,
        number: u16,
        now: Time,
        line: Option<Line>,
    ) -> Result<SidePath, crate::error::Error> {
        let [check, token] = [random()?, random()?].map(u64::from_be_bytes);
        Ok(SidePath {
            link,
            check: PathCheck::new(common.classes.clone(), common.sends, check),
            number,
            heard_at: None,
            place: None,
            peers: VecDeque::new(),
            tried_at: now,
            is_way: false,
            scratch: vec![],
            token,
            said_at: None,
            newcomer: Newcomer::default(),
            is_met: false,
            _line: line,
        })
    }

    /// The client's: from there, to one of these.
    pub(super) fn between(self, place: Option<LocalEnd>, peers: VecDeque<SocketAddr>) -> SidePath {
        SidePath { place, peers, ..self }
    }

    /// It goes on over this link.
    pub(super) fn begin_anew(&mut self, mut link: PeerLink) {
        link.take_keys_of(&mut self.link);
        self.link = link;
        (self.is_met, self.said_at) = (false, None);
    }

    /// Have the other side say something, if it is there.
    pub(super) fn keep_open(&mut self) {
        if self.is_met {
            self.check.probe_again(0);
        }
    }

    /// Send what there is to be said before data, and with it.
    pub(super) fn run_check(&mut self, now: Time) {
        while let Some(event) = self.check.poll_event() {
            if event == PathEvent::Echoed(self.token) {
                self.is_met = true;
                self.link.note_proven();
            } else {
                self.is_met |= self.newcomer.heed(event, &mut self.link);
            }
        }
        self.newcomer.ask(&mut self.link, &mut self.check, &mut self.scratch, now);
        if !self.is_met && self.link.has_peer() && self.said_at.is_none_or(|at| now >= at + SAY_AGAIN) {
            self.said_at = Some(now);
            let (check, token) = (&mut self.check, self.token);
            self.link.send_one(KeyPhase::Early, &mut self.scratch, |buf| Some(check.ask_who(token, buf)));
        }
        if self.is_met && self.check.poll_timeout().is_some_and(|at| now >= at) {
            self.check.handle_timeout(now);
        }
        let (link, check, is_met) = (&mut self.link, &mut self.check, self.is_met);
        while link.has_peer()
            && check.next_len().is_some_and(|len| link.allows(len) && (is_met || len == REPLY_LEN))
            && link.send_one(KeyPhase::Early, &mut self.scratch, |buf| check.poll_transmit(now, buf))
        {
        }
    }

    /// When to look after it at the latest.
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match self.is_met {
            true => self.check.poll_timeout(),
            false => self.said_at.map(|at| at + SAY_AGAIN),
        }
    }

    /// Send what `write` has, under the main keys.
    pub fn send_one(&mut self, write: impl FnOnce(&mut [u8]) -> Option<Transmit>) -> bool {
        self.link.send_one(KeyPhase::Main, &mut self.scratch, write)
    }
}

/// A word that is not repeated goes again so soon.
const SAY_AGAIN: Duration = Duration::from_millis(500);
