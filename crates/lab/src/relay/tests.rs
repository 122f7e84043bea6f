use super::*;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::Instant;

const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn longer_datagrams_vanish_and_others_come_as_they_were_after_the_delay() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let relay = Relay::start(&Scenario::new(100.0, 20.0), server.local_addr().unwrap()).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(relay.address()).unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    let begun = Instant::now();
    client.send(&[1; 1473]).unwrap();
    client.send(&[2; 1472]).unwrap();
    let mut buffer = [0; 2000];
    let (len, from) = server.recv_from(&mut buffer).unwrap();
    assert_eq!((len, &buffer[..len]), (1472, &[2; 1472][..]));
    assert!(begun.elapsed() >= Duration::from_millis(10));
    server.send_to(b"back", from).unwrap();
    assert_eq!(client.recv(&mut buffer).unwrap(), 4);
    assert!(begun.elapsed() >= Duration::from_millis(20));
    assert_eq!(relay.counters().left_to_right.dropped_long, 1);
}

#[test]
fn a_connection_takes_the_path_s_time_and_its_end_comes_through() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let relay = Relay::start(&Scenario::new(100.0, 20.0), server.local_addr().unwrap()).unwrap();
    let begun = Instant::now();
    let mut client = TcpStream::connect(relay.address()).unwrap();
    client.write_all(b"hello").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let echo = thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut said = vec![];
        stream.read_to_end(&mut said).unwrap();
        stream.write_all(&said).unwrap();
        begun.elapsed()
    });
    let mut said = vec![];
    client.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"hello");
    assert!(echo.join().unwrap() >= Duration::from_millis(30), "connecting takes a round trip");
    assert!(begun.elapsed() >= Duration::from_millis(40));
}

#[test]
fn what_it_cannot_emulate_is_refused() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let scenario = Scenario { corrupt: 0.1, ..Scenario::new(100.0, 20.0) };
    let refused = Relay::start(&scenario, server).map(drop).unwrap_err().to_string();
    assert!(refused.contains("corrupt") && refused.lines().count() == 1, "{refused}");
}
