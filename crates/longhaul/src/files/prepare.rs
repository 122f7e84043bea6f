//! What comes before the data and after it: folders, links, empty files; deletions, permissions of folders.

use super::calls::fsync;
use super::disk::{Covered, MANY};
use super::errors::{FileError, why};
use super::folders::split;
use super::links::make_links;
use super::shared::{Happened, Shared, Status};
use super::target::Journals;
use longhaul_proto::session::manifest::{EntryIndex, Kind};
use longhaul_proto::session::message::{FileFailure, Fsync};
use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

/// What is to be done before data is stored.
#[derive(Default)]
pub(super) struct Preparation {
    /// Files that are there with other permissions or another time.
    pub to_fix: Vec<EntryIndex>,
    /// Files that an interrupted run received in full but did not put in place.
    pub complete: Vec<EntryIndex>,
}

impl Preparation {
    /// Make folders, links and empty files; `land` puts in place a file that needs no more data.
    pub(super) fn run(self, shared: &Shared, land: impl Fn(EntryIndex)) {
        if shared.dry_run {
            return shared.count_down();
        }
        let target = &shared.target;
        let continued = target.manifest.seams.continued as usize;
        for (index, entry) in target.manifest.entries.iter().enumerate().skip(continued) {
            let index = index as EntryIndex;
            if !shared.is_open(index) {
                continue;
            }
            let stored = match &entry.kind {
                Kind::Dir => target.make_folder(index),
                Kind::Symlink { .. } => target.land_link(index).map(|()| shared.done(index)),
                Kind::Node { .. } => target.land_node(index).map(|is_made| match is_made {
                    true => shared.done(index),
                    false => shared.settle_beforehand(index),
                }),
                Kind::Link { .. } => Ok(()),
                Kind::File { .. } if target.layout.group_count(index) == 0 => {
                    land(index);
                    Ok(())
                }
                Kind::File { .. } => Ok(()),
            };
            if let Err(error) = stored {
                shared.fail_storing(index, error);
            }
        }
        for index in self.to_fix {
            if let Err(error) = target.fix(index) {
                let path = String::from_utf8_lossy(&target.entry(index).path).into_owned();
                let why = why(error);
                if target.keeping().is_some() {
                    target.note("what was there is not put right", index, &why);
                }
                tracing::warn!(path, "cannot set permissions and time: {why}");
            }
        }
        for index in self.complete {
            land(index);
        }
        shared.count_down();
    }
}

/// All entries are settled: remove what the source has not, and give folders their permissions and time.
pub(super) fn finish(shared: &Shared) {
    make_links(shared);
    remove_extraneous(shared);
    if !shared.target.manifest.seams.has_more {
        shared.target.noted().into_iter().for_each(|line| shared.tell(Happened::Warning(line)));
    }
    if !shared.dry_run {
        remove_leftovers(shared);
        // Others may be at work in them.
        if !shared.target.is_part() {
            finish_folders(shared);
        }
    }
    if shared.fsync == Fsync::Always && !shared.dry_run {
        let is_durable = sync_rest(shared);
        shared.report().durable = is_durable;
    }
    shared.finished.store(true, Ordering::Release);
    shared.wake();
}

/// Remove what the source has not, if all that it has is here.
fn remove_extraneous(shared: &Shared) {
    let (target, extraneous) = (&shared.target, &shared.extraneous);
    if extraneous.is_empty() {
        return;
    }
    let all_well = shared.report().failed.is_empty() && !shared.is_incomplete.load(Ordering::Acquire);
    if !all_well || !extraneous.is_clear() {
        shared.report().removal_put_off = true;
        return;
    }
    let looked = extraneous.for_each_unprotected(|path| {
        let Some(path) = path else {
            shared.report().removal_put_off = true;
            return;
        };
        let removed = if shared.dry_run { Ok(()) } else { target.remove(path) };
        match removed {
            Ok(()) => shared.report().removed.push(path.to_vec()),
            Err(error) => fail(shared, path, FileError::step("cannot be removed")(error)),
        }
    });
    if let Err(error) = looked {
        fail(shared, b"", FileError::step("what to remove cannot be read back")(error));
    }
    target.forget_folders();
}

/// Give folders their permissions and time, but for those that go on in the next part.
fn finish_folders(shared: &Shared) {
    let target = &shared.target;
    let goes_on: HashSet<EntryIndex> = target.manifest.seams.goes_on.iter().copied().collect();
    // Children come after their parents in a manifest, so backwards is the deepest first.
    for (index, entry) in target.manifest.entries.iter().enumerate().rev() {
        let index = index as EntryIndex;
        if matches!(entry.kind, Kind::Dir)
            && !goes_on.contains(&index)
            && shared.status(index) != Status::Settled
            && let Err(error) = target.finish_folder(index)
        {
            if entry.path.is_empty() {
                // Somebody else's, mostly; the copy is in it all the same.
                let line = format!("the destination folder keeps its permissions and time: {}", why(error));
                shared.tell(Happened::Warning(line));
            } else {
                fail(shared, &entry.path, FileError::step("its permissions and time cannot be set")(error));
            }
        }
    }
}

/// A file that is in place needs nothing of an earlier run any more, which may have begun with another version of it.
fn remove_leftovers(shared: &Shared) {
    let failed = shared.report().failed.clone();
    if failed.more > 0 {
        // Which have failed, and want what is left of them, is not known.
        return;
    }
    let failed: HashSet<Vec<u8>> = failed.first.into_iter().map(|failure| failure.path).collect();
    let mut journals = Journals::new();
    for (index, entry) in shared.target.manifest.entries.iter().enumerate() {
        let is_file = matches!(entry.kind, Kind::File { .. }) && !shared.target.is_piece(index as EntryIndex);
        if is_file && !failed.contains(&entry.path) {
            // What stays takes room and does no harm.
            let _ = shared.target.remove_leftover(index as EntryIndex, &mut journals);
        }
    }
}

/// Bring to the disk what is no new file's data: names, links, folders, and what was there before. What cannot be brought
/// there fails; `true` if there is nothing of the kind.
fn sync_rest(shared: &Shared) -> bool {
    let target = &shared.target;
    let entries = 0..target.manifest.entries.len() as EntryIndex;
    // Links and devices cannot be brought there one by one.
    let is_unopened = |kind: &Kind| matches!(kind, Kind::Symlink { .. } | Kind::Node { .. });
    let has_links = target.manifest.entries.iter().any(|entry| is_unopened(&entry.kind));
    let together = entries.len() >= MANY || has_links;
    let covered = if together { target.disk.sync_whole() } else { None };
    let sync = |opened: io::Result<File>| match opened {
        Ok(file) if covered.is_some_and(|covered| covered.holds(&file)) => Ok(()),
        Ok(file) => Ok(fsync(&file)?),
        // What may not be read reaches the disk with all else, if at all.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => match target.disk.sync_whole() {
            Some(_) => Ok(()),
            None => Err(error),
        },
        // It has failed, or somebody has removed it.
        Err(error) if is_elsewhere(&error) => Ok(()),
        Err(error) => Err(error),
    };
    let mut is_durable = true;
    let mut tell = |path: &[u8], synced: io::Result<()>| {
        if let Err(error) = synced {
            is_durable = false;
            fail(shared, path, FileError::step("cannot be brought to the disk")(error));
        }
    };
    // Those of which the whole says nothing.
    let mut apart: BTreeSet<&[u8]> = BTreeSet::new();
    for folder in folders(shared) {
        let holds = |covered: Covered| target.handle(folder).is_ok_and(|handle| covered.holds(&*handle));
        if !covered.is_some_and(holds) {
            apart.insert(folder);
        }
        tell(folder, sync(target.open_folder(folder)));
    }
    let is_apart = |entry: &EntryIndex| apart.contains(split(target.path(*entry)).0);
    let is_file = |entry: &EntryIndex| matches!(target.entry(*entry).kind, Kind::File { .. });
    for entry in entries.filter(|entry| is_file(entry) && is_apart(entry)) {
        let synced = sync(target.open_in_place(entry));
        if synced.is_err() {
            // The system says so once, and the next run is not to skip it. Where that cannot be had there is nothing to be done.
            let _ = target.distrust(entry);
        }
        tell(&target.entry(entry).path, synced);
    }
    // What was removed of a folder stands together.
    let mut last: Option<Vec<u8>> = None;
    let mut whole = covered;
    let looked = shared.extraneous.for_each(|path| {
        let folder = split(path).0;
        if last.as_deref() != Some(folder) {
            tell(folder, sync(target.open_folder(folder)));
            last = Some(folder.to_vec());
        }
        // A pattern protects something in it that came late, and more may have been removed of the folders in it.
        if whole.is_none()
            && let Ok(stayed) = target.open_folder(path)
        {
            whole = target.disk.sync_whole();
            if whole.is_none() {
                tell(path, sync(Ok(stayed)));
            }
        }
    });
    if looked.is_err() {
        tell(b"", looked);
    }
    for above in target.open_above() {
        tell(b"", sync(above));
    }
    is_durable
}

/// The folders below the top in which something may have changed, and the top itself.
fn folders(shared: &Shared) -> BTreeSet<&[u8]> {
    let target = &shared.target;
    let entries = 0..target.manifest.entries.len() as EntryIndex;
    let mut folders: BTreeSet<&[u8]> = BTreeSet::new();
    for entry in entries {
        if matches!(target.entry(entry).kind, Kind::Dir) {
            folders.insert(&target.entry(entry).path);
        }
        let mut path = split(target.path(entry)).0;
        // Those above a folder that is known are known.
        while folders.insert(path) && !path.is_empty() {
            path = split(path).0;
        }
    }
    folders
}

fn is_elsewhere(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ENXIO))
}

fn fail(shared: &Shared, path: &[u8], error: FileError) {
    shared.report().failed.push(FileFailure { path: path.to_vec(), reason: error.into() });
}
