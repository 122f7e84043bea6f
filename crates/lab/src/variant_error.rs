//! What can keep a program of ours from being a congestion control, each with its remedy.

/// Why a congestion control could not be loaded. Every text is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VariantError {
    /// BPF is for the machine's root.
    #[error(
        "no permission to load congestion controls into the kernel; run as the machine's root, not in a user namespace \
         (in a container with --cap-add BPF,NET_ADMIN,PERFMON,SYS_ADMIN)"
    )]
    Unprivileged,
    /// The kernel does not describe its types.
    #[error(
        "the kernel has no type information at {}, which its congestion controls in BPF need; \
         run one built with CONFIG_DEBUG_INFO_BTF=y",
        BTF
    )]
    NoBtf,
    /// A program that builds or registers is missing.
    #[error(
        "{tool} is missing, which loading a congestion control needs; install it: apt-get install {package}"
    )]
    NoTool {
        /// What is missing.
        tool: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// Another process has a program of that name in use, made from other sources.
    #[error("another process uses a different {name}; wait until it has ended")]
    InUse {
        /// Name of the congestion control.
        name: String,
    },
    /// A step of building or registering failed.
    #[error(
        "{step} {name}: {reason}; congestion controls in BPF need Linux 5.13 or later without lockdown, clang 14 and bpftool 7"
    )]
    Failed {
        /// What was being done.
        step: &'static str,
        /// Name of the congestion control.
        name: String,
        /// The most telling line of what was said.
        reason: String,
    },
}

/// Where the kernel describes its types.
pub(crate) const BTF: &str = "/sys/kernel/btf/vmlinux";
