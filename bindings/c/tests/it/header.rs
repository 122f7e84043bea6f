//! The header that programs include is made from the library.

use std::fs;
use std::path::Path;

/// `make header` makes it anew.
#[test]
fn the_header_says_what_the_library_has() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(top.join("cbindgen.toml")).expect("it can be read");
    let mut made = vec![];
    cbindgen::generate_with_config(top, config).expect("it can be made").write(&mut made);
    let header = top.join("include/longhaul.h");
    if std::env::var_os("LONGHAUL_RECORD").is_some() {
        fs::write(&header, &made).expect("it can be written");
    }
    let kept = fs::read(&header).expect("it is there");
    assert!(kept == made, "{} does not match the library: make header", header.display());
}
