//! Congestion controls of kernel TCP by name: those that the kernel has, and our own as BPF programs where it has
//! none.
//!
//! Few kernels come with Scalable TCP, HighSpeed TCP and H-TCP. Where one is neither built in nor a module, its
//! rules are loaded from `crates/lab/bpf`: compiled with clang for the running kernel, registered with bpftool, and
//! named with [`PREFIX`]. That takes root and a kernel with BTF; what is missing is told in one line with its
//! remedy.
//!
//! What is registered holds for the whole machine, all its network namespaces included, and the kernel alone would
//! keep it until it is told otherwise. So a [`Variant`] is removed when the last process that uses it drops it,
//! ends or is killed: each has a *keeper*, a small process that waits for that. [`remove_all`] removes what even so
//! was left behind, as by a service manager that killed keepers too.
//!
//! ```no_run
//! use longhaul_lab::{Lab, Scenario, tcp, variants::Variant};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let lab = Lab::start(&Scenario::new(20.0, 40.0))?;
//! let variant = Variant::require("htcp")?;
//! println!("{}: {:?}", variant.name(), tcp::transfer(&lab, 10_000_000, variant.name())?);
//! # Ok(())
//! # }
//! ```

mod build;
mod keeper;
mod programs;
mod tools;

pub use crate::variant_error::VariantError;
pub use programs::PREFIX;

use crate::error::LabError;
use keeper::Keeper;
use programs::Program;
use std::fs;
use std::process::{Command, Stdio};

/// Where a congestion control comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Built into the kernel, or one of its modules.
    Kernel,
    /// A BPF program of ours.
    Program,
}

/// A congestion control that is there as long as this is.
#[derive(Debug)]
pub struct Variant {
    name: String,
    keeper: Option<Keeper>,
}

impl Variant {
    /// Make sure that kernel TCP has a congestion control, by the kernel's name for it (`cubic`), the simulator's
    /// (`newreno`, `hstcp`) or that of our program (`lh_htcp`). The kernel's own has precedence unless the program is
    /// asked for.
    pub fn require(name: &str) -> Result<Variant, LabError> {
        let program = programs::find(name);
        let kernel_name = match (name, program) {
            ("newreno", _) => Some("reno"),
            (_, Some(program)) => (name != program.name).then_some(program.kernel_name),
            (_, None) => Some(name),
        };
        if let Some(kernel_name) = kernel_name
            && is_in_kernel(kernel_name)
        {
            return Ok(Variant { name: kernel_name.into(), keeper: None });
        }
        match program {
            Some(program) => Variant::load(program),
            None => {
                Err(LabError::NoCongestionControl { name: name.into(), available: available().join(" ") })
            }
        }
    }

    /// What to call it when choosing it for a socket or a host.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it comes from, which belongs into a record of what was measured.
    pub fn origin(&self) -> Origin {
        if self.keeper.is_some() { Origin::Program } else { Origin::Kernel }
    }

    fn load(program: &Program) -> Result<Variant, LabError> {
        tools::check_privileges()?;
        let keeper = Keeper::engage(program)?;
        Ok(Variant { name: program.name.into(), keeper: Some(keeper) })
    }
}

/// Remove all programs of ours that no process uses any more, and say which they were.
pub fn remove_all() -> Result<Vec<String>, LabError> {
    let left: Vec<String> = available().into_iter().filter(|name| name.starts_with(PREFIX)).collect();
    if left.is_empty() {
        return Ok(left);
    }
    tools::check_privileges()?;
    let mut removed = vec![];
    for name in left {
        if keeper::remove_unused(&name)? {
            removed.push(name);
        }
    }
    Ok(removed)
}

/// Whether the kernel has it, once its module is loaded if there is one.
fn is_in_kernel(name: &str) -> bool {
    let is_available = || available().iter().any(|one| one == name);
    is_available() || (load_module(name) && is_available())
}

fn load_module(name: &str) -> bool {
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let mut modprobe = Command::new("modprobe");
    modprobe.arg("--quiet").arg(format!("tcp_{name}")).stdout(Stdio::null()).stderr(Stdio::null());
    is_plain && modprobe.status().is_ok_and(|status| status.success())
}

/// What the kernel offers at the moment.
fn available() -> Vec<String> {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    list.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_has_needs_no_program() {
        for (asked, name) in [("reno", "reno"), ("newreno", "reno")] {
            let variant = Variant::require(asked).unwrap();
            assert_eq!((variant.name(), variant.origin()), (name, Origin::Kernel));
        }
    }

    #[test]
    fn what_nobody_has_is_told_with_what_there_is() {
        for name in ["no_such_rule", "../../etc", "lh_nothing", ""] {
            match Variant::require(name) {
                Err(LabError::NoCongestionControl { available, .. }) => assert!(available.contains("reno")),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
