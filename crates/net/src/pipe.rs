//! Datagrams over the control stream: bytes that one end of a socket pair takes come out at the other host's.

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One side of it. Full sockets and channels hold up whoever fills them, so that its memory is bounded.
#[derive(Clone)]
pub struct Pipe {
    /// Towards the session, once there is one.
    inner: Arc<Mutex<Option<UnixStream>>>,
    out: Sender<Vec<u8>>,
    /// Closed when all is in `out` that the session wrote before it closed its end.
    passed_on: Arc<Mutex<Option<Receiver<()>>>>,
}

impl Pipe {
    /// What the session writes goes to `out`.
    pub fn new(out: Sender<Vec<u8>>) -> Pipe {
        Pipe { inner: Arc::default(), out, passed_on: Arc::default() }
    }

    /// The session's end.
    pub fn open(&self) -> io::Result<UnixStream> {
        let (theirs, ours) = UnixStream::pair()?;
        let (mut reader, out) = (ours.try_clone()?, self.out.clone());
        let (passing, passed_on) = bounded(0);
        std::thread::Builder::new().name("pipe-out".into()).spawn(move || {
            let _passing: Sender<()> = passing;
            let mut buf = vec![0; CHUNK_LEN];
            // It ends when the session closes its end, or nobody takes what it says.
            while let Ok(len @ 1..) = reader.read(&mut buf) {
                if out.send(buf[..len].to_vec()).is_err() {
                    return;
                }
            }
        })?;
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(ours);
        *self.passed_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(passed_on);
        Ok(theirs)
    }

    /// Wait until all is in `out` that a session wrote before it closed its end. `next_look` says until when, time and again.
    pub fn await_end(&self, mut next_look: impl FnMut() -> Option<Instant>) {
        let passed_on = self.passed_on.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(passed_on) = passed_on else { return };
        while let Some(look) = next_look()
            && passed_on.recv_deadline(look) == Err(RecvTimeoutError::Timeout)
        {}
    }

    /// Pass on what came from the other host; waits while the session does not take it. Returns the session's end if this
    /// is the first that it hears.
    pub fn pass_on(&self, bytes: &[u8]) -> io::Result<Option<UnixStream>> {
        let stream = |pipe: &Pipe| {
            let inner = pipe.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.as_ref().map(UnixStream::try_clone).transpose()
        };
        let opened = if stream(self)?.is_none() { Some(self.open()?) } else { None };
        if let Some(mut stream) = stream(self)? {
            // A session that has closed its end wants no more.
            let _ = stream.write_all(bytes);
        }
        Ok(opened)
    }
}

/// Fits one sealed piece of the control stream.
const CHUNK_LEN: usize = 65_000;
