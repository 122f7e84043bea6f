//! The `longhaul-lab` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_evidence::program::main()
}
