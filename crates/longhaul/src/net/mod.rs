//! Sockets and keys: everything between a protocol's datagrams and the network.

pub mod control;
mod drops;
pub mod hurried;
pub mod lanes;
pub mod link;
pub mod patient;
pub mod pipe;
pub mod plain;
pub mod seal;
pub mod udp;
pub mod wake;
