//! What the bucket holds, as a tree, with a short memory of what the store said. What this program changes it knows at once; what
//! others change it sees a few seconds later.

use crate::object::{Kind, Meta, Object};
use crate::store::{Listing, Store};
use std::collections::HashMap;
use std::hash::Hash;
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
            return Ok(None);
        };
        // Whoever compares a tree asks for one name after the other.
        let next = &listing.names[index..listing.names.len().min(index + AHEAD)];
        let missing = next.iter().map(|(name, is_folder)| (path_of(folder, name), *is_folder));
        let missing: Vec<_> = missing.filter(|(path, _)| self.remembered(path).is_none()).collect();
        let turn = AtomicUsize::new(0);
        let ask = || {
            while let Some((path, is_folder)) = missing.get(turn.fetch_add(1, Ordering::Relaxed)) {
                // Whoever asks for one that cannot be had now is told so then.
                if let Ok(found) = self.fetch(path, *is_folder) {
                    self.remember(path, found);
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
        let listing = Arc::new(self.store.list(&self.folder_key(path))?);
        keep(&mut self.lock().folders, path, listing.clone());
        Ok(listing)
    }

    /// What is there now, since this program has put or removed it.
    pub fn changed(&self, path: &str, object: Option<Object>) {
        let (folder, name) = split(path);
        let mut memory = self.lock();
        if let Some((_, listing)) = memory.folders.get_mut(folder) {
            let names = &mut Arc::make_mut(listing).names;
            let place = names.binary_search_by(|(other, _)| other.as_str().cmp(name));
            match (&object, place) {
                (Some(object), Ok(index)) => names[index].1 = object.kind == Kind::Folder,
                (Some(object), Err(index)) => {
                    names.insert(index, (name.into(), object.kind == Kind::Folder));
                }
                (None, Ok(index)) => drop(names.remove(index)),
                (None, Err(_)) => {}
            }
        }
        if object.is_none() {
            memory.folders.remove(path);
        }
        drop(memory);
        self.remember(path, object);
    }

    /// Nothing is known of it any more.
    pub fn forget(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    fn remembered(&self, path: &str) -> Option<Option<Object>> {
        let memory = self.lock();
        memory.objects.get(path).filter(|(at, _)| is_fresh(*at)).map(|(_, object)| object.clone())
    }

    fn remember(&self, path: &str, object: Option<Object>) {
        keep(&mut self.lock().objects, path, object);
    }

    fn lock(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn keep<V>(map: &mut HashMap<String, (Instant, V)>, path: &str, value: V)
where
    String: Eq + Hash,
{
    if map.len() >= REMEMBERED_MAX {
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
const REMEMBERED_MAX: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_folder_and_a_name() {
        assert_eq!(split("a"), ("", "a"));
        assert_eq!(split("a/b/c"), ("a/b", "c"));
        assert_eq!((path_of("", "a").as_str(), path_of("a/b", "c").as_str()), ("a", "a/b/c"));
    }
}
