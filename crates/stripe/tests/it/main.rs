//! Striped streams over loopback.

mod breakdowns;
mod common;
mod memory;
mod strangers;
mod streams;
#[cfg(feature = "tokio")]
mod tasks;
