//! A UDP socket that moves many datagrams a system call (GSO, GRO), tells when each reached the host (kernel
//! timestamps), what its IP header said of queues (ECN), and how many the host dropped (`SO_RXQ_OVFL`). Where the
//! system lacks one of these it does without.

use super::drops::DropMeter;
use crate::clock;
use crate::dscp;
use crate::flow_label::{labelled, without_label};
use crate::local::LocalEnd;
use crate::option;
use longhaul_proto::dscp::Dscp;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::scitag::SciTag;
use longhaul_proto::units::{Time, nanos};
use longhaul_proto::wire::{IPV4_UDP_LEN, IPV6_UDP_LEN};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Datagrams that one GSO call carries at most (the kernel's UDP_MAX_SEGMENTS is 64 at least).
pub const GSO_SEGMENTS_MAX: usize = 64;
/// Bytes that one GSO call carries at most: an IP packet.
pub const GSO_BYTES_MAX: usize = 65_507;

/// Beside the code point: ECN (RFC 3168 §5).
const ECN_BITS: u8 = 3;

/// Bytes of socket buffer asked for. The kernel caps this at `rmem_max`/`wmem_max`; what it gave is told by
/// [`UdpSocket::receive_buffer`].
const BUFFER_WANTED: usize = 16 << 20;
/// The send buffer is a queue in front of the pacer's work: long enough for a few GSO calls, no longer.
const SEND_BUFFER_WANTED: usize = 1 << 18;

/// Messages taken by one receive call; each may hold a whole GRO batch.
const BATCH: usize = 8;
const MESSAGE_BYTES: usize = 65_536;
/// For run, timestamp, drops, ECN and address, which may be told in both families, of 24, 32, 24, 24, 40 and 32 bytes.
const CONTROL_BYTES: usize = 192;

/// Whether an error tells of the network or of a firewall, here or on the way (RFC 1122 §4.2.3.9, RFC 4443 §3.1), or of a
/// route that has changed: what was sent is larger than it takes now, or this host has lost its address, its interface or its way
/// there.
/// What was sent is as good as lost, and the socket is none the worse.
pub fn is_on_the_way(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::EDESTADDRREQ
                | libc::ENOKEY
                | libc::EHOSTDOWN
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::ENONET
                | libc::ENOPROTOOPT
                | libc::EPROTO
                | libc::EOPNOTSUPP
                | libc::EACCES
                | libc::EPERM
                | libc::EMSGSIZE
                | libc::EINVAL
                | libc::EADDRNOTAVAIL
                | libc::ENODEV
                | libc::ENXIO
        )
    )
}

/// See the [module](self).
#[derive(Debug)]
pub struct UdpSocket {
    socket: Socket,
    gso: bool,
    drops: DropMeter,
    receive_buffer: usize,
    /// What the IP headers of all that is sent say: six bits of service, two of ECN.
    service: u8,
    /// What the flow label of all that is sent by IPv6 says.
    label: Option<SciTag>,
}

/// Buffers for receiving, apart from the socket so that the datagrams can be worked on while it is borrowed.
pub struct ReceiveBuffers {
    data: Vec<u8>,
    control: Box<[Control; BATCH]>,
    addresses: Box<[libc::sockaddr_storage; BATCH]>,
    messages: [Message; BATCH],
    count: usize,
}

#[repr(align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

#[derive(Clone, Copy, Default)]
struct Message {
    len: usize,
    segment: usize,
    time: Time,
    ecn: Option<Ecn>,
    from: Option<SocketAddr>,
    to: Option<IpAddr>,
}

/// A datagram in the buffers.
pub struct Datagram<'a> {
    /// Its bytes.
    pub bytes: &'a mut [u8],
    /// When it reached the host.
    pub time: Time,
    /// What its IP header said, if the kernel told.
    pub ecn: Option<Ecn>,
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// To which of this host's addresses, if the socket tells ([`UdpSocket::tell_own_address`]).
    pub to: Option<IpAddr>,
}

impl Default for ReceiveBuffers {
    fn default() -> ReceiveBuffers {
        ReceiveBuffers {
            data: vec![0; BATCH * MESSAGE_BYTES],
            control: Box::new([Control([0; CONTROL_BYTES]); BATCH]),
            // SAFETY: all-zero bytes are a valid sockaddr_storage (family AF_UNSPEC).
            addresses: Box::new([unsafe { zeroed() }; BATCH]),
            messages: [Message::default(); BATCH],
            count: 0,
        }
    }
}

impl ReceiveBuffers {
    /// The datagrams of the last receive call.
    pub fn datagrams(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        let messages = &self.messages[..self.count];
        self.data.chunks_mut(MESSAGE_BYTES).zip(messages).flat_map(|(buf, message)| {
            let Message { time, ecn, from, to, .. } = *message;
            buf[..message.len].chunks_mut(message.segment.max(1)).map(move |bytes| Datagram {
                bytes,
                time,
                ecn,
                from,
                to,
            })
        })
    }
}

impl UdpSocket {
    /// Bind to `address`. `shared` lets several sockets of this user have the same port: one open to all, and one
    /// connected to each peer, which the kernel prefers for that peer's datagrams.
    pub fn bind(address: SocketAddr, shared: bool) -> io::Result<UdpSocket> {
        UdpSocket::bind_as(address, shared, |socket| socket.bind(&address.into()))
    }

    /// Begin at `local`, for peers of the same family as `any`, which has no address of its own.
    pub fn bind_at(local: &LocalEnd, any: SocketAddr) -> io::Result<UdpSocket> {
        UdpSocket::bind_as(any, false, |socket| local.bind(socket))
    }

    fn bind_as(
        address: SocketAddr,
        shared: bool,
        bind: impl FnOnce(&Socket) -> io::Result<()>,
    ) -> io::Result<UdpSocket> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        if shared {
            // Not SO_REUSEADDR, with which any user's program may take a part of what comes in.
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            // Serve IPv4 peers too; a host without IPv4 may refuse, and then there are none to serve.
            let _ = socket.set_only_v6(false);
        }
        // Both are capped silently by the kernel; the drop counter and `receive_buffer` tell what follows from that.
        let _ = socket.set_recv_buffer_size(BUFFER_WANTED);
        let _ = socket.set_send_buffer_size(SEND_BUFFER_WANTED);
        for (level, name, value) in [
            (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1),
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
            (libc::SOL_UDP, libc::UDP_GRO, 1),
            (libc::SOL_IP, libc::IP_RECVTOS, 1),
            (libc::SOL_IPV6, libc::IPV6_RECVTCLASS, 1),
            // Never fragment; the path check finds what passes (RFC 8899 §3).
            (libc::SOL_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
            (libc::SOL_IPV6, libc::IPV6_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE),
        ] {
            // Each is a convenience that the kernel or the address family may lack.
            let _ = option::set(&socket, level, name, value);
        }
        let gso = option::set(&socket, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok();
        bind(&socket)?;
        let receive_buffer = socket.recv_buffer_size().unwrap_or(0);
        let drops = DropMeter::new(receive_buffer);
        Ok(UdpSocket { socket, gso, drops, receive_buffer, service: 0, label: None })
    }

    /// From now on every datagram tells to which of this host's addresses it came.
    pub fn tell_own_address(&self) {
        for (level, name) in [(libc::SOL_IP, libc::IP_PKTINFO), (libc::SOL_IPV6, libc::IPV6_RECVPKTINFO)] {
            // One of the two fits the address family.
            let _ = option::set(&self.socket, level, name, 1);
        }
    }

    /// Talk to `peer` only from now on.
    pub fn connect(&self, peer: SocketAddr) -> io::Result<()> {
        let peer = self.reachable(peer);
        let to = self.label.map_or(peer, |tag| labelled(&self.socket, peer, tag));
        self.socket.connect(&SockAddr::from(to))
    }

    /// Send to the same peer from the address that this host has now: a connected socket keeps to the one it had.
    pub fn send_from(&self, address: IpAddr) -> io::Result<()> {
        let own = self.socket.local_addr()?.as_socket();
        if own.is_some_and(|own| own.ip().to_canonical() == address.to_canonical()) {
            return Ok(());
        }
        let peer = self.socket.peer_addr()?;
        rustix::net::connect_unspec(&self.socket)?;
        self.socket.connect(&peer)
    }

    /// Bytes of IP and UDP headers around each datagram to the connected peer.
    pub fn headers_len(&self) -> usize {
        let peer = self.socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        // An IPv4 address that is mapped into IPv6 stands for IPv4 on the wire.
        match peer.map(|peer| peer.ip().to_canonical()) {
            Some(IpAddr::V6(_)) => IPV6_UDP_LEN,
            _ => IPV4_UDP_LEN,
        }
    }

    /// What is sent from now on asks routers for this.
    pub fn set_dscp(&mut self, dscp: Dscp) {
        self.set_service(dscp.service() | self.service & ECN_BITS);
    }

    /// What is sent to the connected peer from now on says by its flow label whose it is.
    pub fn set_label(&mut self, tag: Option<SciTag>) {
        let is_new = tag.is_some() && self.label != tag;
        self.label = tag;
        if let (true, Some(peer)) = (is_new, self.peer_addr()) {
            // As it was, if this fails.
            let _ = self.connect(peer);
        }
    }

    /// What the IP headers of all that is sent from now on say of queues. Where it cannot be said, nothing is marked.
    pub fn set_ecn(&mut self, ecn: Ecn) {
        self.set_service(self.service & !ECN_BITS | ecn.bits());
    }

    /// What they say.
    pub fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.service)
    }

    fn set_service(&mut self, service: u8) {
        if service == std::mem::replace(&mut self.service, service) {
            return;
        }
        dscp::set_service(&self.socket, service);
    }

    /// The address it is bound to.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::Error::other("not an IP socket"))
    }

    /// The address that it is connected to.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.socket.peer_addr().ok()?.as_socket().map(without_label)
    }

    /// For waiting.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Datagrams that the kernel dropped because this socket's buffer was full, as far as can be told.
    pub fn drops(&self) -> u64 {
        self.drops.drops()
    }

    /// Bytes of receive buffer that the kernel gave (it counts its own bookkeeping in).
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Send `buf` as datagrams of `segment` bytes (the last may be shorter). Returns how many bytes are gone; fewer
    /// than all only with `WouldBlock` next.
    pub fn send_run(&mut self, buf: &[u8], segment: usize, to: Option<SocketAddr>) -> io::Result<usize> {
        let mut refused = false;
        if buf.len() > segment && self.gso {
            match self.send_message(buf, Some(segment), to) {
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)) =>
                {
                    refused = true;
                }
                other => return other.map(|()| buf.len()),
            }
        }
        let mut sent = 0;
        for datagram in buf.chunks(segment) {
            match self.send_message(datagram, None, to) {
                Ok(()) => {
                    sent += datagram.len();
                    // What passes one by one and not as a run: a device without checksum offload. From now on one by one.
                    self.gso &= !refused;
                }
                Err(error) if sent > 0 && error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    fn send_message(&self, buf: &[u8], segment: Option<usize>, to: Option<SocketAddr>) -> io::Result<()> {
        let address = to.map(|to| SockAddr::from(self.reachable(to)));
        let mut control = Control([0; CONTROL_BYTES]);
        let mut iov = libc::iovec { iov_base: buf.as_ptr().cast_mut().cast(), iov_len: buf.len() };
        // SAFETY: msghdr is plain data for which all-zero is valid; every pointer set below outlives the call, and
        // the control buffer is aligned for cmsghdr and larger than CMSG_SPACE(2).
        let sent = unsafe {
            let mut header: libc::msghdr = zeroed();
            header.msg_iov = &mut iov;
            header.msg_iovlen = 1;
            if let Some(address) = &address {
                header.msg_name = address.as_ptr().cast_mut().cast();
                header.msg_namelen = address.len();
            }
            if let Some(segment) = segment {
                header.msg_control = control.0.as_mut_ptr().cast();
                header.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as u32) as _;
                let cmsg = libc::CMSG_FIRSTHDR(&header);
                (*cmsg).cmsg_level = libc::SOL_UDP;
                (*cmsg).cmsg_type = libc::UDP_SEGMENT;
                (*cmsg).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as u32) as _;
                libc::CMSG_DATA(cmsg).cast::<u16>().write_unaligned(segment as u16);
            }
            libc::sendmsg(self.socket.as_raw_fd(), &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
        };
        if sent >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // Out of device buffers is back-pressure too.
            Some(libc::ENOBUFS) => Err(io::ErrorKind::WouldBlock.into()),
            _ => Err(error),
        }
    }

    /// Take what has come in. `Ok(false)`: nothing. Errors of earlier sends that the kernel reports here (a closed
    /// port, a too large probe, a firewall's refusal) are swallowed: silence tells the protocol as much.
    pub fn receive(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<bool> {
        buffers.count = 0;
        for _ in 0..4 {
            match self.receive_batch(buffers) {
                Ok(count) => {
                    buffers.count = count;
                    return Ok(count > 0);
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => {
                        self.drops.on_empty();
                        return Ok(false);
                    }
                    Some(libc::EINTR) => {}
                    _ if is_on_the_way(&error) => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(false)
    }

    fn receive_batch(&mut self, buffers: &mut ReceiveBuffers) -> io::Result<usize> {
        // SAFETY: iovec and mmsghdr are plain data for which all-zero is valid. All pointers lead into `buffers`,
        // which is borrowed for the whole call, at offsets within bounds.
        let count = unsafe {
            let mut iovs: [libc::iovec; BATCH] = zeroed();
            let mut headers: [libc::mmsghdr; BATCH] = zeroed();
            for i in 0..BATCH {
                iovs[i].iov_base = buffers.data.as_mut_ptr().add(i * MESSAGE_BYTES).cast();
                iovs[i].iov_len = MESSAGE_BYTES;
                let header = &mut headers[i].msg_hdr;
                header.msg_iov = &mut iovs[i];
                header.msg_iovlen = 1;
                header.msg_control = buffers.control[i].0.as_mut_ptr().cast();
                header.msg_controllen = CONTROL_BYTES as _;
                header.msg_name = (&raw mut buffers.addresses[i]).cast();
                header.msg_namelen = size_of::<libc::sockaddr_storage>() as u32;
            }
            let fd = self.socket.as_raw_fd();
            let flags = libc::MSG_DONTWAIT as _;
            let count = libc::recvmmsg(fd, headers.as_mut_ptr(), BATCH as u32, flags, std::ptr::null_mut());
            if count < 0 {
                return Err(io::Error::last_os_error());
            }
            let clocks = Clocks::read();
            for (i, header) in headers.iter().enumerate().take(count as usize) {
                let (message, dropped) = read_message(header, &buffers.addresses[i], &clocks);
                self.drops.on_message(message.len, dropped);
                buffers.messages[i] = message;
            }
            count as usize
        };
        if count < BATCH {
            self.drops.on_empty();
        }
        Ok(count)
    }

    /// An IPv4 peer as this socket can name it.
    fn reachable(&self, peer: SocketAddr) -> SocketAddr {
        let v6 = self.socket.local_addr().is_ok_and(|local| local.is_ipv6());
        match peer.ip() {
            IpAddr::V4(ip) if v6 => SocketAddr::new(IpAddr::V6(ip.to_ipv6_mapped()), peer.port()),
            _ => peer,
        }
    }
}

/// What came in, and the kernel's drop counter if it was told.
///
/// # Safety
/// `header` must be as `recvmmsg` left it, its control buffer still alive.
unsafe fn read_message(
    header: &libc::mmsghdr,
    address: &libc::sockaddr_storage,
    clocks: &Clocks,
) -> (Message, Option<u32>) {
    let len = header.msg_len as usize;
    let from = socket_addr(address);
    let mut message = Message { len, segment: len, time: clocks.now, ecn: None, from, to: None };
    let mut dropped = None;
    // SAFETY: the caller vouches for the header; CMSG_NXTHDR stays within its control buffer, and the kernel
    // wrote as many bytes as each type holds.
    unsafe {
        let mut cmsg = libc::CMSG_FIRSTHDR(&header.msg_hdr);
        while let Some(c) = cmsg.as_ref() {
            let data = libc::CMSG_DATA(cmsg);
            match (c.cmsg_level, c.cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    message.segment = data.cast::<u16>().read_unaligned().max(1) as usize;
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    message.time = clocks.local(data.cast::<libc::timespec>().read_unaligned());
                }
                (libc::SOL_IP, libc::IP_TOS) => message.ecn = Some(Ecn::from_bits(*data)),
                (libc::SOL_IPV6, libc::IPV6_TCLASS) => {
                    message.ecn = Some(Ecn::from_bits(data.cast::<libc::c_int>().read_unaligned() as u8));
                }
                (libc::SOL_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    // A socket for both families tells it twice: the other one is its own way to name it.
                    message.to.get_or_insert(IpAddr::V4(u32::from_be(info.ipi_addr.s_addr).into()));
                }
                (libc::SOL_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    message.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    dropped = Some(data.cast::<u32>().read_unaligned());
                }
                _ => {}
            }
            cmsg = libc::CMSG_NXTHDR(&header.msg_hdr, cmsg);
        }
    }
    (message, dropped)
}

/// The wall clock, in which the kernel stamps, and ours, read together.
struct Clocks {
    now: Time,
    wall_ns: i128,
}

impl Clocks {
    fn read() -> Clocks {
        let wall = clock_gettime(ClockId::Realtime);
        Clocks {
            now: clock::now(),
            wall_ns: i128::from(wall.tv_sec) * 1_000_000_000 + i128::from(wall.tv_nsec),
        }
    }

    /// A kernel timestamp on our clock. An age that cannot be (the wall clock was set) counts as none.
    fn local(&self, stamp: libc::timespec) -> Time {
        let stamp_ns = i128::from(stamp.tv_sec) * 1_000_000_000 + i128::from(stamp.tv_nsec);
        match u64::try_from(self.wall_ns - stamp_ns) {
            Ok(age_ns) if age_ns < nanos(AGE_MAX) => self.now - Duration::from_nanos(age_ns),
            _ => self.now,
        }
    }
}

/// No datagram waits longer in a socket buffer.
const AGE_MAX: Duration = Duration::from_secs(10);

fn socket_addr(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in, which is smaller.
            let v4 = unsafe { *(&raw const *storage).cast::<libc::sockaddr_in>() };
            Some(SocketAddr::new(
                IpAddr::V4(u32::from_be(v4.sin_addr.s_addr).into()),
                u16::from_be(v4.sin_port),
            ))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that the storage holds a sockaddr_in6, which is smaller.
            let v6 = unsafe { *(&raw const *storage).cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let address = std::net::SocketAddrV6::new(ip, u16::from_be(v6.sin6_port), 0, v6.sin6_scope_id);
            Some(SocketAddr::V6(address))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
