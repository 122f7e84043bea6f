//! A stream of bytes over several TCP connections: PSockets for today's programs.
//!
//! One TCP connection is held back by its window, by each loss, and by what its host allows. Several share the path
//! better (Sivakumar, Bailey, Grossman: *PSockets*, SC 2000). [`StripedStream`] hides how many there are: it is used as a
//! [`TcpStream`](std::net::TcpStream), reads what the other side wrote in the same order, and lives on when one of its
//! connections, its *lanes*, dies.
//!
//! ```no_run
//! use longhaul::stripe::{StripedListener, StripedStream};
//! use std::io::{Read, Write};
//!
//! let listener = StripedListener::bind("0.0.0.0:7701")?;
//! std::thread::spawn(move || -> std::io::Result<()> {
//!     let mut stream = StripedStream::connect("127.0.0.1:7701")?;
//!     stream.write_all(b"how far it is")?;
//!     stream.close()
//! });
//! let (mut stream, _from) = listener.accept()?;
//! let mut text = String::new();
//! stream.read_to_string(&mut text)?;
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! Without further options data is sealed, though without a [key](StripeOptions::key) anybody may connect; the number of
//! lanes is found by experiment while data flows. [`StripeOptions`] sets all that.
//!
//! Each end of a stream has two threads, whatever the number of lanes. With the feature `tokio` there is
//! `AsyncStripedStream`, for tasks.

mod halves;
mod handle;
mod handshake;
mod history;
mod keys;
mod listener;
mod options;
mod receiver;
mod sender;
mod state;
mod stats;
mod stream;
mod tcp_info;
mod tick;
#[cfg(feature = "tokio")]
mod tokio;

pub use halves::{ReadHalf, WriteHalf};
pub use listener::StripedListener;
pub use options::{Partition, Streams, StripeOptions};
pub use stats::{LaneStats, StripeStats};
pub use stream::StripedStream;
pub use tcp_info::TcpInfo;
#[cfg(feature = "tokio")]
pub use tokio::AsyncStripedStream;
