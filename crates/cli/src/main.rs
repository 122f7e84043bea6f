//! The `longhaul` program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    longhaul_cli::program::main()
}
