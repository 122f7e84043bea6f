//! The way to the host that connects.

use super::{CONNECT_PATIENCE, forward_key, read_all, stream_options};
use crate::api::{CopyOptions, Location};
use crate::error::{Error, RequestError, SshError};
use crate::net::control::{ClientKey, HandshakeError, Stream};
use crate::net::patient::Watch;
use crate::transfer::connect::{At, Remote, candidates, key_of, ports_argument, random};
use crate::transfer::ssh::{self, FarSide};
use longhaul_proto::forward::{REPLY_MAX, Reply, Request, Target};
use longhaul_stripe::{Refusal, StripeOptions, StripedStream};
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::replace;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// A host that connects to others for this one.
pub struct Far {
    /// As the user knows it.
    name: String,
    place: Place,
    options: StripeOptions,
    stop: Arc<AtomicBool>,
    agent: Option<Agent>,
}

/// Where its port is.
enum Place {
    /// A daemon's, at whatever address its name has.
    Named(String, u16),
    /// An agent's. The one that answered last comes first.
    Addresses(Mutex<Vec<SocketAddr>>),
}

/// The process at the far end of an ssh, which ends with its input: that is dropped first.
struct Agent {
    _stream: Mutex<Stream>,
    _far: Mutex<FarSide>,
    /// It says nothing more; its output ends when it does, or ssh.
    is_gone: Arc<AtomicBool>,
}

/// What an agent says of where it listens.
#[derive(Serialize, Deserialize)]
pub struct Whereabouts {
    /// Its TCP port.
    pub port: u16,
    /// Its addresses, as it believes.
    pub hosts: Vec<IpAddr>,
}

impl Whereabouts {
    /// As it travels.
    pub fn encode(&self) -> Vec<u8> {
        let bytes = postcard::to_allocvec(self).expect("plain data always serialises");
        [&(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
    }

    fn read(reader: &mut dyn Read) -> io::Result<Whereabouts> {
        let mut len = [0; 2];
        reader.read_exact(&mut len)?;
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(len)).min(WHEREABOUTS_MAX)];
        reader.read_exact(&mut bytes)?;
        postcard::from_bytes(&bytes).map_err(io::Error::other)
    }
}

impl Far {
    /// Reach it, as far as that goes before anything is asked of it: an agent is started, and stays until this is dropped. Of
    /// `at` the host counts alone, and of `options` how it is reached.
    pub fn reach(at: &Location, options: &CopyOptions, stop: &Arc<AtomicBool>) -> Result<Far, Error> {
        match at {
            Location::Local(_) | Location::Pipe => Err(RequestError::NoHost.into()),
            Location::Daemon { host, port, .. } => {
                let ClientKey { psk, pinned } = key_of(options)?;
                let key = ClientKey { psk: forward_key(&psk), pinned };
                Ok(Far {
                    name: host.clone(),
                    place: Place::Named(host.clone(), *port),
                    options: stream_options().client_key(key).local_ends(options.bind.iter().cloned()),
                    stop: stop.clone(),
                    agent: None,
                })
            }
            Location::Ssh { host, .. } => Far::by_ssh(host, options, stop),
        }
    }

    fn by_ssh(host: &str, options: &CopyOptions, stop: &Arc<AtomicBool>) -> Result<Far, Error> {
        let args = format!("--forward {}", ports_argument(options));
        let watch = Watch::new(std::slice::from_ref(stop));
        let mut far = ssh::start(&options.ssh_command, host, options.deploy, &args, watch.clone())?;
        let mut stream = far.stream.take().ok_or(SshError::NoPipes)?;
        let psk: [u8; 32] = random()?;
        let broke = |source| SshError::Broke { host: host.into(), during: "", source };
        stream.writer.write_all(&psk).and_then(|()| stream.writer.flush()).map_err(broke)?;
        watch.until(Instant::now() + CONNECT_PATIENCE);
        // A key that is good for copies alone has an agent that waits for a copy.
        let silent = |_| Error::AgentSilent { host: host.into(), what: "it does not say where it listens" };
        let whereabouts = Whereabouts::read(&mut *stream.reader).map_err(silent)?;
        watch.settle();
        let (mut reader, is_gone) = (replace(&mut stream.reader, Box::new(io::empty())), Arc::default());
        let gone: Arc<AtomicBool> = Arc::clone(&is_gone);
        let await_end = move || {
            let _ = io::copy(&mut reader, &mut io::sink());
            gone.store(true, Ordering::Relaxed);
        };
        std::thread::Builder::new().name("forward-agent".into()).spawn(await_end).map_err(Error::Threads)?;
        let name = Remote::Ssh { host: host.into() }.name().to_string();
        let at = At { name: Some(name), ..At::default() };
        let addresses = candidates(whereabouts.hosts, whereabouts.port, &at);
        Ok(Far {
            name: host.into(),
            place: Place::Addresses(Mutex::new(addresses)),
            options: stream_options()
                .client_key(forward_key(&psk).into())
                .local_ends(options.bind.iter().cloned()),
            stop: stop.clone(),
            agent: Some(Agent { _stream: Mutex::new(stream), _far: Mutex::new(far), is_gone }),
        })
    }

    /// As the user knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is known to have this address itself.
    pub fn has(&self, ip: IpAddr) -> bool {
        let is_it = |address: &SocketAddr| address.ip().to_canonical() == ip;
        match &self.place {
            Place::Named(host, port) => {
                (host.as_str(), *port).to_socket_addrs().is_ok_and(|mut found| found.any(|one| is_it(&one)))
            }
            Place::Addresses(addresses) => {
                addresses.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_it)
            }
        }
    }

    /// Why nothing can be reached there any more.
    pub fn lost(&self) -> Option<Error> {
        self.agent.as_ref().filter(|agent| agent.is_gone.load(Ordering::Relaxed))?;
        let source = io::Error::new(ErrorKind::UnexpectedEof, "ssh has ended");
        Some(SshError::Broke { host: self.name.clone(), during: "", source }.into())
    }

    /// Ask whether it would connect there.
    pub fn ask(&self, target: &Target) -> Result<(), Error> {
        let stream = self.request(target, true)?;
        self.read_reply(&stream)?;
        Ok(stream.close()?)
    }

    /// A stream that leads there.
    pub fn open(&self, target: &Target) -> Result<StripedStream, Error> {
        let stream = self.request(target, false)?;
        self.read_reply(&stream)?;
        Ok(stream)
    }

    fn request(&self, target: &Target, only_asks: bool) -> Result<StripedStream, Error> {
        let stream = self.connect()?;
        let request = Request { target: target.clone(), only_asks };
        (&stream).write_all(&request.encode())?;
        Ok(stream)
    }

    fn connect(&self) -> Result<StripedStream, Error> {
        if let Some(error) = self.lost() {
            return Err(error);
        }
        match &self.place {
            Place::Named(host, port) => {
                let found = (host.as_str(), *port).to_socket_addrs();
                let unknown = |source| Error::UnknownHost { host: host.clone(), source };
                let addresses: Vec<SocketAddr> = found.map_err(unknown)?.collect();
                self.options.connect(&addresses[..]).map_err(|error| self.unreached(error, *port))
            }
            Place::Addresses(addresses) => {
                let order = addresses.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let port = order.first().map_or(0, SocketAddr::port);
                let connected = self.options.connect(&order[..]);
                let stream = connected.map_err(|error| self.unreached(error, port))?;
                if let Ok(peer) = stream.peer_addr() {
                    let mut addresses = addresses.lock().unwrap_or_else(PoisonError::into_inner);
                    addresses.sort_by_key(|address| *address != peer);
                }
                Ok(stream)
            }
        }
    }

    fn unreached(&self, source: io::Error, port: u16) -> Error {
        let refusal = source.get_ref().and_then(|why| why.downcast_ref::<Refusal>()).copied();
        let host = self.name.clone();
        match (refusal, source.kind()) {
            (Some(Refusal::Key), _) => HandshakeError::WrongKey.into(),
            (Some(refusal), _) => Error::NoForward { host, what: refusal.to_string() },
            (None, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                Error::NoForward { host, what: "it closed the connection".into() }
            }
            (None, ErrorKind::InvalidData) => Error::NoForward { host, what: source.to_string() },
            (None, _) if self.agent.is_some() => Error::PortClosed { host, port, source },
            (None, _) => Error::Unreachable { host, port, source },
        }
    }

    fn read_reply(&self, stream: &StripedStream) -> Result<(), Error> {
        // It may take its time to connect.
        let until = Instant::now() + 2 * CONNECT_PATIENCE;
        let read = || -> io::Result<Option<Reply>> {
            let mut len = [0; 2];
            read_all(stream, &mut len, until, &self.stop)?;
            let len = usize::from(u16::from_be_bytes(len));
            let mut bytes = vec![0; len.min(REPLY_MAX)];
            read_all(stream, &mut bytes, until, &self.stop)?;
            Ok(Reply::decode(&bytes).filter(|_| len <= REPLY_MAX))
        };
        let broke = |error: io::Error| {
            Error::NoForward { host: self.name.clone(), what: error.to_string() }.unless_stopped(&self.stop)
        };
        match read().map_err(broke)? {
            Some(Reply::Yes) => Ok(()),
            Some(Reply::No(reason)) => Err(Error::Peer(reason)),
            None => Err(Error::Protocol("says what makes no sense")),
        }
    }
}

/// Some hundred addresses.
const WHEREABOUTS_MAX: usize = 4096;
