//! Other programs' TCP connections, each as a striped stream to the other host, which connects to where it leads.
//!
//! What passes bytes on between a stream and a connection, with ends, breaks and back-pressure as they are, is `pump` of
//! `longhaul-stripe`.
//!
//! - `gate`: the server's side: a daemon, or an agent at the far end of an ssh.
//! - `far`: the client's way there.
//! - `near`: the client's side of programs: ports that it listens at, or its own standard input and output.
//! - `connects`: the calls by which programs connect that do not know of it.
//!
//! | side | thread | does |
//! |---|---|---|
//! | client | `forward-listen` for each port | accepts |
//! | client | `forward` for each connection; server: its `connection` | opens the stream; passes on what comes over it |
//! | both | `stripe-pump-out` for each connection | passes on what goes over it |
//! | both | the two of the stream | see `longhaul-stripe` |

mod connects;
mod far;
pub mod gate;
mod near;

pub use connects::{Answer, Ask, Connects};
pub use far::Far;
pub use gate::{ForwardAgentOptions, forward_agent};
pub use near::{Forwarded, Forwarder, Opened, forward, standard_streams};

use crate::net::noise::Psk;
use crate::net::tcp_set::usual_congestion;
use longhaul_stripe::pump::LOOK_EVERY;
use longhaul_stripe::{StripeOptions, StripedStream};
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Another key than that of control streams, so that nothing said there can be said again here.
fn forward_key(psk: &Psk) -> Psk {
    blake3::derive_key("longhaul forward key v1", psk)
}

/// The options of both sides' streams.
fn stream_options() -> StripeOptions {
    let options = StripeOptions::new().buffer(BUFFER_MAX).lanes_after(LANES_AFTER).unsent(UNSENT_BYTES);
    let options = options.connect_timeout(CONNECT_PATIENCE);
    // As a copy's TCP streams do, they leave others their share.
    match usual_congestion() {
        Some(name) => options.congestion(name),
        None => options,
    }
}

/// Fill the buffer, unless that is in vain until then, or `stop` is set.
fn read_all(mut stream: &StripedStream, buf: &mut [u8], until: Instant, stop: &AtomicBool) -> io::Result<()> {
    stream.set_read_timeout(Some(LOOK_EVERY))?;
    let mut at = 0;
    while at < buf.len() {
        match stream.read(&mut buf[at..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(len) => at += len,
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if stop.load(Ordering::Relaxed) => return Err(ErrorKind::ConnectionAborted.into()),
            Err(_) if Instant::now() >= until => {
                return Err(io::Error::new(ErrorKind::TimedOut, "the other side stays silent"));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// How long opening a stream may take, and on the other side connecting.
const CONNECT_PATIENCE: Duration = Duration::from_secs(15);
/// Who wrote so much has more to say than what a person types or a server's greeting: it is worth further connections.
const LANES_AFTER: u64 = 256 << 10;
/// Bytes that may wait in a lane's socket. ssh sends 2 MiB before it waits for an answer: with half a MiB in each of four lanes the
/// others had nothing, and rsync over it 23 Mb/s instead of 43 over 100 Mb/s, 65 ms, 0.1 % loss.
const UNSENT_BYTES: u32 = 64 << 10;
/// Bytes that a stream holds each way at most: 32 MiB carry 2.7 Gb/s over 100 ms.
const BUFFER_MAX: u64 = 32 << 20;
