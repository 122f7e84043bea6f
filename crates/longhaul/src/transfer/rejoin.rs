//! A client's control stream whose connection broke, or is silent, goes on over a new connection.

use super::side_paths::Ways;
use super::start::Connecting;
use crate::net::control::KEEP_ALIVE_EVERY;
use crate::net::control::rejoin::ResumableStream;
use crate::net::join::JoinKey;
use crate::net::tcp::{CONTROL_MSS, TcpOptions};
use crate::net::tcp_set::{StreamError, begin_control, rejoin_control, stream_options};
use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How the control stream of a copy is joined again.
pub struct Rejoin {
    /// Ways to where the other side listens, tried in order. More may be found while the copy runs.
    pub ways: Ways,
    /// Names the copy.
    pub connection_id: u64,
    /// What the connection proves to know.
    pub key: JoinKey,
}

/// Keep `control` connected until it is over, for as long as `patience` without a connection. `first`: its first connection,
/// if that is still being made.
pub fn keep(
    control: &Arc<ResumableStream>,
    rejoin: Rejoin,
    first: Option<Connecting>,
    patience: Duration,
) -> io::Result<()> {
    control.doubt_silence(KEEP_ALIVE_EVERY)?;
    let kept = control.clone();
    std::thread::Builder::new().name("control-rejoin".into()).spawn(move || {
        // If the first one fails, as at a host whose queue of connections is full, a later one may not.
        if let Some(socket) = first.and_then(Connecting::into_socket)
            && let Err(error) = begin_control(socket, &rejoin.key, (rejoin.connection_id, &kept))
        {
            tracing::debug!("the control stream's first connection broke: {error}");
        }
        while kept.await_need() {
            go_on(&kept, &rejoin);
        }
    })?;
    control.allow(patience);
    Ok(())
}

/// Connect again: try until there is a connection, or the old one brings something again, or the control stream is over.
fn go_on(control: &ResumableStream, rejoin: &Rejoin) {
    let (mut refused, mut pause) = (0, FIRST_PAUSE);
    while control.needs_another() {
        match rejoin.dial(control) {
            Ok(()) => return,
            // The session has ended, or the server was started anew.
            Err(StreamError::Refused) if control.is_broken() => return control.end(),
            // Or what it said last is still on its way.
            Err(error) if is_refusal(&error) => {
                refused += 1;
                if refused >= REFUSALS {
                    return control.end();
                }
            }
            // Something else answers there, perhaps only for a while.
            Err(error) => tracing::debug!("the control stream cannot go on yet: {error}"),
        }
        sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Nobody listens there, or a relay does that cannot reach the server.
fn is_refusal(error: &StreamError) -> bool {
    let StreamError::Io(error) = error else { return matches!(error, StreamError::Refused) };
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::UnexpectedEof
            | ErrorKind::BrokenPipe
    )
}

impl Rejoin {
    fn dial(&self, control: &ResumableStream) -> Result<(), StreamError> {
        // That all refuse is the server's word, not that one does: somebody else may be there.
        let mut last = StreamError::Io(ErrorKind::NotFound.into());
        let ways = self.ways.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let options = TcpOptions { mss: Some(CONTROL_MSS), ..stream_options(None) };
        for (at, (local, address)) in ways.into_iter().enumerate() {
            let deadline = Instant::now() + PATIENCE;
            let socket = options.dial(local.as_ref(), address, deadline).map_err(StreamError::Io);
            let joined = socket.and_then(|socket| {
                rejoin_control(socket, &self.key, (self.connection_id, control), deadline)
            });
            match joined {
                Ok(()) => return Ok(()),
                Err(error) if at == 0 || is_refusal(&last) => last = error,
                Err(_) => {}
            }
        }
        Err(last)
    }
}

/// For one attempt.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between attempts, twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// A path that is back is found soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Refused so often within two seconds: the server has ended, and nobody else knows the session.
const REFUSALS: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::net::tcp_set::control_key;
    use crate::net::wake::Waker;
    use std::net::TcpListener;
    use std::sync::Mutex;

    /// The other host's queue was full while a copy began over UDP.
    #[test]
    fn a_first_connection_in_vain_is_followed_by_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let control = ResumableStream::unconnected(Duration::from_secs(60), Waker::new().unwrap()).unwrap();
        let late = io::Error::from(ErrorKind::TimedOut);
        let late = Error::Unreachable { host: "far".into(), port: address.port(), source: late };
        let key = control_key(&[1; 32], 7);
        let rejoin = Rejoin { ways: Arc::new(Mutex::new(vec![(None, address)])), connection_id: 7, key };
        keep(&control, rejoin, Some(Connecting::in_vain(address, late)), Duration::from_secs(60)).unwrap();
        while listener.accept().is_err() {
            assert!(!control.is_over(), "it was given up");
            sleep(Duration::from_millis(1));
        }
        control.end();
    }
}
