//! The way between the two ends of a copy that a third host arranges: bytes inside that host's control streams.

use crate::net::budget::Budget;
use crate::net::control::{Control, Stream};
use rustix::io::ioctl_fionread;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// One end of it, or at the host in the middle what leads to one end.
pub struct Tunnel {
    end: UnixStream,
    heard: Arc<AtomicBool>,
}

impl Tunnel {
    /// From now on. Nothing may come over the control stream before.
    pub fn open(control: &Control) -> io::Result<Tunnel> {
        Ok(Tunnel { end: control.open_pipe()?, heard: Arc::default() })
    }

    /// As a control stream, whose long messages take their memory from `budget`.
    pub fn stream(&self, budget: Arc<Budget>) -> io::Result<Stream> {
        let (writer, closing) = (self.end.try_clone()?, self.end.try_clone()?);
        Ok(Stream {
            reader: Box::new(self.reader()?),
            writer: Box::new(writer),
            closer: Box::new(move || drop(closing.shutdown(Shutdown::Both))),
            settled: Box::new(|| {}),
            resumable: None,
            budget,
        })
    }

    fn reader(&self) -> io::Result<Heard> {
        Ok(Heard { end: self.end.try_clone()?, heard: self.heard.clone() })
    }

    /// Whether anything has come since this was last asked, or waits to be taken: whoever says so much need not say that it is
    /// there.
    pub fn was_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed) || ioctl_fionread(&self.end).is_ok_and(|unread| unread > 0)
    }

    /// Nothing goes either way any more.
    pub fn close(&self) {
        // It may be closed.
        let _ = self.end.shutdown(Shutdown::Both);
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        self.close();
    }
}

/// In the middle: what comes from each of two goes to the other, until one of them is closed. Whoever takes nothing holds up
/// the other, so that little is kept here.
pub fn join(a: &Tunnel, b: &Tunnel) -> io::Result<()> {
    for (from, to) in [(a, b), (b, a)] {
        let (mut from, mut to) = (from.reader()?, to.end.try_clone()?);
        std::thread::Builder::new().name("relay".into()).spawn(move || {
            let mut buf = vec![0; CHUNK_LEN];
            while let Ok(len @ 1..) = from.read(&mut buf) {
                if to.write_all(&buf[..len]).is_err() {
                    return;
                }
            }
        })?;
    }
    Ok(())
}

/// Remembers that something came.
struct Heard {
    end: UnixStream,
    heard: Arc<AtomicBool>,
}

impl Read for Heard {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let len = self.end.read(buf)?;
        self.heard.store(true, Ordering::Relaxed);
        Ok(len)
    }
}

/// As much as a control stream takes at a time.
const CHUNK_LEN: usize = 64 << 10;
