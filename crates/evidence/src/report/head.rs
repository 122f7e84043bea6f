//! What a result says of where it comes from.

use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// The first line of a result: what was run, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Head {
    /// The command that gives it again.
    pub command: String,
    /// The program's version.
    pub version: String,
    /// The experiment, or the scenario.
    pub what: String,
    /// Who came to it.
    pub origin: Origin,
    /// How much was done: `full`, `quick` or `smoke`.
    pub scale: String,
    /// Everything random that is the program's own follows from it.
    pub seed: u64,
    /// Of an experiment over several paths only those whose name contains this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<String>,
    /// Where it was; the simulator's results are the same on any host.
    #[serde(flatten)]
    pub host: Option<Host>,
}

/// Who came to a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Measured over an emulated path with real programs.
    Lab,
    /// Computed on virtual time.
    Simulator,
}

/// The host that a result is from, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// The kernel's name, release and machine.
    pub kernel: String,
    /// The processor's name.
    pub cpu: String,
    /// Logical processors that could be used.
    pub cpus: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// When it began, UTC.
    pub date: String,
    /// The files of longhaul-lab and of the longhaul beside it, by the beginning of their BLAKE3: builds of one version differ.
    /// Absent where they cannot be read, and in results of earlier programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
}

impl Head {
    /// What runs have in common that give the same but for chance: the build of this program, scale, seed, what was chosen
    /// and, if they are measured, the kernel. Nothing where the build is not known.
    pub(crate) fn identity(&self) -> Option<String> {
        let host = self.host.as_ref()?;
        let kernel = (self.origin == Origin::Lab).then_some(&host.kernel);
        let build = host.build.as_ref()?;
        Some(format!("{:?}", (&self.version, build, self.origin, &self.scale, self.seed, &self.only, kernel)))
    }
}

impl Origin {
    /// In a word.
    pub const fn words(self) -> &'static str {
        match self {
            Origin::Lab => "measured",
            Origin::Simulator => "simulated",
        }
    }

    /// The command that comes to such results.
    pub fn command(self) -> &'static str {
        match self {
            Origin::Lab => "lab",
            Origin::Simulator => "sim",
        }
    }
}

impl Host {
    /// This one, now.
    pub fn this() -> Host {
        let uname = rustix::system::uname();
        let text = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
        let machine = text(uname.machine());
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs());
        Host {
            kernel: format!("{} {} {machine}", text(uname.sysname()), text(uname.release())),
            // Not all architectures name a model; then it is the machine's.
            cpu: field(&cpuinfo, "model name").unwrap_or(&machine).to_owned(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: field(&meminfo, "MemTotal").and_then(kib).unwrap_or_default() << 10,
            date: humantime::format_rfc3339_seconds(now).to_string(),
            build: this_build(),
        }
    }
}

/// What the running program's file holds and that of the program it measures, as they were when this was first asked.
fn this_build() -> Option<String> {
    static BUILD: OnceLock<Option<String>> = OnceLock::new();
    // The link itself: the file may have another name by now, or none.
    let this = Path::new("/proc/self/exe");
    let measured = std::env::current_exe().map(|program| program.with_file_name("longhaul"));
    let measured = measured.ok().filter(|program| program.is_file());
    BUILD.get_or_init(|| build_of([this].into_iter().chain(measured.as_deref())).ok()).clone()
}

fn build_of<'a>(programs: impl IntoIterator<Item = &'a Path>) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for program in programs {
        io::copy(&mut File::open(program)?, &mut hasher)?;
    }
    Ok(hasher.finalize().to_hex()[..BUILD_DIGITS].to_owned())
}

/// More builds than anybody makes.
const BUILD_DIGITS: usize = 16;

/// The value behind the first `name:` in a file of /proc.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let of = |line: &'a str| line.split_once(':').filter(|(key, _)| key.trim() == name);
    text.lines().find_map(of).map(|(_, value)| value.trim())
}

fn kib(text: &str) -> Option<u64> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_proc_are_found() {
        let text = "processor\t: 0\nmodel name\t: A Processor @ 2.00GHz\nmodel name\t: Another\n";
        assert_eq!(field(text, "model name"), Some("A Processor @ 2.00GHz"));
        assert_eq!(field(text, "model"), None);
        assert_eq!(field("MemTotal:       16384 kB\n", "MemTotal").and_then(kib), Some(16_384));
    }

    #[test]
    fn a_build_is_what_is_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            build_of([&*path]).unwrap()
        };
        assert_eq!(write("a", "one"), write("b", "one"));
        assert_ne!(write("a", "one"), write("a", "two"));
        assert!(build_of([&*folder.path().join("c")]).is_err());
        assert_eq!(Host::this().build.map(|build| build.len()), Some(BUILD_DIGITS));
    }

    #[test]
    fn this_host_is_described() {
        let host = Host::this();
        assert!(host.kernel.starts_with("Linux ") && !host.cpu.is_empty() && host.cpus > 0, "{host:?}");
        assert!(host.memory_bytes > 1 << 20, "{host:?}");
        assert!(host.date.len() == "2026-01-01T00:00:00Z".len() && host.date.ends_with('Z'), "{host:?}");
    }
}
