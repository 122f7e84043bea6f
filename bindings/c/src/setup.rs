//! Making handles, connecting and binding them.

use crate::address;
use crate::errors::{Answer, Fault, answer};
use crate::handles::{Fresh, Handle, State, Timeouts};
use crate::options::LhOptions;
use libc::{c_char, c_int, c_void, sockaddr, socklen_t};
use longhaul_stripe::{StripeOptions, StripedListener};
use std::mem::size_of;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// Make a handle, as socket() makes a socket. Anything but a stream over IPv4 or IPv6 is left to socket() itself.
#[unsafe(no_mangle)]
pub extern "C" fn lh_socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    answer(|| {
        let inet = matches!(domain, libc::AF_INET | libc::AF_INET6);
        let tcp = matches!(protocol, 0 | libc::IPPROTO_TCP);
        if !inet || !tcp || kind & !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) != libc::SOCK_STREAM {
            // SAFETY: it takes three numbers.
            return number(unsafe { libc::socket(domain, kind, protocol) });
        }
        if kind & libc::SOCK_NONBLOCK != 0 {
            let line = "handles cannot be non-blocking; set SO_RCVTIMEO and SO_SNDTIMEO instead";
            return Err(Fault::new(libc::EOPNOTSUPP, line));
        }
        let options = StripeOptions::new();
        let six = domain == libc::AF_INET6;
        Handle::add(State::Fresh(Box::new(Fresh { options, six, timeouts: Timeouts::default() })))
    })
}

/// Say how a handle is to connect or listen. The options may be freed afterwards. To be called before lh_connect() or
/// lh_bind().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_set_options(fd: c_int, options: *const LhOptions) -> c_int {
    answer(|| {
        // SAFETY: the caller's pointer is null or from lh_options_new.
        let options = unsafe { options.as_ref() }.ok_or_else(|| Fault::null("options"))?;
        let handle = Handle::find(fd)?.ok_or_else(not_a_handle)?;
        match &mut *handle.state() {
            State::Fresh(fresh) => {
                fresh.options = options.inner.clone();
                Ok(0)
            }
            _ => Err(Fault::new(libc::EISCONN, "options must be set before connecting or binding")),
        }
    })
}

/// Connect a handle to an address, as connect() does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of connect.
            return number(unsafe { libc::connect(fd, address, len) });
        };
        // SAFETY: the caller's arguments are those of connect.
        let address = unsafe { address::read(address, len) }?;
        let fresh = begin(&handle)?;
        let connected = fresh.options.connect(address).and_then(|stream| {
            stream.set_read_timeout(fresh.timeouts.read)?;
            stream.set_write_timeout(fresh.timeouts.write)?;
            Ok(stream)
        });
        let what = format!("cannot connect to {address}");
        end(&handle, connected.map(State::Open).map_err(|error| (fresh, Fault::of(&error, &what))))
    })
}

/// Give a handle an address to listen at, as bind() does. Streams may come in from then on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_bind(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of bind.
            return number(unsafe { libc::bind(fd, address, len) });
        };
        // SAFETY: the caller's arguments are those of bind.
        let address = unsafe { address::read(address, len) }?;
        bind(&handle, address)
    })
}

/// Wait for streams, as listen() does. The backlog is longhaul's own.
#[unsafe(no_mangle)]
pub extern "C" fn lh_listen(fd: c_int, backlog: c_int) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: it takes two numbers.
            return number(unsafe { libc::listen(fd, backlog) });
        };
        let any: SocketAddr = match &*handle.state() {
            State::Listening { .. } => return Ok(0),
            State::Fresh(fresh) if fresh.six => (Ipv6Addr::UNSPECIFIED, 0).into(),
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        };
        bind(&handle, any)
    })
}

/// Connect to a host by name or address: socket(), getaddrinfo() and connect() in one. Options may be null. Returns a
/// handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_dial(host: *const c_char, port: u16, options: *const LhOptions) -> c_int {
    answer(|| {
        // SAFETY: the caller's pointers are null or as they should be.
        let (host, options) = unsafe { (address::text(host, "the host")?, LhOptions::or_default(options)) };
        let stream = options
            .connect((host, port))
            .map_err(|error| Fault::of(&error, &format!("cannot connect to {host} port {port}")))?;
        Handle::add(State::Open(stream))
    })
}

/// Listen at a name or address; null stands for all addresses of this host. Options may be null. Returns a handle for
/// lh_accept().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_serve(host: *const c_char, port: u16, options: *const LhOptions) -> c_int {
    answer(|| {
        // SAFETY: the caller's pointers are null or as they should be.
        let options = unsafe { LhOptions::or_default(options) };
        let listener = if host.is_null() {
            listen_anywhere(&options, port)
        } else {
            // SAFETY: as above.
            options.bind((unsafe { address::text(host, "the host") }?, port))
        };
        let listener =
            listener.map_err(|error| Fault::of(&error, &format!("cannot listen at port {port}")))?;
        Handle::add(State::Listening { listener: Arc::new(listener), timeout: None })
    })
}

/// Set an option of a handle, as setsockopt() does: SO_RCVTIMEO and SO_SNDTIMEO at any time, TCP_NODELAY,
/// TCP_CONGESTION, SO_SNDBUF and SO_RCVBUF (which count for both) before connecting or binding. SO_REUSEADDR and
/// SO_KEEPALIVE are always on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lh_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    answer(|| {
        let Some(handle) = Handle::find(fd)? else {
            // SAFETY: the caller's arguments are those of setsockopt.
            return number(unsafe { libc::setsockopt(fd, level, name, value, len) });
        };
        if value.is_null() {
            return Err(Fault::null("the option's value"));
        }
        // SAFETY: the caller says that so many bytes are there.
        let value = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len as usize) };
        set_option(&handle, (level, name), value)
    })
}

fn set_option(handle: &Handle, option: (c_int, c_int), value: &[u8]) -> Answer<c_int> {
    let state = &mut *handle.state();
    match option {
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => set_timeouts(state, |t| &mut t.read, timeout_in(value)?)?,
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => set_timeouts(state, |t| &mut t.write, timeout_in(value)?)?,
        (libc::SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_KEEPALIVE) => {}
        (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_RCVBUF) => {
            let bytes = usize::try_from(int_in(value)?)
                .map_err(|_| Fault::new(libc::EINVAL, "a buffer cannot be smaller than nothing"))?;
            change(state, |options| options.window(bytes))?;
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => {
            let on = int_in(value)? != 0;
            match state {
                State::Open(stream) => stream.set_nodelay(on)?,
                _ => change(state, |options| options.nodelay(on))?,
            }
        }
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let name = value.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = std::str::from_utf8(name)
                .map_err(|_| Fault::new(libc::EINVAL, "the name of the congestion control is not UTF-8"))?;
            change(state, |options| options.congestion(name))?;
        }
        (level, name) => {
            let line = format!("handles have no option {name} of level {level}");
            return Err(Fault::new(libc::ENOPROTOOPT, line));
        }
    }
    Ok(0)
}

fn set_timeouts(
    state: &mut State,
    which: fn(&mut Timeouts) -> &mut Option<Duration>,
    value: Option<Duration>,
) -> Answer<()> {
    match state {
        State::Fresh(fresh) => *which(&mut fresh.timeouts) = value,
        State::Listening { timeout, .. } => {
            let mut timeouts = Timeouts { read: *timeout, write: None };
            *which(&mut timeouts) = value;
            *timeout = timeouts.read;
        }
        State::Open(stream) => {
            let mut timeouts = Timeouts { read: stream.read_timeout()?, write: stream.write_timeout()? };
            *which(&mut timeouts) = value;
            stream.set_read_timeout(timeouts.read)?;
            stream.set_write_timeout(timeouts.write)?;
        }
        State::Connecting => return Err(busy()),
    }
    Ok(())
}

fn change(state: &mut State, how: impl FnOnce(StripeOptions) -> StripeOptions) -> Answer<()> {
    match state {
        State::Fresh(fresh) => {
            fresh.options = how(std::mem::take(&mut fresh.options));
            Ok(())
        }
        _ => Err(Fault::new(libc::EISCONN, "this must be set before connecting or binding")),
    }
}

fn int_in(value: &[u8]) -> Answer<c_int> {
    let bytes = value.first_chunk().ok_or_else(|| too_short("an int"))?;
    Ok(c_int::from_ne_bytes(*bytes))
}

/// A `struct timeval`; zero stands for no timeout.
fn timeout_in(value: &[u8]) -> Answer<Option<Duration>> {
    if value.len() < size_of::<libc::timeval>() {
        return Err(too_short("a struct timeval"));
    }
    // SAFETY: so many bytes are there, all bit patterns are values of it, and it need not be aligned.
    let raw = unsafe { value.as_ptr().cast::<libc::timeval>().read_unaligned() };
    let micros = u32::try_from(raw.tv_usec).ok().filter(|micros| *micros < 1_000_000);
    let (Ok(seconds), Some(micros)) = (u64::try_from(raw.tv_sec), micros) else {
        return Err(Fault::new(libc::EDOM, "that is no span of time"));
    };
    let timeout = Duration::new(seconds, micros * 1000);
    // What no deadline can be computed from is for ever.
    Ok(Some(timeout).filter(|timeout| !timeout.is_zero() && *timeout < LONGEST))
}

fn bind(handle: &Handle, address: SocketAddr) -> Answer<c_int> {
    let fresh = begin(handle)?;
    let listening = fresh.options.bind(address).map(|listener| {
        let (listener, timeout) = (Arc::new(listener), fresh.timeouts.read);
        State::Listening { listener, timeout }
    });
    let what = format!("cannot listen at {address}");
    end(handle, listening.map_err(|error| (fresh, Fault::of(&error, &what))))?;
    handle.announce()?;
    Ok(0)
}

/// Take what was set on a fresh handle, which is being connected or bound from now on.
fn begin(handle: &Handle) -> Answer<Box<Fresh>> {
    let mut state = handle.state();
    match std::mem::replace(&mut *state, State::Connecting) {
        State::Fresh(fresh) => Ok(fresh),
        State::Connecting => Err(busy()),
        other => {
            *state = other;
            Err(Fault::new(libc::EISCONN, "the handle is connected or bound already; make another one"))
        }
    }
}

/// Connecting or binding came to an end. If it failed, it may be tried again.
fn end(handle: &Handle, outcome: Result<State, (Box<Fresh>, Fault)>) -> Answer<c_int> {
    match outcome {
        Ok(state) => {
            *handle.state() = state;
            Ok(0)
        }
        Err((fresh, fault)) => {
            *handle.state() = State::Fresh(fresh);
            Err(fault)
        }
    }
}

fn listen_anywhere(options: &StripeOptions, port: u16) -> std::io::Result<StripedListener> {
    // A socket of IPv6 takes IPv4 too, unless this host has no IPv6.
    let six = options.bind((Ipv6Addr::UNSPECIFIED, port));
    six.or_else(|_| options.bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// What a system call came to.
pub fn number(result: c_int) -> Answer<c_int> {
    if result < 0 { Err(Fault::last_os()) } else { Ok(result) }
}

/// The number means no handle where one is needed.
pub fn not_a_handle() -> Fault {
    Fault::new(libc::EBADF, "that is no handle of longhaul, or it was closed")
}

fn busy() -> Fault {
    Fault::new(libc::EALREADY, "the handle is being connected")
}

fn too_short(what: &str) -> Fault {
    Fault::new(libc::EINVAL, format!("the option's value is shorter than {what}"))
}

/// A hundred years.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 86_400);
