//! Sends back what comes on striped streams: `cargo run --release -p longhaul-stripe --example stripe_echo --
//! [PORT]`.
//!
//! Without a port it takes a free one; the port is printed in any case.

use longhaul_stripe::{StripedListener, StripedStream};
use std::io::{self, Write};
use std::thread;

fn main() -> io::Result<()> {
    let port = std::env::args().nth(1).map_or(Ok(0), |arg| arg.parse()).map_err(io::Error::other)?;
    let listener = StripedListener::bind(("0.0.0.0", port))?;
    println!("{}", listener.local_addr()?.port());
    io::stdout().flush()?;
    loop {
        let (stream, from) = listener.accept()?;
        thread::spawn(move || {
            if let Err(error) = echo(stream) {
                eprintln!("{from}: {error}");
            }
        });
    }
}

fn echo(stream: StripedStream) -> io::Result<()> {
    io::copy(&mut &stream, &mut &stream)?;
    stream.close()
}
