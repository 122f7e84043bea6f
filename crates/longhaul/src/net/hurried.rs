//! A socket with a deadline.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Reads and writes until a deadline: a byte now and then does not hold up anybody for ever.
pub struct Hurried<'a> {
    /// The socket, in blocking mode.
    pub socket: &'a TcpStream,
    /// When patience ends.
    pub deadline: Instant,
    /// What is said then.
    pub silence: &'static str,
}

impl Hurried<'_> {
    /// The next `N` bytes.
    pub fn read_array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.silent()) } else { Ok(left) }
    }

    fn silent(&self) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, self.silence)
    }
}

impl Read for Hurried<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(buf).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => self.silent(),
            _ => error,
        })
    }
}

impl Write for Hurried<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
