//! TCP through a relay: bytes that come later, and nothing else.

use crate::error::LabError;
use crate::worker::Switches;
use rustix::event::{PollFd, PollFlags, poll};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The connections of a relay. Dropping it breaks them.
pub(super) struct Streams {
    sockets: Arc<Mutex<Vec<TcpStream>>>,
    acceptor: Option<JoinHandle<()>>,
}

/// Bytes, and when they are to be passed on.
type Piece = (Instant, Vec<u8>);

impl Streams {
    /// Pass on what connects, until the switches say stop.
    pub(super) fn start(
        listener: TcpListener,
        server: SocketAddr,
        rtt: Duration,
        switches: Arc<Switches>,
    ) -> Result<Streams, LabError> {
        let sockets = Arc::<Mutex<Vec<TcpStream>>>::default();
        let kept = sockets.clone();
        let accept = move || {
            while let Some(client) = accepted(&listener, &switches) {
                // A server that does not listen, or a host without threads: the client sees its connection end.
                let _ = pass_on(client, server, rtt, &kept);
            }
        };
        let acceptor = thread::Builder::new().name("relay-accept".into()).spawn(accept);
        let acceptor = acceptor.map_err(LabError::at("starting a thread"))?;
        Ok(Streams { sockets, acceptor: Some(acceptor) })
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if self.acceptor.take().is_some_and(|acceptor| acceptor.join().is_err()) {
            tracing::error!("a thread of the relay had panicked");
        }
        for socket in self.sockets.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // Fails where it has ended already. The threads that read and write it end by it.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// The next connection; none any more once stopped.
fn accepted(listener: &TcpListener, switches: &Switches) -> Option<TcpStream> {
    loop {
        let stopped = switches.stopped();
        let mut ready = [PollFd::new(&stopped, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) if !ready[0].revents().is_empty() => return None,
            Ok(_) => {}
            Err(_) => continue,
        }
        if let Ok((client, _)) = listener.accept() {
            return Some(client);
        }
    }
}

fn pass_on(
    client: TcpStream,
    server: SocketAddr,
    rtt: Duration,
    sockets: &Mutex<Vec<TcpStream>>,
) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    for socket in [&client, &server] {
        socket.set_nodelay(true)?;
        sockets.lock().unwrap_or_else(PoisonError::into_inner).push(socket.try_clone()?);
    }
    // Over a path the client would still be connecting.
    let begin = Instant::now() + rtt;
    let ways = [(client.try_clone()?, server.try_clone()?), (server, client)];
    for (from, to) in ways {
        let (later, due) = sync_channel(PIECES);
        thread::Builder::new().spawn(move || take_in(from, &later, begin, rtt / 2))?;
        thread::Builder::new().spawn(move || hand_over(to, &due))?;
    }
    Ok(())
}

fn take_in(mut from: TcpStream, later: &SyncSender<Piece>, begin: Instant, delay: Duration) {
    let mut buffer = vec![0; PIECE_BYTES];
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let due = Instant::now().max(begin) + delay;
        if later.send((due, buffer[..len].to_vec())).is_err() {
            break;
        }
    }
    // Where nobody takes it any more, nobody is to go on sending it.
    let _ = from.shutdown(Shutdown::Read);
}

fn hand_over(mut to: TcpStream, due: &Receiver<Piece>) {
    for (time, bytes) in due {
        thread::sleep(time.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Its end, too.
    let _ = to.shutdown(Shutdown::Write);
}

const PIECE_BYTES: usize = 16 << 10;
/// On their way at most: a megabyte, more than a control connection has.
const PIECES: usize = 64;
