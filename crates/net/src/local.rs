//! Where on this host a connection begins: at one of its addresses, or at a network interface.

use socket2::Socket;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// See the [module](self). Read from text, what is no IP address is taken for the name of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LocalEnd {
    /// One of this host's addresses.
    Address(IpAddr),
    /// A network interface by its name. What goes to the other host leaves there, whatever the routes say.
    Interface(String),
    /// An address of an interface, at which it begins and by which it leaves. Not read from text.
    AddressOf(IpAddr, String),
}

impl LocalEnd {
    /// Have a socket that is not connected yet begin here.
    pub fn bind(&self, socket: &Socket) -> io::Result<()> {
        match self {
            LocalEnd::Address(address) => socket.bind(&SocketAddr::new(*address, 0).into()),
            LocalEnd::Interface(name) => socket.bind_device(Some(name.as_bytes())),
            LocalEnd::AddressOf(address, name) => {
                match socket.bind_device(Some(name.as_bytes())) {
                    // Before Linux 5.7 only root may; the routes decide then.
                    Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
                    bound => bound?,
                }
                socket.bind(&SocketAddr::new(*address, 0).into())
            }
        }
    }

    /// Whether a connection from here can lead to `peer`.
    pub fn fits(&self, peer: IpAddr) -> bool {
        match self {
            LocalEnd::Address(address) | LocalEnd::AddressOf(address, _) => {
                address.is_ipv4() == peer.to_canonical().is_ipv4()
            }
            LocalEnd::Interface(_) => true,
        }
    }
}

impl FromStr for LocalEnd {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<LocalEnd, Infallible> {
        Ok(text.into())
    }
}

impl From<&str> for LocalEnd {
    fn from(text: &str) -> LocalEnd {
        text.parse().map_or_else(|_| LocalEnd::Interface(text.into()), LocalEnd::Address)
    }
}

impl fmt::Display for LocalEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalEnd::Address(address) | LocalEnd::AddressOf(address, _) => address.fmt(f),
            LocalEnd::Interface(name) => f.write_str(name),
        }
    }
}
