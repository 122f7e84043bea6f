//! `make install`, as after `sudo`.

use crate::common::tree::{assert_same_bytes, folder, names, write_script};
use crate::common::{Ended, LONGHAUL_LAB, measured};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const PROJECT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Install what lies in `target` below `dest`, with a PATH on which no rustc works.
fn install(target: &Path, dest: &Path) -> Ended {
    let bin = folder();
    write_script(bin.path().join("rustc"), "exit 127");
    let mut make = Command::new("make");
    make.args(["-s", "-C", PROJECT, "install", "PREFIX=/usr"])
        .arg(format!("CARGO_TARGET_DIR={}", target.display()))
        .arg(format!("DESTDIR={}", dest.display()))
        .env("PATH", format!("{}:/usr/bin:/bin", bin.path().display()));
    // Those of a make that runs the tests.
    for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES"] {
        make.env_remove(name);
    }
    Ended::of(make.output().expect("there is make"))
}

/// The program for object stores: beside the others.
fn store() -> PathBuf {
    measured().with_file_name("longhaul-store")
}

#[test]
fn what_was_built_is_installed_without_rustc() {
    let (target, dest) = (folder(), folder());
    fs::create_dir_all(target.path().join("some-host/release")).unwrap();
    let release = target.path().join("some-host/release");
    for built in [measured(), LONGHAUL_LAB.into(), store()] {
        symlink(&built, release.join(built.file_name().unwrap())).unwrap();
    }
    install(target.path(), dest.path()).expect_code(0);
    for built in [measured(), LONGHAUL_LAB.into(), store()] {
        let program = dest.path().join("usr/bin").join(built.file_name().unwrap());
        assert_same_bytes(&program, &built);
        assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o755);
    }
    for (path, says) in [
        ("bash-completion/completions/longhaul", "complete -F"),
        ("zsh/site-functions/_longhaul", "#compdef longhaul"),
        ("fish/vendor_completions.d/longhaul.fish", "complete -c longhaul"),
        ("man/man1/longhaul.1", "longhaul\\-cp(1)"),
        ("man/man1/longhaul-cp.1", "stall\\-timeout"),
        ("man/man1/longhaul.1", "longhaul\\-lab(1)"),
        ("man/man1/longhaul-lab.1", "longhaul\\-lab\\-run(1)"),
        ("man/man1/longhaul-lab-run.1", "longhaul lab run"),
        ("man/man1/longhaul-sim.1", "longhaul sim"),
        ("man/man1/longhaul-demo.1", "longhaul demo"),
        ("bash-completion/completions/longhaul-lab", "complete -F"),
        ("zsh/site-functions/_longhaul-lab", "#compdef longhaul-lab"),
        ("fish/vendor_completions.d/longhaul-lab.fish", "complete -c longhaul-lab"),
        ("man/man1/longhaul-store-mount.1", "longhaul\\-store mount"),
        ("bash-completion/completions/longhaul-store", "complete -F"),
        ("doc/longhaul/serve.toml", "key-file"),
        ("../lib/systemd/system/longhaul.service", "ExecStart=/usr/bin/longhaul serve"),
        ("../lib/sysusers.d/longhaul.conf", "u longhaul"),
        ("../lib/tmpfiles.d/longhaul.conf", "/etc/longhaul"),
    ] {
        let text = fs::read_to_string(dest.path().join("usr/share").join(path)).unwrap();
        assert!(text.contains(says), "{path}");
    }
    let pages = names(&dest.path().join("usr/share/man/man1"));
    assert!(!pages.iter().any(|page| page.contains("agent")), "what is no command for users: {pages:?}");
}

#[test]
fn with_nothing_built_it_says_so() {
    let (target, dest) = (folder(), folder());
    // What plain cargo makes is not what is meant to be installed.
    fs::create_dir(target.path().join("release")).unwrap();
    symlink(measured(), target.path().join("release/longhaul")).unwrap();
    let ended = install(target.path(), dest.path()).expect_code(2);
    assert!(ended.stderr.contains("make build first"), "{}", ended.stderr);
    assert_eq!(names(dest.path()), Vec::<String>::new());
}
