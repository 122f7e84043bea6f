//! Programs that are not here.

/// Why a program cannot be used here, and how to get it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Absent {
    /// It is on no PATH.
    #[error("{program} is not installed; {remedy}")]
    NotInstalled {
        /// What is missing.
        program: String,
        /// How to get it.
        remedy: &'static str,
    },
    /// The kernel's TCP cannot do that.
    #[error("this kernel has no TCP {name}; load it with: modprobe tcp_{name}")]
    NoCongestionControl {
        /// What it lacks.
        name: &'static str,
    },
    /// Ours around a library.
    #[error("its program needs a C++ compiler and libudt; get them with: apt-get install g++ libudt-dev")]
    NotCompiled,
    /// Nor is there a place to make it.
    #[error("its program cannot be written: {reason}")]
    Unwritable {
        /// What the system said.
        reason: String,
    },
}
