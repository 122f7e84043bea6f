//! Names the shared library as programs look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // The number changes with whatever breaks programs that were built before.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblonghaul.so.0");
}
