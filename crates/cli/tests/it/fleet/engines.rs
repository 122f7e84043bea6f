//! The same three commands under other engines, as the pages of the guide have them.

use super::block;
use super::copies::Copies;
use super::network::has_programs;
use crate::common::tree::write;
use crate::common::{LONGHAUL, Running, skip};
use longhaul_lab::Scenario;
use longhaul_testing::machine;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of some kilobytes, and a path that is fast.
fn copies() -> Option<Copies> {
    let mut copies = Copies::of(&Scenario::new(100.0, 20.0), (0..40).map(|number| 5_000 * number))?;
    copies.run = copies.slurm.folder.path().join("run");
    Some(copies)
}

/// A line of a page, with what is meant here in place of what the page has as examples.
fn line_of(page: &str, begins: &str, copies: &Copies) -> String {
    let line =
        page.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("a line {begins}"));
    let mut words = page.split_whitespace().map(|word| word.trim_matches('\''));
    let url = words.find(|word| word.starts_with("longhaul://")).expect("it names the far side");
    let line = line.replace(url, &copies.far_url());
    line.replace("/data/run7", &copies.near().display().to_string())
        .replace("run7.plan", &copies.run.display().to_string())
}

/// What a shell makes of a line, with longhaul on the PATH.
fn shell(copies: &Copies, line: &str, more_path: Option<&Path>) -> Running {
    let mut path: Vec<PathBuf> = more_path.into_iter().map(PathBuf::from).collect();
    path.push(Path::new(LONGHAUL).parent().expect("a program is in a folder").into());
    path.extend(env::split_paths(&env::var_os("PATH").unwrap_or_default()));
    let home: OsString = copies.slurm.folder.path().into();
    let mut command: Command = copies.slurm.command("sh");
    command.args(["-c", line]).current_dir(copies.slurm.folder.path()).env("LONGHAUL_TOKEN", copies.token());
    command.env("PATH", env::join_paths(path).expect("no colon is in a path")).env("HOME", home);
    Running::start(&mut command)
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn gnu_parallel_runs_the_parts() {
    let Some(_shared) = machine::wait() else { return };
    if !has_programs(&["parallel", "jq"]) {
        return;
    }
    let Some(copies) = copies() else { return };
    let page = include_str!("../../../../../docs/parallel.md");
    for begins in ["longhaul plan", "seq 0", "longhaul finish"] {
        shell(&copies, &line_of(page, begins, &copies), None).finish().expect_code(0);
    }
    copies.assert_complete();
}

/// Where the Snakefile is, and Snakemake's folder. Nothing without it, which is said.
fn snakemake(copies: &Copies) -> Option<PathBuf> {
    let program = env::var_os("LONGHAUL_SNAKEMAKE").map(PathBuf::from).filter(|program| program.exists());
    if program.is_none() {
        skip("Snakemake is not installed (make test-fleet installs it)");
    }
    write(copies.slurm.folder.path().join("Snakefile"), block(SNAKEMAKE_PAGE, "python"));
    Some(program?.parent().expect("a program is in a folder").into())
}

fn snakemake_runs_the_parts(begins: &str) {
    let Some(_shared) = machine::wait() else { return };
    let Some(copies) = copies() else { return };
    let Some(folder) = snakemake(&copies) else { return };
    for line in ["longhaul plan", begins].map(|begins| line_of(SNAKEMAKE_PAGE, begins, &copies)) {
        shell(&copies, &line, Some(&folder)).finish_within(super::copies::JOBS_PATIENCE).expect_code(0);
    }
    copies.assert_complete();
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn snakemake_runs_the_parts_here() {
    snakemake_runs_the_parts("snakemake --config run=run7.plan --cores");
}

#[test]
#[ignore = "takes minutes: make test-fleet"]
fn snakemake_runs_the_parts_by_slurm() {
    snakemake_runs_the_parts("snakemake --config run=run7.plan --executor slurm");
}

const SNAKEMAKE_PAGE: &str = include_str!("../../../../../docs/snakemake.md");
