//! Runs of an experiment that are done, kept in a file until all of it is: one that was killed goes on behind them.
//!
//! A run is known by its place: which batch of runs its experiment asks for, and which run of that batch. The same build at
//! the same scale and seed asks for the same ones.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Those of one experiment.
#[derive(Debug)]
pub struct KeptRuns {
    path: PathBuf,
    found: HashMap<Place, Vec<u8>>,
    writing: Mutex<Writing>,
}

/// A batch and a run of it.
type Place = (u32, u32);

#[derive(Debug)]
struct Writing {
    file: File,
    /// Batches so far.
    batches: u32,
}

/// One entry of the file, after that which says whose runs they are.
#[derive(Serialize, Deserialize)]
struct Entry {
    place: Place,
    run: Vec<u8>,
}

impl KeptRuns {
    /// Those in a file, if they are `whose` by its first entry; of others nothing is kept.
    pub fn open(path: PathBuf, whose: &str) -> io::Result<KeptRuns> {
        let bytes = fs::read(&path).unwrap_or_default();
        let (found, good) = read(&bytes, whose).unwrap_or_default();
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        // What was being written when it was killed is no entry.
        file.set_len(good)?;
        if good == 0 {
            append(&mut file, &whose)?;
        }
        Ok(KeptRuns { path, found, writing: Mutex::new(Writing { file, batches: 0 }) })
    }

    /// How many there were.
    pub fn found(&self) -> usize {
        self.found.len()
    }

    /// All of the experiment is done.
    pub fn remove(&self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }

    /// The experiment asks for some more runs.
    pub(crate) fn batch(&self) -> Batch<'_> {
        let mut writing = self.lock();
        writing.batches += 1;
        Batch { kept: self, number: writing.batches - 1 }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Runs that an experiment asks for together.
pub(crate) struct Batch<'a> {
    kept: &'a KeptRuns,
    number: u32,
}

impl Batch<'_> {
    /// What came of its run of that number, if it is kept.
    pub(crate) fn get<R: DeserializeOwned>(&self, run: usize) -> Option<R> {
        postcard::from_bytes(self.kept.found.get(&self.place(run)?)?).ok()
    }

    /// Keep it. What cannot be kept is made again.
    pub(crate) fn keep(&self, run: usize, of: &impl Serialize) {
        let (Some(place), Ok(run)) = (self.place(run), postcard::to_allocvec(of)) else { return };
        let _ = append(&mut self.kept.lock().file, &Entry { place, run });
    }

    fn place(&self, run: usize) -> Option<Place> {
        Some((self.number, run.try_into().ok()?))
    }
}

/// In one go, so that a kill leaves all of it or a part without its end.
fn append(file: &mut File, entry: &impl Serialize) -> io::Result<()> {
    file.write_all(&postcard::to_allocvec_cobs(entry).map_err(io::Error::other)?)
}

/// All whole entries, and where the last of them ends; `None` if they are not whose they should be.
fn read(bytes: &[u8], whose: &str) -> Option<(HashMap<Place, Vec<u8>>, u64)> {
    let mut parts = bytes.split_inclusive(|byte| *byte == 0).filter(|part| part.ends_with(&[0]));
    let first = parts.next()?;
    let mut head = first.to_vec();
    (postcard::from_bytes_cobs::<String>(&mut head).ok()? == whose).then_some(())?;
    let (mut found, mut good) = (HashMap::new(), first.len());
    for part in parts {
        let Ok(Entry { place, run }) = postcard::from_bytes_cobs(&mut part.to_vec()) else { break };
        found.insert(place, run);
        good += part.len();
    }
    Some((found, good as u64))
}

/// Where a folder of results has those of the experiment of this name.
pub(crate) fn path(folder: &Path, stem: &str) -> PathBuf {
    folder.join(format!("{stem}.runs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kept(path: &Path, whose: &str) -> KeptRuns {
        KeptRuns::open(path.to_owned(), whose).unwrap()
    }

    #[test]
    fn what_is_kept_is_found_by_the_same_program_alone_and_exactly() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "pcp-sim4");
        let first = kept(&path, "build 1");
        let batches = [first.batch(), first.batch()];
        let third = 1.0 / 3.0 + 1e-16;
        batches[1].keep(7, &vec![third, f64::INFINITY]);
        assert_eq!(batches[1].get::<Vec<f64>>(7), None, "not of this time");
        drop(first);
        let again = kept(&path, "build 1");
        let batches = [again.batch(), again.batch()];
        assert_eq!(again.found(), 1);
        assert_eq!(batches[1].get(7), Some(vec![third, f64::INFINITY]));
        assert_eq!(batches[0].get::<Vec<f64>>(7), None);
        assert_eq!(kept(&path, "build 2").found(), 0);
        assert_eq!(kept(&path, "build 1").found(), 0, "those of others are gone");
        again.remove().unwrap();
        assert!(!path.exists());
    }

    proptest! {
        /// However much of the file a kill leaves: what is found is what was kept, from the first on, and more can be kept.
        #[test]
        fn a_kill_costs_what_was_being_written(runs in proptest::collection::vec(any::<Vec<u8>>(), 1..8), cut in 0.0..1.0f64) {
            let folder = tempfile::tempdir().unwrap();
            let path = path(folder.path(), "grid");
            let first = kept(&path, "it");
            let batch = first.batch();
            runs.iter().enumerate().for_each(|(at, run)| batch.keep(at, run));
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..(whole.len() as f64 * cut) as usize]).unwrap();
            let cut = kept(&path, "it");
            let batch = cut.batch();
            for (at, run) in runs.iter().enumerate() {
                prop_assert_eq!(batch.get::<Vec<u8>>(at), (at < cut.found()).then(|| run.clone()));
            }
            batch.keep(cut.found(), &vec![1u8]);
            prop_assert_eq!(kept(&path, "it").found(), cut.found() + 1);
        }
    }
}
