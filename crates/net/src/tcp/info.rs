//! What the kernel tells of a TCP connection.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// What the kernel knows of a TCP stream's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Smoothed round trip.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_var: Duration,
    /// Least round trip lately.
    pub rtt_min: Duration,
    /// Congestion window in bytes.
    pub cwnd_bytes: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes sent again.
    pub retransmitted_bytes: u64,
    /// Bytes that the other host's kernel has acknowledged.
    pub acked_bytes: u64,
    /// Latest rate of delivery in bytes per second.
    pub delivery_bytes_per_second: u64,
    /// Bytes in the socket, sent or not, that are not acknowledged.
    pub queued_bytes: u64,
}

impl TcpInfo {
    /// Ask for a socket's. What an old kernel does not tell is zero.
    pub fn of(socket: &TcpStream) -> io::Result<TcpInfo> {
        let mut raw = MaybeUninit::<Raw>::zeroed();
        let mut len = size_of::<Raw>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes to `raw`, which is that long, and the descriptor is open.
        let code = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                raw.as_mut_ptr().cast(),
                &raw mut len,
            )
        };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all of it was zeroed, which is a value of each of its fields, all of them integers.
        let raw = unsafe { raw.assume_init() };
        let micros = |us: u32| Duration::from_micros(us.into());
        Ok(TcpInfo {
            rtt: micros(raw.rtt_us),
            rtt_var: micros(raw.rtt_var_us),
            // The kernel has it at its highest while there was no sample.
            rtt_min: if raw.min_rtt_us == u32::MAX { Duration::ZERO } else { micros(raw.min_rtt_us) },
            cwnd_bytes: u64::from(raw.snd_cwnd) * u64::from(raw.snd_mss),
            retransmits: raw.total_retrans.into(),
            retransmitted_bytes: raw.bytes_retrans,
            acked_bytes: raw.bytes_acked,
            delivery_bytes_per_second: raw.delivery_rate,
            queued_bytes: queued(socket)?,
        })
    }
}

/// Bytes in the socket that the other host has not acknowledged.
fn queued(socket: &TcpStream) -> io::Result<u64> {
    let mut queued: libc::c_int = 0;
    // SAFETY: SIOCOUTQ, which has the number of TIOCOUTQ, writes one integer to where it is told to, and the descriptor
    // is open.
    let code = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut queued) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(queued).unwrap_or(0))
}

/// `struct tcp_info` of linux/tcp.h up to `tcpi_bytes_retrans` (Linux 4.19): the crate libc knows less of it.
#[repr(C)]
struct Raw {
    state_and_flags: [u8; 8],
    timeouts_us: [u32; 2],
    snd_mss: u32,
    rcv_mss: u32,
    unacked_to_fackets: [u32; 5],
    times_and_mtus: [u32; 6],
    rtt_us: u32,
    rtt_var_us: u32,
    snd_ssthresh: u32,
    snd_cwnd: u32,
    advmss: u32,
    reordering: u32,
    rcv_rtt: u32,
    rcv_space: u32,
    total_retrans: u32,
    pacing_rates: [u64; 2],
    bytes_acked: u64,
    bytes_received: u64,
    segs: [u32; 2],
    notsent_bytes: u32,
    min_rtt_us: u32,
    data_segs: [u32; 2],
    delivery_rate: u64,
    busy_times: [u64; 3],
    delivered: [u32; 2],
    bytes_sent: u64,
    bytes_retrans: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn the_fields_are_where_the_kernel_has_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 10_000]).unwrap();
        far.read_exact(&mut [0; 10_000]).unwrap();
        far.write_all(b"x").unwrap();
        // Its segment brings the acknowledgement along.
        near.read_exact(&mut [0]).unwrap();
        let info = TcpInfo::of(&near).unwrap();
        // The kernel counts the SYN too.
        assert!((10_000..=10_001).contains(&info.acked_bytes), "{info:?}");
        assert_eq!((info.queued_bytes, info.retransmitted_bytes), (0, 0));
        assert!(info.rtt > Duration::ZERO && info.rtt < Duration::from_secs(10), "{info:?}");
        assert!(info.rtt_min <= info.rtt * 10 && info.cwnd_bytes >= 10_000, "{info:?}");
        assert!(info.delivery_bytes_per_second > 0);
    }
}
