//! What somebody who has recorded a copy's first flight can do with it.

use crate::common::tree::*;
use crate::common::{PATIENCE, Running, Server, wait_until};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
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
