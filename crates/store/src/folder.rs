//! The bucket as the kernel asks for it. What is written has one of the names that copies give what is on its way; with the name that it
//! is to have it becomes an object.

use crate::draft::Draft;
use crate::drafts::Drafts;
use crate::nodes::{Node, Nodes};
use crate::object::{Kind, Meta, Object};
use crate::reading::{Chunks, Source};
use crate::store::Store;
use crate::view::{View, path_of, split};
use fuser::{INodeNo, TimeOrNow};
use rustix::io::Errno;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// A bucket, or a part of it, as a folder.
pub struct Folder {
    store: Arc<Store>,
    view: View,
    drafts: Drafts,
    chunks: Chunks,
    nodes: Mutex<Nodes>,
}

/// What is at a path.
pub enum There {
    Draft(Arc<Draft>),
    Object(Object),
}

/// What a file or folder looks like.
pub struct Look {
    /// By which the kernel knows it.
    pub number: INodeNo,
    /// What it is.
    pub kind: Kind,
    /// Its bytes.
    pub len: u64,
    /// What is kept of it.
    pub meta: Meta,
    /// When it was stored.
    pub stored: SystemTime,
    /// Whether it is being written.
    pub is_draft: bool,
}

/// Something in a folder.
pub struct Item {
    /// By which the kernel knows it.
    pub number: INodeNo,
    /// Whether it is a folder.
    pub is_folder: bool,
    /// Its name there.
    pub name: String,
}

/// What is to be changed of a file.
#[derive(Default)]
pub struct Change {
    /// Permissions.
    pub mode: Option<u32>,
    /// Its length.
    pub len: Option<u64>,
    /// Its time.
    pub time: Option<TimeOrNow>,
}

impl Folder {
    /// Nothing is asked yet.
    pub fn new(store: Arc<Store>, prefix: &str, drafts: Drafts) -> io::Result<Folder> {
        let view = View::new(store.clone(), prefix.into());
        let chunks = Chunks::new(store.clone())?;
        Ok(Folder { store, view, drafts, chunks, nodes: Mutex::default() })
    }

    /// The path of what has a number.
    fn path(&self, number: INodeNo) -> io::Result<String> {
        Ok(self.node(number)?.path.ok_or(Errno::NOENT)?)
    }

    fn node(&self, number: INodeNo) -> io::Result<Node> {
        Ok(self.nodes().get(number).ok_or(Errno::NOENT)?)
    }

    fn path_in(&self, folder: INodeNo, name: &str) -> io::Result<String> {
        Ok(path_of(&self.path(folder)?, name))
    }

    /// What is at a path.
    fn there(&self, path: &str) -> io::Result<Option<There>> {
        if let Some(draft) = self.drafts.get(path)? {
            return Ok(Some(There::Draft(draft)));
        }
        Ok(self.view.look(path)?.map(There::Object))
    }

    /// What is in a folder under a name. The kernel is told of it.
    pub fn lookup(&self, folder: INodeNo, name: &str) -> io::Result<Look> {
        let path = self.path_in(folder, name)?;
        let there = self.there(&path)?.ok_or(Errno::NOENT)?;
        self.tell(&path, &there)
    }

    fn tell(&self, path: &str, there: &There) -> io::Result<Look> {
        let draft = match there {
            There::Draft(draft) => Some(draft.clone()),
            There::Object(_) => None,
        };
        let number = self.nodes().told(path, draft);
        look(number, there)
    }

    /// What has a number.
    pub fn look(&self, number: INodeNo) -> io::Result<Look> {
        let node = self.node(number)?;
        if let Some(draft) = node.draft {
            return look(number, &There::Draft(draft));
        }
        let object = self.view.look(&node.path.ok_or(Errno::NOENT)?)?;
        look(number, &There::Object(object.ok_or(Errno::NOENT)?))
    }

    /// Forget a number.
    pub fn forget(&self, number: INodeNo, times: u64) {
        self.nodes().forget(number, times);
    }

    /// Begin a file.
    pub fn create(&self, folder: INodeNo, name: &str, mode: u32) -> io::Result<Look> {
        let path = self.path_in(folder, name)?;
        let draft = self.drafts.create(&path, mode & 0o7777)?;
        self.tell(&path, &There::Draft(draft))
    }

    /// A file is opened.
    pub fn open(&self, number: INodeNo, writes: bool) -> io::Result<bool> {
        match self.node(number)?.draft {
            Some(draft) => draft.begin_anew(),
            None if writes => return Err(Errno::PERM.into()),
            None => return Ok(false),
        }
        Ok(true)
    }

    /// A stretch of a file.
    pub fn read(&self, number: INodeNo, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let node = self.node(number)?;
        if let Some(draft) = node.draft {
            return draft.read(offset, len);
        }
        let path = node.path.ok_or(Errno::STALE)?;
        let object = self.view.look(&path)?.ok_or(Errno::STALE)?;
        let source = Source { key: self.view.key(&path), etag: object.etag, len: object.len };
        self.chunks.read(&source, offset, len).inspect_err(|_| self.view.forget(&path))
    }

    /// Where a link leads.
    pub fn read_link(&self, number: INodeNo) -> io::Result<Vec<u8>> {
        self.read(number, 0, TARGET_MAX)
    }

    /// Write a stretch.
    pub fn write(&self, number: INodeNo, offset: u64, data: &[u8]) -> io::Result<()> {
        self.node(number)?.draft.ok_or(Errno::PERM)?.write(offset, data)
    }

    /// Bring what is being written to the disk. Objects are safe.
    pub fn sync(&self, number: INodeNo) -> io::Result<()> {
        self.node(number)?.draft.map_or(Ok(()), |draft| draft.sync())
    }

    /// Change a file.
    pub fn change(&self, number: INodeNo, change: &Change) -> io::Result<Look> {
        let node = self.node(number)?;
        let dress = |meta: &mut Meta| {
            meta.mode = change.mode.map_or(meta.mode, |mode| mode & 0o7777);
            *meta = match change.time {
                Some(TimeOrNow::SpecificTime(time)) => meta.at(time),
                Some(TimeOrNow::Now) => meta.at(SystemTime::now()),
                None => *meta,
            };
        };
        if let Some(draft) = node.draft {
            if let Some(len) = change.len {
                draft.set_len(len)?;
            }
            draft.dress(dress);
            return look(number, &There::Draft(draft));
        }
        let path = node.path.ok_or(Errno::NOENT)?;
        let mut object = self.view.look(&path)?.ok_or(Errno::NOENT)?;
        if change.len.is_some_and(|len| len != object.len) {
            return Err(Errno::PERM.into());
        }
        let before = object.meta;
        dress(&mut object.meta);
        if object.meta != before && !path.is_empty() {
            self.dress_object(&path, &object)?;
        }
        look(number, &There::Object(object))
    }

    fn dress_object(&self, path: &str, object: &Object) -> io::Result<()> {
        if object.kind == Kind::Folder {
            let stored = self.store.put_folder(&self.view.folder_key(path), &object.meta)?;
            self.view.changed(path, Some(stored));
            return Ok(());
        }
        let key = self.view.key(path);
        self.store.copy(&key, &key, object.kind, &object.meta)?;
        self.ask_anew(path, &key)
    }

    /// Make a folder.
    pub fn make_folder(&self, folder: INodeNo, name: &str, mode: u32) -> io::Result<Look> {
        let path = self.free_path(folder, name)?;
        let meta = Meta::now(mode & 0o7777);
        let key = self.view.folder_key(&path);
        let object = self.store.put_folder(&key, &meta)?;
        self.view.changed(&path, Some(object.clone()));
        self.tell(&path, &There::Object(object))
    }

    /// Make a symbolic link.
    pub fn make_link(&self, folder: INodeNo, name: &str, target: &str) -> io::Result<Look> {
        let path = self.free_path(folder, name)?;
        let meta = Meta::now(0o777);
        let key = self.view.key(&path);
        let object = self.store.put_link(&key, &meta, target)?;
        self.view.changed(&path, Some(object.clone()));
        self.tell(&path, &There::Object(object))
    }

    fn free_path(&self, folder: INodeNo, name: &str) -> io::Result<String> {
        let path = self.path_in(folder, name)?;
        if self.there(&path)?.is_some() { Err(Errno::EXIST.into()) } else { Ok(path) }
    }

    /// Ask the store for what this program has just made there of something else, whose version nobody has told.
    fn ask_anew(&self, path: &str, key: &str) -> io::Result<()> {
        let object = self.store.head(key)?.ok_or(Errno::NOENT)?;
        self.view.changed(path, Some(object));
        Ok(())
    }

    /// Give what has one name another.
    pub fn rename(
        &self,
        (from_folder, from): (INodeNo, &str),
        (to_folder, to): (INodeNo, &str),
        replaces: bool,
    ) -> io::Result<()> {
        let (from, to_name) = (self.path_in(from_folder, from)?, to);
        let to = self.path_in(to_folder, to)?;
        let there = self.there(&from)?.ok_or(Errno::NOENT)?;
        if !replaces && self.there(&to)?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let to_key = self.view.key(&to);
        let mut known = None;
        match there {
            There::Draft(_) if Drafts::is_theirs(to_name) => {
                self.drafts.rename(&from, &to)?;
                self.nodes().moved(&from, &to, true);
                return Ok(());
            }
            There::Draft(draft) => {
                if self.view.look(&to)?.is_some_and(|other| other.kind == Kind::Folder) {
                    return Err(Errno::ISDIR.into());
                }
                known = draft.finish(&to_key)?;
                self.drafts.forget(&from);
            }
            There::Object(object) if object.kind == Kind::Folder => return Err(Errno::XDEV.into()),
            There::Object(object) => {
                let from_key = self.view.key(&from);
                self.store.copy(&from_key, &to_key, object.kind, &object.meta)?;
                self.store.delete(&from_key)?;
                self.view.changed(&from, None);
            }
        }
        self.nodes().moved(&from, &to, false);
        if known.is_none() {
            return self.ask_anew(&to, &to_key);
        }
        self.view.changed(&to, known);
        Ok(())
    }

    /// Remove a file.
    pub fn remove(&self, folder: INodeNo, name: &str) -> io::Result<()> {
        let path = self.path_in(folder, name)?;
        match self.there(&path)?.ok_or(Errno::NOENT)? {
            There::Draft(draft) => {
                draft.discard();
                self.drafts.forget(&path);
            }
            There::Object(object) if object.kind == Kind::Folder => return Err(Errno::ISDIR.into()),
            There::Object(_) => {
                self.store.delete(&self.view.key(&path))?;
                self.view.changed(&path, None);
            }
        }
        self.nodes().removed(&path);
        Ok(())
    }

    /// Remove an empty folder.
    pub fn remove_folder(&self, folder: INodeNo, name: &str) -> io::Result<()> {
        let path = self.path_in(folder, name)?;
        match self.there(&path)?.ok_or(Errno::NOENT)? {
            There::Object(object) if object.kind == Kind::Folder => {}
            _ => return Err(Errno::NOTDIR.into()),
        }
        // What somebody else put there just now is not to be without a folder.
        let listing = self.store.list(&self.view.folder_key(&path))?;
        let holds = !listing.names.is_empty() || !listing.unshown.is_empty();
        if holds || !self.drafts.names(&path).is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        self.store.delete(&self.view.folder_key(&path))?;
        self.view.changed(&path, None);
        self.nodes().removed(&path);
        Ok(())
    }

    /// What a folder holds.
    pub fn list(&self, number: INodeNo) -> io::Result<Vec<Item>> {
        let path = self.path(number)?;
        let listing = self.view.list(&path)?;
        let drafts = self.drafts.names(&path).into_iter().map(|name| (name, false));
        let nodes = self.nodes();
        let item = |number, name| Item { number, is_folder: true, name };
        let above = INodeNo(nodes.number(split(&path).0));
        let mut found = vec![item(number, ".".into()), item(above, "..".into())];
        let unshown = listing.unshown.iter().map(|name| (name.clone(), false));
        for (name, is_folder) in listing.names.iter().cloned().chain(unshown).chain(drafts) {
            let number = INodeNo(nodes.number(&path_of(&path, &name)));
            found.push(Item { number, is_folder, name });
        }
        Ok(found)
    }

    fn nodes(&self) -> MutexGuard<'_, Nodes> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(number: INodeNo, there: &There) -> io::Result<Look> {
    match there {
        There::Draft(draft) => {
            let (len, meta) = draft.look()?;
            Ok(Look { number, kind: Kind::File, len, meta, stored: meta.time(), is_draft: true })
        }
        There::Object(object) => {
            let Object { kind, len, meta, stored, .. } = object.clone();
            Ok(Look { number, kind, len, meta, stored, is_draft: false })
        }
    }
}

/// Longest path that Linux takes.
const TARGET_MAX: usize = 4096;
