use super::*;
use crate::seal::Side;
use std::time::Duration;

const PSK: [u8; 32] = [1; 32];
const SALT: [u8; 32] = [2; 32];
const SECRET: [u8; 32] = [3; 32];
const ID: u64 = 9;

fn bound(address: &str) -> UdpSocket {
    UdpSocket::bind(address.parse().unwrap(), false).unwrap()
}

fn server_keys() -> Keys {
    Keys::early_server(&PSK, &SALT, &SECRET, ID)
}

/// What a client sealed early, as somebody may have recorded it.
fn recorded(number: u64, len: usize) -> Vec<u8> {
    let mut datagram = vec![0; len + SEAL_OVERHEAD];
    Keys::early_client(&PSK, &SALT, ID).seal(&mut datagram, number);
    datagram
}

fn receive_something(link: &mut PeerLink) {
    let waker = Waker::new().unwrap();
    for _ in 0..600 {
        if link.receive(|_, _, _| true).unwrap() {
            return;
        }
        let now = clock::now();
        link.wait(&waker, now, now + Duration::from_millis(100)).unwrap();
    }
    panic!("nothing came");
}

/// Bytes that have come in at a socket.
fn heard(socket: &mut UdpSocket) -> usize {
    let (mut buffers, mut bytes) = (ReceiveBuffers::default(), 0);
    while socket.receive(&mut buffers).unwrap() {
        bytes += buffers.datagrams().map(|datagram| datagram.bytes.len()).sum::<usize>();
    }
    bytes
}

/// Have the link send this many early datagrams of 1000 bytes.
fn send_much(link: &mut PeerLink, from: u64, count: u64) {
    let mut scratch = vec![];
    for number in from..from + count {
        link.send_one(KeyPhase::Early, &mut scratch, |_| Some(Transmit { number, len: 1000 }));
    }
}

#[test]
fn who_is_named_by_what_somebody_recorded_is_not_flooded() {
    // The control stream comes from 127.0.0.1; the victim is another host.
    let (socket, mut victim) = (bound("127.0.0.1:0"), bound("127.0.0.2:0"));
    let at = socket.local_addr().unwrap();
    let mut link = PeerLink::waiting(socket, Some("127.0.0.1".parse().unwrap()), server_keys());
    victim.send_run(&recorded(0, 1169), 1200, Some(at)).unwrap();
    receive_something(&mut link);
    send_much(&mut link, 0, 100);
    let first = heard(&mut victim);
    assert!(first > 1200 && first <= 3 * 1200, "{first}");
    victim.send_run(&recorded(1, 1169), 1200, Some(at)).unwrap();
    receive_something(&mut link);
    send_much(&mut link, 100, 100);
    let all = first + heard(&mut victim);
    assert!(all > first && all <= 6 * 1200, "{all}");
    // Once it has shown that it is there, it is the client.
    link.note_proven();
    send_much(&mut link, 200, 20);
    assert_eq!(heard(&mut victim), 20 * (1000 + SEAL_OVERHEAD));
}

#[test]
fn a_client_that_seems_to_move_to_another_host_is_asked_there_first() {
    let (mut client, mut victim) = (bound("127.0.0.1:0"), bound("127.0.0.2:0"));
    let strays = Arc::new(Strays::default());
    let local = bound("127.0.0.1:0").local_addr().unwrap();
    let mut link = PeerLink::shared(local, "127.0.0.1".parse().ok(), strays.clone(), server_keys());
    let stray = |number, from: &UdpSocket| {
        let from = from.local_addr().unwrap();
        assert!(strays.push(Stray {
            bytes: recorded(number, 1169),
            time: clock::now(),
            ecn: None,
            from,
            to: None
        }));
    };
    stray(0, &client);
    receive_something(&mut link);
    stray(1, &victim);
    receive_something(&mut link);
    send_much(&mut link, 0, 10);
    assert_eq!((heard(&mut victim), heard(&mut client)), (0, 10 * (1000 + SEAL_OVERHEAD)));
    // It is asked with one short datagram, and the answer decides.
    let newcomer = link.take_newcomer().unwrap();
    assert_eq!(newcomer, victim.local_addr().unwrap());
    link.ask_at(newcomer, &mut vec![], |_| Transmit { number: 10, len: 10 });
    assert_eq!(heard(&mut victim), 10 + SEAL_OVERHEAD);
    link.move_to(newcomer);
    send_much(&mut link, 11, 10);
    assert_eq!((heard(&mut victim), heard(&mut client)), (10 * (1000 + SEAL_OVERHEAD), 0));
    // Another port of the host that the control stream comes from needs no question.
    let mut other_port = bound("127.0.0.1:0");
    stray(2, &other_port);
    receive_something(&mut link);
    send_much(&mut link, 21, 10);
    assert_eq!(heard(&mut other_port), 10 * (1000 + SEAL_OVERHEAD));
}

/// The server's words, sent in the name of a host that it has named beside its own.
#[test]
fn one_of_several_that_somebody_named_is_not_flooded_in_his_name() {
    let (client, server, mut victim) = (bound("0.0.0.0:0"), bound("127.0.0.1:0"), bound("127.0.0.2:0"));
    let at = SocketAddr::new([127, 0, 0, 1].into(), client.local_addr().unwrap().port());
    let peers = [&server, &victim].map(|socket| socket.local_addr().unwrap());
    let mut link = PeerLink::open(client, peers.to_vec(), Keys::early_client(&PSK, &SALT, ID)).unwrap();
    link.distrust();
    send_much(&mut link, 0, 1);
    assert_eq!(heard(&mut victim), 1000 + SEAL_OVERHEAD, "any of them may be the server");
    link.answered(&SECRET);
    let mut datagram = vec![0; 1200];
    server_keys().seal(&mut datagram, 0);
    victim.send_run(&datagram, datagram.len(), Some(at)).unwrap();
    receive_something(&mut link);
    // Who has heard the words that went to all of them proves nothing by repeating one.
    link.note_proven();
    send_much(&mut link, 1, 100);
    let got = heard(&mut victim);
    assert!(got > 1200 && got <= 3 * 1200, "{got}");
    let newcomer = link.take_newcomer().unwrap();
    assert_eq!(newcomer, victim.local_addr().unwrap());
    link.ask_at(newcomer, &mut vec![], |_| Transmit { number: 101, len: 10 });
    link.move_to(newcomer);
    send_much(&mut link, 102, 20);
    assert_eq!(heard(&mut victim), 10 + SEAL_OVERHEAD + 20 * (1000 + SEAL_OVERHEAD));
}

#[test]
fn a_datagram_that_the_route_does_not_take_is_lost_and_no_more() {
    let (near, mut far) = (bound("127.0.0.1:0"), bound("127.0.0.1:0"));
    let peer = far.local_addr().unwrap();
    let mut link = PeerLink::open(near, vec![peer], Keys::early_client(&PSK, &SALT, ID)).unwrap();
    link.set_main_keys(Keys::main(&SECRET, true, ID, Side::Client));
    // Longer than any datagram: the system says of it what it says where a route has become narrow.
    let sent = link.send_run(1, 66_000, |_| Some(Transmit { number: 0, len: 66_000 - SEAL_OVERHEAD }));
    assert_eq!(sent.unwrap(), 1);
    assert!(!link.is_congested());
    link.send_run(1, 1200, |_| Some(Transmit { number: 1, len: 1200 - SEAL_OVERHEAD })).unwrap();
    assert_eq!(heard(&mut far), 1200);
}

#[test]
fn the_answer_comes_from_the_address_that_was_asked() {
    let mut client = bound("127.0.0.1:0");
    let strays = Arc::new(Strays::default());
    // One of several addresses of this host, and not the one that a route to the client would choose.
    let asked = bound("127.0.0.3:0").local_addr().unwrap();
    let mut link = PeerLink::shared(asked, "127.0.0.1".parse().ok(), strays.clone(), server_keys());
    let from = client.local_addr().unwrap();
    assert!(strays.push(Stray { bytes: recorded(0, 100), time: clock::now(), ecn: None, from, to: None }));
    receive_something(&mut link);
    send_much(&mut link, 0, 1);
    let mut buffers = ReceiveBuffers::default();
    assert!(client.receive(&mut buffers).unwrap());
    assert_eq!(buffers.datagrams().next().unwrap().from, Some(asked));
}

#[test]
fn a_client_keeps_what_comes_before_the_answer_that_it_is_opened_with() {
    let shared = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
    let (at, client) = (shared.local_addr().unwrap(), bound("127.0.0.1:0"));
    let peer = client.local_addr().unwrap();
    let mut link = PeerLink::open(client, vec![at], Keys::early_client(&PSK, &SALT, ID)).unwrap();
    link.send_opening(ID, &[7; 3000]);
    let mut there = PeerLink::opened(at, (peer, 3000), Arc::default(), server_keys());
    // An early datagram, an answer in pieces, and one more; all that goes there is three times what came from there.
    send_much(&mut there, 0, 1);
    there.send_pieces(ID, &[8; 3000]);
    send_much(&mut there, 1, 100);
    let answer = loop {
        receive_something(&mut link);
        if let Some(answer) = link.take_answer() {
            break answer;
        }
    };
    assert_eq!(answer, [8; 3000]);
    link.answered(&SECRET);
    let mut numbers = vec![];
    while link
        .receive(|_, arrival, _| {
            numbers.push(arrival.number);
            true
        })
        .unwrap()
    {}
    assert!(numbers.starts_with(&[0, 1]) && numbers.len() < 8, "{numbers:?}");
}

#[test]
fn who_goes_on_over_another_socket_opens_nothing_a_second_time() {
    let client = bound("127.0.0.1:0").local_addr().unwrap();
    let begin = || {
        let strays = Arc::new(Strays::default());
        let local = bound("127.0.0.1:0").local_addr().unwrap();
        (PeerLink::shared(local, "127.0.0.1".parse().ok(), strays.clone(), server_keys()), strays)
    };
    let hears = |link: &mut PeerLink, strays: &Strays, number| {
        let bytes = recorded(number, 100);
        assert!(strays.push(Stray { bytes, time: clock::now(), ecn: None, from: client, to: None }));
        let mut is_opened = false;
        let opened = |_, _: Arrival, _: &mut [u8]| std::mem::replace(&mut is_opened, true);
        link.receive(opened).unwrap();
        is_opened
    };
    let (mut before, strays) = begin();
    assert!(hears(&mut before, &strays, 0));
    let (mut link, strays) = begin();
    link.take_keys_of(&mut before);
    assert!(!hears(&mut link, &strays, 0), "somebody recorded it");
    assert!(hears(&mut link, &strays, 1));
}
