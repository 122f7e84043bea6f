//! A TCP connection with a deadline.

use std::borrow::Borrow;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// When patience ends; shared by whoever may lift it.
#[derive(Clone, Debug)]
pub struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    /// At that moment.
    pub fn at(moment: Instant) -> Deadline {
        Deadline(Arc::new(Mutex::new(Some(moment))))
    }

    /// From now on there is none.
    pub fn lift(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What is left; `None` without a deadline.
    fn left(&self) -> Option<Duration> {
        let moment = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        moment.map(|moment| moment.saturating_duration_since(Instant::now()))
    }
}

/// Reads and writes a socket in blocking mode until a deadline: a byte now and then does not hold up anybody for ever.
pub struct DeadlineStream<S> {
    socket: S,
    deadline: Deadline,
    /// What is said of the other side when patience ends.
    silence: &'static str,
}

impl<S: Borrow<TcpStream>> DeadlineStream<S> {
    /// A socket, or a reference to one. `silence` is what is said of the other side when patience ends.
    pub fn new(socket: S, deadline: Deadline, silence: &'static str) -> DeadlineStream<S> {
        DeadlineStream { socket, deadline, silence }
    }

    /// The next `N` bytes.
    pub fn read_array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    /// How long the socket may take; `None`: as long as it likes.
    fn timeout(&self) -> io::Result<Option<Duration>> {
        match self.deadline.left() {
            Some(left) if left.is_zero() => Err(self.silent()),
            left => Ok(left),
        }
    }

    fn silent(&self) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, self.silence)
    }
}

impl<S: Borrow<TcpStream>> Read for DeadlineStream<S> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut socket = self.socket.borrow();
        if let Some(timeout) = self.timeout()? {
            socket.set_read_timeout(Some(timeout))?;
        }
        socket.read(buf).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => self.silent(),
            _ => error,
        })
    }
}

impl<S: Borrow<TcpStream>> Write for DeadlineStream<S> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let mut socket = self.socket.borrow();
        if let Some(timeout) = self.timeout()? {
            socket.set_write_timeout(Some(timeout))?;
        }
        socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What is said of the other side, where there is no more to say.
pub const SILENCE: &str = "the other side stays silent";

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn silence_ends_at_the_deadline_unless_that_is_lifted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let deadline = Deadline::at(Instant::now() + Duration::from_millis(50));
        let mut stream = DeadlineStream::new(&near, deadline.clone(), SILENCE);
        let error = stream.read_array::<1>().unwrap_err();
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::TimedOut, SILENCE.into()));
        assert_eq!(stream.write(b"x").unwrap_err().kind(), ErrorKind::TimedOut, "it is over for writing too");
        deadline.lift();
        near.set_read_timeout(None).unwrap();
        far.write_all(b"x").unwrap();
        assert_eq!(stream.read_array().unwrap(), *b"x");
    }
}
