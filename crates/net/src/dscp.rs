//! What IP headers ask of routers: the code point of a differentiated service (RFC 2474).

use longhaul_proto::dscp::Dscp;
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use std::os::fd::AsFd;

/// Have all that a socket sends from now on ask for this. The kernel keeps the two bits of ECN of a TCP connection to itself.
pub fn mark(socket: impl AsFd, dscp: Dscp) {
    set_service(socket, dscp.service());
}

/// The whole octet.
pub(crate) fn set_service(socket: impl AsFd, service: u8) {
    // One of the two fits the address family, both where IPv4 peers are reached over IPv6. A mark is a courtesy: where it is not to
    // be had all goes on without it.
    let _ = set_ip_tos(&socket, service);
    let _ = set_ipv6_tclass(&socket, service.into());
}
