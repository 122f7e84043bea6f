//! Which descriptors are handles, and what they stand for.

use crate::errors::{Answer, Fault};
use libc::c_int;
use longhaul_stripe::{StripeOptions, StripedListener, StripedStream};
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// What a handle stands for. The descriptor keeps its number from being given to anything else; that of one that listens is
/// readable while a stream waits.
pub struct Handle {
    fd: Mutex<Option<OwnedFd>>,
    state: Mutex<State>,
    closed: AtomicBool,
}

/// How far a handle is.
pub enum State {
    /// Made, and neither connected nor bound.
    Fresh(Box<Fresh>),
    /// Somebody connects it.
    Connecting,
    /// Waits for streams.
    Listening { listener: Arc<StripedListener>, timeout: Option<Duration> },
    /// Carries data.
    Open(StripedStream),
}

/// What was set before connecting or binding.
#[derive(Clone)]
pub struct Fresh {
    /// How to connect or bind.
    pub options: StripeOptions,
    /// IPv6, if nothing else says.
    pub six: bool,
    /// For reading, accepting and writing.
    pub timeouts: Timeouts,
}

/// How long to wait; for ever if `None`.
#[derive(Clone, Copy, Default)]
pub struct Timeouts {
    /// When reading or accepting.
    pub read: Option<Duration>,
    /// When writing.
    pub write: Option<Duration>,
}

impl Handle {
    /// Add one to the table. Returns its number.
    pub fn add(state: State) -> Answer<c_int> {
        // SAFETY: it takes two numbers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Fault::last_os());
        }
        // SAFETY: it was just made, and is nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let number = fd.as_raw_fd();
        let (fd, state) = (Mutex::new(Some(fd)), Mutex::new(state));
        let handle = Handle { fd, state, closed: AtomicBool::new(false) };
        handle.announce()?;
        let stale = table_mut().insert(number, Arc::new(handle));
        if let Some(stale) = stale {
            // Its descriptor was closed behind our back, by `close` rather than `lh_close`, and the number is another's.
            stale.disown();
        }
        Ok(number)
    }

    /// The handle of a number, if it is one; an error if it is being closed.
    pub fn find(number: c_int) -> Answer<Option<Arc<Handle>>> {
        let found = Handle::look_up(number);
        if found.as_ref().is_some_and(|handle| handle.closed.load(Ordering::Relaxed)) {
            return Err(Handle::was_closed());
        }
        Ok(found)
    }

    /// The same, and from now on it is being closed. Until that is [over](Handle::remove) the number is no other descriptor's, so
    /// that nobody reads from one, or writes to it, who means the handle.
    pub fn begin_closing(number: c_int) -> Answer<Option<Arc<Handle>>> {
        let found = Handle::look_up(number);
        if found.as_ref().is_some_and(|handle| handle.closed.swap(true, Ordering::Relaxed)) {
            return Err(Handle::was_closed());
        }
        Ok(found)
    }

    /// Take it out of the table: the number is no handle any more.
    pub fn remove(number: c_int) {
        table_mut().remove(&number);
    }

    fn look_up(number: c_int) -> Option<Arc<Handle>> {
        TABLE.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    fn was_closed() -> Fault {
        Fault::new(libc::EBADF, "the handle was closed")
    }

    /// Its state, for a moment: nobody waits for the network with it.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream, if it is one.
    pub fn stream(&self) -> Answer<StripedStream> {
        match &*self.state() {
            State::Open(stream) => Ok(stream.try_clone()?),
            _ => Err(Fault::new(libc::ENOTCONN, "the handle is not connected")),
        }
    }

    /// Wait for the next stream.
    pub fn accept(&self) -> Answer<(StripedStream, std::net::SocketAddr)> {
        let (listener, timeout) = match &*self.state() {
            State::Listening { listener, timeout } => (listener.clone(), *timeout),
            _ => return Err(Fault::new(libc::EINVAL, "the handle does not listen")),
        };
        let began = Instant::now();
        // As fcntl() has set it.
        let timeout = if self.is_nonblocking() { Some(Duration::ZERO) } else { timeout };
        loop {
            let left = timeout.map(|timeout| timeout.saturating_sub(began.elapsed()));
            match listener.accept_timeout(left.unwrap_or(LOOK_AROUND).min(LOOK_AROUND)) {
                Ok(accepted) => {
                    self.note_taken(&listener);
                    return Ok(accepted);
                }
                Err(error) if error.kind() != std::io::ErrorKind::TimedOut => return Err(error.into()),
                Err(_) if self.closed.load(Ordering::Relaxed) => {
                    return Err(Handle::was_closed());
                }
                Err(_) if left.is_some_and(|left| left <= LOOK_AROUND) => {
                    // Who came just before it was announced has been taken already.
                    self.note_taken(&listener);
                    return Err(Fault::new(libc::EAGAIN, "nobody has connected in time"));
                }
                Err(_) => {}
            }
        }
    }

    /// One stream fewer waits.
    fn note_taken(&self, listener: &StripedListener) {
        let fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fd) = &*fd else { return };
        let mut ready = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let (mut count, one) = (0u64, 1u64);
        // SAFETY: there is one such structure, and room for the number.
        unsafe {
            if libc::poll(&raw mut ready, 1, 0) == 1 {
                libc::read(fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>());
            }
        }
        if listener.has_waiting() {
            // SAFETY: the number is there.
            unsafe { libc::write(fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
        }
    }

    fn is_nonblocking(&self) -> bool {
        let fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(fd) = &*fd else { return false };
        // SAFETY: it takes two numbers.
        let flags = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) };
        flags & libc::O_NONBLOCK != 0
    }

    /// Have the descriptor of one that listens be readable while a stream waits.
    pub fn announce(&self) -> Answer<()> {
        let fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner);
        if let (State::Listening { listener, .. }, Some(fd)) = (&*self.state(), &*fd) {
            listener.announce(fd.try_clone()?);
        }
        Ok(())
    }

    /// Have the number, which it has, mean a socket in front of the stream, and be no handle any more.
    pub fn become_descriptor(&self, number: c_int) -> Answer<()> {
        let stream = self.stream()?;
        let handle = Handle::begin_closing(number)?.ok_or_else(Handle::was_closed)?;
        // As fcntl() has set it.
        let is_nonblocking = handle.is_nonblocking();
        let made = stream.into_socket().and_then(|socket| {
            socket.set_nonblocking(is_nonblocking)?;
            Ok(socket)
        });
        let socket = match made {
            Ok(socket) => socket,
            Err(error) => {
                handle.closed.store(false, Ordering::Relaxed);
                return Err(error.into());
            }
        };
        // SAFETY: both numbers are those of open descriptors of ours; what the second stood for is given up just below.
        let taken = unsafe { libc::dup3(socket.as_raw_fd(), number, libc::O_CLOEXEC) };
        Handle::remove(number);
        handle.disown();
        if taken < 0 { Err(Fault::last_os()) } else { Ok(()) }
    }

    /// Give the descriptor up without closing it: it is not ours any more.
    fn disown(&self) {
        self.closed.store(true, Ordering::Relaxed);
        let fd = self.fd.lock().unwrap_or_else(PoisonError::into_inner).take();
        let _not_ours = fd.map(IntoRawFd::into_raw_fd);
    }
}

fn table_mut() -> std::sync::RwLockWriteGuard<'static, HashMap<c_int, Arc<Handle>>> {
    TABLE.write().unwrap_or_else(PoisonError::into_inner)
}

static TABLE: LazyLock<RwLock<HashMap<c_int, Arc<Handle>>>> = LazyLock::new(RwLock::default);

/// Who waits for a stream looks so often whether the handle was closed.
const LOOK_AROUND: Duration = Duration::from_millis(100);
