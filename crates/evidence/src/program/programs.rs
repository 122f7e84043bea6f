//! Where the programs are that are run at the ends of paths.

use crate::program::values::describe;
use longhaul_cli::failure::Failure;
use std::path::PathBuf;

/// This program's own file.
pub fn this() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("cannot find this program's file: {}", describe(&error))))
}

/// The program `longhaul`, which lies beside this one.
pub fn longhaul() -> Result<PathBuf, Failure> {
    let program = this()?.with_file_name("longhaul");
    if program.is_file() {
        return Ok(program);
    }
    Err(Failure::Failed(format!(
        "{} is missing, which is what is measured; put longhaul and longhaul-lab into one folder (make build builds both)",
        program.display()
    )))
}
