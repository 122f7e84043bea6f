//! One target under libFuzzer, which `.ci/fuzz-long` builds and runs: `FUZZ_TARGET=journal target CORPUS...`. With
//! `FUZZ_TARGET=list` it prints their names; with `FUZZ_SEEDS=FOLDER` it writes the target's seeds there first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::{TARGETS, Target};
use std::path::PathBuf;
use std::process::exit;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names = TARGETS.iter().map(|target| target.name);
    if name == "list" {
        names.for_each(|name| println!("{name}"));
        exit(0);
    }
    let Some(target) = Target::find(&name) else {
        panic!("set FUZZ_TARGET to one of {}", names.collect::<Vec<_>>().join(", "))
    };
    if let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) {
        for (n, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{n}")), seed).expect("a folder for the seeds");
        }
    }
    target
});

fuzz_target!(init: drop(LazyLock::force(&TARGET)), |data: &[u8]| (TARGET.run)(data));
