use super::*;

fn pair() -> (UdpSocket, UdpSocket) {
    let any = "127.0.0.1:0".parse().unwrap();
    let (a, b) = (UdpSocket::bind(any, false).unwrap(), UdpSocket::bind(any, false).unwrap());
    a.connect(b.local_addr().unwrap()).unwrap();
    b.connect(a.local_addr().unwrap()).unwrap();
    (a, b)
}

#[test]
fn a_run_arrives_as_its_datagrams() {
    for gso in [true, false] {
        let (mut a, mut b) = pair();
        a.gso &= gso;
        let sent: Vec<u8> = (0..10_500u32).map(|i| i as u8).collect();
        assert_eq!(a.send_run(&sent, 1000, None).unwrap(), sent.len());
        let mut buffers = ReceiveBuffers::default();
        let mut got: Vec<Vec<u8>> = vec![];
        while got.len() < 11 {
            assert!(b.receive(&mut buffers).unwrap(), "nothing came");
            for datagram in buffers.datagrams() {
                assert!(clock::now().since(datagram.time) < Duration::from_secs(5));
                assert_eq!(datagram.from, Some(a.local_addr().unwrap()));
                got.push(datagram.bytes.to_vec());
            }
        }
        assert_eq!(got.concat(), sent);
        assert!(got[..10].iter().all(|d| d.len() == 1000) && got[10].len() == 500);
    }
}

#[test]
fn a_code_point_and_what_is_said_of_queues_do_not_touch_each_other() {
    for address in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
        let mut a = UdpSocket::bind(address.parse().unwrap(), false).unwrap();
        let service = |a: &UdpSocket| match a.local_addr().unwrap() {
            SocketAddr::V4(_) => a.socket.tos_v4().unwrap(),
            SocketAddr::V6(_) => rustix::net::sockopt::ipv6_tclass(&a.socket).unwrap(),
        };
        a.set_dscp(Dscp::LE);
        a.set_ecn(Ecn::Ect0);
        assert_eq!(service(&a), 0b110, "{address}");
        a.set_ecn(Ecn::NotEct);
        assert_eq!(service(&a), 0b100, "{address}");
        a.set_dscp(Dscp::from(46));
        assert_eq!(service(&a), 0xb8, "{address}");
    }
}

#[test]
fn what_an_ip_header_says_of_queues_arrives_whatever_the_address_family() {
    for (from, to) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0"), ("127.0.0.1:0", "[::]:0")] {
        let mut a = UdpSocket::bind(from.parse().unwrap(), false).unwrap();
        let mut b = UdpSocket::bind(to.parse().unwrap(), false).unwrap();
        let to = SocketAddr::new(a.local_addr().unwrap().ip(), b.local_addr().unwrap().port());
        let mut told = vec![];
        for ecn in [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
            a.set_ecn(ecn);
            // A run, and one by itself.
            for len in [3000, 100] {
                a.send_run(&[7; 3000][..len], 1000, Some(to)).unwrap();
                let mut buffers = ReceiveBuffers::default();
                assert!(b.receive(&mut buffers).unwrap());
                told.extend(buffers.datagrams().map(|datagram| (ecn, datagram.ecn)));
            }
        }
        assert!(told.len() == 16 && told.iter().all(|(sent, came)| *came == Some(*sent)), "{told:?}");
    }
}

#[test]
fn drops_of_a_full_buffer_are_counted() {
    let (mut a, mut b) = pair();
    b.socket.set_recv_buffer_size(4096).unwrap();
    b.drops = DropMeter::new(b.socket.recv_buffer_size().unwrap());
    (0..200).for_each(|_| drop(a.send_run(&[7; 1000], 1000, None)));
    let mut buffers = ReceiveBuffers::default();
    while b.receive(&mut buffers).unwrap() {}
    // The counter rides on the next datagram that fits.
    a.send_run(&[7; 100], 100, None).unwrap();
    b.receive(&mut buffers).unwrap();
    assert!(b.drops() > 100, "{}", b.drops());
}

#[test]
fn a_shared_port_is_not_open_to_others() {
    let open = UdpSocket::bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
    let other = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    // As any user's program may ask.
    other.set_reuse_address(true).unwrap();
    let taken = other.bind(&open.local_addr().unwrap().into()).unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
}

#[test]
fn a_route_that_changes_is_no_failure_of_the_socket() {
    let lost = [libc::EMSGSIZE, libc::EINVAL, libc::ENETUNREACH, libc::EADDRNOTAVAIL];
    assert!(lost.into_iter().all(|error| is_on_the_way(&io::Error::from_raw_os_error(error))));
    assert!(!is_on_the_way(&io::Error::from_raw_os_error(libc::EBADF)));
}

#[test]
fn a_run_that_the_route_does_not_take_leaves_runs_for_when_it_does() {
    let (mut a, mut b) = pair();
    let gso = a.gso;
    // Larger than any datagram may be, as all are too large for a route that has become narrow.
    let error = a.send_run(&[7; 132_000], 66_000, None).unwrap_err();
    assert!(is_on_the_way(&error), "{error}");
    assert_eq!(a.gso, gso);
    a.send_run(&[7; 2000], 1000, None).unwrap();
    assert!(b.receive(&mut ReceiveBuffers::default()).unwrap());
}

#[test]
fn a_connected_socket_beside_an_open_one_gets_its_peers_datagrams() {
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let mut open = UdpSocket::bind(any, true).unwrap();
    let here = open.local_addr().unwrap();
    let mut peer = UdpSocket::bind(any, false).unwrap();
    let mut own = UdpSocket::bind(here, true).unwrap();
    own.connect(peer.local_addr().unwrap()).unwrap();
    peer.send_run(b"hello", 5, Some(here)).unwrap();
    let mut buffers = ReceiveBuffers::default();
    assert!(own.receive(&mut buffers).unwrap());
    assert!(!open.receive(&mut buffers).unwrap());
}
