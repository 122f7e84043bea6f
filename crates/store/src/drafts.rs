//! All files that are being written, in a folder of ours that has the folders of the bucket in it as far as they are needed.

use crate::draft::{Draft, Job, Local};
use crate::object::Meta;
use crate::store::Store;
use crate::view::{path_of, split};
use crossbeam_channel::{Receiver, Sender, unbounded};
use longhaul::files::{file_of_part, is_of_pieces, is_ours};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The files that are being written, by their paths in the bucket's folder.
pub struct Drafts {
    store: Arc<Store>,
    prefix: String,
    root: PathBuf,
    notes: PathBuf,
    jobs: Sender<Job>,
    open: Mutex<Open>,
    /// One program at a time has the folder.
    _lock: File,
}

type Open = HashMap<String, Arc<Draft>>;

impl Drafts {
    /// Those that are in this folder, with the threads that store their parts. An error of kind `ResourceBusy`: another
    /// program has it.
    pub fn new(store: Arc<Store>, prefix: String, folder: &Path) -> io::Result<Drafts> {
        let root = folder.join("files");
        let notes = folder.join("notes");
        make_folders(&root)?;
        make_folders(&notes)?;
        let lock = File::options().create(true).append(true).mode(0o600).open(folder.join("lock"))?;
        take(&lock)?;
        let (jobs, queue) = unbounded();
        for _ in 0..UPLOADS {
            let queue: Receiver<Job> = queue.clone();
            thread::Builder::new().name("upload".into()).spawn(move || {
                for (draft, part) in queue {
                    draft.store_part(part);
                }
            })?;
        }
        Ok(Drafts { store, prefix, root, notes, jobs, open: Mutex::default(), _lock: lock })
    }

    /// Whether a name is one under which files are written.
    pub fn is_theirs(name: &str) -> bool {
        is_ours(name.as_bytes()) && !is_of_pieces(name.as_bytes())
    }

    /// The one of this path. One that can never become an object is as good as none.
    pub fn get(&self, path: &str) -> io::Result<Option<Arc<Draft>>> {
        if !Drafts::is_theirs(split(path).1) {
            return Ok(None);
        }
        let mut open = self.lock();
        let found = match open.get(path) {
            Some(draft) => Some(draft.clone()),
            None => self.reopen(&mut open, path)?,
        };
        if let Some(draft) = &found
            && draft.is_lost()
        {
            open.remove(path);
            draft.discard();
            return Ok(None);
        }
        Ok(found)
    }

    /// One that an earlier run has left.
    fn reopen(&self, open: &mut Open, path: &str) -> io::Result<Option<Arc<Draft>>> {
        let local = self.local(path);
        match File::options().read(true).write(true).open(&local.data) {
            Ok(file) => self.keep(open, path, (local, file), PRIVATE).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A new one. An error of kind `AlreadyExists`: there is one.
    pub fn create(&self, path: &str, mode: u32) -> io::Result<Arc<Draft>> {
        if !Drafts::is_theirs(split(path).1) {
            // What has its name already is whole.
            return Err(Errno::PERM.into());
        }
        let mut open = self.lock();
        let local = self.local(path);
        make_folders(local.data.parent().unwrap_or(&self.root))?;
        let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&local.data)?;
        self.keep(&mut open, path, (local, file), mode)
    }

    fn keep(&self, open: &mut Open, path: &str, local: (Local, File), mode: u32) -> io::Result<Arc<Draft>> {
        let meta = Meta::now(mode);
        let draft = Draft::open(self.store.clone(), self.jobs.clone(), local, self.key_of(path), meta)?;
        let draft = Arc::new(draft);
        open.insert(path.into(), draft.clone());
        Ok(draft)
    }

    /// It has another path from now on, which is one for drafts too.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut open = self.lock();
        let draft = open.get(from).cloned().ok_or(Errno::NOENT)?;
        let local = self.local(to);
        make_folders(local.data.parent().unwrap_or(&self.root))?;
        if let Some(other) = open.get(to) {
            other.discard();
        }
        draft.moved(local, self.key_of(to))?;
        open.remove(from);
        open.insert(to.into(), draft);
        Ok(())
    }

    /// It is an object now, or was removed.
    pub fn forget(&self, path: &str) {
        // Held to the end: nobody makes a folder anew meanwhile.
        let mut open = self.lock();
        open.remove(path);
        // The folders that it was in, as far as nothing is left in them.
        let mut folder = Path::new(path).parent();
        while let Some(path) = folder.filter(|path| !path.as_os_str().is_empty()) {
            if fs::remove_dir(self.root.join(path)).is_err() {
                break;
            }
            folder = path.parent();
        }
    }

    /// The names of those in a folder.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(items) = fs::read_dir(self.root.join(folder)) else { return vec![] };
        let names = items.filter_map(|item| item.ok()?.file_name().into_string().ok());
        names.filter(|name| Drafts::is_theirs(name)).collect()
    }

    /// Where a draft lies. A name may be as long as names can be, so that of its note is made of all of its path.
    fn local(&self, path: &str) -> Local {
        let hash = blake3::hash(path.as_bytes()).to_hex();
        Local { data: self.root.join(path), note: self.notes.join(&hash[..32]) }
    }

    /// The object that a part file becomes, as far as its name tells.
    fn key_of(&self, path: &str) -> Option<String> {
        let (folder, name) = split(path);
        let file = std::str::from_utf8(file_of_part(name.as_bytes())?).ok()?;
        Some(format!("{}{}", self.prefix, path_of(folder, file)))
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Have the folder for this program alone. One whose daemon was killed just now is about to end.
fn take(lock: &File) -> io::Result<()> {
    let begun = Instant::now();
    loop {
        match flock(lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < LOCK_PATIENCE => thread::sleep(LOCK_PATIENCE / 50),
            Err(Errno::WOULDBLOCK) => return Err(io::ErrorKind::ResourceBusy.into()),
            done => return Ok(done?),
        }
    }
}

fn make_folders(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Parts that are on their way at a time: enough for a store that is a few milliseconds away.
const UPLOADS: usize = 8;
/// How long one that ends may take for it.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
/// As copies make theirs.
const PRIVATE: u32 = 0o600;
