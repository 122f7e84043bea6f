//! What connections want, and the TCP streams of an agent's only transfer.

use crate::error::Error;
use crate::net::patient::{SILENCE, Watched};
use crate::net::tcp_set::{self, StreamAcceptor};
use std::io::{self, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Admit TCP streams of this one transfer for as long as the process lives.
pub fn admit_streams(listener: TcpListener, connection_id: u64, acceptor: StreamAcceptor) -> io::Result<()> {
    let pending = Arc::new(AtomicUsize::new(0));
    let body = move || {
        for socket in listener.incoming() {
            let Ok(socket) = socket else {
                std::thread::sleep(ACCEPT_AGAIN);
                continue;
            };
            if pending.fetch_add(1, Ordering::Relaxed) >= JOINS_MAX {
                pending.fetch_sub(1, Ordering::Relaxed);
                continue;
            }
            let (acceptor, done) = (acceptor.clone(), pending.clone());
            let admit = move || {
                let outcome = admit_one(socket, |id| (id == connection_id).then_some(acceptor));
                done.fetch_sub(1, Ordering::Relaxed);
                if let Err(error) = outcome {
                    tracing::debug!("no TCP stream: {error:?}");
                }
            };
            // The client tries again.
            if std::thread::Builder::new().name("stream-admit".into()).spawn(admit).is_err() {
                pending.fetch_sub(1, Ordering::Relaxed);
            }
        }
    };
    std::thread::Builder::new().name("streams".into()).spawn(body).map(drop)
}

fn admit_one(
    socket: TcpStream,
    acceptor_of: impl FnOnce(u64) -> Option<StreamAcceptor>,
) -> Result<(), Error> {
    if read_magic(&socket, Instant::now() + HANDSHAKE_PATIENCE)? == Some(tcp_set::MAGIC) {
        tcp_set::admit(socket, acceptor_of).map_err(Error::Join)?;
    }
    Ok(())
}

/// The first bytes tell what somebody wants, who may leave before saying it.
pub fn read_magic(socket: &TcpStream, deadline: Instant) -> Result<Option<[u8; tcp_set::MAGIC_LEN]>, Error> {
    let mut magic = [0; tcp_set::MAGIC_LEN];
    match Watched::until(socket, deadline, SILENCE).read_exact(&mut magic) {
        Ok(()) => Ok(Some(magic)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(Error::Stranger(error)),
    }
}

/// What keeps a connection from being accepted, mostly that no more descriptors are to be had, may pass.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(20);
/// A client that says nothing for this long is no client.
pub const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// TCP streams of an agent that are about to join.
const JOINS_MAX: usize = 64;
