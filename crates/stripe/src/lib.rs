//! A stream of bytes over several TCP connections: PSockets for today's programs.
//!
//! One TCP connection is held back by its window, by each loss, and by what its host allows. Several share the path
//! better (Sivakumar, Bailey, Grossman: *PSockets*, SC 2000). [`StripedStream`] hides how many there are: it is
//! used as a [`TcpStream`](std::net::TcpStream), reads what the other side wrote in the same order, and lives on
//! when one of its connections, its *lanes*, dies.
//!
//! ```no_run
//! use longhaul_stripe::{StripedListener, StripedStream};
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
//! Without further options data is sealed, though without a [key](StripeOptions::key) anybody may connect; the
//! number of lanes is found by experiment while data flows. [`StripeOptions`] sets all that.
//!
//! [`StripedStream::into_socket`] makes a socket of the system's of it, for what wants a descriptor.
//!
//! With the feature `tokio` there is `AsyncStripedStream`, for tasks.
//!
//! # How it works
//!
//! The sans-IO half (`proto/src/stripe`) has what was written and is not acknowledged (`outgoing`), what came in out
//! of order (`reassembly`), and takes lanes' bytes apart (`lane`, `frame`). The number of lanes and stalled ones are
//! found as for any parallel TCP connections (`proto/src/streams/search.rs`, `watch.rs`). This crate has the sockets,
//! the keys and two threads per end of a stream, whatever the number of lanes: `stripe-send` waits in one `poll` for
//! room in any socket, `stripe-receive` in another for bytes on any. A listener has one thread that meets everybody who
//! connects without waiting for anybody.
//!
//! * **Hand-over.** To wake a thread for each block would cost more than to send or receive it. So what sends and
//!   what receives are things that one thread has at a time (`LaneSender`, `LaneReceiver`), and whoever has something to do
//!   takes them while our thread sleeps: a program that writes sends in its own call, and leaves to `stripe-send`
//!   only to wait for room and to look after time; a program that waits for bytes receives them itself, and one
//!   that writes much takes in acknowledgements, which another thread could not while the socket is locked.
//!   `stripe-receive` looks every 5 ms whether the program still does. Locks are taken in the order receiver,
//!   sender, state.
//! * **Copies.** What is written is copied once, into blocks that are kept until the other side has them: a lane
//!   that dies takes nothing along. Payloads are read into the buffer in which they stay until they are read.
//!   Sealing works on a second copy, which is in the processor's cache.
//! * **Bounds.** Each direction holds one buffer's worth (64 MiB unless set) at both ends, and each lane at most
//!   one frame more. The receiver tells how far the sender may go; a lane that stalls stops the others only when
//!   that is used up. Strangers cost a descriptor and a kilobyte each, 512 of them at most.
//! * **A lane's socket** holds at most 512 KiB unsent (`TCP_NOTSENT_LOWAT`), or as much as is set: what waits in it cannot go
//!   over another lane.
//! * **Stalls.** A lane is given up when neither its kernel nor the stream's acknowledgements get on for five
//!   seconds while other lanes do. That the kernel's count moves is not enough: a box on the way may take bytes
//!   and pass nothing on.
//! * **How many lanes** is found during the transfer. While round trips are as short as they ever were, the path is not
//!   full: as soon as slow start is over, several times as many lanes are tried, and those of the next try are opened
//!   meanwhile. A number that fills the path is measured for ten round trips or a second. What fewer lanes carried
//!   shows how many are just enough, and those are tried. Where packets are lost by chance that says little, since a
//!   lane carries more just after its slow start than later. There the number is held; lanes are added when throughput
//!   sags while the path is not full, and fewer are tried if it stays full. What was found is remembered for a week per
//!   destination in `~/.local/state/longhaul/stripe-lanes.json`, and looked for again when throughput has moved by a
//!   quarter for some seconds. The search is tested against a model of CUBIC lanes over ten paths
//!   (`streams/search/tests.rs`) and measured by `longhaul lab run streams-auto`.
//! * **Memory**: the buffer each way at each end (64 MiB unless set), and 256 KiB per lane.

mod door;
pub mod errno;
mod halves;
mod handle;
mod handshake;
mod history;
mod keys;
mod listener;
mod options;
#[doc(hidden)]
pub mod pump;
mod receiver;
mod sender;
mod socket;
mod state;
mod stats;
mod stream;
mod tick;
#[cfg(feature = "tokio")]
mod tokio;
mod turns;

#[doc(hidden)]
pub use door::{Door, Doorkeeper, Met};
pub use halves::{ReadHalf, WriteHalf};
pub use listener::StripedListener;
pub use longhaul_net::local::LocalEnd;
pub use longhaul_net::tcp::TcpInfo;
pub use longhaul_proto::stripe::hello::Refusal;
pub use options::{Partition, Streams, StripeOptions};
pub use stats::{LaneStats, StripeStats};
pub use stream::StripedStream;
#[cfg(feature = "tokio")]
pub use tokio::AsyncStripedStream;
