//! Records the packets of a host in a pcap file (draft-ietf-opsawg-pcap), as the host's kernel sees them: when they
//! go to the path's device, and when they come from it. The emulator is not concerned, except for the processor
//! that it takes.

use crate::error::LabError;
use crate::host::Host;
use crate::lab::Lab;
use crate::place::Place;
use longhaul_net::option;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use socket2::{Domain, MaybeUninitSlice, MsgHdrMut, Socket, Type};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A recording that goes on. Dropping it ends it.
pub struct Capture {
    file: PathBuf,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<io::Result<Captured>>>,
}

/// What was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that came too fast to be recorded.
    pub missed: u64,
}

impl Lab {
    /// Record the packets that a host sends and receives: of each the first [`SNAP_BYTES`], its length and the time. The
    /// record falls behind rather than holding packets up, and says how many it missed.
    pub fn capture(&self, on: impl Into<Place>, file: &Path) -> Result<Capture, LabError> {
        let failed = |source| LabError::Capture { file: file.to_owned(), source };
        let host = self.host(on);
        let socket = host.enter(|| listen(host)).and_then(|socket| socket);
        let socket = socket.map_err(LabError::at("opening a packet socket"))?;
        let mut out = BufWriter::new(File::create(file).map_err(failed)?);
        out.write_all(&file_header()).and_then(|()| out.flush()).map_err(failed)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(stop.map_err(LabError::at("making an event descriptor"))?);
        let wake = stop.clone();
        let thread = thread::Builder::new().name("lab-capture".into());
        let thread = thread.spawn(move || record(&socket, &wake, out));
        let thread = thread.map_err(LabError::at("starting a thread"))?;
        Ok(Capture { file: file.to_owned(), stop, thread: Some(thread) })
    }
}

impl Capture {
    /// Side it, and say what came of it.
    pub fn finish(mut self) -> Result<Captured, LabError> {
        self.end().map_err(|source| LabError::Capture { file: self.file.clone(), source })
    }

    fn end(&mut self) -> io::Result<Captured> {
        let Some(thread) = self.thread.take() else { return Ok(Captured::default()) };
        // Cannot fail: the counter is far from its limit.
        let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes it panicked")))
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            tracing::warn!(file = %self.file.display(), %error, "a recording of packets is incomplete");
        }
    }
}

/// A socket that hears all that goes through the host's device, in this thread's namespace.
fn listen(host: &Host) -> io::Result<Socket> {
    // Protocol 0 hears nothing until it is bound to a device, where that of loopback is not wanted.
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    // Cut by the kernel to what it allows.
    socket.set_recv_buffer_size(BUFFER_BYTES)?;
    option::set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    // SAFETY: all-zero is a valid `sockaddr_ll`, a plain C structure.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = host.link as i32;
    // SAFETY: the call is given a live address and its size.
    let done = unsafe {
        let (address, len) = ((&raw const address).cast(), size_of_val(&address) as libc::socklen_t);
        libc::bind(socket.as_raw_fd(), address, len)
    };
    if done == 0 { Ok(socket) } else { Err(io::Error::last_os_error()) }
}

/// Until told to stop; then what is still in the socket.
fn record(socket: &Socket, stop: &OwnedFd, mut out: BufWriter<File>) -> io::Result<Captured> {
    let mut packets = 0;
    let mut is_over = false;
    while !is_over {
        let mut wakers = [PollFd::new(stop, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        // An interrupted wait has nothing ready.
        let _ = poll(&mut wakers, None);
        is_over = !wakers[0].revents().is_empty();
        while let Some(packet) = receive(socket)? {
            out.write_all(&packet.header())?;
            out.write_all(packet.kept())?;
            packets += 1;
        }
    }
    out.flush()?;
    Ok(Captured { packets, missed: missed(socket)? })
}

/// A packet as it was seen.
struct Packet {
    at: Duration,
    bytes: usize,
    start: [u8; SNAP_BYTES],
}

impl Packet {
    fn kept(&self) -> &[u8] {
        &self.start[..self.bytes.min(SNAP_BYTES)]
    }

    /// Seconds, nanoseconds, bytes kept, bytes.
    fn header(&self) -> [u8; 16] {
        let words =
            [self.at.as_secs() as u32, self.at.subsec_nanos(), self.kept().len() as u32, self.bytes as u32];
        words_bytes(words)
    }
}

fn receive(socket: &Socket) -> io::Result<Option<Packet>> {
    let (mut start, mut control) = ([MaybeUninit::new(0); SNAP_BYTES], [MaybeUninit::new(0); 64]);
    let mut buffers = [MaybeUninitSlice::new(&mut start)];
    let mut message = MsgHdrMut::new().with_buffers(&mut buffers).with_control(&mut control);
    // The whole length is told, whatever there is room for.
    let bytes = match socket.recvmsg(&mut message, libc::MSG_TRUNC) {
        Ok(bytes) => bytes,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // SAFETY: both arrays were filled with zeros when they were made.
    let (start, control) =
        unsafe { (start.map(|byte| byte.assume_init()), control.map(|byte| byte.assume_init())) };
    // One control message: `cmsghdr`, then the kernel's time as seconds and nanoseconds.
    let word = |at: usize| control[at..].first_chunk().map_or(0, |chunk| u64::from_ne_bytes(*chunk));
    let at = Duration::new(word(CONTROL_HEADER_BYTES), word(CONTROL_HEADER_BYTES + 8) as u32);
    Ok(Some(Packet { at, bytes, start }))
}

/// What the socket had no room for.
fn missed(socket: &Socket) -> io::Result<u64> {
    // `tpacket_stats`: packets, drops.
    let mut counts = [0u32; 2];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `counts`, which lives across the call.
    let result = unsafe {
        let value = (&raw mut counts).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut len)
    };
    if result == 0 { Ok(u64::from(counts[1])) } else { Err(io::Error::last_os_error()) }
}

fn file_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
    header[4..6].copy_from_slice(&2u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4u16.to_ne_bytes());
    header[16..20].copy_from_slice(&(SNAP_BYTES as u32).to_ne_bytes());
    header[20..].copy_from_slice(&LINK_TYPE_RAW.to_ne_bytes());
    header
}

fn words_bytes(words: [u32; 4]) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The headers of all protocols, and a bit of what follows.
pub const SNAP_BYTES: usize = 128;
/// 50 000 packets wait, at half a kilobyte each with what the kernel adds.
const BUFFER_BYTES: usize = 32 << 20;
/// Of a file in this machine's byte order, with times in nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Packets begin with their IP header.
const LINK_TYPE_RAW: u32 = 101;
/// `struct cmsghdr` of 64-bit kernels.
const CONTROL_HEADER_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_cut_and_say_how_long_they_were() {
        let packet = |bytes| Packet { at: Duration::new(7, 9), bytes, start: [1; SNAP_BYTES] };
        assert_eq!(packet(60).header(), words_bytes([7, 9, 60, 60]));
        assert_eq!((packet(60).kept().len(), packet(1500).kept().len()), (60, 128));
        assert_eq!(packet(1500).header(), words_bytes([7, 9, 128, 1500]));
    }

    #[test]
    fn the_file_says_what_it_is() {
        let header = file_header();
        assert_eq!(u32::from_ne_bytes(*header.first_chunk().unwrap()), 0xa1b2_3c4d);
        assert_eq!(u32::from_ne_bytes(*header[20..].first_chunk().unwrap()), 101);
    }
}
