//! `longhaul trace` and `longhaul replay`: what a copy wrote down of itself, as a page, alone and beside the simulator.

use super::args::{ReplayArgs, TraceArgs};
use super::output::{self, Exit};
use super::values::describe;
use crate::trace::{Likeness, Trace};
use longhaul_cli::failure::Failure;
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// Read it and write the page.
pub fn run(args: &TraceArgs) -> Result<Exit, Failure> {
    let trace = read(&args.file)?;
    write(&args.file, args.out.as_deref(), ".html", &trace.page(&name_of(&args.file)))
}

/// Read it, run one like it in the simulator, and write the page of both.
pub fn replay(args: &ReplayArgs) -> Result<Exit, Failure> {
    let trace = read(&args.file)?;
    let likeness =
        Likeness::of(&trace).map_err(|error| Failure::Failed(format!("{} {error}", args.file.display())))?;
    let page = trace.page_beside(&name_of(&args.file), &likeness, &likeness.run(args.seed));
    write(&args.file, args.out.as_deref(), ".replay.html", &page)
}

fn read(path: &Path) -> Result<Trace, Failure> {
    Trace::read(path).map_err(|error| Failure::Failed(error.to_string()))
}

fn name_of(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

fn write(file: &Path, out: Option<&Path>, ending: &str, page: &str) -> Result<Exit, Failure> {
    let beside = || {
        let mut beside = file.as_os_str().to_owned();
        beside.push(ending);
        PathBuf::from(beside)
    };
    let out = out.map_or_else(beside, Path::to_path_buf);
    fs::write(&out, page).map_err(|error| {
        let why = describe(&error);
        Failure::Failed(format!("cannot write {}: {why}; choose another file with --out", out.display()))
    })?;
    output::result(&out.display().to_string());
    Ok(Exit::Done)
}
