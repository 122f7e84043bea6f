//! One end of the path: a network namespace with loopback, one TUN device and its addresses.

use crate::error::LabError;
use crate::netlink::Netlink;
use crate::tun;
use longhaul_sim::scenario::Scenario;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io, panic, thread};

/// The namespace and address of a host.
pub(crate) type HostHandle = (Arc<OwnedFd>, Ipv4Addr);

/// A host of the lab. Its namespace lives as long as this, or as a process that still runs in it.
pub(crate) struct Host {
    pub(crate) v4: Ipv4Addr,
    pub(crate) v6: Ipv6Addr,
    /// What the host sends comes out here; what is written here it receives.
    pub(crate) tun: Arc<OwnedFd>,
    pub(crate) namespace: Arc<OwnedFd>,
    netlink: Mutex<Netlink>,
    /// Name and number of its device.
    pub(crate) device: String,
    pub(crate) link: u32,
    has_card: bool,
}

/// Packets that a host threw away before the emulated path saw them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostDrops {
    pub(crate) device: u64,
    pub(crate) card: u64,
}

impl Host {
    /// Make the namespace and all that is in it. `pair` and `number` are the last two parts of its addresses.
    pub(crate) fn create(scenario: &Scenario, pair: u8, number: u8) -> Result<Host, LabError> {
        on_own_thread(|| {
            // SAFETY: only NEWNET is asked for, on a thread that ends with this closure; descriptors stay shared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.map_err(|errno| match errno {
                Errno::PERM => LabError::Forbidden,
                other => LabError::at("making a network namespace")(other),
            })?;
            Host::furnish(scenario, pair, number)
        })
    }

    /// The same host at another path: path `number` of it, 1, 2, …, with a device and addresses of its own. `end`: the last part
    /// of these.
    pub(crate) fn at_path(&self, scenario: &Scenario, number: u8, end: u8) -> Result<Host, LabError> {
        let namespace = self.namespace.clone();
        let device = format!("path{number}");
        let addresses = (FURTHER_PATHS.saturating_add(number - 1), end);
        self.enter(|| Host::connect(scenario, namespace, &device, addresses))
            .map_err(LabError::at("entering a network namespace"))?
    }

    /// What others need to make sockets there.
    pub(crate) fn handle(&self) -> HostHandle {
        (self.namespace.clone(), self.v4)
    }

    /// Run `f` on a thread of its own inside the namespace.
    pub(crate) fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        enter(&self.namespace, f)
    }

    /// A command that will run inside the namespace and die with the thread that starts it.
    pub(crate) fn command(&self, program: &OsStr) -> Command {
        let namespace = self.namespace.clone();
        prepared(program, move || join_namespace(&namespace))
    }

    /// Change what the device takes.
    pub(crate) fn set_mtu(&self, mtu: u32) -> Result<(), LabError> {
        let mut netlink = self.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        netlink
            .bring_up(self.link, mtu, DEVICE_QUEUE_PACKETS)
            .map_err(LabError::at("giving the TUN device another MTU"))
    }

    /// Set a kernel setting of this namespace.
    pub(crate) fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LabError> {
        self.enter(|| write_sysctl(name, value)).map_err(LabError::at("entering a network namespace"))?
    }

    /// A kernel setting of this namespace, with single spaces.
    pub(crate) fn sysctl(&self, name: &str) -> Result<String, LabError> {
        let read = self.enter(|| fs::read_to_string(sysctl_path(name)));
        let text = read.map_err(LabError::at("entering a network namespace"))?;
        let text = text.map_err(|source| LabError::NoSysctl { name: name.into(), source })?;
        Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// What this host threw away by itself, since it was made.
    pub(crate) fn drops(&self) -> io::Result<HostDrops> {
        let mut netlink = self.netlink.lock().unwrap_or_else(PoisonError::into_inner);
        let card = if self.has_card { netlink.token_bucket_drops(self.link)? } else { 0 };
        Ok(HostDrops { device: netlink.device_drops(self.link)?, card })
    }

    fn furnish(scenario: &Scenario, pair: u8, number: u8) -> Result<Host, LabError> {
        let namespace =
            rustix::fs::open("/proc/thread-self/ns/net", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(LabError::at("opening the new network namespace (is /proc mounted?)"))?;
        for (name, value) in QUIET {
            if sysctl_path(name).exists() {
                write_sysctl(name, value)?;
            }
        }
        let mut netlink = Netlink::open().map_err(LabError::at("opening a netlink socket"))?;
        netlink.bring_up_loopback().map_err(LabError::at("bringing loopback up"))?;
        Host::connect(scenario, Arc::new(namespace), DEVICE, (pair, number))
    }

    /// In the namespace that this thread is in: the device of a path, with its addresses.
    fn connect(
        scenario: &Scenario,
        namespace: Arc<OwnedFd>,
        device: &str,
        (net, number): (u8, u8),
    ) -> Result<Host, LabError> {
        let v4 = Ipv4Addr::new(10, 73, net, number);
        let v6 = Ipv6Addr::new(0xfd73, u16::from(net), 0, 0, 0, 0, 0, u16::from(number));
        let mut netlink = Netlink::open().map_err(LabError::at("opening a netlink socket"))?;
        let tun = tun::create(device, scenario.super_packets)?;
        let link = device_index(device).map_err(LabError::at("finding the TUN device"))?;
        if let Some(mbit) = scenario.nic_mbit {
            add_card(&mut netlink, link, mbit, scenario.mtu)?;
        }
        netlink
            .bring_up(link, scenario.mtu, DEVICE_QUEUE_PACKETS)
            .map_err(LabError::at("bringing the TUN device up"))?;
        netlink
            .add_address(link, v4.into(), 24)
            .map_err(LabError::at("giving the TUN device its address"))?;
        // Without IPv6 in the kernel, or with an MTU too small for it, the path is IPv4 only.
        if sysctl_path("net.ipv6").exists() && scenario.mtu >= IPV6_MTU_MIN {
            netlink
                .add_address(link, v6.into(), 64)
                .map_err(LabError::at("giving the TUN device its IPv6 address"))?;
        }
        let has_card = scenario.nic_mbit.is_some();
        let (tun, device, netlink) = (Arc::new(tun), device.to_owned(), Mutex::new(netlink));
        Ok(Host { v4, v6, tun, namespace, netlink, device, link, has_card })
    }
}

/// The sending host's network card: a token bucket in front of the device. What does not pass waits in the host, charged
/// to its sockets, so that they block. Its limit is far above any socket's buffer.
fn add_card(netlink: &mut Netlink, link: u32, mbit: f64, mtu: u32) -> Result<(), LabError> {
    let bytes_per_second = (mbit * 1e6 / 8.0) as u64;
    let burst = ((bytes_per_second as f64 * CARD_BURST_SECONDS) as u64).max(4 * u64::from(mtu));
    let burst = u32::try_from(burst).unwrap_or(u32::MAX);
    netlink.add_token_bucket(link, bytes_per_second, burst, CARD_LIMIT_BYTES).map_err(|error| {
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP) => LabError::NoTokenBucket,
            _ => LabError::at("giving the TUN device a token bucket")(error),
        }
    })
}

fn device_index(name: &str) -> io::Result<u32> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    Ok(netdevice::name_to_index(socket.as_fd(), name)?)
}

/// Move this thread, which nobody else should use, into a network namespace.
pub(crate) fn join_namespace(namespace: &OwnedFd) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

/// A command that will run on this very host and die with the thread that starts it.
pub fn mortal(program: impl AsRef<OsStr>) -> Command {
    prepared(program.as_ref(), || Ok(()))
}

/// One that does this first, which is a system call and no more, and dies with the thread that starts it.
fn prepared(program: &OsStr, first: impl Fn() -> io::Result<()> + Send + Sync + 'static) -> Command {
    let parent = rustix::process::getpid();
    let mut command = Command::new(program);
    // SAFETY: between fork and exec only three system calls are made, nothing is allocated and no lock is taken.
    unsafe {
        command.pre_exec(move || {
            first()?;
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // A parent that died before the line above cannot be noticed any other way. One outside of a process
            // namespace of the child's has no number there.
            if getppid().is_none_or(|now| now == parent) { Ok(()) } else { Err(Errno::SRCH.into()) }
        })
    };
    command
}

/// Run `f` on a thread of its own inside a namespace.
pub(crate) fn enter<T: Send>(namespace: &OwnedFd, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    on_own_thread(|| join_namespace(namespace).map(|()| f()))
}

/// A namespace belongs to a thread: change it only on one that nobody else uses.
pub(crate) fn on_own_thread<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join()).unwrap_or_else(|payload| panic::resume_unwind(payload))
}

fn sysctl_path(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

/// In this thread's namespace.
fn write_sysctl(name: &str, value: &str) -> Result<(), LabError> {
    fs::write(sysctl_path(name), value).map_err(|source| LabError::Sysctl {
        name: name.into(),
        value: value.into(),
        source,
    })
}

const DEVICE: &str = "path0";
/// Where the networks of further paths begin: behind those of all pairs.
const FURTHER_PATHS: u8 = 128;
/// Packets that a host may send while the emulator does not get the processor: 20 ms at 1.6 million a second.
const DEVICE_QUEUE_PACKETS: u32 = 32_768;
/// What the card may catch up: longer than the kernel's timers are late, or it would lose rate, but shorter than a path's
/// queue.
const CARD_BURST_SECONDS: f64 = 1e-3;
const CARD_LIMIT_BYTES: u32 = 1 << 30;
/// RFC 8200 §5.
const IPV6_MTU_MIN: u32 = 1280;
/// Settings that keep the hosts from sending packets of their own accord and runs from learning from earlier ones.
const QUIET: [(&str, &str); 6] = [
    ("net.ipv6.conf.all.disable_ipv6", "0"),
    ("net.ipv6.conf.default.disable_ipv6", "0"),
    ("net.ipv6.conf.default.accept_dad", "0"),
    ("net.ipv6.conf.default.router_solicitations", "0"),
    ("net.ipv6.conf.default.addr_gen_mode", "1"),
    ("net.ipv4.tcp_no_metrics_save", "1"),
];
