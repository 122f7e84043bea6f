//! What can keep a lab from working, each with its remedy.

use crate::variant_error::VariantError;
use std::io;
use std::path::PathBuf;

/// Why a lab could not be made or used. Every text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// The kernel has no TUN device to offer.
    #[error(
        "/dev/net/tun is missing; load it with: modprobe tun, or, in a container, start it with --device /dev/net/tun"
    )]
    NoTun,
    /// The TUN device is there but not for this user.
    #[error("/dev/net/tun may not be opened by this user; run as root, or: sudo chmod 666 /dev/net/tun")]
    TunForbidden,
    /// Network namespaces are refused.
    #[error(
        "no permission to make network namespaces; run as root (in a container with --cap-add SYS_ADMIN,NET_ADMIN), \
         or call ensure_privileges() first"
    )]
    Forbidden,
    /// User namespaces, the way for ordinary users, are refused.
    #[error(
        "this user may not make user namespaces; run as root, or as root allow it: \
         sysctl kernel.unprivileged_userns_clone=1 user.max_user_namespaces=10000 \
         kernel.apparmor_restrict_unprivileged_userns=0 (those that exist here)"
    )]
    NoUserNamespace,
    /// [`ensure_privileges`](crate::ensure_privileges) came too late.
    #[error("ensure_privileges() must be called before the program starts its first thread")]
    ThreadsRunning,
    /// The card's rate cannot be emulated.
    #[error(
        "the kernel has no token bucket (tbf) for nic_mbit; load it with: modprobe sch_tbf, \
         or leave nic_mbit out of the scenario"
    )]
    NoTokenBucket,
    /// A scenario that cannot be emulated.
    #[error("{0}")]
    Scenario(String),
    /// No such congestion control in this kernel.
    #[error(
        "kernel TCP has no congestion control {name:?} here, only: {available}; try: modprobe tcp_{name}"
    )]
    NoCongestionControl {
        /// What was asked for.
        name: String,
        /// What there is, as the kernel lists it.
        available: String,
    },
    /// A congestion control of ours could not be loaded into the kernel.
    #[error(transparent)]
    Variant(#[from] VariantError),
    /// A kernel setting of a namespace could not be changed.
    #[error("sysctl {name}={value}: {source}; see which the namespace has with: sysctl -a")]
    Sysctl {
        /// Dotted name.
        name: String,
        /// Value that was to be set.
        value: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A kernel setting of a namespace could not be read.
    #[error("sysctl {name}: {source}; see which the namespace has with: sysctl -a")]
    NoSysctl {
        /// Dotted name.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A TCP transfer took longer than it was given.
    #[error(
        "the transfer was stopped after {seconds:.1} s with {bytes_received} bytes received; allow more time or send less"
    )]
    TooSlow {
        /// Seconds that had passed.
        seconds: f64,
        /// Bytes that the receiver had by then.
        bytes_received: u64,
    },
    /// A recording of packets could not be written.
    #[error("cannot write packets to {}: {source}; choose another place", file.display())]
    Capture {
        /// Where it was to be.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A step that does not usually fail did.
    #[error("{step}: {source}; is a seccomp or container policy in the way?")]
    System {
        /// What was being done.
        step: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

impl LabError {
    /// For `map_err`: name the step that failed.
    pub fn at<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> LabError {
        move |source| LabError::System { step, source: source.into() }
    }
}
