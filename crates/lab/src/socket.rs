//! Sockets of kernel TCP under a congestion control.

use crate::error::LabError;
use socket2::{Domain, Protocol, Socket, Type};

/// One to connect with, made on the host of the thread.
pub(crate) fn sender_socket(congestion_control: &str) -> Result<Socket, LabError> {
    sender_socket_of(Protocol::TCP, congestion_control)
}

/// The same of that protocol, TCP or MPTCP.
pub(crate) fn sender_socket_of(protocol: Protocol, congestion_control: &str) -> Result<Socket, LabError> {
    let socket =
        Socket::new(Domain::IPV4, Type::STREAM, Some(protocol)).map_err(LabError::at("making a socket"))?;
    match socket.set_tcp_congestion(congestion_control.as_bytes()) {
        Ok(()) => Ok(socket),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM)) => {
            let available = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
            let available = available.unwrap_or_default().trim().into();
            Err(LabError::NoCongestionControl { name: congestion_control.into(), available })
        }
        Err(error) => Err(LabError::at("choosing a congestion control")(error)),
    }
}
