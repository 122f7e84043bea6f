//! How a writer puts a file in place that is all there and verified.

use super::complete::Complete;
use super::disk;
use super::part::Part;
use super::shared::Status;
use super::writer::Writer;
use longhaul_proto::session::manifest::{EntryIndex, Group};
use longhaul_proto::session::message::Fsync;
use std::fs::File;
use std::io;
use std::ops::Range;

impl Writer {
    /// All groups of a file are stored and verified: put it in place.
    pub(super) fn land(&self, entry: EntryIndex) {
        let shared = &self.shared;
        let landed =
            if shared.target.is_journalled(entry) { self.land_part(entry) } else { self.land_kept(entry) };
        if let Err(error) = landed {
            shared.fail_storing(entry, error);
        }
    }

    /// Store a small file that is all there and verified, in one go.
    pub(super) fn land_small(&self, entry: EntryIndex, data: &[u8]) -> io::Result<()> {
        if !self.shared.step(entry, &[Status::Waiting], Status::Landing) {
            return Ok(());
        }
        let complete = self.shared.target.complete_small(entry, data)?;
        self.count_written(data.len() as u64);
        self.take_in(complete);
        Ok(())
    }

    /// A file that has a part file.
    fn land_part(&self, entry: EntryIndex) -> io::Result<()> {
        let target = &self.shared.target;
        if !self.shared.step(entry, &[Status::Started], Status::Landing) {
            return Ok(());
        }
        if target.is_piece(entry) {
            return self.keep_piece(entry);
        }
        let part = self.part(entry)?;
        self.take_in(target.complete_part(entry, part)?);
        Ok(())
    }

    /// A piece of a file: it stays in the part file, and its journal says so.
    fn keep_piece(&self, entry: EntryIndex) -> io::Result<()> {
        let shared = &self.shared;
        let part = self.part(entry)?;
        let told = part.last_word(disk::ask).and_then(|()| shared.target.find_part(entry, &part.file));
        told.inspect_err(|_| shared.logs.give_up(&shared.target, entry))?;
        shared.logs.keep(&shared.target, entry, shared.fsync != Fsync::Never)?;
        // It is known how it went.
        let _ = shared.target.parts.close(entry);
        shared.done(entry);
        Ok(())
    }

    /// A small file whose data waited for its hash, or that has none.
    fn land_kept(&self, entry: EntryIndex) -> io::Result<()> {
        let shared = &self.shared;
        let place = shared.target.layout.entry_range(entry);
        if place.is_empty() {
            return self.land_small(entry, &[]);
        }
        let block = shared.blocks.at(place.start);
        let mut data = vec![0; (place.end - place.start) as usize];
        shared.spool.read(block, (place.start - shared.blocks.range(block).start) as u32, &mut data)?;
        let group = Group { entry, index: 0 };
        let hash = shared.target.group_hash(group, &data);
        if !shared.lock_ledger().still_is(&shared.target.layout, group, hash) {
            // The disk has lost what it was given meanwhile.
            self.bad(group);
            return Ok(());
        }
        self.land_small(entry, &data)?;
        self.release_spool(block);
        Ok(())
    }

    /// Put a complete file in place, at once or with others when they have reached the disk.
    fn take_in(&self, complete: Complete) {
        let is_to_reach_disk = match self.shared.fsync {
            Fsync::Always => true,
            // With holes in it, a file of little data may be long, and its length alone looks like the whole of it.
            Fsync::Auto => !complete.is_small() || self.shared.target.is_long(complete.entry),
            Fsync::Never => false,
        };
        if !is_to_reach_disk {
            let told = complete.ask();
            return self.put_in_place(&complete, told);
        }
        self.complete.borrow_mut().push(complete);
        if self.complete.borrow().len() >= COMPLETE_MAX {
            self.settle();
        }
    }

    /// Bring complete files to the disk, then put them in place.
    pub(super) fn settle(&self) {
        let (small, large): (Vec<_>, Vec<_>) = self.complete.take().into_iter().partition(Complete::is_small);
        for complete in large {
            let synced = complete.sync();
            self.put_in_place(&complete, synced);
        }
        let files: Vec<&File> = small.iter().map(Complete::file).collect();
        for (complete, synced) in small.iter().zip(self.shared.target.disk.sync(&files)) {
            self.put_in_place(complete, synced);
        }
    }

    /// Put a complete file in place if its data is as safe as it is to be.
    fn put_in_place(&self, complete: &Complete, safe: io::Result<()>) {
        let (shared, entry) = (&self.shared, complete.entry);
        let is_safe = safe.is_ok();
        if let Err(error) = safe.and_then(|()| shared.target.put_in_place(complete)) {
            // Nobody can go on with a part file that has no place to go to: it is another path's, or it is taken and nothing is
            // replaced.
            let is_free = error.kind() != io::ErrorKind::AlreadyExists;
            let has_place = complete.is_small() || (is_free && shared.target.look_for_twin(entry).is_ok());
            if !is_safe || !has_place {
                shared.logs.give_up(&shared.target, entry);
            }
            shared.target.discard(complete);
            return shared.fail_storing(entry, error);
        }
        if !complete.is_small() {
            shared.logs.remove(&shared.target, entry);
            // It is known how it went.
            let _ = shared.target.parts.close(entry);
        }
        shared.done(entry);
    }

    /// Have a verified group begin its way to the disk, if the file is to reach it.
    pub(super) fn begin_sync(&self, entry: EntryIndex, part: &Part, data: Range<u64>) -> io::Result<()> {
        if self.shared.fsync == Fsync::Never {
            return Ok(());
        }
        part.begin_sync(data).inspect_err(|_| self.shared.logs.give_up(&self.shared.target, entry))
    }
}

/// Each holds a descriptor, and there are two writers.
const COMPLETE_MAX: usize = 256;
