//! What earlier transfers found out, remembered for each host for a week: a small file per user and matter.
//!
//! ```json
//! {"paths": {"far.example": {"rate": 93000000, "share": 0.333, "at_s": 1790000000}}}
//! ```
//!
//! Nothing here is worth an error: a file that cannot be read or written costs a search at the next transfer's
//! beginning.

use crate::random::random;
use crate::user;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where copies remember paths (PCP §3.4), unless told otherwise: `paths.json` in the user's cache. `None` without a home.
pub fn default_file() -> Option<PathBuf> {
    Some(user::cache_folder()?.join("paths.json"))
}

/// What is remembered of the path to `host`, if it is not too old.
pub fn recall<T: DeserializeOwned>(file: &Path, host: &str) -> Option<T> {
    let entry = Entries::load(file).paths.remove(host)?;
    entry.is_fresh(now_s(), EXPIRES_AFTER).then_some(entry.found)
}

/// Remember what was found of the path to `host`.
pub fn note<T: Serialize + DeserializeOwned>(file: &Path, host: &str, found: T) {
    let mut entries = Entries::load(file);
    entries.insert(host, found, now_s());
    if let Err(error) = entries.store(file) {
        tracing::debug!(file = %file.display(), %error, "what was learnt of the path is not kept");
    }
}

/// Take what is remembered of the path to `host`, if it is not older than `age_max`: nobody finds it again.
pub fn take<T: Serialize + DeserializeOwned>(file: &Path, host: &str, age_max: Duration) -> Option<T> {
    let mut entries = Entries::load(file);
    let entry = entries.paths.remove(host)?;
    // What stays there would be used again.
    entries.store(file).ok()?;
    entry.is_fresh(now_s(), age_max).then_some(entry.found)
}

#[derive(Debug, Serialize, Deserialize)]
struct Entries<T> {
    paths: BTreeMap<String, Entry<T>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry<T> {
    #[serde(flatten)]
    found: T,
    /// Seconds since 1970.
    at_s: u64,
}

impl<T> Default for Entries<T> {
    fn default() -> Entries<T> {
        Entries { paths: BTreeMap::new() }
    }
}

impl<T> Entry<T> {
    /// Not too old. An entry of the future (the clock was set back) counts as new.
    fn is_fresh(&self, now_s: u64, age_max: Duration) -> bool {
        now_s.saturating_sub(self.at_s) <= age_max.as_secs()
    }
}

impl<T: DeserializeOwned> Entries<T> {
    /// What the file holds; nothing if it is missing or damaged.
    fn load(file: &Path) -> Entries<T> {
        match read(file) {
            Ok(text) => serde_json::from_str(&text).unwrap_or_else(|error| {
                let name = file.display();
                tracing::warn!(file = %name, %error, "what was remembered of paths is damaged and ignored");
                Entries::default()
            }),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(file = %file.display(), %error, "what was remembered of paths cannot be read");
                }
                Entries::default()
            }
        }
    }
}

impl<T: Serialize> Entries<T> {
    /// A full table loses its oldest entry.
    fn insert(&mut self, host: &str, found: T, now_s: u64) {
        self.paths.retain(|_, entry| entry.is_fresh(now_s, EXPIRES_AFTER));
        self.paths.insert(host.to_owned(), Entry { found, at_s: now_s });
        while self.paths.len() > ENTRIES_MAX {
            let oldest = self.paths.iter().min_by_key(|(_, entry)| entry.at_s).map(|(host, _)| host.clone());
            oldest.map(|host| self.paths.remove(&host));
        }
    }

    /// Replace the file in one go: whoever reads it sees the old one or the new one.
    fn store(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        fs::create_dir_all(folder)?;
        let draft = file.with_extension(format!("{:016x}.tmp", u64::from_ne_bytes(random()?)));
        // Nobody else's business: where this user copies to, and what lets data go there sooner.
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&draft)
            .and_then(|mut out| out.write_all(&serde_json::to_vec(self)?))
            .and_then(|()| fs::rename(&draft, file));
        if written.is_err() {
            // A left-over draft does no harm beyond its room; the first error is the one to tell.
            let _ = fs::remove_file(&draft);
        }
        written
    }
}

/// The file's text, of bounded length.
fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(file)?.take(FILE_LEN_MAX).read_to_string(&mut text)?;
    Ok(text)
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Paths change: what is older is no better than nothing.
const EXPIRES_AFTER: Duration = Duration::from_secs(7 * 24 * 3600);
/// Hosts remembered at most.
const ENTRIES_MAX: usize = 256;
/// Longer than so many entries with the longest host names (253 bytes).
const FILE_LEN_MAX: u64 = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::control::Remembered;
    use longhaul_proto::units::Rate;
    use std::os::unix::fs::PermissionsExt;

    fn found(mbit: f64) -> Remembered {
        Remembered::new(Rate::from_mbps(mbit))
    }

    #[test]
    fn what_was_noted_is_recalled() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("made/on/demand/paths.json");
        assert_eq!(recall::<Remembered>(&file, "far"), None);
        note(&file, "far", found(100.0));
        note(&file, "near", Remembered { share: 1.0 / 6.0, ..found(1000.0) });
        note(&file, "far", found(50.0));
        assert_eq!(recall(&file, "far"), Some(found(50.0)));
        assert_eq!(recall(&file, "near"), Some(Remembered { share: 1.0 / 6.0, ..found(1000.0) }));
        assert_eq!(recall::<Remembered>(&file, "elsewhere"), None);
        let names: Vec<_> = fs::read_dir(file.parent().unwrap()).unwrap().collect();
        assert_eq!(names.len(), 1, "no draft is left: {names:?}");
    }

    #[test]
    fn what_is_taken_is_gone_and_seen_by_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paths.json");
        let day = Duration::from_secs(24 * 3600);
        note(&file, "far", found(100.0));
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(take(&file, "elsewhere", day), None::<Remembered>);
        assert_eq!(take(&file, "far", day), Some(found(100.0)));
        assert_eq!(take(&file, "far", day), None::<Remembered>);
        let mut entries = Entries::default();
        entries.insert("old", found(1.0), now_s() - 2 * 24 * 3600);
        entries.store(&file).unwrap();
        assert_eq!(take(&file, "old", day), None::<Remembered>);
    }

    #[test]
    fn entries_expire_after_a_week() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paths.json");
        let mut entries = Entries::default();
        entries.insert("old", found(1.0), now_s() - 8 * 24 * 3600);
        entries.insert("recent", found(2.0), now_s() - 6 * 24 * 3600);
        entries.insert("future", found(3.0), now_s() + 24 * 3600);
        entries.store(&file).unwrap();
        let recalled = ["old", "recent", "future"].map(|host| recall(&file, host));
        assert_eq!(recalled, [None, Some(found(2.0)), Some(found(3.0))]);
        note(&file, "new", found(4.0));
        assert!(!read(&file).unwrap().contains("old"));
    }

    #[test]
    fn a_damaged_file_is_as_good_as_none_and_mended() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paths.json");
        note(&file, "far", found(100.0));
        let whole = fs::read(&file).unwrap();
        for damaged in
            [&whole[..whole.len() / 2], b"", b"\xff\xfe", b"[]", br#"{"paths":{"far":{"rate":-1}}}"#]
        {
            fs::write(&file, damaged).unwrap();
            assert_eq!(recall::<Remembered>(&file, "far"), None);
            note(&file, "far", found(7.0));
            assert_eq!(recall(&file, "far"), Some(found(7.0)));
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        let occupied = folder.path().join("file");
        fs::write(&occupied, "").unwrap();
        note(&occupied.join("paths.json"), "far", found(1.0));
        assert_eq!(recall::<Remembered>(&occupied.join("paths.json"), "far"), None);
    }

    #[test]
    fn the_oldest_of_too_many_goes() {
        let mut entries = Entries::default();
        for i in 0..ENTRIES_MAX as u64 + 10 {
            entries.insert(&format!("host-{}", i % 1000), found(1.0), 1_000_000 + i);
        }
        assert_eq!(entries.paths.len(), ENTRIES_MAX);
        assert!(!entries.paths.contains_key("host-9") && entries.paths.contains_key("host-10"));
    }

    #[test]
    fn the_largest_file_is_read_whole() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("paths.json");
        let mut entries = Entries::default();
        for i in 0..ENTRIES_MAX {
            let name = format!("{i:0>253}");
            entries.insert(&name, Remembered { rate: Rate(u64::MAX), share: 0.1 + 0.2 }, now_s());
        }
        entries.store(&file).unwrap();
        assert!(fs::metadata(&file).unwrap().len() < FILE_LEN_MAX);
        assert_eq!(Entries::<Remembered>::load(&file).paths.len(), ENTRIES_MAX);
    }
}
