//! What is copied: a file or a tree of noise at one end, and the folder at the other into which it is to come.

use crate::experiments::ExperimentError;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Something to copy. Dropping it removes it, and what has arrived of it.
pub(in crate::experiments) struct Cargo {
    folder: TempDir,
    pub(in crate::experiments) bytes: u64,
    /// Of all names and contents.
    hash: blake3::Hash,
}

impl Cargo {
    /// A file of so many bytes.
    pub(in crate::experiments) fn file(bytes: u64, seed: u64) -> Result<Cargo, ExperimentError> {
        Cargo::load(|path| write_noise(path, bytes, &mut fastrand::Rng::with_seed(seed)))
    }

    /// A tree of files of equal size, a hundred in each of its folders.
    pub(in crate::experiments) fn tree(
        files: u32,
        bytes_each: u64,
        seed: u64,
    ) -> Result<Cargo, ExperimentError> {
        Cargo::load(|top| {
            let mut random = fastrand::Rng::with_seed(seed);
            for number in 0..files {
                let folder = top.join(format!("folder-{:03}", number / FILES_PER_FOLDER));
                fs::create_dir_all(&folder)?;
                write_noise(&folder.join(format!("file-{number:05}")), bytes_each, &mut random)?;
            }
            Ok(())
        })
    }

    fn load(write: impl FnOnce(&Path) -> io::Result<()>) -> Result<Cargo, ExperimentError> {
        let load = || {
            let folder = tempfile::tempdir()?;
            for name in [SOURCE, ARRIVED, MEMORY] {
                fs::create_dir(folder.path().join(name))?;
            }
            let source = folder.path().join(SOURCE).join(NAME);
            write(&source)?;
            let (hash, bytes) = (hash_of(&source)?, bytes_in(&source)?);
            Ok(Cargo { folder, bytes, hash })
        };
        load().map_err(|error| no_room(&error))
    }

    /// The file or tree itself, whose last part is [`NAME`].
    pub(in crate::experiments) fn source(&self) -> PathBuf {
        self.source_folder().join(NAME)
    }

    /// The folder that it is in.
    pub(in crate::experiments) fn source_folder(&self) -> PathBuf {
        self.folder.path().join(SOURCE)
    }

    /// The folder that it is to come into, under its name.
    pub(in crate::experiments) fn arrived_folder(&self) -> PathBuf {
        self.folder.path().join(ARRIVED)
    }

    /// For whatever a program wants to remember until the next copy, when it is to know nothing.
    pub(in crate::experiments) fn memory(&self) -> PathBuf {
        self.folder.path().join(MEMORY)
    }

    /// Whether as many bytes are there as there should be; not yet, whether they are the right ones.
    pub(super) fn seems_whole(&self) -> bool {
        bytes_in(&self.arrived_folder().join(NAME)).is_ok_and(|bytes| bytes == self.bytes)
    }

    /// Whether all is there as it was sent.
    pub(super) fn is_whole(&self) -> bool {
        hash_of(&self.arrived_folder().join(NAME)).is_ok_and(|hash| hash == self.hash)
    }

    /// Every copy is to begin from nothing. The folders themselves stay: servers hold them open.
    pub(super) fn clear(&self) -> Result<(), ExperimentError> {
        clear(&self.arrived_folder()).and_then(|()| clear(&self.memory()))
    }
}

/// Empty a folder; it stays itself.
pub(in crate::experiments) fn clear(folder: &Path) -> Result<(), ExperimentError> {
    let clear = || {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    };
    clear().map_err(|error| no_room(&error))
}

fn write_noise(path: &Path, bytes: u64, random: &mut fastrand::Rng) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut block = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(BLOCK_LEN)];
    let mut left = bytes;
    while left > 0 {
        random.fill(&mut block);
        let len = left.min(block.len() as u64);
        file.write_all(&block[..len as usize])?;
        left -= len;
    }
    Ok(())
}

/// Of a file's contents, or of the names and contents of all that is in a folder, in the order of the names.
fn hash_of(path: &Path) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    for file in files_in(path)? {
        hasher.update(file.strip_prefix(path).unwrap_or(&file).as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
        io::copy(&mut File::open(&file)?, &mut hasher)?;
    }
    Ok(hasher.finalize())
}

fn bytes_in(path: &Path) -> io::Result<u64> {
    files_in(path)?.iter().map(|file| Ok(fs::metadata(file)?.len())).sum()
}

/// All files in it, or itself, sorted.
fn files_in(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = vec![];
    for entry in fs::read_dir(path)? {
        files.extend(files_in(&entry?.path())?);
    }
    files.sort_unstable();
    Ok(files)
}

/// What has no room among temporary files.
pub(in crate::experiments) fn no_room(error: &io::Error) -> ExperimentError {
    let reason = format!("cannot be kept in the folder for temporary files: {error}; set TMPDIR to another");
    ExperimentError::Program { program: "what is to be copied".into(), reason }
}

/// What it is called at both ends.
pub(in crate::experiments) const NAME: &str = "cargo";
const SOURCE: &str = "source";
const ARRIVED: &str = "arrived";
const MEMORY: &str = "memory";
const BLOCK_LEN: usize = 1 << 20;
const FILES_PER_FOLDER: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_damaged_or_in_part_is_not_whole() {
        let cargo = Cargo::tree(3, 1000, 1).unwrap();
        assert_eq!(cargo.bytes, 3000);
        assert!(!cargo.seems_whole() && !cargo.is_whole());
        let there = cargo.arrived_folder().join(NAME).join("folder-000");
        fs::create_dir_all(&there).unwrap();
        for file in files_in(&cargo.source()).unwrap() {
            fs::copy(&file, there.join(file.file_name().unwrap())).unwrap();
        }
        assert!(cargo.seems_whole() && cargo.is_whole());
        let mut damaged = fs::read(there.join("file-00001")).unwrap();
        damaged[500] ^= 1;
        fs::write(there.join("file-00001"), damaged).unwrap();
        assert!(cargo.seems_whole() && !cargo.is_whole());
        fs::remove_file(there.join("file-00001")).unwrap();
        assert!(!cargo.seems_whole() && !cargo.is_whole());
        cargo.clear().unwrap();
        assert_eq!(fs::read_dir(cargo.arrived_folder()).unwrap().count(), 0);
    }
}
