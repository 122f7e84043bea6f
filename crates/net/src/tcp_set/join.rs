//! How a TCP stream joins a copy. Formats are in [`longhaul_proto::streams::join`].

use super::stream::StreamSocket;
use crate::control::rejoin::ResumableStream;
use crate::join::{JoinError, JoinKey, Nonces, join, read_array};
use crate::patient::{SILENCE, Watched};
use crate::seal::Side;
use crate::tcp::TcpOptions;
use crate::wake::Waker;
use crossbeam_channel::Sender;
use longhaul_proto::streams::join::{CONTROL_MAGIC, First, Hello, MAGIC, UNKNOWN};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What TCP streams of a copy prove to know: the secret that the handshake carried.
pub fn stream_key(secret: &[u8; 32], connection_id: u64) -> JoinKey {
    let key = blake3::derive_key("longhaul lane key v1", secret);
    JoinKey::new("longhaul lane proof v1", key, &connection_id.to_be_bytes())
}

/// The same for a connection that goes on with a copy's control stream.
pub fn control_key(secret: &[u8; 32], connection_id: u64) -> JoinKey {
    let key = blake3::derive_key("longhaul control key v1", secret);
    JoinKey::new("longhaul control proof v1", key, &connection_id.to_be_bytes())
}

/// Why a TCP stream does not join a copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The server has TCP streams enough, or never heard of the copy.
    #[error("the other side has TCP streams enough, or does not know this transfer")]
    Refused,
    /// The server says what no server of ours would.
    #[error("the other side does not answer as longhaul does")]
    NotLonghaul,
    /// The server does not know the copy's secret.
    #[error("whoever answers there does not know the transfer's secret")]
    Impostor,
    /// The client asks for a copy that is not here.
    #[error("a TCP stream of a transfer that is not here")]
    Unknown,
    /// The client does not know the copy's secret.
    #[error("a TCP stream that does not know the transfer's secret")]
    Unproven,
    /// The connection broke, or was silent for too long.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<JoinError> for StreamError {
    fn from(error: JoinError) -> StreamError {
        match error {
            JoinError::Refused(UNKNOWN) => StreamError::Refused,
            JoinError::Refused(_) => StreamError::NotLonghaul,
            JoinError::Unproven => StreamError::Impostor,
            JoinError::Io(error) => StreamError::Io(error),
        }
    }
}

/// Join a copy as the client, within a deadline.
pub fn join_copy(
    socket: &TcpStream,
    key: &JoinKey,
    connection_id: u64,
    deadline: Instant,
) -> Result<(), StreamError> {
    let mut stream = Watched::until(socket, deadline, SILENCE);
    join(&mut stream, key, |nonce| Hello { connection_id, nonce: *nonce }.encode(MAGIC))?;
    Ok(())
}

/// Go on with a copy's control stream as the client, over a connection of its own, within a deadline.
pub fn rejoin_control(
    socket: TcpStream,
    key: &JoinKey,
    (connection_id, control): (u64, &ResumableStream),
    deadline: Instant,
) -> Result<(), StreamError> {
    let mut stream = Watched::until(&socket, deadline, SILENCE);
    join(&mut stream, key, |nonce| Hello { connection_id, nonce: *nonce }.encode(CONTROL_MAGIC))?;
    Ok(control.go_on(socket, Side::Client)?)
}

/// Give a control stream that was opened over UDP its first connection, as the client.
pub fn begin_control(
    socket: TcpStream,
    key: &JoinKey,
    (connection_id, control): (u64, &ResumableStream),
) -> io::Result<()> {
    let proof = *key.proof(Side::Client, &Nonces::default()).as_bytes();
    control.connect(socket, |taken| First { connection_id, proof, taken }.encode())
}

/// Let this be the first connection of a control stream that was opened over UDP, if it proves that it may and there was none.
/// The magic has been read. Who has recorded it comes too late, or keeps the client from a connection that it can make again.
pub fn admit_first(
    socket: TcpStream,
    control_of: impl FnOnce(u64) -> Option<(JoinKey, Arc<ResumableStream>)>,
) -> Result<(), StreamError> {
    let mut stream = Watched::until(&socket, Instant::now() + PATIENCE, SILENCE);
    let first = First::decode(&read_array(&mut stream)?);
    let (key, control) = control_of(first.connection_id).ok_or(StreamError::Unknown)?;
    if !key.is_proven(&Nonces::default(), first.proof) {
        return Err(StreamError::Unproven);
    }
    Ok(control.connect_from(socket, first.taken)?)
}

/// Let a copy's control stream go on over this connection, if that proves that it may. The magic has been read.
pub fn admit_control(
    socket: TcpStream,
    control_of: impl FnOnce(u64) -> Option<(JoinKey, Arc<ResumableStream>)>,
) -> Result<(), StreamError> {
    let control = meet(&socket, Instant::now() + PATIENCE, control_of)?;
    Ok(control.go_on(socket, Side::Server)?)
}

/// Where TCP streams of a copy are left.
#[derive(Clone)]
pub struct StreamAcceptor {
    /// What they prove to know.
    pub key: JoinKey,
    /// Name of the kernel's congestion control for them.
    pub congestion: Option<String>,
    /// Takes them.
    pub inside: Sender<StreamSocket>,
    /// Wakes the session's thread.
    pub waker: Waker,
}

/// Let a TCP stream in at the acceptor of its copy, if it proves that it may. The magic has been read.
pub fn admit(
    socket: TcpStream,
    acceptor_of: impl FnOnce(u64) -> Option<StreamAcceptor>,
) -> Result<(), StreamError> {
    let key_of = |id| acceptor_of(id).map(|acceptor| (acceptor.key.clone(), acceptor));
    let acceptor = meet(&socket, Instant::now() + PATIENCE, key_of)?;
    set_up(&SockRef::from(&socket), acceptor.congestion.as_deref());
    // A session that is over, or has TCP streams enough, closes it.
    let _ = acceptor.inside.try_send(StreamSocket::Tcp(socket));
    acceptor.waker.wake();
    Ok(())
}

/// Set up a TCP stream's socket; with the usual congestion control where this host has not the one that is asked for.
/// The session has told of that ([`check_congestion`]).
fn set_up(socket: &SockRef<'_>, congestion: Option<&str>) {
    let outcome = stream_options(congestion).set_up(socket).or_else(|error| {
        tracing::debug!("a TCP stream goes under the usual congestion control: {error}");
        stream_options(None).set_up(socket)
    });
    if let Err(error) = outcome {
        tracing::warn!("a TCP stream's socket cannot be set up: {error}");
    }
}

/// Whether this host has a congestion control of that name for its TCP streams.
pub fn check_congestion(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    stream_options(Some(name)).set_up(&SockRef::from(&socket))
}

/// How TCP streams' sockets are set up: under the congestion control of that name. Without one it is [`USUAL`], or the host's own
/// where that cannot be had.
pub fn stream_options(congestion: Option<&str>) -> TcpOptions {
    let congestion = congestion.map(str::to_owned).or_else(|| usual_congestion().map(str::to_owned));
    TcpOptions { congestion, ..TcpOptions::default() }
}

/// What several connections at a time go under unless another is named; `None`: this host does not give it.
pub fn usual_congestion() -> Option<&'static str> {
    check_congestion(USUAL).is_ok().then_some(USUAL)
}

/// The server's side of the handshake. `key_of` knows the copies.
fn meet<T>(
    socket: &TcpStream,
    deadline: Instant,
    key_of: impl FnOnce(u64) -> Option<(JoinKey, T)>,
) -> Result<T, StreamError> {
    let mut stream = Watched::until(socket, deadline, SILENCE);
    let hello = Hello::decode(&read_array(&mut stream)?);
    let Some((key, copy)) = key_of(hello.connection_id) else {
        stream.write_all(&[UNKNOWN])?;
        return Err(StreamError::Unknown);
    };
    let (challenge, nonces) = key.challenge(hello.nonce)?;
    stream.write_all(&challenge)?;
    if key.is_proven(&nonces, read_array(&mut stream)?) { Ok(copy) } else { Err(StreamError::Unproven) }
}

/// CUBIC shares with the others on a path, most of whom are CUBIC too. A host's own may be BBR, several of which leave one CUBIC
/// next to nothing.
const USUAL: &str = "cubic";
/// For a join that has begun.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::streams::join::{NONCE_LEN, WELCOME_LEN};
    use std::io::{ErrorKind, Read};
    use std::net::TcpListener;
    use std::thread;

    /// What both sides say when `client` meets a server that knows transfer 9 under `secret`.
    fn both(
        secret: [u8; 32],
        client: impl FnOnce(TcpStream) -> Result<(), StreamError> + Send + 'static,
    ) -> (Result<(), StreamError>, Result<(), StreamError>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = thread::spawn(move || client(near));
        let (mut far, _) = listener.accept().unwrap();
        far.read_exact(&mut [0; MAGIC.len()]).unwrap();
        let key_of = |id| (id == 9).then(|| (stream_key(&secret, 9), ()));
        let server = meet(&far, Instant::now() + PATIENCE, key_of);
        drop(far);
        (client.join().unwrap(), server)
    }

    fn joining(secret: [u8; 32], id: u64) -> impl FnOnce(TcpStream) -> Result<(), StreamError> {
        move |socket| join_copy(&socket, &stream_key(&secret, id), id, Instant::now() + PATIENCE)
    }

    #[test]
    fn who_knows_the_secret_joins() {
        let (client, server) = both([1; 32], joining([1; 32], 9));
        assert!(client.is_ok() && server.is_ok(), "{client:?} {server:?}");
    }

    #[test]
    fn other_secrets_and_other_transfers_are_refused() {
        let (client, server) = both([1; 32], joining([2; 32], 9));
        assert!(client.unwrap_err().to_string().contains("secret") && server.is_err());
        let (client, server) = both([1; 32], joining([1; 32], 8));
        assert!(client.unwrap_err().to_string().contains("does not know this transfer") && server.is_err());
    }

    #[test]
    fn a_proof_that_was_overheard_is_worth_nothing() {
        // The server's own proof sent back to it, as somebody without the secret could.
        let (_, server) = both([1; 32], |mut socket| {
            socket.write_all(&Hello { connection_id: 9, nonce: [3; NONCE_LEN] }.encode(MAGIC))?;
            let mut welcome = [0; 1 + WELCOME_LEN];
            socket.read_exact(&mut welcome)?;
            Ok(socket.write_all(&welcome[1 + NONCE_LEN..])?)
        });
        assert!(server.unwrap_err().to_string().contains("secret"));
    }

    #[test]
    fn a_stream_is_set_up_also_where_its_congestion_control_is_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&near);
        assert!(!socket.tcp_nodelay().unwrap());
        set_up(&socket, Some("no-such-control"));
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert!(check_congestion("no-such-control").is_err() && check_congestion("reno").is_ok());
    }

    #[test]
    fn a_stream_goes_under_cubic_unless_another_one_is_named() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let name_of = |congestion| {
            let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            set_up(&SockRef::from(&near), congestion);
            let name = SockRef::from(&near).tcp_congestion().unwrap();
            String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
        };
        if check_congestion("cubic").is_err() {
            println!("skipped: this host does not give CUBIC");
            return;
        }
        assert_eq!([None, Some("reno"), Some("no-such-control")].map(name_of), ["cubic", "reno", "cubic"]);
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let error = meet(&near, deadline, |_| None::<(JoinKey, ())>).unwrap_err();
        assert!(matches!(error, StreamError::Io(error) if error.kind() == ErrorKind::TimedOut));
    }
}
