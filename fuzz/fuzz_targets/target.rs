//! One target under libFuzzer: `FUZZ_TARGET=journal cargo +nightly fuzz run target --features libfuzzer`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use longhaul_fuzz::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    Target::find(&name).unwrap_or_else(|| {
        let names: Vec<_> = longhaul_fuzz::TARGETS.iter().map(|target| target.name).collect();
        panic!("set FUZZ_TARGET to one of {}", names.join(", "))
    })
});

fuzz_target!(|data: &[u8]| (TARGET.run)(data));
