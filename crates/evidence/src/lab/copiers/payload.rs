//! What is copied: a file or a tree of noise at one end, and the folder at the other into which it is to come.

use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::temporary::Folder;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// What is copied.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// One file of so many bytes.
    File(u64),
    /// So many files of so many bytes each.
    Files(u32, u64),
}

/// Something to copy. Dropping it removes it, and what has arrived of it.
pub(crate) struct Payload {
    folder: Folder,
    pub(crate) bytes: u64,
    /// Of all names and contents.
    hash: blake3::Hash,
}

impl Payload {
    /// A file of so many bytes, which follow from the seed.
    pub(crate) fn file(bench: &Bench<'_>, bytes: u64) -> Result<Payload, ExperimentError> {
        Payload::load(bench, Folder::new(), |path, random| write_noise(bench, path, bytes, random))
    }

    /// The same, or a tree, in memory if there is room for it there, for its copy and for as much to spare.
    pub(crate) fn in_memory(bench: &Bench<'_>, load: Load) -> Result<Payload, ExperimentError> {
        match load {
            Load::File(bytes) => {
                let write = |path: &Path, random: &mut _| write_noise(bench, path, bytes, random);
                Payload::load(bench, Folder::with_room(3 * bytes), write)
            }
            Load::Files(files, bytes_each) => {
                let folder = Folder::with_room(3 * u64::from(files) * bytes_each);
                Payload::load(bench, folder, |top, random| write_tree(bench, top, files, bytes_each, random))
            }
        }
    }

    /// A tree of files of equal size, a hundred in each of its folders.
    pub(crate) fn tree(bench: &Bench<'_>, files: u32, bytes_each: u64) -> Result<Payload, ExperimentError> {
        Payload::load(bench, Folder::new(), |top, random| write_tree(bench, top, files, bytes_each, random))
    }

    fn load(
        bench: &Bench<'_>,
        folder: io::Result<Folder>,
        write: impl FnOnce(&Path, &mut fastrand::Rng) -> Result<(), ExperimentError>,
    ) -> Result<Payload, ExperimentError> {
        let furnish = || {
            let folder = folder?;
            for name in [SOURCE, ARRIVED, MEMORY] {
                fs::create_dir(folder.path().join(name))?;
            }
            Ok(folder)
        };
        let folder = furnish().map_err(|error: io::Error| no_room(&error))?;
        let source = folder.path().join(SOURCE).join(NAME);
        write(&source, &mut fastrand::Rng::with_seed(bench.options.seed))?;
        let bytes = bytes_in(&source).map_err(|error| no_room(&error))?;
        let hash = hash_of(bench, &source)?.map_err(|error| no_room(&error))?;
        Ok(Payload { folder, bytes, hash })
    }

    /// The file or tree itself, whose last part is [`NAME`].
    pub(crate) fn source(&self) -> PathBuf {
        self.source_folder().join(NAME)
    }

    /// The folder that it is in.
    pub(crate) fn source_folder(&self) -> PathBuf {
        self.folder.path().join(SOURCE)
    }

    /// The folder that it is to come into, under its name.
    pub(crate) fn arrived_folder(&self) -> PathBuf {
        self.folder.path().join(ARRIVED)
    }

    /// For whatever a program wants to remember until the next copy, when it is to know nothing.
    pub(crate) fn memory(&self) -> PathBuf {
        self.folder.path().join(MEMORY)
    }

    /// Whether as many bytes are there as there should be; not yet, whether they are the right ones.
    pub(crate) fn seems_whole(&self) -> bool {
        bytes_in(&self.arrived_folder().join(NAME)).is_ok_and(|bytes| bytes == self.bytes)
    }

    /// Whether all is there as it was sent.
    pub(crate) fn is_whole(&self, bench: &Bench<'_>) -> Result<bool, ExperimentError> {
        self.is_equal(bench, &self.arrived_folder().join(NAME))
    }

    /// Whether what is there is what was sent.
    pub(crate) fn is_equal(&self, bench: &Bench<'_>, there: &Path) -> Result<bool, ExperimentError> {
        let hash = hash_of(bench, there)?;
        Ok(hash.is_ok_and(|hash| hash == self.hash))
    }

    /// Every copy is to begin from nothing. The folders themselves stay: servers hold them open.
    pub(crate) fn clear(&self) -> Result<(), ExperimentError> {
        clear(&self.arrived_folder()).and_then(|()| clear(&self.memory()))
    }
}

/// Empty a folder; it stays itself.
pub(crate) fn clear(folder: &Path) -> Result<(), ExperimentError> {
    let clear = || {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
        }
        Ok(())
    };
    clear().map_err(|error| no_room(&error))
}

fn write_tree(
    bench: &Bench<'_>,
    top: &Path,
    files: u32,
    bytes_each: u64,
    random: &mut fastrand::Rng,
) -> Result<(), ExperimentError> {
    for number in 0..files {
        let folder = top.join(format!("folder-{:03}", number / FILES_PER_FOLDER));
        fs::create_dir_all(&folder).map_err(|error| no_room(&error))?;
        write_noise(bench, &folder.join(format!("file-{number:05}")), bytes_each, random)?;
    }
    Ok(())
}

/// Gigabytes take a while, so that a wish to stop is looked for between blocks.
fn write_noise(
    bench: &Bench<'_>,
    path: &Path,
    bytes: u64,
    random: &mut fastrand::Rng,
) -> Result<(), ExperimentError> {
    let mut file = File::create(path).map_err(|error| no_room(&error))?;
    let mut block = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX).min(BLOCK_LEN)];
    let mut left = bytes;
    while left > 0 {
        bench.check()?;
        random.fill(&mut block);
        let len = left.min(block.len() as u64);
        file.write_all(&block[..len as usize]).map_err(|error| no_room(&error))?;
        left -= len;
    }
    Ok(())
}

/// Of a file's contents, or of the names and contents of all that is in a folder, in the order of the names. Looks between
/// blocks for a wish to stop.
fn hash_of(bench: &Bench<'_>, path: &Path) -> Result<io::Result<blake3::Hash>, ExperimentError> {
    let mut hasher = blake3::Hasher::new();
    let mut hash = || {
        for file in files_in(path)? {
            hasher.update(file.strip_prefix(path).unwrap_or(&file).as_os_str().as_encoded_bytes());
            hasher.update(&[0]);
            let mut source = File::open(&file)?;
            loop {
                let taken = io::copy(&mut (&mut source).take(BLOCK_LEN as u64), &mut hasher)?;
                if taken == 0 || bench.is_stopped() {
                    break;
                }
            }
        }
        Ok(())
    };
    let hashed: io::Result<()> = hash();
    bench.check()?;
    Ok(hashed.map(|()| hasher.finalize()))
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
pub(crate) fn no_room(error: &io::Error) -> ExperimentError {
    let reason = format!("cannot be kept in the folder for temporary files: {error}; set TMPDIR to another");
    ExperimentError::Program { program: "what is to be copied".into(), reason }
}

/// What it is called at both ends.
pub(crate) const NAME: &str = "payload";
const SOURCE: &str = "source";
const ARRIVED: &str = "arrived";
const MEMORY: &str = "memory";
const BLOCK_LEN: usize = 1 << 20;
const FILES_PER_FOLDER: u32 = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::bench::with_bench;
    use std::sync::atomic::Ordering;

    #[test]
    fn nothing_is_written_or_read_for_who_wants_to_stop() {
        with_bench(None, |bench| {
            let payload = Payload::file(bench, 3 << 20).unwrap();
            let there = payload.arrived_folder().join(NAME);
            fs::copy(payload.source(), &there).unwrap();
            assert!(payload.is_whole(bench).unwrap());
            bench.options.stop.store(true, Ordering::Relaxed);
            assert!(matches!(payload.is_whole(bench), Err(ExperimentError::Interrupted)));
            assert!(matches!(Payload::file(bench, 3 << 20), Err(ExperimentError::Interrupted)));
        });
    }

    #[test]
    fn what_arrives_damaged_or_in_part_is_not_whole() {
        with_bench(None, damage);
    }

    fn damage(bench: &Bench<'_>) {
        let payload = Payload::tree(bench, 3, 1000).unwrap();
        assert_eq!(payload.bytes, 3000);
        assert!(!payload.seems_whole() && !payload.is_whole(bench).unwrap());
        let there = payload.arrived_folder().join(NAME).join("folder-000");
        fs::create_dir_all(&there).unwrap();
        for file in files_in(&payload.source()).unwrap() {
            fs::copy(&file, there.join(file.file_name().unwrap())).unwrap();
        }
        assert!(payload.seems_whole() && payload.is_whole(bench).unwrap());
        let mut damaged = fs::read(there.join("file-00001")).unwrap();
        damaged[500] ^= 1;
        fs::write(there.join("file-00001"), damaged).unwrap();
        assert!(payload.seems_whole() && !payload.is_whole(bench).unwrap());
        fs::remove_file(there.join("file-00001")).unwrap();
        assert!(!payload.seems_whole() && !payload.is_whole(bench).unwrap());
        payload.clear().unwrap();
        assert_eq!(fs::read_dir(payload.arrived_folder()).unwrap().count(), 0);
    }
}
