//! Streams whose lanes come to a port that is not theirs alone: whoever listens there hands over each connection that begins
//! as a lane does.

use super::handshake::{Greeting, House, Opened, Step};
use super::options::{BUFFER_MIN, StripeOptions};
use super::state::{Core, locked};
use super::stream::StripedStream;
use longhaul_net::control::{ServerKey, TokenId};
use longhaul_net::join::JoinKey;
use longhaul_net::patient::{SILENCE, Watched};
use longhaul_net::seal::Side;
use longhaul_proto::stripe::hello::{ID_LEN, MAGIC, Refusal};
use socket2::SockRef;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Condvar, Mutex, PoisonError, Weak};
use std::time::Instant;

/// Knows the streams that came through it.
pub struct Door {
    options: StripeOptions,
    /// `None`: somebody is about to open it.
    streams: Mutex<HashMap<[u8; ID_LEN], Option<Weak<Core>>>>,
    changed: Condvar,
}

/// Decides who comes in.
pub trait Doorkeeper {
    /// The key of whoever has this token, or the one that all share. For who has none, one that nobody has.
    fn key(&mut self, id: Option<TokenId>) -> ServerKey;
    /// Bytes in each direction for the stream of somebody who has proved to have a key.
    fn room(&mut self) -> u64;
}

/// What came of a connection.
pub enum Met {
    /// It opened a stream.
    Opened(StripedStream),
    /// It is a further lane of one.
    Joined,
    /// It was refused.
    Refused(Refusal),
    /// It is something else, or does not know what it should.
    Stranger(&'static str),
}

/// Takes back that somebody is about to open a stream, unless it was opened.
struct Opening<'a> {
    door: &'a Door,
    id: [u8; ID_LEN],
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut streams = locked(&self.door.streams);
        if streams.get(&self.id).is_some_and(Option::is_none) {
            streams.remove(&self.id);
        }
        self.door.changed.notify_all();
    }
}

impl Door {
    /// For streams with these options. Nobody comes in without a key.
    pub fn new(options: StripeOptions) -> Door {
        Door { options, streams: Mutex::default(), changed: Condvar::new() }
    }

    /// Whether a connection that begins so is for a door.
    pub fn is_for(said: &[u8]) -> bool {
        said.starts_with(&MAGIC)
    }

    /// Meet somebody who has connected and `said` the first few bytes.
    pub fn meet(
        &self,
        socket: TcpStream,
        said: &[u8],
        deadline: Instant,
        keeper: &mut dyn Doorkeeper,
    ) -> io::Result<Met> {
        self.options.tcp.set_up(&SockRef::from(&socket))?;
        let mut stream = Watched::until(&socket, deadline, SILENCE);
        let (mut greeting, mut have, mut opening) = (Greeting::default(), said.to_vec(), None);
        loop {
            let said = have.len();
            have.resize(greeting.needs(), 0);
            stream.read_exact(&mut have[said..])?;
            if let Some(id) = greeting.asks_to_join(&have) {
                self.wait_while_opening(&id, deadline);
            }
            let step = greeting.take(&have, &self.options, &mut Inside { door: self, keeper })?;
            have.clear();
            match step {
                Step::More(reply) => {
                    if let Some(id) = greeting.opens() {
                        opening = Some(self.begin_opening(*id));
                    }
                    stream.write_all(&reply)?;
                }
                Step::Opened(opened) => {
                    drop(stream);
                    let stream = self.open(socket, *opened, keeper.room())?;
                    drop(opening);
                    return Ok(Met::Opened(stream));
                }
                Step::Joined { id, nonces } => {
                    drop(stream);
                    let core = locked(&self.streams).get(&id).cloned().flatten();
                    if let Some(core) = core.and_then(|core| core.upgrade()) {
                        let (sealer, opener) = core.secrets.lane(Side::Server, &nonces);
                        core.add_lane(socket, 0, sealer, opener)?;
                    }
                    return Ok(Met::Joined);
                }
                Step::Refused(refusal, reply) => {
                    stream.write_all(&reply)?;
                    return Ok(Met::Refused(refusal));
                }
                Step::Stranger(what) => return Ok(Met::Stranger(what)),
            }
        }
    }

    fn begin_opening(&self, id: [u8; ID_LEN]) -> Opening<'_> {
        let mut streams = locked(&self.streams);
        let lives = |core: &Weak<Core>| core.upgrade().is_some_and(|core| !core.lock().is_over());
        streams.retain(|_, core| core.as_ref().is_none_or(lives));
        streams.insert(id, None);
        Opening { door: self, id }
    }

    /// A further lane may have overtaken the last word of the first.
    fn wait_while_opening(&self, id: &[u8; ID_LEN], deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let is_opening = |streams: &mut HashMap<_, Option<_>>| streams.get(id).is_some_and(Option::is_none);
        let waited = self.changed.wait_timeout_while(locked(&self.streams), left, is_opening);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn open(&self, socket: TcpStream, opened: Opened, room: u64) -> io::Result<StripedStream> {
        let (id, options) = (opened.agreed.secrets.id, self.options.clone().buffer(room));
        let core = Core::new(&options, opened.agreed, &socket, Side::Server)?;
        let stream = StripedStream::start(core, socket, 0)?;
        locked(&self.streams).insert(id, Some(std::sync::Arc::downgrade(stream.core())));
        Ok(stream)
    }
}

/// What somebody at the door may find out.
struct Inside<'a> {
    door: &'a Door,
    keeper: &'a mut dyn Doorkeeper,
}

impl House for Inside<'_> {
    fn wants_key(&self) -> bool {
        true
    }

    fn key(&mut self, id: Option<TokenId>) -> Option<ServerKey> {
        Some(self.keeper.key(id))
    }

    fn joined(&self, id: &[u8; ID_LEN]) -> Option<JoinKey> {
        let core = locked(&self.door.streams).get(id).cloned().flatten();
        core?.upgrade()?.join_key()
    }

    fn first_limit(&self) -> Option<u64> {
        // Whoever has recorded how another came in has no more than this.
        Some(BUFFER_MIN)
    }
}
