//! The programs whose connections go to the other host.

use super::far::Far;
use crate::error::Error;
use crate::transfer::joins::ACCEPT_AGAIN;
use crossbeam_channel::{Receiver, Sender, bounded};
use longhaul_proto::forward::Target;
use longhaul_stripe::StripedStream;
use longhaul_stripe::pump::{LOOK_EVERY, Local, NEVER, Pumped, Rules, pump, unlimited};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A port of this host, and where its connections lead.
#[derive(Debug)]
pub struct Forwarded {
    listener: TcpListener,
    /// Where its connections lead, as the other host sees it.
    pub target: Target,
}

impl Forwarded {
    /// Listen there.
    pub fn bind(listen: SocketAddr, target: Target) -> Result<Forwarded, Error> {
        let listener = TcpListener::bind(listen).map_err(|source| Error::Listen { listen, source })?;
        Ok(Forwarded { listener, target })
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Forward the connections of these ports until `stop` is set, or the other host is lost. `failed` is told of those that
/// come to nothing or break.
pub fn forward(
    far: Far,
    ports: Vec<Forwarded>,
    failed: impl Fn(&str) + Send + Sync + 'static,
    stop: &Arc<AtomicBool>,
) -> Result<(), Error> {
    let forwarder = Forwarder::new(far, failed, stop);
    let mut threads = vec![];
    for port in ports {
        port.listener.set_nonblocking(true)?;
        let forwarder = forwarder.clone();
        let listen = move || forwarder.listen(&port);
        threads.push(
            std::thread::Builder::new()
                .name("forward-listen".into())
                .spawn(listen)
                .map_err(Error::Threads)?,
        );
    }
    let ends = threads.into_iter().map(|thread| thread.join().map_err(|_| Error::Panicked)?);
    let end = ends.fold(Ok(()), Result::and);
    // Connections under way are reset and not waited for longer than that takes.
    for _ in 0..100 {
        if forwarder.under_way() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    end
}

/// Passes programs' connections on to another host. Clones are of the same.
#[derive(Clone)]
pub struct Forwarder(Arc<Common>);

/// A stream that leads to where a program wants to.
pub struct Opened {
    stream: StripedStream,
    target: Target,
}

struct Common {
    far: Far,
    stop: Arc<AtomicBool>,
    failed: Box<dyn Fn(&str) + Send + Sync>,
    /// Holds one for each connection under way.
    takes: Sender<()>,
    gives: Receiver<()>,
}

impl Forwarder {
    /// Those that come to nothing or break `failed` is told of. `stop` resets all.
    pub fn new(far: Far, failed: impl Fn(&str) + Send + Sync + 'static, stop: &Arc<AtomicBool>) -> Forwarder {
        let (takes, gives) = bounded(CONNECTIONS_MAX);
        Forwarder(Arc::new(Common { far, stop: stop.clone(), failed: Box::new(failed), takes, gives }))
    }

    /// The other host.
    pub fn far(&self) -> &Far {
        &self.0.far
    }

    /// Connections that have not ended yet.
    pub fn under_way(&self) -> usize {
        self.0.gives.len()
    }

    /// Have the other host connect, for a connection that is there a little later.
    pub fn open(&self, target: Target) -> Result<Opened, Error> {
        Ok(Opened { stream: self.0.far.open(&target)?, target })
    }

    /// Pass on what a program's connection brings and takes, in a thread of its own.
    pub fn pass_on(&self, socket: TcpStream, opened: Opened) {
        self.begin(socket, &opened.target, Some(opened.stream));
    }

    fn listen(&self, port: &Forwarded) -> Result<(), Error> {
        let common = &self.0;
        while !common.stop.load(Ordering::Relaxed) {
            if let Some(error) = common.far.lost() {
                return Err(error);
            }
            match port.listener.accept() {
                Ok((socket, _)) => self.begin(socket, &port.target, None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(&port.listener),
                Err(error) => {
                    (common.failed)(&format!("cannot accept a connection: {error}"));
                    std::thread::sleep(ACCEPT_AGAIN);
                }
            }
        }
        Ok(())
    }

    fn begin(&self, socket: TcpStream, target: &Target, stream: Option<StripedStream>) {
        let local = match Local::socket(socket) {
            Ok(local) => local,
            Err(error) => return (self.0.failed)(&format!("cannot take a connection: {error}")),
        };
        // With so many under way the next one waits.
        while self.0.takes.send_timeout((), LOOK_EVERY).is_err() {
            if self.0.stop.load(Ordering::Relaxed) {
                return;
            }
        }
        let (common, target) = (self.0.clone(), target.clone());
        let serve = move || {
            if let Err(error) = common.serve(local, &target, stream) {
                (common.failed)(&error.to_string());
            }
            let _ = common.gives.try_recv();
        };
        if let Err(error) = std::thread::Builder::new().name("forward".into()).spawn(serve) {
            (self.0.failed)(&format!("no thread can be started: {error}"));
            let _ = self.0.gives.try_recv();
        }
    }
}

impl Common {
    /// Over a stream that leads there already, or one that is opened.
    fn serve(&self, local: Local, target: &Target, stream: Option<StripedStream>) -> Result<(), Error> {
        // Dropped, a connection is reset.
        let stream = stream.map_or_else(|| self.far.open(target), Ok);
        let stream =
            stream.map_err(|error| Error::At { host: target.to_string(), source: Box::new(error) })?;
        match pass_on(stream, local, target, &self.stop) {
            Err(Error::Interrupted) => Ok(()),
            passed => passed,
        }
    }
}

fn pass_on(stream: StripedStream, local: Local, target: &Target, stop: &AtomicBool) -> Result<(), Error> {
    let rules = Rules { stop, drain: &NEVER, out: &unlimited, back: &unlimited };
    let Pumped { out, back, broken } = pump(stream, local, rules);
    match broken {
        _ if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
        Some(why) => Err(Error::BrokenForward { target: target.clone(), out, back, why }),
        None => Ok(()),
    }
}

fn wait_for(listener: &TcpListener) {
    let mut fds = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
    let span = rustix::event::Timespec { tv_sec: 0, tv_nsec: LOOK_EVERY.as_nanos() as i64 };
    // Whatever it says, it is looked again.
    let _ = rustix::event::poll(&mut fds, Some(&span));
}

/// Pass on between this process's standard streams and where `target` leads, until both directions have ended.
pub fn standard_streams(far: &Far, target: &Target, stop: &AtomicBool) -> Result<(), Error> {
    pass_on(far.open(target)?, Local::standard_streams()?, target, stop)
}

/// Connections at a time. Each has four threads.
const CONNECTIONS_MAX: usize = 256;
