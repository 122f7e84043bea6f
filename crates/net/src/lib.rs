//! Sockets and keys: what stands between the protocols of `longhaul-proto` and the network, for a copy and for a
//! striped stream alike.
//!
//! - [`udp`], [`wake`], [`clock`], [`prepared`]: datagrams in runs, waiting for several things at once, the time, threads.
//! - [`noise`], [`join`], [`aead`], [`seal`]: the handshake, how further connections join, keys of what follows.
//! - [`control`]: the encrypted messages around a copy. [`link`]: its datagrams, over UDP or over a [`tcp_set`];
//!   [`strays`]: those that come in at a socket open to all.
//! - [`tcp`]: how TCP connections that carry data are set up and opened, what the kernel knows of them, how many
//!   are best.
//! - [`checksum`]: how the shell of another host says whether what we sent came whole.
//! - [`marks`], [`dscp`], [`flow_label`]: what IP headers say of a session's packets. [`flow`]: what it sends and receives by.
//! - [`local`]: where on this host a connection begins.
//! - [`history`], [`user`]: what is remembered from one transfer to the next, and where.
//! - [`plain`]: protocols in clear over UDP, for experiments.

mod address;
pub mod aead;
pub mod budget;
pub mod checksum;
pub mod clock;
pub mod control;
mod drops;
pub mod dscp;
pub mod flow;
pub mod flow_label;
pub mod history;
pub mod join;
pub mod link;
pub mod local;
pub mod marks;
pub mod noise;
pub mod option;
pub mod patient;
mod pipe;
pub mod plain;
pub mod prepared;
pub mod random;
pub mod seal;
pub mod strays;
pub mod tcp;
pub mod tcp_set;
pub mod udp;
pub mod user;
pub mod wake;
