//! From a source to an object that the running kernel takes, once for each source and kernel.

use super::programs::{HEADER, Program};
use super::tools::{self, BPFTOOL, CLANG};
use crate::error::LabError;
use crate::variant_error::{BTF, VariantError};
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root's folder for objects and locks. Like what is registered, it does not outlast the machine's next start.
pub(super) fn folder() -> Result<PathBuf, LabError> {
    let folder = PathBuf::from("/run/longhaul/variants");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.map_err(LabError::at("making the folder /run/longhaul/variants"))?;
    Ok(folder)
}

/// What tells an object from those of other sources and kernels.
pub(super) fn key(program: &Program) -> String {
    let mut hasher = blake3::Hasher::new();
    let release = rustix::system::uname().release().to_bytes().to_vec();
    for part in [release.as_slice(), HEADER.text.as_bytes(), program.source.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
    }
    hasher.finalize().to_hex().as_str()[..16].to_owned()
}

/// The object of a program, compiled if there is none yet.
pub(super) fn object(program: &Program, folder: &Path) -> Result<PathBuf, LabError> {
    let object = folder.join(format!("{}-{}.o", program.name, key(program)));
    if !object.exists() {
        compile(program, folder, &object)?;
    }
    Ok(object)
}

fn compile(program: &Program, folder: &Path, object: &Path) -> Result<(), LabError> {
    let (clang, bpftool) = (CLANG.path()?, BPFTOOL.path()?);
    if !Path::new(BTF).exists() {
        return Err(VariantError::NoBtf.into());
    }
    let work = tempfile::tempdir_in(folder).map_err(LabError::at("making a folder to compile in"))?;
    let write = |file: &str, text: &[u8]| {
        fs::write(work.path().join(file), text).map_err(LabError::at("writing a source to compile"))
    };
    let mut bpftool = Command::new(bpftool);
    bpftool.args(["btf", "dump", "file", BTF, "format", "c"]);
    write("vmlinux.h", &tools::run("describing the kernel to", program.name, &mut bpftool)?.stdout)?;
    write(HEADER.file, HEADER.text.as_bytes())?;
    write("program.c", program.source.as_bytes())?;
    let mut clang = Command::new(clang);
    clang.current_dir(work.path()).args([
        "-target",
        "bpf",
        "-O2",
        "-g",
        "-Wall",
        "-c",
        "program.c",
        "-o",
        "program.o",
    ]);
    tools::run("compiling", program.name, &mut clang).map_err(name_missing_headers)?;
    let fresh = work.path().join("program.o");
    // Onto the disk before it has its name: an object that is there is whole.
    let stored =
        File::open(&fresh).and_then(|file| file.sync_all()).and_then(|()| fs::rename(&fresh, object));
    stored.map_err(LabError::at("storing a compiled program"))
}

/// libbpf's headers are a package of their own.
fn name_missing_headers(error: VariantError) -> VariantError {
    match error {
        VariantError::Failed { reason, .. } if reason.contains("'bpf/") && reason.contains("not found") => {
            VariantError::NoTool { tool: "bpf/bpf_helpers.h", package: "libbpf-dev" }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::programs::find;

    #[test]
    fn each_program_has_a_key_of_its_own() {
        let keys = ["scalable", "hstcp", "htcp"].map(|name| key(find(name).unwrap()));
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
        assert_eq!(keys[0], key(find("lh_scalable").unwrap()));
    }

    #[test]
    fn missing_headers_are_told_with_their_package() {
        let failed = |reason: &str| VariantError::Failed {
            step: "compiling",
            name: "x".into(),
            reason: reason.into(),
        };
        let named =
            name_missing_headers(failed("lh.h:7:10: fatal error: 'bpf/bpf_core_read.h' file not found"));
        assert!(named.to_string().ends_with("apt-get install libbpf-dev"), "{named}");
        assert!(matches!(name_missing_headers(failed("a.c:1:1: error: x")), VariantError::Failed { .. }));
    }
}
