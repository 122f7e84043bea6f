//! What a server gives up before it hears from anybody: files other than those it serves (Landlock), system calls other
//! than those it makes (seccomp), and new privileges. Threads that are started later are bound by it too.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a server goes on to need.
#[derive(Clone, Debug, Default)]
pub struct Needs {
    /// Folders to be read.
    pub read: Vec<PathBuf>,
    /// Folders to be read and written.
    pub write: Vec<PathBuf>,
    /// TCP connections to other hosts.
    pub connect: bool,
    /// TCP connections to these ports of other hosts, whose names are looked up.
    pub connect_ports: Vec<u16>,
    /// Owners, devices and all else that takes privileges.
    pub set_all: bool,
}

/// Why something was not given up.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The kernel does not take rules for files.
    #[error(transparent)]
    Rules(#[from] landlock::RulesetError),
    /// It has no Landlock, or it is switched off.
    #[error("this kernel has no Landlock")]
    NoLandlock,
    /// Its Landlock is too old for some of the rules.
    #[error("this kernel's Landlock is older than Linux 6.10's")]
    OldLandlock,
    /// It does not take a list of system calls.
    #[error(transparent)]
    Filter(#[from] seccompiler::Error),
    /// The list cannot be made for this processor.
    #[error(transparent)]
    List(#[from] seccompiler::BackendError),
}

/// Give up all but this. Says what could not be given up, and why: the server runs all the same.
pub fn enter(needs: &Needs) -> Vec<String> {
    let files = restrict_files(needs).map_err(unconfined);
    let calls =
        restrict_calls(needs.set_all).map_err(|error| format!("system calls are not confined: {error}"));
    [files, calls].into_iter().filter_map(Result::err).collect()
}

fn unconfined(error: SandboxError) -> String {
    match error {
        SandboxError::OldLandlock => format!("files are confined by the kernel in part only: {error}"),
        _ => format!("files are not confined by the kernel: {error}"),
    }
}

fn restrict_files(needs: &Needs) -> Result<(), SandboxError> {
    let nodes = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock | AccessFs::MakeFifo;
    let mut write = AccessFs::from_all(FILES_ABI) & !(AccessFs::Execute | AccessFs::IoctlDev | nodes);
    if needs.set_all {
        write |= nodes;
    }
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    // Nothing is bound or connected to by TCP any more, but where rules allow it.
    let mut net = AccessNet::from_all(NET_ABI);
    if needs.connect {
        net.remove(AccessNet::ConnectTcp);
    }
    // With no rules at all for connections there may be none for single ports either.
    let ports = needs.connect_ports.iter().filter(|_| !needs.connect);
    let names: &[&str] = if needs.connect_ports.is_empty() { &[] } else { &NAMES };
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(FILES_ABI))?
        .handle_access(net)?
        .create()?
        .add_rules(path_beneath_rules(&needs.read, read))?
        .add_rules(path_beneath_rules(&needs.write, write))?
        .add_rules(path_beneath_rules(KERNEL_TELLS, AccessFs::ReadFile))?
        .add_rules(path_beneath_rules(names, AccessFs::ReadFile))?
        .add_rules(ports.map(|port| Ok::<_, SandboxError>(NetPort::new(*port, AccessNet::ConnectTcp))))?
        .restrict_self()?;
    judge(status.ruleset)
}

fn judge(status: RulesetStatus) -> Result<(), SandboxError> {
    match status {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err(SandboxError::OldLandlock),
        RulesetStatus::NotEnforced => Err(SandboxError::NoLandlock),
    }
}

fn restrict_calls(sets_all: bool) -> Result<(), SandboxError> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    // Not killed: a call that is missing from the list is to fail one copy, whose error names it, and not all of them. Nor
    // only logged: then it would be done.
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let more = if sets_all { calls::PRIVILEGED } else { &[] };
    let allowed = calls::ALLOWED.iter().chain(more).map(|call| (*call, vec![])).chain(conditional()?);
    let allowed: BTreeMap<i64, Vec<SeccompRule>> = allowed.collect();
    let filter: BpfProgram = SeccompFilter::new(allowed, refuse, SeccompAction::Allow, arch)?.try_into()?;
    // The C library makes threads the older way, whose arguments can be looked at, if this one is said not to be there.
    let hidden = [(libc::SYS_clone3, vec![])].into_iter().collect();
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let hide: BpfProgram = SeccompFilter::new(hidden, SeccompAction::Allow, absent, arch)?.try_into()?;
    seccompiler::apply_filter_all_threads(&hide)?;
    Ok(seccompiler::apply_filter_all_threads(&filter)?)
}

/// Calls that are allowed with some arguments only.
fn conditional() -> Result<Vec<(i64, Vec<SeccompRule>)>, SandboxError> {
    let rule = |argument, operator, value: u64| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let equal = |argument, values: &[i32]| {
        values
            .iter()
            .map(|value| rule(argument, SeccompCmpOp::Eq, *value as u64))
            .collect::<Result<Vec<_>, _>>()
    };
    let without = |argument, bit: i32| {
        Ok::<_, seccompiler::BackendError>(vec![rule(argument, SeccompCmpOp::MaskedEq(bit as u64), 0)?])
    };
    let thread = libc::CLONE_THREAD as u64;
    Ok(vec![
        // Threads, no processes.
        (libc::SYS_clone, vec![rule(0, SeccompCmpOp::MaskedEq(thread), thread)?]),
        (libc::SYS_clone3, vec![]),
        (libc::SYS_socket, equal(0, &[libc::AF_INET, libc::AF_INET6, libc::AF_UNIX])?),
        (libc::SYS_prctl, equal(0, &[libc::PR_SET_NAME, libc::PR_SET_TIMERSLACK, PR_GET_AUXV])?),
        // No new code.
        (libc::SYS_mmap, without(2, libc::PROT_EXEC)?),
        (libc::SYS_mprotect, without(2, libc::PROT_EXEC)?),
    ])
}

mod calls;

/// What the kernel tells of itself: the congestion controls that it has; to the C library, its processors and how it
/// hands out memory. A static program gets its random bytes by the devices.
const KERNEL_TELLS: [&str; 5] = [
    "/dev/random",
    "/dev/urandom",
    "/proc/sys/net/ipv4/tcp_available_congestion_control",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu/online",
];
/// Where the C library finds out what address a name has, and which server to ask.
const NAMES: [&str; 6] = [
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/gai.conf",
    "/run/systemd/resolve/stub-resolv.conf",
];
/// "AUXV": asks what the kernel told the program when it began.
const PR_GET_AUXV: i32 = 0x4155_5856;
/// Older kernels confine what they know of this.
const FILES_ABI: ABI = ABI::V5;
/// The first that knows TCP.
const NET_ABI: ABI = ABI::V4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_confines_in_part_is_told() {
        assert!(judge(RulesetStatus::FullyEnforced).is_ok());
        let told = |status| judge(status).map_err(unconfined).unwrap_err();
        assert!(
            told(RulesetStatus::PartiallyEnforced)
                .starts_with("files are confined by the kernel in part only")
        );
        assert!(told(RulesetStatus::NotEnforced).starts_with("files are not confined"));
    }
}
