//! `longhaul lab`, `sim`, `demo`, `trace` and `replay`: handed on to the program `longhaul-lab`.

use crate::common::tree::*;
use crate::common::{Ended, LONGHAUL, Running, undisturbed};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// A longhaul-lab that says its name and its arguments.
fn write_lab_program(folder: &Path, status: u8) {
    write_script(folder.join("longhaul-lab"), &format!("echo \"$0\" \"$@\"\nexit {status}"));
}

/// Run a longhaul in `folder`, with nothing but `path` on its PATH.
fn run_in(folder: &Path, path: &Path, args: &[&str]) -> Ended {
    let program = folder.join("longhaul");
    if !program.exists() {
        install(&program, File::open(LONGHAUL).unwrap());
    }
    Running::start(undisturbed(Command::new(program)).env("PATH", path).args(args)).finish()
}

#[test]
fn the_one_beside_it_gets_every_argument_and_its_status_is_the_programs() {
    let (here, elsewhere) = (folder(), folder());
    write_lab_program(here.path(), 7);
    write_lab_program(elsewhere.path(), 8);
    for args in [
        &["lab", "run", "versus", "--only", "65 ms", "--json"][..],
        &["sim", "--help"],
        &["demo", "--", "-x", "--version"],
        &["lab"],
    ] {
        let ended = run_in(here.path(), elsewhere.path(), args).expect_code(7);
        let expected = format!("{} {}\n", here.path().join("longhaul-lab").display(), args.join(" "));
        assert_eq!((ended.stdout, ended.stderr.as_str()), (expected, ""));
    }
}

#[test]
fn without_one_beside_it_the_path_is_searched() {
    let (here, elsewhere) = (folder(), folder());
    write_lab_program(elsewhere.path(), 0);
    let ended = run_in(here.path(), elsewhere.path(), &["demo"]).expect_code(0);
    assert!(ended.stdout.ends_with("/longhaul-lab demo\n"), "{}", ended.stdout);
}

#[test]
fn where_there_is_none_a_line_says_what_to_install() {
    let here = folder();
    for command in ["lab", "sim", "demo", "trace", "replay"] {
        let ended = run_in(here.path(), here.path(), &[command, "--quick"]).expect_code(2);
        assert!(ended.stderr.starts_with(&format!("error: {command} is done by ")), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("longhaul-lab") && ended.stderr.lines().count() == 1,
            "{}",
            ended.stderr
        );
    }
}
