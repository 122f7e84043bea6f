//! What somebody who has recorded a copy's first flight can do with it.

use crate::common::tree::*;
use crate::common::{PATIENCE, Running, Server, longhaul, undisturbed, wait_until};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// What a client sends before it has heard anything.
struct Flight {
    offer: Vec<u8>,
    probes: Vec<Vec<u8>>,
}

/// Have a client fetch all from what it takes for this server, and listen.
fn record(server: &Server, dest: &Path) -> Flight {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let socket = UdpSocket::bind(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("longhaul://{at}/all/");
    let client = Running::start(&mut server.cp_command([url.as_ref(), dest.as_os_str()]));
    let (mut control, _) = listener.accept().unwrap();
    let mut offer = vec![0; 6];
    control.read_exact(&mut offer).unwrap();
    let len = usize::from(u16::from_be_bytes([offer[4], offer[5]]));
    offer.resize(6 + len, 0);
    control.read_exact(&mut offer[6..]).unwrap();
    let mut probes = vec![];
    while probes.len() < 2 {
        let mut datagram = vec![0; 65_536];
        let len = socket.recv(&mut datagram).unwrap();
        probes.push(datagram[..len].to_vec());
    }
    client.signal(Signal::KILL);
    client.finish();
    Flight { offer, probes }
}

/// Send an offer again. What comes back is an answer that only its maker can read, or the end.
fn replay(server: &Server, flight: &Flight) -> TcpStream {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&flight.offer).unwrap();
    let mut len = [0; 2];
    stream.read_exact(&mut len).unwrap();
    let mut answer = vec![0; usize::from(u16::from_be_bytes(len))];
    assert!(!answer.is_empty(), "refused in clear");
    stream.read_exact(&mut answer).unwrap();
    stream
}

/// Many files, whose names say much.
fn served() -> tempfile::TempDir {
    let top = folder();
    for at in 0..2000u32 {
        write(top.path().join(format!("all/{}", blake3::hash(&at.to_be_bytes()).to_hex())), b"x");
    }
    top
}

/// Beside this a listing of what is served is long.
const SHORT: usize = 5000;

fn next_second() {
    let second = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let now = second();
    wait_until("the next second", || second() > now);
}

#[test]
fn a_flight_sent_again_gets_nothing_done_and_floods_nobody() {
    let (top, dest) = (served(), folder());
    let before = Server::start(top.path(), &[]);
    let flight = record(&before, dest.path());
    drop(before);
    next_second();
    let server = Server::start(top.path(), &[]);
    let mut stream = replay(&server, &flight);
    // In the name of another host, to which the server would look at the path.
    let victim = UdpSocket::bind("127.0.0.2:0").unwrap();
    victim.set_nonblocking(true).unwrap();
    let sent: usize =
        flight.probes.iter().map(|probe| victim.send_to(probe, server.address()).unwrap()).sum();
    let mut told = vec![];
    stream.read_to_end(&mut told).unwrap();
    assert!(told.len() < SHORT, "{} bytes", told.len());
    let (mut buf, mut came, mut from) = (vec![0; 65_536], 0, None::<SocketAddr>);
    while let Ok((len, sender)) = victim.recv_from(&mut buf) {
        (came, from) = (came + len, Some(sender));
    }
    assert!(came <= 3 * sent, "{came} bytes for {sent}");
    assert_eq!(from, Some(server.address()), "the flight was authentic, so something came");
}

#[test]
fn an_offer_is_heeded_at_once_only_when_it_comes_for_the_first_time() {
    let (top, dest) = (served(), folder());
    let server = Server::start(top.path(), &[]);
    let flight = record(&server, dest.path());
    // It was held up until now: nobody can tell that from a slow network.
    let mut first = replay(&server, &flight);
    let mut told = vec![0; 10 * SHORT];
    first.read_exact(&mut told).unwrap();
    // While that session is there, and afterwards.
    let mut again = replay(&server, &flight);
    let mut told = vec![];
    again.read_to_end(&mut told).unwrap();
    assert_eq!(told.len(), 0, "its name is taken");
    drop(first);
    let mut told = vec![];
    wait_until("the name is free", || {
        told.clear();
        replay(&server, &flight).read_to_end(&mut told).is_ok() && !told.is_empty()
    });
    assert!(told.len() < SHORT, "{} bytes", told.len());
    // Those who have the key are served as ever.
    server.cp([server.url("all/").as_ref(), dest.path().join("copy").as_os_str()]).expect_code(0);
    assert_eq!(fs::read_dir(dest.path().join("copy")).unwrap().count(), 2000);
}

#[test]
fn a_flight_sent_again_and_again_is_a_few_lines_in_the_log() {
    let (top, dest, log) = (served(), folder(), folder());
    let log = log.path().join("log");
    let before = Server::start(top.path(), &[]);
    let flight = record(&before, dest.path());
    next_second();
    let mut logged = Command::new("sh");
    logged.args(["-c", "exec \"$@\" 2>\"$0\""]).arg(&log).arg(longhaul().get_program());
    let logged = undisturbed(logged);
    let mut server = Server::start_with(logged, top.path(), &["--listen", "127.0.0.1:0"]);
    let said = || fs::read_to_string(&log).unwrap();
    for _ in 0..20 {
        drop(replay(&server, &flight));
    }
    wait_until("a line", || said().contains("127.0.0.1"));
    server.stop(Signal::INT);
    let said = said();
    // The client is gone, or its session is still there.
    let lines = said.matches("WARN 127.0.0.1:").count();
    assert!(lines <= 2, "{said}");
    assert!(said.contains(&format!("{} more were turned away", 20 - lines)), "{said}");
}

/// Have a client push a file to what it takes for this server, which its TCP connection does not reach in time.
fn record_opening(server: &Server, source: &Path) -> Vec<Vec<u8>> {
    // A port that is free for UDP too.
    let both = || {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        let at = listener.local_addr().unwrap().as_socket().unwrap();
        Some((listener, at, UdpSocket::bind(at).ok()?))
    };
    let (listener, at, socket) = std::iter::repeat_with(both).take(100).flatten().next().unwrap();
    // One connection waits to be accepted, and there is no room for another.
    listener.listen(0).unwrap();
    let _full = TcpStream::connect(at).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("longhaul://{at}/all/");
    let client = Running::start(&mut server.cp_command([source.as_os_str(), url.as_ref()]));
    let pieces = receive_message(&socket).0;
    client.signal(Signal::KILL);
    client.finish();
    pieces
}

/// The pieces of a message that comes to a socket, and the bytes of all that came.
fn receive_message(socket: &UdpSocket) -> (Vec<Vec<u8>>, usize) {
    let (mut pieces, mut datagram, mut all) = (vec![], vec![0; 65_536], 0);
    let (mut come, mut whole) = (0, usize::MAX);
    while come < whole {
        let len = socket.recv(&mut datagram).unwrap();
        all += len;
        if datagram[0] == OPENING {
            come += len - PREFIX_LEN;
            whole = usize::from(u16::from_be_bytes([datagram[11], datagram[12]]));
            pieces.push(datagram[..len].to_vec());
        }
    }
    (pieces, all)
}

/// What these pieces are parts of.
fn message(mut pieces: Vec<Vec<u8>>) -> Vec<u8> {
    pieces.sort_by_key(|piece| [piece[9], piece[10]]);
    pieces.iter().flat_map(|piece| piece[PREFIX_LEN..].to_vec()).collect()
}

/// The first byte of a piece of an opening, and how many stand before a piece's own.
const OPENING: u8 = 2;
const PREFIX_LEN: usize = 13;

#[test]
fn an_opening_by_datagrams_is_answered_once_and_gets_nothing_written() {
    let (top, here) = (served(), folder());
    let source = here.path().join("file");
    write_noise(&source, 3000, 1);
    let server = Server::start(top.path(), &[]);
    let pieces = record_opening(&server, &source);
    let sent: usize = pieces.iter().map(Vec::len).sum();
    let open_from = |socket: &UdpSocket, pieces: &[Vec<u8>]| {
        pieces.iter().for_each(|piece| assert!(socket.send_to(piece, server.address()).unwrap() > 0));
    };
    let [victim, other, forger] = ["127.0.0.2:0", "127.0.0.3:0", "127.0.0.4:0"].map(|address| {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    });
    // One that was changed on its way is nobody's, and does not use up the true one.
    let mut changed = pieces.clone();
    *changed[0].last_mut().unwrap() ^= 1;
    open_from(&forger, &changed);
    // The true one is answered in the name of whoever it comes from, with three times as much at most.
    open_from(&victim, &pieces);
    let (answer, mut came) = receive_message(&victim);
    // The same over TCP is told the same, so that the answer may get lost.
    let first = message(pieces.clone());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&first).unwrap();
    let answer = message(answer);
    let mut told = vec![0; answer.len()];
    stream.read_exact(&mut told).unwrap();
    assert!(told == answer);
    let mut buf = vec![0; 65_536];
    // While the session waits for its client, and when it has given up.
    open_from(&other, &pieces);
    let mut rest = vec![];
    stream.read_to_end(&mut rest).unwrap();
    open_from(&other, &pieces);
    // What the server does after all that is done when a copy is.
    server.cp([source.as_os_str(), server.url("copy").as_ref()]).expect_code(0);
    for silent in [&other, &forger] {
        silent.set_nonblocking(true).unwrap();
        assert!(silent.recv(&mut buf).is_err(), "answered twice, or refused");
    }
    victim.set_nonblocking(true).unwrap();
    while let Ok(len) = victim.recv(&mut buf) {
        came += len;
    }
    assert!(came <= 3 * sent, "{came} bytes for {sent}");
    assert!(rest.len() < SHORT, "{} bytes", rest.len());
    assert!(!top.path().join("all/file").exists(), "written for somebody who has shown nothing");
}
