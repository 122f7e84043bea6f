//! Datagrams over the control stream: bytes that one end of a socket pair takes come out at the other host's.

use crossbeam_channel::Sender;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// One side of it. Full sockets and channels hold up whoever fills them, so that its memory is bounded.
#[derive(Clone)]
pub struct Pipe {
    /// Towards the session, once there is one.
    inner: Arc<Mutex<Option<UnixStream>>>,
    out: Sender<Vec<u8>>,
    passing_on: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Pipe {
    /// What the session writes goes to `out`.
    pub fn new(out: Sender<Vec<u8>>) -> Pipe {
        Pipe { inner: Arc::default(), out, passing_on: Arc::default() }
    }

    /// The session's end.
    pub fn open(&self) -> io::Result<UnixStream> {
        let (theirs, ours) = UnixStream::pair()?;
        let (mut reader, out) = (ours.try_clone()?, self.out.clone());
        let passing_on = std::thread::Builder::new().name("pipe-out".into()).spawn(move || {
            let mut buf = vec![0; CHUNK_LEN];
            // It ends when the session closes its end, or nobody takes what it says.
            while let Ok(len @ 1..) = reader.read(&mut buf) {
                if out.send(buf[..len].to_vec()).is_err() {
                    return;
                }
            }
        })?;
        *self.inner.lock().unwrap_or_else(PoisonError::into_inner) = Some(ours);
        *self.passing_on.lock().unwrap_or_else(PoisonError::into_inner) = Some(passing_on);
        Ok(theirs)
    }

    /// Wait until all is in `out` that a session wrote before it closed its end.
    pub fn await_end(&self) {
        let passing_on = self.passing_on.lock().unwrap_or_else(PoisonError::into_inner).take();
        // One that panicked has said so already.
        let _ = passing_on.map(JoinHandle::join);
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
