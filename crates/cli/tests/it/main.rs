//! The real program.

mod addresses;
mod alone;
mod audit;
mod auto;
mod bad_input;
mod campaign;
mod common;
mod copy;
mod daemon;
mod lab_program;
mod listing;
mod many_clients;
mod memory;
mod outage;
mod parts;
mod rejoin;
mod releases;
mod replays;
mod resume;
mod signals;
mod ssh;
mod strangers;
mod tcp_streams;
mod udp_handshake;
mod unit;
mod usage;
