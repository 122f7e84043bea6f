//! Where data of small files waits that has not come in whole, or whose hash has not: a file without a name, so
//! that nothing of it stays behind. Small files are not resumed.

use super::calls::FileExt;
use longhaul_proto::session::manifest::GROUP_LEN;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A place for each of the blocks that have something to wait for.
#[derive(Default)]
pub(super) struct Spool {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    file: Option<std::sync::Arc<File>>,
    /// Where a block's bytes are, in blocks.
    slots: HashMap<u64, u64>,
    free: Vec<u64>,
}

impl Spool {
    /// Keep `data`, which begins at `offset` of a block. `make` makes the file when it is first needed.
    pub(super) fn write(
        &self,
        block: u64,
        offset: u32,
        data: &[u8],
        make: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<()> {
        let (file, slot) = {
            let mut inner = self.lock();
            if inner.file.is_none() {
                inner.file = Some(make()?.into());
            }
            let inner = &mut *inner;
            let next = inner.slots.len() as u64 + inner.free.len() as u64;
            let slot = *inner.slots.entry(block).or_insert_with(|| inner.free.pop().unwrap_or(next));
            (inner.file.clone(), slot)
        };
        let file = file.ok_or(io::ErrorKind::NotFound)?;
        file.write_all_at(data, slot * GROUP_LEN + u64::from(offset))
    }

    /// Read back what was kept.
    pub(super) fn read(&self, block: u64, offset: u32, buf: &mut [u8]) -> io::Result<()> {
        let (file, slot) = {
            let inner = self.lock();
            (inner.file.clone(), inner.slots.get(&block).copied())
        };
        let (file, slot) = file.zip(slot).ok_or(io::ErrorKind::NotFound)?;
        file.read_exact_at(buf, slot * GROUP_LEN + u64::from(offset))
    }

    /// Whether something of a block is kept.
    pub(super) fn holds(&self, block: u64) -> bool {
        self.lock().slots.contains_key(&block)
    }

    /// Nothing of a block is needed any more.
    pub(super) fn release(&self, block: u64) {
        let mut inner = self.lock();
        let slot = inner.slots.remove(&block);
        inner.free.extend(slot);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_places_are_used_again() {
        let spool = Spool::default();
        let keep = |block, data: &[u8]| spool.write(block, 5, data, tempfile::tempfile).unwrap();
        keep(1_000_000_000_000, b"one");
        keep(2, b"two");
        let mut buf = [0; 3];
        spool.read(1_000_000_000_000, 5, &mut buf).unwrap();
        assert_eq!(&buf, b"one");
        spool.release(1_000_000_000_000);
        assert!(!spool.holds(1_000_000_000_000) && spool.holds(2));
        keep(3, b"three");
        assert_eq!(spool.lock().slots[&3], 0, "where the first was");
        spool.read(2, 5, &mut buf).unwrap();
        assert_eq!(&buf, b"two");
    }
}
