//! A list of paths of any length: its end is in memory, what comes before it in a file without a name.

use super::calls::FileExt;
use std::fs::File;
use std::io;

/// Paths in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Spill {
    /// Each path after its length in two bytes.
    recent: Vec<u8>,
    file: Option<File>,
    file_len: u64,
}

impl Spill {
    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.file_len == 0
    }

    /// Add a path that the system takes as a whole.
    pub(super) fn push(&mut self, path: &[u8]) {
        debug_assert!(path.len() <= usize::from(u16::MAX));
        self.recent.extend((path.len() as u16).to_le_bytes());
        self.recent.extend(path);
    }

    /// Write out what there is much of to a file that `make` makes. Where that cannot be, it stays in memory.
    pub(super) fn settle(&mut self, make: impl FnOnce() -> io::Result<File>) {
        if self.recent.len() < RECENT_MAX {
            return;
        }
        if self.file.is_none() {
            self.file = make().ok();
        }
        if let Some(file) = &self.file
            && file.write_all_at(&self.recent, self.file_len).is_ok()
        {
            self.file_len += self.recent.len() as u64;
            self.recent = Vec::new();
        }
    }

    /// Go through them.
    pub(super) fn for_each(&self, mut look: impl FnMut(&[u8])) -> io::Result<()> {
        let mut window = Vec::new();
        let mut at = 0;
        while let Some(file) = self.file.as_ref().filter(|_| at < self.file_len) {
            let known = window.len();
            let len = (WINDOW as u64).min(self.file_len - at) as usize;
            window.resize(known + len, 0);
            file.read_exact_at(&mut window[known..], at)?;
            at += len as u64;
            let done = each(&window, &mut look);
            window.drain(..done);
        }
        each(&self.recent, &mut look);
        Ok(())
    }
}

/// Look at each path that is there in full. Returns where the first begins that is not.
fn each(bytes: &[u8], look: &mut impl FnMut(&[u8])) -> usize {
    let mut at = 0;
    while let Some(&[low, high]) = bytes.get(at..at + 2) {
        let end = at + 2 + usize::from(u16::from_le_bytes([low, high]));
        let Some(path) = bytes.get(at + 2..end) else { break };
        look(path);
        at = end;
    }
    at
}

/// More than this does not stay in memory.
const RECENT_MAX: usize = 4 << 20;

/// Bytes read at a time.
const WINDOW: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_paths_come_back_in_order_wherever_they_are() {
        let mut spill = Spill::default();
        assert!(spill.is_empty());
        let path = |at: usize| format!("{}{at}", "x".repeat(at % 300)).into_bytes();
        for at in 0..60_000 {
            spill.push(&path(at));
            spill.settle(tempfile::tempfile);
        }
        assert!(spill.file_len > 3 * WINDOW as u64 && !spill.recent.is_empty() && !spill.is_empty());
        let mut next = 0;
        let look = |found: &[u8]| {
            assert_eq!(found, path(next));
            next += 1;
        };
        spill.for_each(look).unwrap();
        assert_eq!(next, 60_000);
    }

    #[test]
    fn where_no_file_can_be_made_it_stays_in_memory() {
        let mut spill = Spill::default();
        (0..100_000).for_each(|_| spill.push(&[b'x'; 100]));
        spill.settle(|| Err(io::ErrorKind::ReadOnlyFilesystem.into()));
        let mut count = 0;
        spill.for_each(|_| count += 1).unwrap();
        assert_eq!(count, 100_000);
    }
}
