//! Striped streams over loopback.

mod breakdowns;
mod common;
mod memory;
mod sockets;
mod strangers;
mod streams;
#[cfg(feature = "tokio")]
mod tasks;
