//! The few words of rtnetlink that a lab needs: bring a device up, give it addresses, a token bucket, read its
//! drops.

use rustix::io::Errno;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::net::{bind, recv, send, socket_with};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;

/// A netlink socket of the namespace in which it was made, usable from any thread.
pub(crate) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
    reply: Vec<u8>,
}

impl Netlink {
    /// Open one in this thread's network namespace.
    pub(crate) fn open() -> io::Result<Netlink> {
        // Protocol 0 of this family is NETLINK_ROUTE.
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        Ok(Netlink { socket, sequence: 0, reply: vec![0; REPLY_BYTES] })
    }

    /// Bring a device up that speaks to one peer only: no multicast, so that nothing but its users' packets is sent.
    pub(crate) fn bring_up(&mut self, link: u32, mtu: u32, queue_packets: u32) -> io::Result<()> {
        let mut request =
            Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &link_header(link, IFF_UP, IFF_UP | IFF_MULTICAST));
        request.attribute(libc::IFLA_MTU, &mtu.to_ne_bytes());
        request.attribute(libc::IFLA_TXQLEN, &queue_packets.to_ne_bytes());
        self.command(request)
    }

    /// Bring up the loopback device, which is number 1 in every namespace.
    pub(crate) fn bring_up_loopback(&mut self) -> io::Result<()> {
        self.command(Request::new(libc::RTM_NEWLINK, NLM_F_ACK, &link_header(LOOPBACK, IFF_UP, IFF_UP)))
    }

    /// Give a device an address, usable at once (no duplicate address detection).
    pub(crate) fn add_address(&mut self, link: u32, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
        let (family, octets) = match address {
            IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
            IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
        };
        let mut header = vec![family as u8, prefix_bits, 0, 0];
        header.extend(link.to_ne_bytes());
        let mut request = Request::new(libc::RTM_NEWADDR, NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL, &header);
        request.attribute(libc::IFA_LOCAL, &octets);
        request.attribute(libc::IFA_ADDRESS, &octets);
        request.attribute(libc::IFA_FLAGS, &libc::IFA_F_NODAD.to_ne_bytes());
        self.command(request)
    }

    /// Put a token bucket in front of a device: `rate` bytes a second, `burst` bytes at once, `limit` bytes waiting.
    pub(crate) fn add_token_bucket(
        &mut self,
        link: u32,
        rate: u64,
        burst: u32,
        limit: u32,
    ) -> io::Result<()> {
        let header = traffic_header(link, TC_H_ROOT);
        let mut request = Request::new(libc::RTM_NEWQDISC, NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE, &header);
        request.attribute(libc::TCA_KIND, b"tbf\0");
        let mut parameters = vec![0, TC_LINKLAYER_ETHERNET, 0, 0, 0, 0, 0, 0]; // tc_ratespec: no overhead counted
        parameters.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
        parameters.extend([0; 12]); // no peak rate
        parameters.extend(limit.to_ne_bytes());
        parameters.extend([0; 8]); // burst follows in bytes
        request.nest(libc::TCA_OPTIONS, |options| {
            options.attribute(TCA_TBF_PARMS, &parameters);
            options.attribute(TCA_TBF_RATE64, &rate.to_ne_bytes());
            options.attribute(TCA_TBF_BURST, &burst.to_ne_bytes());
        });
        self.command(request)
    }

    /// Packets that the device threw away because nobody took them in time.
    pub(crate) fn device_drops(&mut self, link: u32) -> io::Result<u64> {
        let request = Request::new(libc::RTM_GETLINK, 0, &link_header(link, 0, 0));
        let mut drops = None;
        self.converse(request, |kind, body| {
            if kind == libc::RTM_NEWLINK
                && let Some(stats) = find_attribute(body, LINK_HEADER_BYTES, libc::IFLA_STATS64)
            {
                drops = word_u64(stats, STATS64_TX_DROPPED);
                return true;
            }
            false
        })?;
        drops.ok_or_else(|| io::Error::other("the kernel sent no statistics of the device"))
    }

    /// Packets that the token bucket in front of the device threw away.
    pub(crate) fn token_bucket_drops(&mut self, link: u32) -> io::Result<u64> {
        let request = Request::new(libc::RTM_GETQDISC, NLM_F_DUMP, &traffic_header(link, 0));
        let mut drops = 0;
        self.converse(request, |kind, body| {
            let of_link = body.get(4..8) == Some(&link.to_ne_bytes());
            if kind == libc::RTM_NEWQDISC
                && of_link
                && find_attribute(body, TRAFFIC_HEADER_BYTES, libc::TCA_KIND) == Some(b"tbf\0")
                && let Some(stats) = find_attribute(body, TRAFFIC_HEADER_BYTES, libc::TCA_STATS2)
                && let Some(queue) = find_attribute(stats, 0, TCA_STATS_QUEUE)
            {
                drops += word_u32(queue, QUEUE_STATS_DROPS).unwrap_or(0);
            }
            false
        })?;
        Ok(u64::from(drops))
    }

    fn command(&mut self, request: Request) -> io::Result<()> {
        self.converse(request, |_, _| false)
    }

    /// Send a request and hand every message of the answer to `each` until it returns true or the answer ends.
    fn converse(&mut self, request: Request, mut each: impl FnMut(u16, &[u8]) -> bool) -> io::Result<()> {
        self.sequence += 1;
        send(&self.socket, &request.finish(self.sequence), SendFlags::empty())?;
        loop {
            let (_, len) = recv(&self.socket, &mut self.reply[..], RecvFlags::empty())?;
            let mut rest = &self.reply[..len];
            while let Some((message, after)) = split_message(rest) {
                rest = after;
                if message.sequence != self.sequence {
                    continue;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR => {
                        return match word_u32(message.body, 0).map_or(0, |code| -(code as i32)) {
                            0 => Ok(()),
                            code => Err(Errno::from_raw_os_error(code).into()),
                        };
                    }
                    libc::NLMSG_DONE => return Ok(()),
                    _ if each(message.kind, message.body) => return Ok(()),
                    _ => {}
                }
            }
        }
    }
}

/// A request being written: `nlmsghdr`, a fixed header, attributes.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: u16, header: &[u8]) -> Request {
        let mut bytes = vec![0; 4]; // length, known at the end
        bytes.extend(kind.to_ne_bytes());
        bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        bytes.extend([0; 8]); // sequence number, sender
        bytes.extend(header);
        Request { bytes }
    }

    fn attribute(&mut self, kind: u16, data: &[u8]) {
        self.nest(kind, |inner| inner.bytes.extend(data));
    }

    fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Request)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        write(self);
        let len = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    fn finish(mut self, sequence: u32) -> Vec<u8> {
        let len = self.bytes.len() as u32;
        self.bytes[0..4].copy_from_slice(&len.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        self.bytes
    }
}

struct Message<'a> {
    kind: u16,
    sequence: u32,
    body: &'a [u8],
}

fn split_message(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let len = word_u32(bytes, 0)? as usize;
    let body = bytes.get(MESSAGE_HEADER_BYTES..len)?;
    let message = Message { kind: word_u16(bytes, 4)?, sequence: word_u32(bytes, 8)?, body };
    Some((message, bytes.get(align(len)..).unwrap_or_default()))
}

fn find_attribute(body: &[u8], header_bytes: usize, wanted: u16) -> Option<&[u8]> {
    let mut rest = body.get(header_bytes..)?;
    while let (Some(len), Some(kind)) = (word_u16(rest, 0), word_u16(rest, 2)) {
        let data = rest.get(ATTRIBUTE_HEADER_BYTES..usize::from(len))?;
        if kind & !NLA_F_NESTED == wanted {
            return Some(data);
        }
        rest = rest.get(align(usize::from(len))..)?;
    }
    None
}

fn link_header(link: u32, flags: u32, change: u32) -> [u8; LINK_HEADER_BYTES] {
    let mut header = [0; LINK_HEADER_BYTES];
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..16].copy_from_slice(&change.to_ne_bytes());
    header
}

fn traffic_header(link: u32, parent: u32) -> [u8; TRAFFIC_HEADER_BYTES] {
    let mut header = [0; TRAFFIC_HEADER_BYTES];
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

fn word_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word_u32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word_u64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn align(len: usize) -> usize {
    len.next_multiple_of(4)
}

/// A dump comes in pieces of at most this many bytes.
const REPLY_BYTES: usize = 32 * 1024;
const LOOPBACK: u32 = 1;
const MESSAGE_HEADER_BYTES: usize = 16;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
/// `struct ifinfomsg`.
const LINK_HEADER_BYTES: usize = 16;
/// `struct tcmsg`.
const TRAFFIC_HEADER_BYTES: usize = 20;
/// `rtnl_link_stats64.tx_dropped`: the eighth of its 64-bit words.
const STATS64_TX_DROPPED: usize = 7 * 8;
/// `gnet_stats_queue.drops`: the third of its 32-bit words.
const QUEUE_STATS_DROPS: usize = 2 * 4;
const NLM_F_REQUEST: u16 = libc::NLM_F_REQUEST as u16;
const NLM_F_ACK: u16 = libc::NLM_F_ACK as u16;
const NLM_F_DUMP: u16 = libc::NLM_F_DUMP as u16;
const NLM_F_CREATE: u16 = libc::NLM_F_CREATE as u16;
const NLM_F_EXCL: u16 = libc::NLM_F_EXCL as u16;
const NLM_F_REPLACE: u16 = libc::NLM_F_REPLACE as u16;
const NLA_F_NESTED: u16 = libc::NLA_F_NESTED as u16;
const IFF_UP: u32 = libc::IFF_UP as u32;
const IFF_MULTICAST: u32 = libc::IFF_MULTICAST as u32;
// linux/pkt_sched.h, linux/gen_stats.h
const TC_H_ROOT: u32 = 0xffff_ffff;
const TC_LINKLAYER_ETHERNET: u8 = 1;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_STATS_QUEUE: u16 = 3;
