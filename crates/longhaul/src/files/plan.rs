//! The receiver's first step: what is there already, what can be taken over, what is to come.

use super::claims::Standing;
use super::compare::{Found, Looker};
use super::errors::FileError;
use super::exclude::Exclude;
use super::folders::{Folders, list, split};
use super::journal::group_range;
use super::lease::left_part;
use super::names::{is_ours, journal_name, journal_of_part};
use super::resume::Resumed;
use super::root::{Root, Written};
use super::scan::{PATH_MAX, join};
use super::target::{Place, room};
use longhaul_proto::session::manifest::{Entry, EntryIndex, Kind, Layout, Manifest, Ranges, bytes_in};
use longhaul_proto::session::message::{Already, FileFailure, FileOptions, Fsync, Report};
use longhaul_proto::session::truncated::Truncated;
use rustix::fs::{AtFlags, FileType, statat};
use std::collections::{BTreeSet, HashSet};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where a copy goes.
#[derive(Clone, Debug)]
pub struct Base {
    /// Where paths are looked up.
    pub root: Root,
    /// The destination as the user wrote it.
    pub dest: PathBuf,
}

impl Base {
    /// A destination.
    pub fn new(root: Root, dest: impl Into<PathBuf>) -> Base {
        Base { root, dest: dest.into() }
    }
}

/// What a receiver is going to do.
#[derive(Debug, Default)]
pub struct Plan {
    /// Object bytes that need not be sent: of files that are there, that cannot be stored, or that an interrupted run
    /// left behind.
    pub have: Ranges,
    /// Object bytes that are there if the sender confirms it.
    pub claimed: Ranges,
    /// Files and links that are there already.
    pub skipped: Vec<EntryIndex>,
    /// Data bytes of those files.
    pub skipped_bytes: u64,
    /// Bytes taken over from an interrupted run.
    pub resumed_bytes: u64,
    /// Bytes still to come.
    pub bytes_to_come: u64,
    /// Entries that cannot be stored, and why.
    pub failures: Vec<FileFailure>,
    /// Data bytes of those entries.
    pub failed_bytes: u64,
    /// Files and links of which something is to come.
    pub to_copy: Truncated<Vec<u8>>,
    /// What the destination has and the source has not (`delete`): the topmost paths.
    pub extraneous: Vec<Vec<u8>>,
    /// The other side could not list all that it was asked for: nothing is removed here. To be set by whoever heard of it.
    pub source_incomplete: bool,
    /// The entries of `failures`.
    pub(super) failed: Vec<EntryIndex>,
    /// Folders that stay as they are.
    pub(super) kept: Vec<EntryIndex>,
    /// Files that are there with other permissions or another time.
    pub(super) to_fix: Vec<EntryIndex>,
    /// Files of which a part is there.
    pub(super) resumed: Vec<Resumed>,
    /// Files in place that may have something in common with those to come.
    pub(super) standing: Vec<Standing>,
    /// Nothing is to be changed.
    pub(super) dry_run: bool,
    /// What is to be on the disk itself.
    pub(super) fsync: Fsync,
    /// Where all goes; `None` if nothing is to be done.
    goal: Option<Goal>,
}

/// Compare a validated manifest with what is at the destination. Changes nothing. After an error
/// nothing of this copy can be done.
pub fn plan(
    base: &Base,
    manifest: &Manifest,
    options: &FileOptions,
    stop: &AtomicBool,
) -> Result<Plan, FileError> {
    let exclude = Exclude::new(&options.exclude)?;
    let layout = Layout::new(manifest);
    if layout.object_len() > OBJECT_MAX {
        return Err(FileError::TooLarge);
    }
    if manifest.entries.is_empty() {
        return Ok(Plan { fsync: options.fsync, ..Plan::default() });
    }
    let mut goal = Goal::find(base, manifest)?;
    if goal.exists {
        goal.top = Some(Arc::new(open(base, &goal.folder)?));
    }
    let has_top = manifest.entries.iter().any(|entry| entry.path.is_empty());
    if let Some(top) = goal.top.as_ref().filter(|_| has_top && !options.delete) {
        goal.keeps_top |= holds_others(top, manifest);
    }
    goal.keeps_top |= options.new_only;
    goal.new_only = options.new_only;
    let mut plan = Plan { dry_run: options.dry_run, fsync: options.fsync, ..Plan::default() };
    let mut looker = Looker::new(goal.top.clone(), &layout, options, stop);
    for (index, entry) in manifest.entries.iter().enumerate() {
        if stop.load(Ordering::Relaxed) {
            return Err(FileError::Interrupted);
        }
        let index = index as EntryIndex;
        let found = looker.look(index, entry, goal.rename.as_deref().unwrap_or(&entry.path));
        let found = if options.dry_run { found.without_changes() } else { found };
        let is_to_come = match &found {
            Found::Nothing => true,
            Found::Part(resumed, standing) => resumed.is_some() || standing.is_none(),
            Found::Folder | Found::Kept | Found::Same { .. } | Found::Obstacle(_) => false,
        };
        if is_to_come && !matches!(entry.kind, Kind::Dir) {
            plan.to_copy.push(entry.path.clone());
        }
        plan.add(&layout, index, entry.kind.data_len(), found, &entry.path);
    }
    if options.delete
        && goal.rename.is_none()
        && let Some(there) = &goal.top
    {
        plan.extraneous = extraneous(there, manifest, &exclude);
    }
    check_room(base, &goal, &plan, manifest, looker.replaced_bytes())?;
    if !options.dry_run || !plan.standing.is_empty() {
        plan.goal = Some(goal);
    }
    Ok(plan)
}

impl Plan {
    /// What a dry run reports. Nothing would be removed if the source could not be listed completely.
    pub fn forecast(&self) -> Report {
        let mut report = Report { to_copy: self.to_copy.clone(), ..self.report() };
        if !self.source_incomplete && self.failures.is_empty() {
            report.removed.extend(self.extraneous.iter().cloned());
        } else {
            report.removal_put_off = !self.extraneous.is_empty();
        }
        report
    }

    /// What the sender is told that is not needed. In a dry run that is all but what is to be compared.
    pub fn have_to_begin_with(&self, layout: &Layout) -> Ranges {
        if !self.dry_run {
            return self.have.clone();
        }
        self.claimed.gaps(&(0..layout.object_len())).collect()
    }

    /// What is there before anything is sent.
    pub fn already(&self) -> Already {
        Already {
            skipped: self.skipped.len() as u64,
            skipped_bytes: self.skipped_bytes,
            resumed_bytes: self.resumed_bytes,
        }
    }

    /// What a sink reports to begin with.
    pub(super) fn first_report(&self) -> Report {
        if self.dry_run { Report { to_copy: self.to_copy.clone(), ..self.report() } } else { self.report() }
    }

    /// Whether the copy's only file gets the name that its destination says.
    pub fn renames(&self) -> bool {
        self.goal.as_ref().is_some_and(|goal| goal.rename.is_some())
    }

    /// What there is to report before anything is done.
    fn report(&self) -> Report {
        Report {
            files_skipped: self.skipped.len() as u64,
            skipped_bytes: self.skipped_bytes,
            resumed_bytes: self.resumed_bytes,
            failed: self.failures.iter().cloned().collect(),
            failed_bytes: self.failed_bytes,
            ..Report::default()
        }
    }

    /// Where all goes: makes the destination's folder where it is missing. `None` if nothing is to be done.
    pub(super) fn occupy(&self) -> Result<Option<Place>, FileError> {
        self.goal.as_ref().map(Goal::occupy).transpose()
    }

    fn add(&mut self, layout: &Layout, index: EntryIndex, data_len: u64, found: Found, path: &[u8]) {
        let range = layout.entry_range(index);
        match found {
            Found::Nothing => self.bytes_to_come += data_len,
            Found::Folder => {}
            Found::Kept => self.kept.push(index),
            Found::Same { fix } => {
                self.skipped.push(index);
                self.skipped_bytes += data_len;
                if fix {
                    self.to_fix.push(index);
                }
                self.add_range(range);
            }
            Found::Part(resumed, standing) => self.add_part(range, resumed.map(|part| *part), standing),
            Found::Obstacle(error) => {
                self.failures.push(FileFailure { path: path.to_vec(), reason: error.into() });
                self.failed.push(index);
                self.failed_bytes += data_len;
                self.add_range(range);
            }
        }
    }

    fn add_part(&mut self, place: Range<u64>, resumed: Option<Resumed>, standing: Option<Standing>) {
        let data_len = place.end - place.start;
        let (mut kept, mut in_part) = (Ranges::new(), BTreeSet::new());
        if let Some(part) = &resumed {
            kept = part.kept.clone();
            in_part.extend(part.groups.iter().map(|(group, _)| *group));
            in_part.extend(part.claims.iter().map(|(group, _)| *group));
        }
        let in_place =
            standing.into_iter().flat_map(|standing| 0..standing.end).filter(|g| !in_part.contains(g));
        let claims = resumed.iter().flat_map(|part| part.claims.iter().map(|(group, _)| *group));
        let groups: Vec<u32> = claims.chain(in_place).collect();
        for data in groups.iter().filter_map(|group| group_range(*group, data_len)) {
            // All of the group or nothing: what is claimed is hashed as a whole.
            kept.remove(data.clone());
            self.claimed.insert(place.start + data.start..place.start + data.end);
        }
        let kept_bytes = bytes_in(&kept);
        self.resumed_bytes += kept_bytes;
        // What may stay needs no room.
        let to_come =
            if standing.is_some_and(|standing| standing.may_stay) { 0 } else { data_len - kept_bytes };
        self.bytes_to_come += to_come;
        for range in kept.iter() {
            self.add_range(place.start + range.start..place.start + range.end);
        }
        self.resumed.extend(resumed);
        let helps = |standing: &Standing| (0..standing.end).any(|group| !in_part.contains(&group));
        self.standing.extend(standing.filter(helps));
    }

    fn add_range(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.have.insert(range);
        }
    }
}

/// Which folder the entries go below.
#[derive(Debug)]
struct Goal {
    base: Base,
    folder: PathBuf,
    /// The name of a copy's only file, where the user gave it one.
    rename: Option<Vec<u8>>,
    exists: bool,
    /// Its handle, if it exists.
    top: Option<Arc<OwnedFd>>,
    /// It keeps its own permissions and time: it is the served folder, or holds what is none of this copy's business.
    keeps_top: bool,
    /// Nothing that is there is replaced.
    new_only: bool,
}

impl Goal {
    /// As rsync does it: a single file goes to the path given, unless that is a folder; all else goes into a folder
    /// of that path.
    fn find(base: &Base, manifest: &Manifest) -> Result<Goal, FileError> {
        let dest = if base.dest.as_os_str().is_empty() { Path::new(".") } else { &base.dest };
        let look = |path: &Path| base.root.kind_of(path).map_err(|e| FileError::from(e).at(path));
        let kind = look(dest)?;
        let written = Written::new(dest);
        let only = match manifest.entries.as_slice() {
            [only] => !matches!(only.kind, Kind::Dir) && !only.path.contains(&b'/'),
            _ => false,
        };
        if only && kind != Some(FileType::Directory) && !written.is_folder {
            let exists = match look(&written.parent)? {
                None => false,
                Some(FileType::Directory) => true,
                Some(_) => return Err(FileError::NotAFolder.at(&written.parent)),
            };
            if let Some(name) = &written.name
                && (name.len() > 255 || is_ours(name))
            {
                return Err(FileError::NameUnusable.at(dest));
            }
            let (base, folder, rename) = (base.clone(), written.parent, written.name);
            return Ok(Goal { base, folder, rename, exists, top: None, keeps_top: false, new_only: false });
        }
        let exists = match kind {
            None => false,
            Some(FileType::Directory) => true,
            Some(_) => return Err(FileError::NotAFolder.at(dest)),
        };
        let keeps_top =
            base.root.is_confined() && base.root.local(dest).is_ok_and(|local| local == Path::new("."));
        let (base, folder) = (base.clone(), dest.into());
        Ok(Goal { base, folder, rename: None, exists, top: None, keeps_top, new_only: false })
    }

    /// Make the folder where it is missing, and hold on to it.
    fn occupy(&self) -> Result<Place, FileError> {
        let base = &self.base;
        let mut above = Vec::new();
        let top = match &self.top {
            Some(top) => top.clone(),
            None => {
                let is_missing = |folder: &&Path| matches!(base.root.kind_of(folder), Ok(None));
                let missing = ancestors(&self.folder).take_while(is_missing).count();
                let cannot = FileError::step("cannot make this folder");
                base.root.create_folder(&self.folder).map_err(|e| cannot(e).at(&self.folder))?;
                for folder in ancestors(&self.folder).skip(1).take(missing) {
                    above.push(Arc::new(open(base, folder)?));
                }
                Arc::new(open(base, &self.folder)?)
            }
        };
        let rename = self.rename.clone();
        let Goal { keeps_top, new_only, .. } = *self;
        Ok(Place { top: Some(top), rename, keeps_top, new_only, above })
    }
}

/// A folder and those above it.
fn ancestors(folder: &Path) -> impl Iterator<Item = &Path> {
    folder.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

fn open(base: &Base, folder: &Path) -> Result<OwnedFd, FileError> {
    base.root.open_folder(folder).map_err(|e| FileError::from(e).at(folder))
}

/// Whether a folder holds what the manifest does not name. Then it is not a copy of the source's folder but a place to put
/// things, such as /tmp or somebody's home, and its permissions matter to others.
fn holds_others(top: &OwnedFd, manifest: &Manifest) -> bool {
    let first = |path: &'_ [u8]| path.split(|b| *b == b'/').next().unwrap_or_default().to_vec();
    let known: HashSet<Vec<u8>> = manifest.entries.iter().map(|entry| first(&entry.path)).collect();
    // One that cannot be listed is hardly ours.
    list(top).map_or(true, |names| names.iter().any(|(name, _)| !known.contains(name) && !is_ours(name)))
}

/// Refuse at once what cannot end well. `replaced` are the bytes of files that will give way to new ones.
fn check_room(
    base: &Base,
    goal: &Goal,
    plan: &Plan,
    manifest: &Manifest,
    replaced: u64,
) -> Result<(), FileError> {
    let Some(folder) = ancestors(&goal.folder).find_map(|folder| base.root.open_folder(folder).ok()) else {
        return Ok(());
    };
    let Some(room) = room(&folder) else { return Ok(()) };
    let mut room = room.saturating_add(replaced);
    if plan.bytes_to_come > room {
        room = room.saturating_add(left_over(goal, manifest).saturating_sub(plan.resumed_bytes));
    }
    if plan.bytes_to_come <= room {
        return Ok(());
    }
    let (needed_bytes, missing_bytes) = (plan.bytes_to_come, plan.bytes_to_come - room);
    let dest = if base.dest.as_os_str().is_empty() { Path::new("the destination") } else { &base.dest };
    Err(FileError::NoRoom { needed_bytes, missing_bytes }.at(dest))
}

/// Bytes of part files of earlier runs: they are taken over or give way.
fn left_over(goal: &Goal, manifest: &Manifest) -> u64 {
    let mut folders = Folders::new(goal.top.clone());
    let files = manifest.entries.iter().filter(|entry| entry.kind.data_len() > 0);
    let size = |entry: &Entry| {
        let (folder, name) = folders.parent(goal.rename.as_deref().unwrap_or(&entry.path)).ok()?;
        let part = left_part(&folder, &journal_name(name), name)?;
        let stat = statat(&folder, part, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        Some((stat.st_blocks as u64).saturating_mul(512))
    };
    files.filter_map(size).sum()
}

/// The topmost paths below the folders of the manifest that it does not name, without those that a pattern protects and
/// the folders above these.
fn extraneous(top: &Arc<OwnedFd>, manifest: &Manifest, exclude: &Exclude) -> Vec<Vec<u8>> {
    let mut known: HashSet<Vec<u8>> = HashSet::new();
    for entry in &manifest.entries {
        known.insert(entry.path.clone());
        if matches!(entry.kind, Kind::File { .. }) {
            let (folder, name) = split(&entry.path);
            known.insert(join(folder, &journal_name(name)));
        }
    }
    let mut folders = Folders::new(top.clone());
    let mut found = Vec::new();
    for entry in manifest.entries.iter().filter(|entry| matches!(entry.kind, Kind::Dir)) {
        let Ok(names) = folders.open(&entry.path).and_then(|folder| list(&folder)) else { continue };
        for (name, kind) in names {
            let path = join(&entry.path, &name);
            // Part files go the way of their journals.
            let journal = journal_of_part(&name).map(|journal| join(&entry.path, &journal));
            if !known.contains(&path) && !journal.is_some_and(|journal| known.contains(&journal)) {
                found.extend(unprotected(&mut folders, path, kind == FileType::Directory, exclude));
            }
        }
    }
    found.sort_unstable();
    found
}

/// Something that the source has not, or what is in it.
struct Extra {
    path: Vec<u8>,
    is_folder: bool,
    /// The folder that it is in, by its place in the list.
    above: Option<usize>,
    /// It may be removed with all in it.
    is_whole: bool,
}

/// What of `path` and all in it may be removed: the topmost paths.
fn unprotected(folders: &mut Folders, path: Vec<u8>, is_folder: bool, exclude: &Exclude) -> Vec<Vec<u8>> {
    let mut found = vec![Extra { path, is_folder, above: None, is_whole: true }];
    let mut pending = vec![0];
    while let Some(at) = pending.pop() {
        let Extra { path, is_folder, .. } = &found[at];
        if is_protected(exclude, path, *is_folder) {
            found[at].is_whole = false;
            continue;
        }
        // What lies deeper than any path that is copied has no patterns.
        if !is_folder || exclude.is_empty() || path.len() > PATH_MAX {
            continue;
        }
        // What cannot be looked into cannot be removed either, which is told then.
        let names = folders.open(path).and_then(|folder| list(&folder)).unwrap_or_default();
        let inner = |(name, kind): (Vec<u8>, FileType)| Extra {
            path: join(path, &name),
            is_folder: kind == FileType::Directory,
            above: Some(at),
            is_whole: true,
        };
        let inner: Vec<Extra> = names.into_iter().map(inner).collect();
        pending.extend(found.len()..found.len() + inner.len());
        found.extend(inner);
    }
    // What is in a folder stands behind it.
    for at in (0..found.len()).rev() {
        if let (false, Some(folder)) = (found[at].is_whole, found[at].above) {
            found[folder].is_whole = false;
        }
    }
    let is_topmost =
        |extra: &&Extra| extra.is_whole && extra.above.is_none_or(|folder| !found[folder].is_whole);
    found.iter().filter(is_topmost).map(|extra| extra.path.clone()).collect()
}

/// A pattern protects what it would have left out at the source. The source may have been given with or without its
/// own name, so both readings count.
fn is_protected(exclude: &Exclude, path: &[u8], is_folder: bool) -> bool {
    let below_name = path.iter().position(|b| *b == b'/').map(|slash| &path[slash + 1..]);
    exclude.leaves_out(path, is_folder) || below_name.is_some_and(|path| exclude.leaves_out(path, is_folder))
}

/// Copies larger than this are refused: the size is the other side's word, and memory for it is taken here.
const OBJECT_MAX: u64 = 1 << 50;
