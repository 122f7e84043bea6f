//! The demo's files: one to copy, and a folder to copy it into. Gone when the demo ends.

use crate::output::bytes_text;
use crate::values::describe;
use longhaul::Failure;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where the demo keeps its files.
pub struct Folder {
    dir: TempDir,
    bytes: u64,
    hash: blake3::Hash,
}

impl Folder {
    /// Make the folder and a file of `bytes` that no compression helps with.
    pub fn create(bytes: u64) -> Result<Folder, Failure> {
        let parent = roomy_parent(bytes)?;
        let dir = tempfile::Builder::new().prefix("longhaul-demo-").tempdir_in(&parent);
        let made = dir.and_then(|dir| {
            fs::create_dir(dir.path().join(SERVED))?;
            let hash = write_random(&dir.path().join(FILE), bytes)?;
            Ok(Folder { dir, bytes, hash })
        });
        made.map_err(|e| {
            Failure::Failed(format!("cannot make the demo's file in {}: {}", parent.display(), describe(&e)))
        })
    }

    /// The file to copy.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join(FILE)
    }

    /// The folder to copy into.
    pub fn served(&self) -> PathBuf {
        self.dir.path().join(SERVED)
    }

    /// Where the server's messages go.
    pub fn server_log(&self) -> PathBuf {
        self.dir.path().join("serve.log")
    }

    /// Size of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether what arrived is what was sent: both are read and hashed.
    pub fn copy_is_equal(&self) -> Result<bool, Failure> {
        let hash = |path: &Path| {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(File::open(path)?).map(|hasher| hasher.finalize())
        };
        let equal = |sent: blake3::Hash, arrived: blake3::Hash| sent == arrived && sent == self.hash;
        match (hash(&self.file()), hash(&self.copy())) {
            (Ok(sent), Ok(arrived)) => Ok(equal(sent, arrived)),
            (_, Err(e)) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            (Err(e), _) | (_, Err(e)) => {
                Err(Failure::Failed(format!("cannot read the demo's files: {}", describe(&e))))
            }
        }
    }

    /// Make room for the next copy.
    pub fn remove_copy(&self) -> Result<(), Failure> {
        match fs::remove_file(self.copy()) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Failure::Failed(format!("cannot remove the demo's copy: {}", describe(&e))))
            }
            _ => Ok(()),
        }
    }

    fn copy(&self) -> PathBuf {
        self.served().join(FILE)
    }
}

fn write_random(path: &Path, bytes: u64) -> io::Result<blake3::Hash> {
    let mut file = File::create(path)?;
    let mut random = fastrand::Rng::with_seed(bytes);
    let mut hasher = blake3::Hasher::new();
    let mut block = vec![0; BLOCK_LEN];
    let mut left = bytes;
    while left > 0 {
        let len = usize::try_from(left).map_or(BLOCK_LEN, |left| left.min(BLOCK_LEN));
        random.fill(&mut block[..len]);
        file.write_all(&block[..len])?;
        hasher.update(&block[..len]);
        left -= len as u64;
    }
    Ok(hasher.finalize())
}

/// A folder with room for the file, its copy and as much to spare; memory before disk, so that disks do not matter.
fn roomy_parent(bytes: u64) -> Result<PathBuf, Failure> {
    let needed = bytes * 3;
    let candidates = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    candidates.into_iter().find(|path| free_bytes(path) >= needed).ok_or_else(|| {
        let text = format!(
            "no room for the demo: free {} in the temporary folder or set TMPDIR",
            bytes_text(needed)
        );
        Failure::Failed(text)
    })
}

/// Bytes that an ordinary user may still write; none where that cannot be told.
fn free_bytes(path: &Path) -> u64 {
    rustix::fs::statvfs(path).map_or(0, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The file, and its name at the far end.
const FILE: &str = "demo.dat";
/// The far end's folder.
const SERVED: &str = "served";
/// Bytes made and written at a time.
const BLOCK_LEN: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_equal_only_if_it_is() {
        let folder = Folder::create(3_000_001).unwrap();
        assert_eq!(fs::metadata(folder.file()).unwrap().len(), 3_000_001);
        assert!(!folder.copy_is_equal().unwrap(), "there is none yet");
        fs::copy(folder.file(), folder.copy()).unwrap();
        assert!(folder.copy_is_equal().unwrap());
        let mut bytes = fs::read(folder.copy()).unwrap();
        bytes[1_500_000] ^= 1;
        fs::write(folder.copy(), bytes).unwrap();
        assert!(!folder.copy_is_equal().unwrap());
        folder.remove_copy().unwrap();
        folder.remove_copy().unwrap();
        let path = folder.dir.path().to_path_buf();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn no_room_is_said_before_anything_is_written() {
        assert!(Folder::create(1 << 60).is_err());
    }
}
