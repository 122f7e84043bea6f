//! Waiting: for a socket, for another thread, for a moment; with nanosecond deadlines and without burning a core.

use longhaul_proto::units::Time;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Lets other threads wake a thread that waits in [`wait`].
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// A new one.
    pub fn new() -> io::Result<Waker> {
        Ok(Waker { event: Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?) })
    }

    /// Wake the waiting thread, now or when it next waits.
    pub fn wake(&self) {
        // It fails only when the counter is full, and then the thread will wake anyway.
        let _ = rustix::io::write(&*self.event, &1u64.to_ne_bytes());
    }

    /// [`Waker::wake`] for others to call.
    pub fn to_call(&self) -> Arc<dyn Fn() + Send + Sync> {
        let waker = self.clone();
        Arc::new(move || waker.wake())
    }

    /// Wait until one of `fds` is ready, this is woken, or the time has passed. Tells which of `fds` are ready.
    pub fn wait_many<'a>(&'a self, mut fds: Vec<PollFd<'a>>, span: Duration) -> io::Result<Vec<bool>> {
        let timeout = timespec(span);
        fds.push(PollFd::from_borrowed_fd(self.event.as_fd(), PollFlags::IN));
        poll_fds(&mut fds, &timeout)?;
        let woken = fds.pop().is_some_and(|event| !event.revents().is_empty());
        if woken {
            self.clear();
        }
        Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
    }

    fn clear(&self) {
        let _ = rustix::io::read(&*self.event, &mut [0u8; 8]);
    }
}

/// What is awaited of a socket.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interest<'a> {
    /// The socket, if there is one yet.
    pub socket: Option<BorrowedFd<'a>>,
    /// Also until it can be written to.
    pub writable: bool,
}

/// Wait until the socket is ready, `waker` is woken or `deadline` has come, counted from `now`.
pub fn wait(interest: Interest<'_>, waker: &Waker, now: Time, deadline: Time) -> io::Result<()> {
    let span = deadline.since(now);
    if span.is_zero() {
        return Ok(());
    }
    let timeout = timespec(span);
    let event = waker.event.as_fd();
    let flags = if interest.writable { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
    let socket = interest.socket.unwrap_or(event);
    let mut fds = [PollFd::from_borrowed_fd(event, PollFlags::IN), PollFd::from_borrowed_fd(socket, flags)];
    poll_fds(&mut fds[..1 + usize::from(interest.socket.is_some())], &timeout)?;
    if !fds[0].revents().is_empty() {
        waker.clear();
    }
    Ok(())
}

pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs().min(3600) as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}

fn poll_fds(fds: &mut [PollFd<'_>], timeout: &Timespec) -> io::Result<()> {
    match poll(fds, Some(timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Let this thread's timed waits end on time: the kernel otherwise bundles wake-ups within 50 µs.
pub fn precise_timers() {
    // SAFETY: PR_SET_TIMERSLACK takes one integer and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong, 0, 0, 0);
    }
}
