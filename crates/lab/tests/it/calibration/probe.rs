//! Numbered, time-stamped UDP packets from one host to the other, and what became of them.

use longhaul_lab::{Lab, Place};
use longhaul_net::option;
use longhaul_testing::machine::note_pause;
use socket2::{Domain, MaybeUninitSlice, MsgHdrMut, Socket, Type};
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

/// Equally spaced packets.
#[derive(Clone, Copy)]
pub struct Stream {
    pub packets: u32,
    /// Size of each as a whole IP packet.
    pub packet_bytes: usize,
    /// Zero sends as fast as the socket takes them.
    pub gap: Duration,
}

impl Stream {
    /// Packets of `packet_bytes` for `seconds` at this rate.
    pub fn at_rate(mbit: f64, packet_bytes: usize, seconds: f64) -> Stream {
        let gap = packet_bytes as f64 * 8.0 / (mbit * 1e6);
        Stream { packets: (seconds / gap) as u32, packet_bytes, gap: Duration::from_secs_f64(gap) }
    }
}

/// A packet that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub number: u32,
    /// When the program sent it. Both hosts are on one machine and so have one clock.
    pub sent: Duration,
    /// When the receiving kernel had it.
    pub arrived: Duration,
}

impl Received {
    pub fn delay_ms(&self) -> f64 {
        (self.arrived.as_secs_f64() - self.sent.as_secs_f64()) * 1e3
    }
}

/// A socket on each host: `from` sends to `to`.
pub struct Probe {
    sender: Socket,
    receiver: Socket,
}

impl Probe {
    pub fn new(lab: &Lab, from: impl Into<Place>) -> Result<Probe, String> {
        let from = from.into();
        let to = Place::of(from.side.other(), from.pair);
        let open = |place| {
            lab.enter(place, || bind(lab.address(place)))
                .map_err(|e| e.to_string())?
                .map_err(|e| e.to_string())
        };
        let (sender, receiver) = (open(from)?, open(to)?);
        let address = receiver.local_addr().map_err(|e| e.to_string())?;
        sender.connect(&address).map_err(|e| e.to_string())?;
        Ok(Probe { sender, receiver })
    }

    /// Send it all; return what arrived, in that order, when nothing has for a while.
    pub fn run(&self, stream: Stream) -> Result<Vec<Received>, String> {
        self.receiver.set_read_timeout(Some(SILENCE)).map_err(|e| e.to_string())?;
        let sending = AtomicBool::new(true);
        thread::scope(|scope| {
            let receiver = scope.spawn(|| self.receive(&sending));
            let sent = self.send(stream);
            sending.store(false, Ordering::Release);
            let received = receiver.join().map_err(|_| "the receiver panicked")?;
            sent.map_err(|e| format!("sending: {e}")).map(|()| received)
        })
    }

    fn send(&self, stream: Stream) -> io::Result<()> {
        let mut packet = vec![0; stream.packet_bytes - IP_AND_UDP_BYTES];
        let start = Instant::now();
        let mut late = Duration::ZERO;
        for number in 0..stream.packets {
            let due = stream.gap * number;
            let wait = due.saturating_sub(start.elapsed());
            if wait > Duration::from_micros(200) {
                thread::sleep(wait);
            }
            // A burst makes up for it, but the path sees a burst.
            let late_before = mem::replace(&mut late, start.elapsed().saturating_sub(due));
            note_pause(late.saturating_sub(late_before));
            packet[0..4].copy_from_slice(&number.to_le_bytes());
            let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
            packet[4..12].copy_from_slice(&(now.as_nanos() as u64).to_le_bytes());
            self.sender.send(&packet)?;
        }
        Ok(())
    }

    fn receive(&self, sending: &AtomicBool) -> Vec<Received> {
        let mut received = Vec::new();
        loop {
            let more = sending.load(Ordering::Acquire);
            match receive_one(&self.receiver) {
                Ok(packet) => received.push(packet),
                Err(_) if more => {}
                Err(_) => return received,
            }
        }
    }
}

fn receive_one(socket: &Socket) -> io::Result<Received> {
    let (mut packet, mut control) = ([MaybeUninit::new(0); 12], [MaybeUninit::new(0); 64]);
    let mut buffers = [MaybeUninitSlice::new(&mut packet)];
    let mut message = MsgHdrMut::new().with_buffers(&mut buffers).with_control(&mut control);
    socket.recvmsg(&mut message, libc::MSG_TRUNC)?;
    // SAFETY: both arrays were filled with zeros when they were made.
    let (packet, control) =
        unsafe { (packet.map(|byte| byte.assume_init()), control.map(|byte| byte.assume_init())) };
    let word =
        |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |chunk| u64::from_le_bytes(*chunk));
    // One control message: 16 bytes of header, then the kernel's time of arrival as seconds and nanoseconds.
    let arrived = Duration::new(word(&control, 16), word(&control, 24) as u32);
    let number = word(&packet, 0) as u32;
    Ok(Received { number, sent: Duration::from_nanos(word(&packet, 4)), arrived })
}

/// Rate at which these packets arrived, from the one at `skip` (0 to 1) of them on, as IP packets.
pub fn arrival_mbit(received: &[Received], packet_bytes: usize, skip: f64) -> f64 {
    let rest = &received[(received.len() as f64 * skip) as usize..];
    match rest {
        [first, .., last] => {
            let bits = (rest.len() - 1) as f64 * packet_bytes as f64 * 8.0;
            bits / (last.arrived.as_secs_f64() - first.arrived.as_secs_f64()) / 1e6
        }
        _ => 0.0,
    }
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Whether `found` is within `share` of what was asked for.
pub fn within(what: &str, found: f64, asked: f64, share: f64) -> Result<(), String> {
    let close = (found - asked).abs() <= asked.abs() * share;
    if close { Ok(()) } else { Err(format!("{what} {found:.3} instead of {asked:.3}")) }
}

/// A socket with room for what comes while nobody reads.
pub fn bind(address: Ipv4Addr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None)?;
    socket.set_recv_buffer_size(4 << 20)?;
    socket.bind(&SocketAddr::from(SocketAddrV4::new(address, 0)).into())?;
    option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    Ok(socket)
}

/// Longer than any round trip measured here, so that what is still on its way is waited for.
const SILENCE: Duration = Duration::from_millis(700);
const IP_AND_UDP_BYTES: usize = 28;
