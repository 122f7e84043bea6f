//! The flow label of IPv6 (RFC 6437), which tells networks of science whose packets these are.
//!
//! The kernel lends a label to a socket, which puts it on its packets to the address that it is connected to. The label is a
//! courtesy: where it is not to be had all goes on without it.

use crate::option;
use crate::random::random;
use longhaul_proto::scitag::SciTag;
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::AsFd;

/// Whether the kernel lends labels; else why not.
pub fn check() -> io::Result<()> {
    let socket = Socket::new(Domain::IPV6, Type::DGRAM, None)?;
    lease(socket, Ipv6Addr::LOCALHOST, PROBED)
}

/// The address to connect a socket to, so that what it sends to this peer has a label.
pub fn labelled(socket: impl AsFd, peer: SocketAddr, tag: SciTag) -> SocketAddr {
    let (SocketAddr::V6(v6), IpAddr::V6(_)) = (peer, peer.ip().to_canonical()) else { return peer };
    let label = random().map(|[noise]: [u8; 1]| tag.flow_label(noise & !HIGHEST));
    match label.and_then(|label| lease(socket, *v6.ip(), label).map(|()| label)) {
        Ok(label) => SocketAddrV6::new(*v6.ip(), v6.port(), label.to_be(), v6.scope_id()).into(),
        Err(error) => {
            tracing::debug!("no flow label: {error}");
            peer
        }
    }
}

/// The same address without a label, which the kernel tells with that of a peer.
pub fn without_label(peer: SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, v6.scope_id()).into(),
        v4 => v4,
    }
}

/// What the kernel takes for a label that a socket is to have (`in6_flowlabel_req` in the header linux/in6.h).
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    peer: [u8; 16],
    label: u32,
    action: u8,
    share: u8,
    flags: u16,
    expires: u16,
    linger: u16,
    pad: u32,
}

fn lease(socket: impl AsFd, peer: Ipv6Addr, label: u32) -> io::Result<()> {
    let request = Request {
        peer: peer.octets(),
        label: label.to_be(),
        action: GET,
        share: SHARE_ANY,
        flags: CREATE,
        expires: 0,
        linger: 0,
        pad: 0,
    };
    option::set_plain(&socket, libc::SOL_IPV6, libc::IPV6_FLOWLABEL_MGR, request)?;
    option::set(&socket, libc::SOL_IPV6, libc::IPV6_FLOWINFO_SEND, 1)
}

/// Of the same header.
const GET: u8 = 0;
const CREATE: u16 = 1;
const SHARE_ANY: u8 = 255;
/// Labels with the highest bit set are the kernel's own to choose (`net.ipv6.flowlabel_state_ranges`).
const HIGHEST: u8 = 0b10;
/// Any label.
const PROBED: u32 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::TcpOptions;
    use crate::udp::{ReceiveBuffers, UdpSocket};
    use std::mem::zeroed;
    use std::net::{TcpListener, UdpSocket as StdSocket};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    fn tag() -> Option<SciTag> {
        SciTag::new(2, 16)
    }

    /// Whether this label is the tag's, whatever its free bits are.
    fn is_tags(label: u32) -> bool {
        let free = 0xc_0103;
        label & !free == tag().unwrap().flow_label(0)
    }

    /// The label of the next datagram that comes in.
    fn label_of_next(socket: &StdSocket) -> u32 {
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let (mut bytes, mut control) = ([0_u8; 64], [0_u64; 8]);
        let mut iov = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        // SAFETY: all-zero is a valid msghdr; its buffers outlive the call, and CMSG_FIRSTHDR stays within the second.
        unsafe {
            let mut header: libc::msghdr = zeroed();
            (header.msg_iov, header.msg_iovlen) = (&mut iov, 1);
            header.msg_control = control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&control);
            assert!(libc::recvmsg(socket.as_raw_fd(), &mut header, 0) > 0, "{}", io::Error::last_os_error());
            match libc::CMSG_FIRSTHDR(&header).as_ref() {
                Some(c) if c.cmsg_type == libc::IPV6_FLOWINFO => {
                    u32::from_be(libc::CMSG_DATA(c).cast::<u32>().read_unaligned()) & 0xf_ffff
                }
                _ => 0,
            }
        }
    }

    #[test]
    fn datagrams_have_the_label_of_their_tag() {
        check().unwrap();
        let there = StdSocket::bind("[::1]:0").unwrap();
        option::set(&there, libc::SOL_IPV6, libc::IPV6_FLOWINFO, 1).unwrap();
        let (peer, any) = (there.local_addr().unwrap(), "[::]:0".parse().unwrap());
        for _ in 0..16 {
            let mut here = UdpSocket::bind(any, false).unwrap();
            here.connect(peer).unwrap();
            here.set_label(tag());
            here.send_run(b"a run of several", 4, None).unwrap();
            for _ in 0..4 {
                assert!(is_tags(label_of_next(&there)));
            }
            assert_eq!(here.peer_addr(), Some(peer), "without a label");
        }
        // One that is told of before it is connected; and answers still come in.
        let mut here = UdpSocket::bind(any, false).unwrap();
        here.set_label(tag());
        here.connect(peer).unwrap();
        here.send_run(b"hello", 5, None).unwrap();
        assert!(is_tags(label_of_next(&there)));
        there.send_to(b"hello", here.local_addr().unwrap()).unwrap();
        let mut buffers = ReceiveBuffers::default();
        assert!(here.receive(&mut buffers).unwrap());
        assert_eq!(buffers.datagrams().next().unwrap().from, Some(peer));
    }

    #[test]
    fn a_connection_that_begins_here_has_the_label_of_its_tag() {
        let listener = TcpListener::bind("[::1]:0").unwrap();
        let options = TcpOptions { label: tag(), ..TcpOptions::default() };
        let deadline = Instant::now() + Duration::from_secs(60);
        let socket = options.dial(None, listener.local_addr().unwrap(), deadline).unwrap();
        let SocketAddr::V6(peer) = socket.peer_addr().unwrap() else { panic!() };
        assert!(is_tags(u32::from_be(peer.flowinfo())), "as the kernel tells it");
    }

    #[test]
    fn packets_of_ipv4_have_none() {
        let there = StdSocket::bind("127.0.0.1:0").unwrap();
        let peer = there.local_addr().unwrap();
        for any in ["0.0.0.0:0", "[::]:0"] {
            let mut here = UdpSocket::bind(any.parse().unwrap(), false).unwrap();
            here.set_label(tag());
            here.connect(peer).unwrap();
            here.send_run(b"hello", 5, None).unwrap();
            assert_eq!(there.recv(&mut [0; 8]).unwrap(), 5);
        }
    }
}
