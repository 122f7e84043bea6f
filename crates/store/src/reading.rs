//! Objects are read in chunks, one ahead of who reads on: a request for each read of the kernel's would take a round trip each.

use crate::store::Store;
use crossbeam_channel::{Sender, bounded};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// A version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Its key.
    pub key: String,
    /// Which version.
    pub etag: String,
    /// Its bytes.
    pub len: u64,
}

/// A source and a chunk of it, from 0 on.
type Name = (Source, u64);

enum Chunk {
    Asked,
    Here(Arc<Vec<u8>>),
    /// Whoever waits is told, and the next one asks anew.
    Failed(io::ErrorKind, String),
}

struct Held {
    name: Name,
    chunk: Chunk,
}

struct Shared {
    store: Arc<Store>,
    /// The one that was used last is last.
    held: Mutex<Vec<Held>>,
    came: Condvar,
}

/// Reads objects.
pub struct Chunks {
    shared: Arc<Shared>,
    ahead: Sender<Name>,
}

impl Chunks {
    /// With threads that read ahead.
    pub fn new(store: Arc<Store>) -> io::Result<Chunks> {
        let shared = Arc::new(Shared { store, held: Mutex::default(), came: Condvar::new() });
        let (ahead, names) = bounded::<Name>(CHUNKS_MAX);
        for _ in 0..READERS {
            let (shared, names) = (shared.clone(), names.clone());
            thread::Builder::new().name("read ahead".into()).spawn(move || {
                for name in names {
                    shared.fetch(&name);
                }
            })?;
        }
        Ok(Chunks { shared, ahead })
    }

    /// A stretch of an object, as far as it goes.
    pub fn read(&self, source: &Source, offset: u64, len: usize) -> io::Result<Vec<u8>> {
        let end = source.len.min(offset + len as u64);
        let mut data = Vec::with_capacity(len);
        let mut at = offset;
        while at < end {
            let index = at / CHUNK;
            let chunk = self.chunk((source.clone(), index))?;
            let within = (at - index * CHUNK) as usize;
            let until = chunk.len().min((end - index * CHUNK) as usize);
            data.extend(chunk.get(within..until).ok_or(io::ErrorKind::UnexpectedEof)?);
            at = index * CHUNK + until as u64;
        }
        Ok(data)
    }

    fn chunk(&self, name: Name) -> io::Result<Arc<Vec<u8>>> {
        let (source, index) = &name;
        let mut held = self.shared.lock();
        // Whoever has read the one before, or begins, mostly reads on.
        let reads_on = *index == 0 || held.iter().any(|other| other.name == (source.clone(), index - 1));
        if reads_on {
            for next in index + 1..=index + AHEAD {
                let name = (source.clone(), next);
                if next * CHUNK < source.len
                    && ask(&mut held, &name)
                    && self.ahead.try_send(name.clone()).is_err()
                {
                    held.retain(|other| other.name != name);
                }
            }
        }
        loop {
            // It may have made room for another before this thread saw it.
            if ask(&mut held, &name) {
                drop(held);
                self.shared.fetch(&name);
                held = self.shared.lock();
            }
            let Some(place) = held.iter().position(|other| other.name == name) else { continue };
            match &held[place].chunk {
                Chunk::Asked => held = self.shared.came.wait(held).unwrap_or_else(PoisonError::into_inner),
                Chunk::Here(data) => {
                    let data = data.clone();
                    let used = held.remove(place);
                    held.push(used);
                    return Ok(data);
                }
                Chunk::Failed(kind, why) => {
                    let error = io::Error::new(*kind, why.clone());
                    held.remove(place);
                    return Err(error);
                }
            }
        }
    }
}

/// Note that a chunk is to be fetched; `false` if it is here or on its way. The oldest one makes room.
fn ask(held: &mut Vec<Held>, name: &Name) -> bool {
    if held.iter().any(|other| other.name == *name) {
        return false;
    }
    if held.len() >= CHUNKS_MAX
        && let Some(oldest) = held.iter().position(|other| !matches!(other.chunk, Chunk::Asked))
    {
        held.remove(oldest);
    }
    held.push(Held { name: name.clone(), chunk: Chunk::Asked });
    true
}

impl Shared {
    fn fetch(&self, (source, index): &Name) {
        let range = index * CHUNK..source.len.min((index + 1) * CHUNK);
        let fetched = self.store.get(&source.key, &source.etag, &range);
        let chunk = match fetched {
            Ok(data) => Chunk::Here(Arc::new(data)),
            Err(error) => {
                tracing::error!("{}: {error}", source.key);
                Chunk::Failed(error.kind(), error.to_string())
            }
        };
        let mut held = self.lock();
        if let Some(place) = held.iter_mut().find(|held| held.name.0 == *source && held.name.1 == *index) {
            place.chunk = chunk;
        }
        self.came.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const CHUNK: u64 = 4 << 20;
/// Held for all who read, 64 MiB.
const CHUNKS_MAX: usize = 16;
/// Chunks that are fetched before they are asked for.
const AHEAD: u64 = 3;
const READERS: usize = 6;
