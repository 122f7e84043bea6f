//! How a lane joins a transfer: both sides prove over fresh nonces that they know its secret. Formats are in
//! [`longhaul_proto::lanes`].

use super::lane::LaneSocket;
use crate::net::hurried::Hurried;
use crate::net::seal::Side;
use crate::net::wake::Waker;
use crate::stripe::StripeOptions;
use crossbeam_channel::Sender;
use longhaul_proto::lanes::{HELLO_LEN, Hello, NONCE_LEN, PROOF_LEN, UNKNOWN, WELCOME, WELCOME_LEN};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What lanes of one transfer prove to know.
#[derive(Clone)]
pub struct LaneKey {
    key: [u8; 32],
    connection_id: u64,
}

impl LaneKey {
    /// From the secret that the handshake carried.
    pub fn new(secret: &[u8; 32], connection_id: u64) -> LaneKey {
        LaneKey { key: blake3::derive_key("longhaul lane key v1", secret), connection_id }
    }

    fn proof(&self, side: Side, client: &[u8; NONCE_LEN], server: &[u8; NONCE_LEN]) -> blake3::Hash {
        let side = if side == Side::Client { "client" } else { "server" };
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(b"longhaul lane proof v1 ").update(side.as_bytes());
        hasher.update(&self.connection_id.to_be_bytes()).update(client).update(server);
        hasher.finalize()
    }
}

/// Join a transfer as the client, within a deadline.
pub fn join(socket: &TcpStream, key: &LaneKey, deadline: Instant) -> io::Result<()> {
    let hello = Hello { connection_id: key.connection_id, nonce: nonce()? };
    let mut hurried = Hurried { socket, deadline, silence: SILENCE };
    hurried.write_all(&hello.encode())?;
    let mut status = [0];
    hurried.read_exact(&mut status)?;
    match status[0] {
        WELCOME => {}
        UNKNOWN => return Err(refused("the other side has lanes enough, or does not know this transfer")),
        _ => return Err(refused("the other side does not answer as longhaul does")),
    }
    let mut welcome = [0; WELCOME_LEN];
    hurried.read_exact(&mut welcome)?;
    let (theirs, proof) = split(&welcome);
    if key.proof(Side::Server, &hello.nonce, &theirs) != blake3::Hash::from_bytes(proof) {
        return Err(refused("whoever answers there does not know the transfer's secret"));
    }
    hurried.write_all(key.proof(Side::Client, &hello.nonce, &theirs).as_bytes())?;
    Ok(())
}

/// Where lanes of a transfer are left.
#[derive(Clone)]
pub struct Door {
    /// What they prove to know.
    pub key: LaneKey,
    /// Name of the kernel's congestion control for them.
    pub congestion: Option<String>,
    /// Takes them.
    pub inside: Sender<LaneSocket>,
    /// Wakes the session's thread.
    pub waker: Waker,
}

/// Let a lane in at the door of its transfer, if it proves that it may. The magic has been read.
pub fn admit(socket: TcpStream, door_of: impl FnOnce(u64) -> Option<Door>) -> io::Result<()> {
    let key_of = |id| door_of(id).map(|door| (door.key.clone(), door));
    let door = meet(&socket, Instant::now() + PATIENCE, key_of)?;
    set_up(&SockRef::from(&socket), door.congestion.as_deref());
    // A session that is over, or has lanes enough, closes it.
    let _ = door.inside.try_send(LaneSocket::Tcp(socket));
    door.waker.wake();
    Ok(())
}

/// Set up a lane's socket; with this host's own congestion control where it has not the one that is asked for. The session
/// has told of that ([`check_congestion`]).
fn set_up(socket: &SockRef<'_>, congestion: Option<&str>) {
    let outcome = lane_options(congestion).set_up(socket).or_else(|error| {
        tracing::debug!("a lane goes as the host's default has it: {error}");
        lane_options(None).set_up(socket)
    });
    if let Err(error) = outcome {
        tracing::warn!("a lane's socket cannot be set up: {error}");
    }
}

/// Whether this host has a congestion control of that name for its lanes.
pub fn check_congestion(name: &str) -> io::Result<()> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    lane_options(Some(name)).set_up(&SockRef::from(&socket))
}

/// How lanes' sockets are set up.
pub fn lane_options(congestion: Option<&str>) -> StripeOptions {
    let options = StripeOptions::new();
    congestion.map_or(options.clone(), |name| options.congestion(name))
}

/// The server's side of the handshake. `key_of` knows the transfers.
fn meet<T>(
    socket: &TcpStream,
    deadline: Instant,
    key_of: impl FnOnce(u64) -> Option<(LaneKey, T)>,
) -> io::Result<T> {
    let mut hurried = Hurried { socket, deadline, silence: SILENCE };
    let mut hello = [0; HELLO_LEN];
    hurried.read_exact(&mut hello)?;
    let hello = Hello::decode(&hello);
    let Some((key, transfer)) = key_of(hello.connection_id) else {
        hurried.write_all(&[UNKNOWN])?;
        return Err(refused("a lane of a transfer that is not here"));
    };
    let ours = nonce()?;
    let proof = key.proof(Side::Server, &hello.nonce, &ours);
    hurried.write_all(&[&[WELCOME][..], &ours, proof.as_bytes()].concat())?;
    let mut theirs = [0; PROOF_LEN];
    hurried.read_exact(&mut theirs)?;
    // Hashes compare in constant time.
    if key.proof(Side::Client, &hello.nonce, &ours) != blake3::Hash::from_bytes(theirs) {
        return Err(refused("a lane that does not know the transfer's secret"));
    }
    Ok(transfer)
}

fn split(welcome: &[u8; WELCOME_LEN]) -> ([u8; NONCE_LEN], [u8; PROOF_LEN]) {
    (std::array::from_fn(|i| welcome[i]), std::array::from_fn(|i| welcome[NONCE_LEN + i]))
}

fn nonce() -> io::Result<[u8; NONCE_LEN]> {
    let mut bytes = [0; NONCE_LEN];
    getrandom::fill(&mut bytes)
        .map_err(|e| io::Error::other(format!("the system gives no random bytes: {e}")))?;
    Ok(bytes)
}

fn refused(line: &str) -> io::Error {
    io::Error::new(ErrorKind::ConnectionRefused, line)
}

/// What is said of the other side when patience ends.
pub const SILENCE: &str = "the other side stays silent";
/// For a join that has begun.
pub const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::lanes::MAGIC;
    use std::net::TcpListener;
    use std::thread;

    /// What both sides say when `client` meets a server that knows transfer 9 under `secret`.
    fn both(
        secret: [u8; 32],
        client: impl FnOnce(TcpStream) -> io::Result<()> + Send + 'static,
    ) -> (io::Result<()>, io::Result<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let client = thread::spawn(move || client(near));
        let (mut far, _) = listener.accept().unwrap();
        far.read_exact(&mut [0; MAGIC.len()]).unwrap();
        let key_of = |id| (id == 9).then(|| (LaneKey::new(&secret, 9), ()));
        let server = meet(&far, Instant::now() + PATIENCE, key_of);
        drop(far);
        (client.join().unwrap(), server)
    }

    fn joining(secret: [u8; 32], id: u64) -> impl FnOnce(TcpStream) -> io::Result<()> {
        move |socket| join(&socket, &LaneKey::new(&secret, id), Instant::now() + PATIENCE)
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
            socket.write_all(&Hello { connection_id: 9, nonce: [3; NONCE_LEN] }.encode())?;
            let mut welcome = [0; 1 + WELCOME_LEN];
            socket.read_exact(&mut welcome)?;
            socket.write_all(&welcome[1 + NONCE_LEN..])
        });
        assert!(server.unwrap_err().to_string().contains("secret"));
    }

    #[test]
    fn a_lane_is_set_up_also_where_its_congestion_control_is_unknown() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let socket = SockRef::from(&near);
        assert!(!socket.tcp_nodelay().unwrap());
        set_up(&socket, Some("no-such-control"));
        assert!(socket.tcp_nodelay().unwrap() && socket.keepalive().unwrap());
        assert!(check_congestion("no-such-control").is_err() && check_congestion("reno").is_ok());
    }

    #[test]
    fn silence_ends_at_the_deadline() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let deadline = Instant::now() + Duration::from_millis(50);
        let error = meet(&near, deadline, |_| None::<(LaneKey, ())>).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
    }
}
