//! Slow and faulty disks. A small library, compiled here and loaded before the C library, makes reading or writing files
//! take its time, or go wrong; the program itself has no such switch.

use super::LONGHAUL;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
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

/* From the first write on, the disk takes nothing for so many seconds. */
static void stand_still(void) {
    static long until_ms;
    const char *span = getenv("STUCK_S");
    if (!span) return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long now_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000, none = 0;
    __atomic_compare_exchange_n(&until_ms, &none, now_ms + 1000 * atol(span), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    long left_ms = __atomic_load_n(&until_ms, __ATOMIC_SEQ_CST) - now_ms;
    if (left_ms <= 0) return;
    struct timespec left = { left_ms / 1000, left_ms % 1000 * 1000000 };
    nanosleep(&left, 0);
}

/* Whether this call on a regular file is one of those that go wrong, of 10 000 as many as set. */
static int goes_wrong(int fd) {
    static unsigned long calls;
    const char *share = getenv("FAULTS_OF_10000");
    struct stat about;
    if (!share || fstat(fd, &about) || !S_ISREG(about.st_mode)) return 0;
    const char *seed = getenv("FAULTS_SEED");
    unsigned long at = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    unsigned long mixed = (at + (seed ? strtoul(seed, 0, 10) : 0)) * 0x9e3779b97f4a7c15ul;
    mixed = (mixed ^ (mixed >> 29)) * 0xbf58476d1ce4e5b9ul;
    mixed ^= mixed >> 32;
    if (mixed % 10000 >= strtoul(share, 0, 10)) return 0;
    return 1 + (mixed >> 20) % 3;
}

/* What is written of `len` bytes: some, or none and an error. */
static ssize_t faulty(int how, size_t *len) {
    if (how == 1 && *len > 1) {
        *len /= 2;
        return 0;
    }
    errno = how == 2 ? ENOSPC : EIO;
    return -1;
}

ssize_t pread64(int fd, void *buf, size_t len, off_t at) {
    static ssize_t (*next)(int, void *, size_t, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "pread64");
    if (goes_wrong(fd) > 1) return errno = EIO, -1;
    ssize_t done = next(fd, buf, len, at);
    dawdle("SLOW_READ_MBPS", done);
    return done;
}

ssize_t pwrite64(int fd, const void *buf, size_t len, off_t at) {
    static ssize_t (*next)(int, const void *, size_t, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
    stand_still();
    int how = goes_wrong(fd);
    if (how && faulty(how, &len)) return -1;
    ssize_t done = next(fd, buf, len, at);
    dawdle("SLOW_WRITE_MBPS", done);
    return done;
}

ssize_t write(int fd, const void *buf, size_t len) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "write");
    int how = goes_wrong(fd);
    return how && faulty(how, &len) ? -1 : next(fd, buf, len);
}

int fdatasync(int fd) {
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "fdatasync");
    return goes_wrong(fd) ? (errno = EIO, -1) : next(fd);
}

int fsync(int fd) {
    static int (*next)(int);
    if (!next) next = dlsym(RTLD_NEXT, "fsync");
    return goes_wrong(fd) ? (errno = EIO, -1) : next(fd);
}

int ftruncate64(int fd, off_t len) {
    static int (*next)(int, off_t);
    if (!next) next = dlsym(RTLD_NEXT, "ftruncate64");
    return goes_wrong(fd) ? (errno = EIO, -1) : next(fd, len);
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

    /// Let the program's first write of a file, and all until then, wait for so many seconds.
    pub fn stuck_writes(&self, command: &mut Command, seconds: u32) {
        command.env("LD_PRELOAD", &self.library).env("STUCK_S", seconds.to_string());
    }

    /// Let so many of 10 000 calls that read, write or sync files go wrong: an error, no room, or part of what was asked.
    pub fn faults(&self, command: &mut Command, of_10000: u64, seed: u64) {
        command.env("LD_PRELOAD", &self.library);
        command.env("FAULTS_OF_10000", of_10000.to_string()).env("FAULTS_SEED", seed.to_string());
    }

    /// Let the program write files at this many MB/s per thread.
    pub fn slow_writes(&self, command: &mut Command, mbps: u32) {
        command.env("LD_PRELOAD", &self.library).env("SLOW_WRITE_MBPS", mbps.to_string());
    }
}
