//! The stream as a program sees it.

use super::handle::Handle;
use super::handshake;
use super::options::{Partition, Streams, StripeOptions};
use super::receiver::Engine;
use super::state::{Core, Failure, after, locked};
use super::stats::StripeStats;
use super::turns::Turns;
use super::{receiver, sender};
use longhaul_net::join::Nonces;
use longhaul_net::seal::Side;
use std::io::{self, ErrorKind};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An ordered, reliable stream of bytes in both directions over several TCP connections; to be used as a
/// [`TcpStream`] is.
///
/// Clones and halves are handles to the same stream. When the last one goes, what was written is still delivered:
/// dropping it waits as long as data gets through. [`StripedStream::close`] does the same and tells how it went.
pub struct StripedStream {
    pub(super) handle: Arc<Handle>,
}

impl StripeOptions {
    /// Open a stream to a [`StripedListener`](super::StripedListener).
    pub fn connect(&self, address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        StripedStream::open(self, address)
    }
}

impl StripedStream {
    /// Open a stream to a [`StripedListener`](super::StripedListener) with the usual options.
    pub fn connect(address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        StripeOptions::new().connect(address)
    }

    pub(super) fn open(options: &StripeOptions, address: impl ToSocketAddrs) -> io::Result<StripedStream> {
        let deadline = after(options.connect_timeout);
        let mut last = io::Error::new(ErrorKind::InvalidInput, "the name stands for no address");
        let addresses: Vec<SocketAddr> = address.to_socket_addrs()?.collect();
        let mut ways = vec![];
        for address in addresses {
            match options.ends_to(address.ip()) {
                Ok(ends) => ways.extend((0..ends.len()).map(|turn| (address, turn))),
                Err(error) => last = error,
            }
        }
        for (tried, (address, turn)) in ways.iter().enumerate() {
            // One that does not answer leaves the others their share of the time.
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / (ways.len() - tried) as u32;
            match Self::open_at(options, *address, *turn, after(share)) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Open one whose first lane begins at the local end whose turn it is.
    fn open_at(
        options: &StripeOptions,
        address: SocketAddr,
        turn: usize,
        deadline: Instant,
    ) -> io::Result<StripedStream> {
        let turns = Turns::new(options.ends_to(address.ip())?, turn);
        let (socket, end) = turns.dial(&options.tcp, address, deadline)?;
        let agreed = handshake::open(&socket, options, deadline)?;
        let lanes_max = agreed.lanes_max;
        let mut core = Core::new(options, agreed, &socket, Side::Client)?;
        core.turns = turns;
        let stream = StripedStream::start(core, socket, end)?;
        if let (Streams::Fixed(_), Partition::Equal | Partition::Blocks(_)) =
            (options.streams, options.partition)
        {
            let left = deadline.saturating_duration_since(Instant::now());
            stream.wait_for_lanes(lanes_max as usize, left)?;
        }
        Ok(stream)
    }

    /// Begin with a first lane.
    pub(super) fn start(core: Core, socket: TcpStream, end: usize) -> io::Result<StripedStream> {
        let core = Arc::new(Engine::new(core));
        let (sealer, opener) = core.secrets.lane(core.side, &Nonces::default());
        if !core.add_lane(socket, end, sealer, opener)? {
            return Err(io::Error::new(ErrorKind::InvalidData, "the other side allows no lane"));
        }
        let (sending, receiving) = (core.clone(), core.clone());
        std::thread::Builder::new().name("stripe-send".into()).spawn(move || sender::run(&sending))?;
        let started = std::thread::Builder::new()
            .name("stripe-receive".into())
            .spawn(move || receiver::run(&receiving));
        if let Err(error) = started {
            core.fail(Failure::new(error.kind(), "cannot start a thread"));
            return Err(error);
        }
        Ok(StripedStream { handle: Arc::new(Handle::new(core)) })
    }

    /// What the threads share.
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.handle.core.core
    }

    /// Give up at once, whatever was not delivered. Reading and writing fail from now on, here and, unless all had been said
    /// before, on the other side, which is told why.
    pub fn abort(&self, why: &str) {
        self.handle.core.fail(Failure::new(ErrorKind::ConnectionAborted, why));
    }

    /// Another handle to the same stream.
    pub fn try_clone(&self) -> io::Result<StripedStream> {
        Ok(StripedStream { handle: self.handle.clone() })
    }

    /// End reading, writing, or both. After writing was shut down the other side reads to the end of what was written;
    /// after reading was, what it still writes fails with [`ErrorKind::BrokenPipe`].
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.handle.shutdown(how);
        Ok(())
    }

    /// Shut down writing, wait until the other side has all that was written, and end. Fails if it does not get it, or
    /// if nothing gets through for as long as [`StripeOptions::patience`] says.
    pub fn close(self) -> io::Result<()> {
        self.handle.shutdown(Shutdown::Write);
        self.handle.linger()
    }

    /// Wait this long at most until the other side has all that was written; writing is to be shut down. Fails with
    /// [`ErrorKind::TimedOut`] if it has not, whether or not some of it gets through, and may be asked again.
    pub fn wait_delivered(&self, wait: Duration) -> io::Result<()> {
        self.handle.wait_delivered(wait)
    }

    /// Where the first lane leads.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.core.peer)
    }

    /// Where the first lane begins.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.handle.core.local)
    }

    /// How long reading waits, for ever if `None`. Then it fails with [`ErrorKind::WouldBlock`], as with a
    /// [`TcpStream`].
    pub fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.handle.read_timeout, timeout)
    }

    /// How long writing waits for room, for ever if `None`. Then it fails with [`ErrorKind::WouldBlock`].
    pub fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        set_timeout(&self.handle.write_timeout, timeout)
    }

    /// See [`StripedStream::set_read_timeout`].
    pub fn read_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*locked(&self.handle.read_timeout))
    }

    /// See [`StripedStream::set_write_timeout`].
    pub fn write_timeout(&self) -> io::Result<Option<Duration>> {
        Ok(*locked(&self.handle.write_timeout))
    }

    /// Whether reading and writing fail with [`ErrorKind::WouldBlock`] at once rather than wait.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.handle.nonblocking.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Whether lanes send small pieces at once. On by default. Lanes that join later do as [`StripeOptions`] says.
    pub fn set_nodelay(&self, on: bool) -> io::Result<()> {
        let state = self.handle.core.lock();
        state.lanes.values().try_for_each(|lane| lane.socket.set_nodelay(on))
    }

    /// How the stream and its lanes are doing.
    pub fn stats(&self) -> StripeStats {
        StripeStats::of(&self.handle.core)
    }

    /// Wait until there are so many lanes, and tell how many there are. An error if the stream fails before.
    pub fn wait_for_lanes(&self, count: usize, timeout: Duration) -> io::Result<usize> {
        let core = &self.handle.core;
        let deadline = after(timeout);
        let mut state = core.lock();
        loop {
            let there = state.lanes.len();
            let left = deadline.saturating_duration_since(Instant::now());
            if let Some(failure) = &state.failure {
                return Err(failure.to_error());
            }
            if there >= count || left.is_zero() {
                return Ok(there);
            }
            state = core.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn set_timeout(place: &Mutex<Option<Duration>>, timeout: Option<Duration>) -> io::Result<()> {
    if timeout.is_some_and(|timeout| timeout.is_zero()) {
        return Err(io::Error::new(ErrorKind::InvalidInput, "a timeout cannot be zero; use set_nonblocking"));
    }
    *locked(place) = timeout;
    Ok(())
}

impl std::fmt::Debug for StripedStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let core = &self.handle.core;
        f.debug_struct("StripedStream")
            .field("local", &core.local)
            .field("peer", &core.peer)
            .field("lanes", &core.lock().lanes.len())
            .finish()
    }
}
