//! `longhaul lab report`: results as a page, and as a table for documentation.

use crate::program::args::LabReportArgs;
use crate::program::output::{self, Exit};
use crate::program::values::describe;
use crate::report::Results;
use longhaul_cli::failure::Failure;
use std::fs;
use std::path::Path;

/// Read them and write.
pub fn run(args: &LabReportArgs) -> Result<Exit, Failure> {
    let results = Results::read(&args.results)
        .map_err(|error| Failure::Failed(format!("{error}; measure first: longhaul lab run all --quick")))?;
    results.bad().iter().for_each(|error| output::error(&error.to_string()));
    let present = results.present().count();
    if present == 0 {
        let folder = args.results.display();
        let text = format!("no results in {folder}; measure first: longhaul lab run all --quick");
        return Err(Failure::Failed(text));
    }
    write(&args.out, &results.page())?;
    let missing: Vec<&str> = results.missing().collect();
    let without =
        if missing.is_empty() { String::new() } else { format!(", without {}", missing.join(", ")) };
    output::result(&format!("{}: {present} experiments{without}", args.out.display()));
    if let Some(path) = &args.markdown {
        write(path, &results.markdown())?;
        output::result(&path.display().to_string());
    }
    Ok(if results.bad().is_empty() { Exit::Done } else { Exit::Failed })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).map_err(|error| {
        Failure::Failed(format!("cannot write {}: {}; choose another file", path.display(), describe(&error)))
    })
}
