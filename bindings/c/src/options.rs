//! How to connect and listen.

use crate::address;
use crate::errors::{Answer, Fault, answer, answer_or};
use libc::{c_char, c_int, c_void, size_t};
use longhaul_stripe::{LocalEnd, Streams, StripeOptions};
use std::time::Duration;

/// How to connect and listen. Each lh_options_ call returns 0, or -1 with errno set.
#[derive(Clone, Debug, Default)]
pub struct LhOptions {
    pub(crate) inner: StripeOptions,
}

impl LhOptions {
    /// A copy of what it points to, or the usual ones for null.
    ///
    /// # Safety
    /// `options` is null or from [`lh_options_new`].
    pub(crate) unsafe fn or_default(options: *const LhOptions) -> StripeOptions {
        // SAFETY: the caller says so.
        unsafe { options.as_ref() }.map(|options| options.inner.clone()).unwrap_or_default()
    }
}

/// The usual options: lanes as the path needs them, sealed, without a key. To be freed with lh_options_free(); null if
/// there is no memory.
#[unsafe(no_mangle)]
pub extern "C" fn lh_options_new() -> *mut LhOptions {
    answer_or(std::ptr::null_mut(), || Ok(Box::into_raw(Box::default())))
}

/// Free options. Null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_free(options: *mut LhOptions) {
    answer_or((), || {
        if !options.is_null() {
            // SAFETY: the caller has it from lh_options_new and does not use it any more.
            drop(unsafe { Box::from_raw(options) });
        }
        Ok(())
    });
}

/// How many TCP connections a stream has: 1 to 64; 0, the default, finds out what is best while data flows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_streams(options: *mut LhOptions, count: u32) -> c_int {
    // SAFETY: the caller's pointer is null or from lh_options_new; so below.
    unsafe {
        change(options, |options| match count {
            0 => Ok(options.streams(Streams::Auto)),
            1..=64 => Ok(options.streams(Streams::Fixed(count))),
            _ => Err(Fault::new(libc::EINVAL, "there are 1 to 64 connections, or 0 for as many as are best")),
        })
    }
}

/// A secret that both sides know: only who knows it gets in. Copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_key(options: *mut LhOptions, key: *const c_void, len: size_t) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe {
        change(options, |options| {
            if key.is_null() || len == 0 || len > isize::MAX as usize {
                return Err(Fault::new(libc::EINVAL, "a key needs at least one byte"));
            }
            // SAFETY: the caller says that so much is there.
            Ok(options.key(std::slice::from_raw_parts(key.cast(), len)))
        })
    }
}

/// Let data travel in clear. Both sides must say so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_plain(options: *mut LhOptions) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.plain())) }
}

/// Bytes held at most in each direction: 64 MiB by default, at least 1 MiB. On a long fat path no less than twice its
/// bandwidth times its round trip.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_buffer(options: *mut LhOptions, bytes: u64) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.buffer(bytes))) }
}

/// Size of each TCP socket's buffers. The kernel sizes them by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_window(options: *mut LhOptions, bytes: size_t) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.window(bytes))) }
}

/// Name of the TCP congestion control to use, one of those that the kernel has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_congestion(options: *mut LhOptions, name: *const c_char) -> c_int {
    // SAFETY: see lh_options_streams; the name is null or ends with a zero byte.
    unsafe {
        change(options, |options| {
            Ok(options.congestion(address::text(name, "the congestion control's name")?))
        })
    }
}

/// Where on this host connections begin, for the side that connects: addresses or names of network interfaces with commas
/// between them, such as "eth0,192.0.2.7", which they take in turn. "", the default: wherever the way to the other host
/// does. An interface is used whatever the routes say, an address if they go by it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_local_ends(options: *mut LhOptions, places: *const c_char) -> c_int {
    // SAFETY: see lh_options_congestion.
    unsafe {
        change(options, |options| {
            let text = address::text(places, "the list of local ends")?;
            let places: Vec<&str> = text.split(',').map(str::trim).filter(|_| !text.is_empty()).collect();
            if places.contains(&"") {
                return Err(Fault::new(
                    libc::EINVAL,
                    "an address or the name of a network interface is wanted",
                ));
            }
            Ok(options.local_ends(places.into_iter().map(LocalEnd::from)))
        })
    }
}

/// How long connecting may take, 10 s by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_connect_timeout_ms(options: *mut LhOptions, ms: u32) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.connect_timeout(span(ms)?))) }
}

/// For how long to try for a new connection when none is left, and how long lh_close() waits while nothing gets
/// through: 10 s by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_patience_ms(options: *mut LhOptions, ms: u32) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.patience(span(ms)?))) }
}

/// A connection that gets nothing through for so long is replaced: 5 s by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_stall_timeout_ms(options: *mut LhOptions, ms: u32) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.stall_timeout(span(ms)?))) }
}

/// Whether the best number of connections is remembered for each destination, in the user's state folder: 1 by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_options_remember(options: *mut LhOptions, on: c_int) -> c_int {
    // SAFETY: see lh_options_streams.
    unsafe { change(options, |options| Ok(options.remember(on != 0))) }
}

fn span(ms: u32) -> Answer<Duration> {
    if ms == 0 {
        return Err(Fault::new(libc::EINVAL, "that needs at least a millisecond"));
    }
    Ok(Duration::from_millis(ms.into()))
}

/// # Safety
/// `options` is null or from [`lh_options_new`], and nobody else uses it meanwhile.
unsafe fn change(options: *mut LhOptions, how: impl FnOnce(StripeOptions) -> Answer<StripeOptions>) -> c_int {
    answer(|| {
        // SAFETY: the caller says so.
        let options = unsafe { options.as_mut() }.ok_or_else(|| Fault::null("options"))?;
        options.inner = how(options.inner.clone())?;
        Ok(0)
    })
}
