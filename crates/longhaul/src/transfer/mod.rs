//! Copies: two programs, one control stream, one object.
//!
//! [`client`] and [`server`] bring a [`Session`](session::Session) about; [`sending`] and [`receiving`] run it, whichever
//! of the two has the files.

pub mod client;
mod intake;
mod listing;
mod outset;
pub mod probe;
mod reach;
mod receiving;
mod sending;
pub mod server;
mod session;
mod ssh;
mod switchboard;
