//! How a stream is doing.

use crate::errors::{Fault, answer};
use crate::handles::Handle;
use crate::setup::not_a_handle;
use libc::{c_int, size_t};
use std::mem::size_of;

/// How a stream is doing. Fields are only ever added at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LhStats {
    /// Bytes sent by the program.
    pub bytes_written: u64,
    /// Of those, bytes that the other side has.
    pub bytes_acked: u64,
    /// Bytes that had to be sent again since their connection had died.
    pub bytes_resent: u64,
    /// Bytes that came in.
    pub bytes_received: u64,
    /// Connections that died and were replaced, or should be.
    pub lanes_lost: u64,
    /// Connections that are alive.
    pub lanes: u32,
    /// Of those, connections that carry new data.
    pub lanes_active: u32,
    /// Smoothed round trip of the slowest connection, in microseconds.
    pub rtt_us: u64,
}

/// Tell how a handle's stream is doing. The length is sizeof(struct lh_stats) as the program was built with: it gets as
/// much as it knows of.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_stats(fd: c_int, out: *mut LhStats, len: size_t) -> c_int {
    answer(|| {
        let stats = Handle::find(fd)?.ok_or_else(not_a_handle)?.stream()?.stats();
        if out.is_null() {
            return Err(Fault::null("the place for the statistics"));
        }
        let rtt = stats.lanes.iter().map(|lane| lane.tcp.rtt).max().unwrap_or_default();
        let told = LhStats {
            bytes_written: stats.bytes_written,
            bytes_acked: stats.bytes_acked,
            bytes_resent: stats.bytes_resent,
            bytes_received: stats.bytes_received,
            lanes_lost: stats.lanes_lost,
            lanes: stats.lanes.len() as u32,
            lanes_active: stats.lanes_active as u32,
            rtt_us: rtt.as_micros() as u64,
        };
        let known = len.min(size_of::<LhStats>());
        // SAFETY: `told` has no padding; the caller says that `len` bytes may be written. What it has beyond is zeroed.
        unsafe {
            out.cast::<u8>().write_bytes(0, len);
            std::ptr::copy_nonoverlapping((&raw const told).cast::<u8>(), out.cast(), known);
        }
        Ok(0)
    })
}
