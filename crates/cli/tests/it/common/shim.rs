//! Slow disks. A small library, compiled here and loaded before the C library, makes reading or writing files take
//! its time; the program itself has no such switch.

use super::LONGHAUL;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

/* Passing `len` bytes takes as long as a disk of this many MB/s takes for them. */
static void dawdle(const char *setting, ssize_t len) {
    const char *rate = getenv(setting);
    if (!rate || len <= 0) return;
    double seconds = len / (atof(rate) * 1e6);
    struct timespec span = { (time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9) };
    nanosleep(&span, 0);
}

ssize_t pread64(int fd, void *buf, size_t len, off_t at) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "pread64");
    ssize_t done = next(fd, buf, len, at);
    dawdle("SLOW_READ_MBPS", done);
    return done;
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off_t at) {
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
    ssize_t done = next(fd, buf, len, at);
    dawdle("SLOW_WRITE_MBPS", done);
    return done;
}
"#;

/// A compiled library that slows the program down.
pub struct Shim {
    library: PathBuf,
}

impl Shim {
    /// Compile it into `folder`. `None` where that cannot be done or would have no effect, which is said.
    pub fn compile(folder: &Path) -> Option<Shim> {
        // The loader lists what it would load, and does not start the program; a static one has no loader.
        let loaded = Command::new(LONGHAUL).env("LD_TRACE_LOADED_OBJECTS", "1").output().ok()?;
        if !String::from_utf8_lossy(&loaded.stdout).contains("libc.so") {
            super::skip("the program is linked statically, its calls cannot be slowed down");
            return None;
        }
        let (source, library) = (folder.join("slow.c"), folder.join("slow.so"));
        std::fs::write(&source, SOURCE).ok()?;
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(&library)
            .arg(&source)
            .arg("-ldl")
            .output();
        match compiled {
            Ok(output) if output.status.success() => Some(Shim { library }),
            Ok(output) => panic!("the C compiler refused: {}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => {
                super::skip(&format!("no C compiler (cc): {error}"));
                None
            }
        }
    }

    /// Let the program read files at this many MB/s per thread.
    pub fn slow_reads(&self, command: &mut Command, mbps: u32) {
        command.env("LD_PRELOAD", &self.library).env("SLOW_READ_MBPS", mbps.to_string());
    }

    /// Let the program write files at this many MB/s per thread.
    pub fn slow_writes(&self, command: &mut Command, mbps: u32) {
        command.env("LD_PRELOAD", &self.library).env("SLOW_WRITE_MBPS", mbps.to_string());
    }
}
