//! How fast a striped stream is over loopback, beside a socket without anything.
//!
//! `cargo run --release -p longhaul-stripe --example stripe_speed [-- MEBIBYTES [ROUNDS]]`
//!
//! Each round measures all ways in turn, so that whatever else the machine does meets all of them; the median
//! counts.

use longhaul_stripe::{Streams, StripeOptions, StripedStream};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

fn main() -> io::Result<()> {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>());
    let mut number = |default| args.next().unwrap_or(Ok(default)).map_err(io::Error::other);
    let (len, rounds) = (number(1024)? << 20, number(5)?.max(1));
    let fixed = |lanes| StripeOptions::new().streams(Streams::Fixed(lanes));
    let ways = [
        ("raw socket", None),
        ("plain, 1 lane", Some(fixed(1).plain())),
        ("plain, 8 lanes", Some(fixed(8).plain())),
        ("sealed, 1 lane", Some(fixed(1))),
        ("sealed, 8 lanes", Some(fixed(8))),
    ];
    let mut seconds = vec![vec![]; ways.len()];
    for _ in 0..rounds {
        for ((_, options), seconds) in ways.iter().zip(&mut seconds) {
            seconds.push(match options {
                None => raw(len)?,
                Some(options) => striped(len, options)?,
            });
        }
    }
    let median = |seconds: &mut Vec<f64>| {
        seconds.sort_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    let medians: Vec<f64> = seconds.iter_mut().map(median).collect();
    println!("{} MiB over loopback, median of {rounds}", len >> 20);
    for ((name, _), median) in ways.iter().zip(&medians) {
        let (rate, share) = (len as f64 * 8e-9 / median, 100.0 * medians[0] / median);
        println!("{name:16} {rate:6.2} Gb/s  {share:4.0} % of a raw socket");
    }
    Ok(())
}

/// Seconds for so many bytes through a socket.
fn raw(len: u64) -> io::Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    time(len, near, far, |near| near.shutdown(std::net::Shutdown::Write))
}

/// Seconds for so many bytes through a striped stream.
fn striped(len: u64, options: &StripeOptions) -> io::Result<f64> {
    let listener = options.bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = options.connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.wait_for_lanes(8, std::time::Duration::from_millis(100))?;
    time(len, near, far, StripedStream::close)
}

fn time<S: Read + Write + Send>(
    len: u64,
    mut near: S,
    mut far: S,
    close: impl FnOnce(S) -> io::Result<()> + Send,
) -> io::Result<f64> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let writing = scope.spawn(move || {
            let piece = vec![7; PIECE];
            for _ in 0..len / PIECE as u64 {
                near.write_all(&piece)?;
            }
            close(near)
        });
        let (mut piece, mut got) = (vec![0; PIECE], 0);
        loop {
            match far.read(&mut piece)? {
                0 => break,
                read => got += read as u64,
            }
        }
        writing.join().map_err(|_| io::Error::other("the writer failed"))??;
        if got == len { Ok(()) } else { Err(io::Error::other("not all bytes arrived")) }
    })?;
    Ok(began.elapsed().as_secs_f64())
}

/// Written and read at a time.
const PIECE: usize = 1 << 20;
