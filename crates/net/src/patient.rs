//! Pipes and connections to somebody who may never answer: waiting at them ends when it is told to, or after a while. A byte
//! now and then does not hold up anybody for ever.

use crate::wake::timespec;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long there is to wait for somebody.
pub struct Watch {
    stops: Vec<Arc<AtomicBool>>,
    patience: Mutex<Patience>,
    /// What is said of the other side when patience ends.
    silence: &'static str,
}

#[derive(Clone, Copy)]
enum Patience {
    /// As long as it takes: somebody may be typing a password.
    Endless,
    /// It has begun and should answer.
    Until(Instant),
    /// Others look after it.
    Settled,
}

impl Watch {
    /// Any of these flags ends all waiting.
    pub fn new(stops: &[Arc<AtomicBool>]) -> Arc<Watch> {
        Arc::new(Watch { stops: stops.to_vec(), patience: Mutex::new(Patience::Endless), silence: SILENCE })
    }

    /// From now on there is an end to patience.
    pub fn until(&self, deadline: Instant) {
        *self.lock() = Patience::Until(deadline);
    }

    /// Silence is judged elsewhere, and so are the flags.
    pub fn settle(&self) {
        *self.lock() = Patience::Settled;
    }

    /// Whether any of the flags is set.
    pub fn is_stopped(&self) -> bool {
        self.stops.iter().any(|stop| stop.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Patience> {
        self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait until `pipe` is ready. True if it need not be: whoever reads or writes may wait himself.
    fn wait(&self, pipe: impl AsFd, flags: PollFlags) -> io::Result<bool> {
        loop {
            let patience = *self.lock();
            let left = match patience {
                Patience::Settled => return Ok(true),
                // Not `Interrupted`, upon which readers try again.
                _ if self.is_stopped() => return Err(ErrorKind::ConnectionAborted.into()),
                Patience::Until(deadline) => deadline.saturating_duration_since(Instant::now()),
                Patience::Endless => LOOK_EVERY,
            };
            if left.is_zero() {
                return Err(io::Error::new(ErrorKind::TimedOut, self.silence));
            }
            let span = if self.stops.is_empty() { left } else { left.min(LOOK_EVERY) };
            match poll(&mut [PollFd::new(&pipe, flags)], Some(&timespec(span))) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A pipe or a socket in blocking mode under a [`Watch`].
pub struct Watched<P> {
    /// The pipe.
    pub pipe: P,
    /// Who says how long to wait at it.
    pub watch: Arc<Watch>,
}

impl<P> Watched<P> {
    /// At which patience ends at that moment; `silence` is what is said of the other side then.
    pub fn until(pipe: P, deadline: Instant, silence: &'static str) -> Watched<P> {
        let patience = Mutex::new(Patience::Until(deadline));
        Watched { pipe, watch: Arc::new(Watch { stops: vec![], patience, silence }) }
    }
}

impl<P: Read + AsFd> Read for Watched<P> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.watch.wait(&self.pipe, PollFlags::IN)?;
        self.pipe.read(buf)
    }
}

impl<P: Write + AsFd> Write for Watched<P> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let may_wait = self.watch.wait(&self.pipe, PollFlags::OUT)?;
        // A pipe that is ready takes so much without waiting (pipe(7)).
        let len = if may_wait { buf.len() } else { buf.len().min(libc::PIPE_BUF) };
        self.pipe.write(&buf[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pipe.flush()
    }
}

/// What is said of the other side, where there is no more to say.
pub const SILENCE: &str = "the other side stays silent";
/// The flags are looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::read_array;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn waiting_at_a_silent_pipe_ends_when_told_to_or_after_a_while() {
        let stop = Arc::new(AtomicBool::new(false));
        let watch = Watch::new(std::slice::from_ref(&stop));
        let (pipe, mut far_end) = io::pipe().unwrap();
        let mut watched = Watched { pipe, watch: watch.clone() };
        let mut buf = [0; 8];
        far_end.write_all(b"ready").unwrap();
        assert_eq!(watched.read(&mut buf).unwrap(), 5);
        watch.until(Instant::now() + Duration::from_millis(1));
        assert_eq!(watched.read(&mut buf).unwrap_err().kind(), ErrorKind::TimedOut);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(watched.read(&mut buf).unwrap_err().kind(), ErrorKind::ConnectionAborted);
        // The session's own business from here on.
        watch.settle();
        far_end.write_all(b"more").unwrap();
        assert_eq!(watched.read(&mut buf).unwrap(), 4);
    }

    #[test]
    fn writing_to_somebody_who_does_not_read_ends_too() {
        let watch = Watch::new(&[]);
        let (_unread, pipe) = io::pipe().unwrap();
        watch.until(Instant::now() + Duration::from_millis(100));
        let error = Watched { pipe, watch }.write_all(&vec![0; 1 << 20]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn silence_ends_at_the_deadline_unless_that_is_lifted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut stream = Watched::until(&near, Instant::now() + Duration::from_millis(50), SILENCE);
        let error = read_array::<1>(&mut stream).unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::TimedOut, SILENCE.into()));
        assert_eq!(stream.write(b"x").unwrap_err().kind(), ErrorKind::TimedOut, "it is over for writing too");
        stream.watch.settle();
        far.write_all(b"x").unwrap();
        assert_eq!(read_array(&mut stream).unwrap(), *b"x");
    }
}
