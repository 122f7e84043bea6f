//! What was learnt about destinations: how many lanes were best last time. A small text file in the user's state folder,
//! of which nothing depends: a damaged one is as good as none.

use longhaul_proto::stripe::hello::LANES_MAX;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The file. Where there is no home, nothing is remembered.
#[derive(Clone, Debug)]
pub struct History {
    file: PathBuf,
}

/// A line of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    host: IpAddr,
    lanes: u32,
    /// When it was learnt, in seconds since 1970.
    learnt: u64,
}

impl History {
    /// The user's: `$XDG_STATE_HOME/longhaul/stripe-lanes`, in `~/.local/state` by default.
    pub fn of_user() -> Option<History> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let folder =
            absolute("XDG_STATE_HOME").or_else(|| absolute("HOME").map(|h| h.join(".local/state")))?;
        Some(History { file: folder.join("longhaul").join("stripe-lanes") })
    }

    /// How many lanes were best to a host lately.
    pub fn lanes_to(&self, host: IpAddr) -> Option<u32> {
        let now = seconds_now();
        read(&self.file, now).into_iter().find(|entry| entry.host == host).map(|entry| entry.lanes)
    }

    /// Remember how many were best to a host. What cannot be written is not remembered.
    pub fn remember(&self, host: IpAddr, lanes: u32) {
        if let Err(error) = self.write(Entry { host, lanes, learnt: seconds_now() }) {
            tracing::debug!("cannot remember the number of lanes in {}: {error}", self.file.display());
        }
    }

    fn write(&self, new: Entry) -> io::Result<()> {
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let mut entries = read(&self.file, new.learnt);
        entries.retain(|entry| entry.host != new.host);
        entries.insert(0, new);
        entries.truncate(ENTRIES_MAX);
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        // Readers see the old file or the new one, never half of one.
        let part = folder.join(format!(".stripe-lanes-{:016x}", u64::from_ne_bytes(random)));
        let written = fs::File::create_new(&part).and_then(|mut file| {
            for Entry { host, lanes, learnt } in entries {
                writeln!(file, "{host} {lanes} {learnt}")?;
            }
            fs::rename(&part, &self.file)
        });
        if written.is_err() {
            // What is left of the attempt; if it cannot be removed, so be it.
            let _ = fs::remove_file(&part);
        }
        written
    }
}

/// The entries that make sense and are not too old. Anything else in the file is passed over.
fn read(file: &Path, now: u64) -> Vec<Entry> {
    match fs::metadata(file) {
        Ok(about) if about.is_file() && about.len() <= FILE_LEN_MAX => {}
        _ => return vec![],
    }
    let text = fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let entry = |line: &str| {
        let mut words = line.split(' ');
        let host = words.next()?.parse().ok()?;
        let lanes = words.next()?.parse().ok().filter(|lanes| (1..=LANES_MAX).contains(lanes))?;
        let learnt = words.next()?.parse().ok()?;
        let fresh = now.saturating_sub(learnt) < KEPT.as_secs() && learnt <= now.saturating_add(CLOCK_ERROR);
        (fresh && words.next().is_none()).then_some(Entry { host, lanes, learnt })
    };
    text.lines().filter_map(entry).take(ENTRIES_MAX).collect()
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Paths change: what is older than a week is not asked for.
const KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Entries from the future are of a clock that was wrong.
const CLOCK_ERROR: u64 = 3600;
const ENTRIES_MAX: usize = 256;
/// More than the longest that we write.
const FILE_LEN_MAX: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn host(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn history() -> (tempfile::TempDir, History) {
        let folder = tempfile::tempdir().unwrap();
        let history = History { file: folder.path().join("sub").join("lanes") };
        (folder, history)
    }

    #[test]
    fn what_is_remembered_is_found_again_the_latest_first() {
        let (_folder, history) = history();
        assert_eq!(history.lanes_to(host(1)), None);
        history.remember(host(1), 4);
        history.remember(host(2), 8);
        history.remember(host(1), 16);
        assert_eq!((history.lanes_to(host(1)), history.lanes_to(host(2))), (Some(16), Some(8)));
        assert_eq!(fs::read_dir(history.file.parent().unwrap()).unwrap().count(), 1, "nothing else is left");
    }

    #[test]
    fn a_damaged_file_is_ignored_and_replaced() {
        let (_folder, history) = history();
        history.remember(host(1), 4);
        let now = seconds_now();
        let lines = format!("{} 999 {now}\n{} 3 {now} x\n\u{0}\n{} 7 {now}\nhost", host(1), host(2), host(3));
        fs::write(&history.file, [lines.as_bytes(), &[0xff, 0xfe]].concat()).unwrap();
        assert_eq!([1, 2, 3].map(|last| history.lanes_to(host(last))), [None, None, Some(7)]);
        fs::write(&history.file, vec![b'x'; 1 << 20]).unwrap();
        history.remember(host(1), 5);
        assert_eq!(history.lanes_to(host(1)), Some(5));
    }

    #[test]
    fn old_entries_and_too_many_are_forgotten() {
        let (_folder, history) = history();
        fs::create_dir_all(history.file.parent().unwrap()).unwrap();
        let old = seconds_now() - KEPT.as_secs() - 1;
        fs::write(&history.file, format!("{} 4 {old}\n", host(1))).unwrap();
        assert_eq!(history.lanes_to(host(1)), None);
        for n in 0..300u16 {
            history.remember(IpAddr::from([10, 0, (n >> 8) as u8, n as u8]), 2);
        }
        assert_eq!(read(&history.file, seconds_now()).len(), ENTRIES_MAX);
    }
}
