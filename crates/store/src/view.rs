//! What the bucket holds, as a tree, with a short memory of what the store said. What this program changes it knows at once; what
//! others change it sees a few seconds later.

use crate::object::{Kind, Meta, Object};
use crate::store::{Listing, Store};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// The tree below a prefix. Paths are relative to it; the empty one is the top.
pub struct View {
    store: Arc<Store>,
    prefix: String,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    folders: HashMap<String, (Instant, Arc<Listing>)>,
    objects: HashMap<String, (Instant, Option<Object>)>,
    /// Folders that the store is being asked for, with what this program has changed in them meanwhile.
    asked: Vec<Asked>,
    next: u64,
}

struct Asked {
    id: u64,
    folder: String,
    changes: Vec<(String, Option<Kind>)>,
}

impl View {
    /// Nothing is asked yet.
    pub fn new(store: Arc<Store>, prefix: String) -> View {
        View { store, prefix, memory: Mutex::default() }
    }

    /// The key of a file.
    pub fn key(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }

    /// The key of what stands for a folder, and what the keys in it begin with.
    pub fn folder_key(&self, path: &str) -> String {
        if path.is_empty() { self.prefix.clone() } else { format!("{}{path}/", self.prefix) }
    }

    /// What is at a path.
    pub fn look(&self, path: &str) -> io::Result<Option<Object>> {
        if path.is_empty() {
            return Ok(Some(plain_folder()));
        }
        if let Some(known) = self.remembered(path) {
            return Ok(known);
        }
        let (folder, name) = split(path);
        let listing = self.list(folder)?;
        let Ok(index) = listing.names.binary_search_by(|(other, _)| other.as_str().cmp(name)) else {
            let is_unshown = listing.unshown.iter().any(|unshown| unshown == name);
            let error = || io::Error::other("the bucket has keys here that no folder can show");
            return if is_unshown { Err(error()) } else { Ok(None) };
        };
        // Whoever compares a tree asks for one name after the other.
        let next = &listing.names[index..listing.names.len().min(index + AHEAD)];
        let missing = next.iter().map(|(name, is_folder)| (path_of(folder, name), *is_folder));
        let missing: Vec<_> = missing.filter(|(path, _)| self.remembered(path).is_none()).collect();
        let turn = AtomicUsize::new(0);
        let ask = || {
            while let Some((path, is_folder)) = missing.get(turn.fetch_add(1, Ordering::Relaxed)) {
                let begun = Instant::now();
                // Whoever asks for one that cannot be had now is told so then.
                if let Ok(found) = self.fetch(path, *is_folder) {
                    let mut memory = self.lock();
                    // What this program has changed meanwhile it knows better.
                    if memory.objects.get(path).is_none_or(|(at, _)| *at < begun) {
                        keep(&mut memory.objects, OBJECTS_MAX, path, found);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..missing.len().min(ASKERS) {
                scope.spawn(ask);
            }
            ask();
        });
        match self.remembered(path) {
            Some(found) => Ok(found),
            None => self.fetch(path, listing.names[index].1),
        }
    }

    fn fetch(&self, path: &str, is_folder: bool) -> io::Result<Option<Object>> {
        if !is_folder {
            return self.store.head(&self.key(path));
        }
        // A folder may be nothing but what keys begin with.
        Ok(Some(self.store.head(&self.folder_key(path))?.unwrap_or_else(plain_folder)))
    }

    /// What a folder holds.
    pub fn list(&self, path: &str) -> io::Result<Arc<Listing>> {
        if let Some((_, listing)) = self.lock().folders.get(path).filter(|(at, _)| is_fresh(*at)) {
            return Ok(listing.clone());
        }
        let id = {
            let mut memory = self.lock();
            memory.next += 1;
            let id = memory.next;
            memory.asked.push(Asked { id, folder: path.into(), changes: vec![] });
            id
        };
        let listed = self.store.list(&self.folder_key(path));
        let mut memory = self.lock();
        let place = memory.asked.iter().position(|asked| asked.id == id);
        let asked = place.map(|place| memory.asked.swap_remove(place));
        let mut listing = listed?;
        for (name, kind) in asked.into_iter().flat_map(|asked| asked.changes) {
            listing.change(&name, kind);
        }
        let listing = Arc::new(listing);
        keep(&mut memory.folders, FOLDERS_MAX, path, listing.clone());
        Ok(listing)
    }

    /// What is there now, since this program has put or removed it.
    pub fn changed(&self, path: &str, object: Option<Object>) {
        let (folder, name) = split(path);
        let kind = object.as_ref().map(|object| object.kind);
        let mut memory = self.lock();
        for asked in memory.asked.iter_mut().filter(|asked| asked.folder == folder) {
            asked.changes.push((name.into(), kind));
        }
        if let Some((_, listing)) = memory.folders.get_mut(folder) {
            Arc::make_mut(listing).change(name, kind);
        }
        if object.is_none() {
            memory.folders.remove(path);
        }
        keep(&mut memory.objects, OBJECTS_MAX, path, object);
    }

    /// Nothing is known of it any more.
    pub fn forget(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    fn remembered(&self, path: &str) -> Option<Option<Object>> {
        let memory = self.lock();
        memory.objects.get(path).filter(|(at, _)| is_fresh(*at)).map(|(_, object)| object.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<V>(map: &mut HashMap<String, (Instant, V)>, most: usize, path: &str, value: V) {
    if map.len() >= most {
        map.retain(|_, (at, _)| is_fresh(*at));
    }
    map.insert(path.into(), (Instant::now(), value));
}

fn is_fresh(at: Instant) -> bool {
    at.elapsed() < FRESH
}

/// A folder that no object stands for.
fn plain_folder() -> Object {
    let meta = Meta::of(Kind::Folder, UNIX_EPOCH);
    Object { kind: Kind::Folder, len: 0, stored: UNIX_EPOCH, meta, etag: String::new() }
}

/// The folder that a path is in, and its name there.
pub fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// The path of what has a name in a folder.
pub fn path_of(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.into() } else { format!("{folder}/{name}") }
}

/// How long what the store said is taken to hold.
const FRESH: Duration = Duration::from_secs(5);
/// Objects that are asked for with the one that somebody wants to know of.
const AHEAD: usize = 64;
/// At a time.
const ASKERS: usize = 16;
/// Before what is not fresh is forgotten.
const OBJECTS_MAX: usize = 100_000;
/// The same: one may hold a million names.
const FOLDERS_MAX: usize = 0;

impl Listing {
    /// Something was put there, or removed.
    fn change(&mut self, name: &str, kind: Option<Kind>) {
        let place = self.names.binary_search_by(|(other, _)| other.as_str().cmp(name));
        match (kind.map(|kind| kind == Kind::Folder), place) {
            (Some(is_folder), Ok(index)) => self.names[index].1 = is_folder,
            (Some(is_folder), Err(index)) => self.names.insert(index, (name.into(), is_folder)),
            (None, Ok(index)) => drop(self.names.remove(index)),
            (None, Err(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        assert_eq!(split("a"), ("", "a"));
        assert_eq!(split("a/b/c"), ("a/b", "c"));
        let mut listing = Listing::default();
        for (name, kind) in [("b", Some(Kind::File)), ("a", Some(Kind::Folder)), ("b", None), ("c", None)] {
            listing.change(name, kind);
        }
        assert_eq!(listing.names, [("a".to_owned(), true)]);
        assert_eq!((path_of("", "a").as_str(), path_of("a/b", "c").as_str()), ("a", "a/b/c"));
    }
}
