//! The connections that other processes ask the kernel for, which asks here before it makes them (seccomp_unotify(2)).
//!
//! This is no wall: whoever wants to get around it can. What it is told of a socket and an address may have changed when it
//! looks, and a program that does that harms itself alone.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, opcode};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::set_no_new_privs;
use std::fs;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// What the kernel asks at.
pub struct Connects(OwnedFd);

/// A thread that waits for its `connect(2)`.
#[derive(Clone, Copy)]
pub struct Ask {
    id: u64,
    thread: u32,
    socket: u64,
    address: u64,
    address_len: u64,
}

/// What its call does.
#[derive(Clone, Copy, Debug)]
pub enum Answer {
    /// What it would have done.
    AsItIs,
    /// End, well.
    Done,
    /// End with this error.
    Failed(Errno),
}

impl Connects {
    /// Of this thread, and of what it starts, for ever. They get no rights any more from a program's file (`set-user-ID`).
    pub fn of_this_thread() -> io::Result<Connects> {
        set_no_new_privs(true)?;
        let filter = filter();
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        let install = |more: libc::c_ulong| {
            let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | more;
            // SAFETY: `program` and what it points to live through the call, which writes to neither.
            unsafe {
                libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
            }
        };
        // A signal, of a child's end or of a timer, then does not break a call off that is being answered. Linux 5.19 and later.
        let mut descriptor = install(libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
        if descriptor < 0 {
            descriptor = install(0);
        }
        match i32::try_from(descriptor) {
            // SAFETY: the call has made it, and nothing else owns it.
            Ok(descriptor @ 0..) => Ok(Connects(unsafe { OwnedFd::from_raw_fd(descriptor) })),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The next one, unless none comes until then.
    pub fn next(&self, patience: Duration) -> io::Result<Option<Ask>> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let span = Timespec { tv_sec: 0, tv_nsec: patience.as_nanos().min(999_999_999) as i64 };
        match poll(&mut fds, Some(&span)) {
            Ok(_) | Err(Errno::INTR) if !fds[0].revents().contains(PollFlags::IN) => {
                // That nobody is left to ask is told at once, again and again.
                if fds[0].revents().contains(PollFlags::HUP) {
                    std::thread::sleep(patience);
                }
                return Ok(None);
            }
            polled => polled?,
        };
        let mut asked = Asked::default();
        match self.call(ASKED, &mut asked) {
            Ok(()) => {}
            // The thread was killed meanwhile.
            Err(Errno::NOENT | Errno::INTR) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let [socket, address, address_len] = [0, 1, 2].map(|n| asked.args[n]);
        Ok(Some(Ask { id: asked.id, thread: asked.thread, socket, address, address_len }))
    }

    /// The socket that it is about, and where that is to be connected to; `None`: not to an address of the Internet.
    pub fn look(&self, ask: &Ask) -> io::Result<Option<(OwnedFd, SocketAddr)>> {
        let mut bytes = [0; mem::size_of::<libc::sockaddr_in6>()];
        let bytes = &mut bytes[..usize::try_from(ask.address_len).unwrap_or(0).min(28)];
        let memory =
            open(format!("/proc/{}/mem", ask.thread), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let len = rustix::io::pread(&memory, &mut *bytes, ask.address)?;
        let Some(address) = address_of(&bytes[..len]) else { return Ok(None) };
        let process = process_of(ask.thread)?;
        let process = pidfd_open(process, PidfdFlags::empty())?;
        let socket = pidfd_getfd(process, ask.socket as i32, PidfdGetfdFlags::empty())?;
        // All that was the thread's, unless it has ended and another has its number.
        self.call(IS_VALID, &mut { ask.id })?;
        Ok(Some((socket, address)))
    }

    /// Let it go on. That it has been killed meanwhile is no error.
    pub fn answer(&self, ask: &Ask, answer: Answer) {
        let (error, flags) = match answer {
            Answer::AsItIs => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Done => (0, 0),
            Answer::Failed(errno) => (-errno.raw_os_error(), 0),
        };
        let _ = self.call(ANSWER, &mut Said { id: ask.id, value: 0, error, flags });
    }

    fn call<T>(&self, opcode: Opcode, about: &mut T) -> Result<(), Errno> {
        // SAFETY: each opcode is made for a structure of the kernel's that its `T` is laid out as, and no smaller than.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), opcode as _, &raw mut *about) } {
            0.. => Ok(()),
            _ => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }
}

/// `seccomp_notif`, and room for what later kernels may add.
#[repr(C)]
#[derive(Default)]
struct Asked {
    id: u64,
    thread: u32,
    flags: u32,
    call: i32,
    architecture: u32,
    instruction: u64,
    args: [u64; 6],
    more: [u64; 32],
}

/// `seccomp_notif_resp`.
#[repr(C)]
struct Said {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// Ask for `connect(2)` of this processor's own programs; all else goes on.
fn filter() -> [libc::sock_filter; 6] {
    let statement = |code: u32, k: u32, jt: u8, jf: u8| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let end = libc::BPF_RET | libc::BPF_K;
    // The fields of `seccomp_data`: the call's number, and what it is a number of.
    let (number, architecture) = (0, 4);
    [
        statement(load, architecture, 0, 0),
        statement(is, ARCHITECTURE, 0, 3),
        statement(load, number, 0, 0),
        statement(is, libc::SYS_connect as u32, 0, 1),
        statement(end, libc::SECCOMP_RET_USER_NOTIF, 0, 0),
        statement(end, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]
}

/// The process that a thread is of.
fn process_of(thread: u32) -> io::Result<Pid> {
    let status = fs::read_to_string(format!("/proc/{thread}/status"))?;
    let id = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    id.and_then(Pid::from_raw).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A `sockaddr_in` or `sockaddr_in6`.
fn address_of(bytes: &[u8]) -> Option<SocketAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk()?);
    let port = u16::from_be_bytes(*bytes.get(2..)?.first_chunk()?);
    match i32::from(family) {
        libc::AF_INET => {
            let ip: [u8; 4] = *bytes.get(4..)?.first_chunk()?;
            Some((Ipv4Addr::from(ip), port).into())
        }
        libc::AF_INET6 => {
            let ip: [u8; 16] = *bytes.get(8..)?.first_chunk()?;
            let scope =
                bytes.get(24..).and_then(|rest| rest.first_chunk()).map_or(0, |id| u32::from_ne_bytes(*id));
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

/// Linux's `SECCOMP_IOCTL_NOTIF_RECV`, `_SEND` and `_ID_VALID`, which have the size that their structures had at first.
const ASKED: Opcode = opcode::read_write::<[u64; 10]>(b'!', 0);
const ANSWER: Opcode = opcode::read_write::<Said>(b'!', 1);
const IS_VALID: Opcode = opcode::write::<u64>(b'!', 2);
/// `AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`.
const ARCHITECTURE: u32 = if cfg!(target_arch = "aarch64") { 0xc000_00b7 } else { 0xc000_003e };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_the_kernel_has_them() {
        let v4 = [&2_u16.to_ne_bytes()[..], &[0x1f, 0x90, 192, 0, 2, 7], &[0; 8]].concat();
        assert_eq!(address_of(&v4), Some("192.0.2.7:8080".parse().unwrap()));
        let ip = "2001:db8::7".parse::<Ipv6Addr>().unwrap().octets();
        let v6 = [&10_u16.to_ne_bytes()[..], &[0x1f, 0x90, 0, 0, 0, 0], &ip, &3_u32.to_ne_bytes()].concat();
        assert_eq!(address_of(&v6), Some("[2001:db8::7%3]:8080".parse().unwrap()));
        // Before there were scopes the structure was shorter.
        assert_eq!(address_of(&v6[..24]), Some("[2001:db8::7]:8080".parse().unwrap()));
        let unix = [&1_u16.to_ne_bytes()[..], b"/run/socket"].concat();
        for none in [&[][..], &v4[..1], &v4[..3], &v4[..7], &v6[..23], &unix] {
            assert_eq!(address_of(none), None, "{none:?}");
        }
    }
}
