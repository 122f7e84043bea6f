//! The receiver's first step: what is there already, what can be taken over, what is to come.

use super::claims::Standing;
use super::compare::{Blocked, Found, Looker};
use super::disk::room;
use super::errors::FileError;
use super::exclude::Exclude;
use super::extraneous::{Extraneous, Sweep};
use super::folders::{Folders, list};
use super::ids::Directory;
use super::journal::{Owner, owner};
use super::keeping::{Keeping, Notes};
use super::lease::left_part;
use super::names::{NAME_MAX, is_ours, journal_name};
use super::pieces::{Assembled, Pieces};
use super::resume::Resumed;
use super::root::{Root, Written};
use super::target::Place;
use super::twins::Taken;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::manifest::{
    Entry, EntryIndex, GROUP_LEN, Kind, Layout, Manifest, Ranges, bytes_in, shifted,
};
use longhaul_proto::session::message::{Already, FileFailure, FileOptions, Fsync, PlanStep, Report};
use longhaul_proto::session::truncated::Truncated;
use rustix::fs::{AtFlags, FileType, statat};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
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
    /// The user of a daemon who sends the copy.
    owner: Owner,
    /// Which step of a planned copy it is.
    step: Option<Arc<PlanStep>>,
}

impl Base {
    /// A destination.
    pub fn new(root: Root, dest: impl Into<PathBuf>) -> Base {
        Base { root, dest: dest.into(), owner: Owner::default(), step: None }
    }

    /// The same for a step of a planned copy.
    pub fn for_step(self, step: PlanStep) -> Base {
        Base { step: Some(Arc::new(step)), ..self }
    }

    /// The same for a user of a daemon: what other users left unfinished is none of this one's business.
    pub fn of_user(self, name: &str) -> Base {
        Base { owner: owner(name), ..self }
    }
}

/// What a receiver is going to do about a part of a copy.
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
    /// Those of them that belong to groups which are not verified: object bytes.
    pub unproved: Ranges,
    /// Bytes still to come.
    pub bytes_to_come: u64,
    /// Entries that cannot be stored, and why.
    pub failures: Vec<FileFailure>,
    /// Data bytes of those entries.
    pub failed_bytes: u64,
    /// Files and links of which something is to come.
    pub to_copy: Truncated<Vec<u8>>,
    /// What the destination has and the source has not (`delete`), known with the last part.
    pub(super) extraneous: Extraneous,
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
    /// Files that are there in pieces.
    pub(super) assembled: Vec<Assembled>,
    /// Files in place that may have something in common with those to come.
    pub(super) standing: Vec<Standing>,
    /// There is a part before this one.
    pub(super) follows: bool,
    /// Nothing is to be changed.
    pub(super) dry_run: bool,
    /// What is to be on the disk itself.
    pub(super) fsync: Fsync,
    /// Where all goes; `None` if nothing is to be done.
    goal: Option<Goal>,
}

/// Compare the validated manifest of a copy that has one part with what is at the destination.
pub fn plan(
    base: &Base,
    manifest: &Manifest,
    options: &FileOptions,
    stop: &AtomicBool,
) -> Result<Plan, FileError> {
    Planner::new(base.clone(), options.clone())?.plan(manifest, stop)
}

/// Compares a copy with what is at the destination, part by part. Changes nothing. After an error nothing more of this copy
/// can be done.
#[derive(Debug)]
pub struct Planner {
    base: Base,
    options: FileOptions,
    exclude: Exclude,
    /// A part has been compared.
    has_begun: bool,
    /// Entries of all parts so far.
    entries: u64,
    goal: Option<Goal>,
    /// What the top folder holds and the source has not named so far, where that matters.
    others: Option<Others>,
    /// Looks for what is to be removed, where that is asked for.
    sweep: Option<Sweep>,
    /// Folders of the part before that go on: those that stay as they are, and those that cannot be made.
    kept: HashSet<Vec<u8>>,
    blocked: Blocked,
    /// Of a copy in parts.
    taken: Arc<Taken>,
    /// Users and groups of this host, where owners are kept.
    directory: Arc<Directory>,
    notes: Arc<Notes>,
}

impl Planner {
    /// Of a copy to `base`.
    pub fn new(base: Base, options: FileOptions) -> Result<Planner, FileError> {
        let exclude = Exclude::new(&options.exclude)?;
        let (kept, blocked) = (HashSet::new(), Blocked::default());
        let by_name = options.preserve.has_attributes() && !options.preserve.numeric_ids;
        Ok(Planner {
            directory: if by_name { Directory::load() } else { Arc::default() },
            notes: Arc::default(),
            base,
            options,
            exclude,
            has_begun: false,
            entries: 0,
            goal: None,
            others: None,
            sweep: None,
            kept,
            blocked,
            taken: Arc::default(),
        })
    }

    /// Compare the next part, of a validated manifest.
    pub fn plan(&mut self, manifest: &Manifest, stop: &AtomicBool) -> Result<Plan, FileError> {
        let layout = Layout::new(manifest);
        if layout.object_len() > OBJECT_MAX {
            return Err(FileError::TooLarge);
        }
        let (dry_run, fsync) = (self.options.dry_run, self.options.fsync);
        let follows = std::mem::replace(&mut self.has_begun, true);
        let mut plan = Plan { follows, dry_run, fsync, ..Plan::default() };
        if manifest.entries.is_empty() {
            return Ok(plan);
        }
        if self.goal.is_none() {
            self.begin(manifest)?;
        }
        let Some(goal) = self.goal.clone() else { return Ok(plan) };
        let has_parts = follows || manifest.seams.has_more;
        let keeping = Keeping::of(manifest, self.options.preserve, &self.directory, &self.notes);
        let (preserve, notes) = (self.options.preserve, self.notes.clone());
        let taken = has_parts.then(|| self.taken.clone());
        let mut goal = Goal { taken, keeping: keeping.map(Arc::new), preserve, notes, ..goal };
        let step = self.base.step.as_deref();
        goal.pieces =
            step.map_or_else(Pieces::default, |step| Pieces::of(step, self.entries, manifest.entries.len()));
        self.entries += manifest.entries.len() as u64;
        let replaced_bytes = self.look(&goal, manifest, &layout, &mut plan, stop)?;
        goal.pieces.add_whole(plan.assembled.iter().map(|assembled| assembled.entry));
        if let Some(sweep) = &mut self.sweep {
            sweep.part(manifest);
        }
        check_room(&self.base, &goal, &plan, manifest, replaced_bytes)?;
        if let Some(others) = &mut self.others {
            others.cross_off(manifest);
        }
        if !manifest.seams.has_more {
            plan.extraneous = self.sweep.take().map(Sweep::finish).unwrap_or_default();
        }
        if !self.options.dry_run || !plan.standing.is_empty() {
            let keeps_top = goal.keeps_top || self.others.as_ref().is_some_and(Others::are_there);
            plan.goal = Some(Goal { keeps_top, ..goal });
        }
        Ok(plan)
    }

    /// Where all goes is clear from the first part.
    fn begin(&mut self, manifest: &Manifest) -> Result<(), FileError> {
        let mut goal = Goal::find(&self.base, manifest)?;
        if goal.exists {
            goal.top = Some(Arc::new(open(&self.base, &goal.folder)?));
        }
        goal.new_only = self.options.new_only;
        goal.keeps_top |= self.options.new_only;
        if let Some(top) = &goal.top {
            if self.options.delete && goal.rename.is_none() {
                self.sweep = Some(Sweep::new(top.clone(), self.exclude.clone()));
            } else if !self.options.delete && manifest.entries.iter().any(|entry| entry.path.is_empty()) {
                self.others = Some(Others::of(top));
            }
        }
        self.goal = Some(goal);
        Ok(())
    }

    /// Look at each entry. Returns the bytes of files that will give way.
    fn look(
        &mut self,
        goal: &Goal,
        manifest: &Manifest,
        layout: &Layout,
        plan: &mut Plan,
        stop: &AtomicBool,
    ) -> Result<u64, FileError> {
        let blocked = std::mem::take(&mut self.blocked);
        let (top, taken) = (goal.top.clone(), goal.taken.clone());
        let ours = (self.base.owner, &goal.pieces);
        let mut looker = Looker::new((top, taken), (manifest, layout), &self.options, blocked, ours, stop);
        for (index, entry) in manifest.entries.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Err(FileError::Interrupted);
            }
            let (path, is_continued) = (&entry.path, index < manifest.seams.continued as usize);
            let index = index as EntryIndex;
            // What is in its way was reported with the part before.
            let is_settled = is_continued && (self.kept.contains(path) || looker.is_blocked(path));
            let found = match is_settled {
                true => Found::Kept,
                // An earlier part of this copy has made it.
                false if is_continued && self.options.new_only => Found::Folder,
                false => looker.look(index, entry, goal.rename.as_deref().unwrap_or(path)),
            };
            let found = if self.options.dry_run { found.without_changes() } else { found };
            if found.is_to_come() && !matches!(entry.kind, Kind::Dir) {
                plan.to_copy.push(path.clone());
            }
            plan.add(layout, index, entry.kind.data_len(), found, path);
        }
        let path = |index: &EntryIndex| manifest.entries[*index as usize].path.as_slice();
        let goes_on: HashSet<EntryIndex> = manifest.seams.goes_on.iter().copied().collect();
        let kept = plan.kept.iter().filter(|index| goes_on.contains(index));
        self.kept = kept.map(|index| path(index).to_vec()).collect();
        let replaced_bytes = looker.replaced_bytes();
        self.blocked = looker.into_blocked();
        self.blocked.keep(goes_on.iter().map(path));
        Ok(replaced_bytes)
    }
}

/// Entries of the destination folder that the copy does not name. If there are any, the folder is no copy of the source's
/// but a place to put things, such as /tmp or somebody's home, and keeps its own permissions.
#[derive(Debug)]
enum Others {
    Named(HashSet<Vec<u8>>),
    /// A folder that cannot be listed is hardly ours.
    Unknown,
}

impl Others {
    fn of(top: &OwnedFd) -> Others {
        let named = |names: Vec<(Vec<u8>, FileType)>| {
            Others::Named(names.into_iter().map(|(name, _)| name).filter(|name| !is_ours(name)).collect())
        };
        list(top).map_or(Others::Unknown, named)
    }

    /// The copy names these.
    fn cross_off(&mut self, manifest: &Manifest) {
        if let Others::Named(names) = self
            && !names.is_empty()
        {
            for entry in &manifest.entries {
                names.remove(entry.path.split(|b| *b == b'/').next().unwrap_or_default());
            }
        }
    }

    fn are_there(&self) -> bool {
        !matches!(self, Others::Named(names) if names.is_empty())
    }
}

impl Plan {
    /// What a dry run reports. Nothing would be removed if the source could not be listed completely.
    pub fn forecast(&self) -> Report {
        let mut report = Report { to_copy: self.to_copy.clone(), ..self.report() };
        if !self.source_incomplete && self.failures.is_empty() && self.extraneous.is_clear() {
            // If the list cannot be read back, the forecast leaves it out; the copy itself would fail with a line.
            let _ = self.extraneous.for_each(|path| report.removed.push(path.to_vec()));
        } else {
            report.removal_put_off = !self.extraneous.is_empty();
        }
        report
    }

    /// The ranges that the sender need not send. In a dry run all but what is to be compared.
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
            Found::Folder | Found::Link { .. } => {}
            Found::Kept => self.kept.push(index),
            Found::Same { fix } => {
                self.skipped.push(index);
                self.skipped_bytes += data_len;
                if fix {
                    self.to_fix.push(index);
                }
                self.add_range(range);
            }
            Found::Assembled(assembled) => {
                tracing::info!(
                    path = %String::from_utf8_lossy(path),
                    blake3 = %blake3::Hash::from_bytes(assembled.hash),
                    "has come in pieces, and is whole"
                );
                self.assembled.push(*assembled);
                self.resumed_bytes += data_len;
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
        let (mut kept, mut in_part) = (Ranges::new(), Ranges::new());
        if let Some(part) = &resumed {
            (kept, in_part) = (part.kept.clone(), part.groups.clone());
            in_part.extend(part.claims.iter().map(|(group, _)| u64::from(*group)..u64::from(*group) + 1));
        }
        let end = standing.map_or(0, |standing| u64::from(standing.end));
        let in_place: Vec<Range<u64>> = in_part.gaps(&(0..end)).collect();
        let claims = resumed.iter().flat_map(|part| part.claims.iter().map(|(group, _)| u64::from(*group)));
        for groups in claims.map(|group| group..group + 1).chain(in_place.iter().cloned()) {
            // All of the group or nothing: what is claimed is hashed as a whole.
            let data = groups.start * GROUP_LEN..(groups.end * GROUP_LEN).min(data_len);
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
        for verified in resumed.iter().flat_map(|part| part.groups.iter()) {
            kept.remove(verified.start * GROUP_LEN..verified.end * GROUP_LEN);
        }
        self.unproved.extend(shifted(&kept, place.start).iter().cloned());
        self.resumed.extend(resumed);
        self.standing.extend(standing.filter(|_| !in_place.is_empty()));
    }

    fn add_range(&mut self, range: Range<u64>) {
        if !range.is_empty() {
            self.have.insert(range);
        }
    }
}

/// Which folder the entries go below.
#[derive(Clone, Debug)]
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
    taken: Option<Arc<Taken>>,
    /// Which entries are in pieces.
    pieces: Pieces,
    keeping: Option<Arc<Keeping>>,
    preserve: Preserve,
    notes: Arc<Notes>,
}

impl Goal {
    /// As rsync does it: a single file goes to the path given, unless that is a folder; all else goes into a folder
    /// of that path.
    fn find(base: &Base, manifest: &Manifest) -> Result<Goal, FileError> {
        let dest = if base.dest.as_os_str().is_empty() { Path::new(".") } else { &base.dest };
        if dest.iter().map(OsStr::as_bytes).any(|name| name.len() > NAME_MAX || is_ours(name)) {
            return Err(FileError::NameUnusable.at(dest));
        }
        let look = |path: &Path| base.root.kind_of(path).map_err(|e| FileError::from(e).at(path));
        let kind = look(dest)?;
        let written = Written::new(dest);
        let is_one_of_many = base.step.as_ref().is_some_and(|step| !step.is_single);
        let only = match manifest.entries.as_slice() {
            _ if is_one_of_many => false,
            [only] if !manifest.seams.has_more => {
                !matches!(only.kind, Kind::Dir) && !only.path.contains(&b'/')
            }
            _ => false,
        };
        if only && kind != Some(FileType::Directory) && !written.is_folder {
            let exists = match look(&written.parent)? {
                None => false,
                Some(FileType::Directory) => true,
                Some(_) => return Err(FileError::NotAFolder.at(&written.parent)),
            };
            let goal = Goal::to(base, written.parent, exists);
            return Ok(Goal { rename: written.name, ..goal });
        }
        let exists = match kind {
            None => false,
            Some(FileType::Directory) => true,
            Some(_) => return Err(FileError::NotAFolder.at(dest)),
        };
        let keeps_top =
            base.root.is_confined() && base.root.local(dest).is_ok_and(|local| local == Path::new("."));
        Ok(Goal { keeps_top, ..Goal::to(base, dest.into(), exists) })
    }

    /// A folder of which nothing more is known.
    fn to(base: &Base, folder: PathBuf, exists: bool) -> Goal {
        Goal {
            base: base.clone(),
            folder,
            rename: None,
            exists,
            top: None,
            keeps_top: false,
            new_only: false,
            taken: None,
            pieces: Pieces::default(),
            keeping: None,
            preserve: Preserve::default(),
            notes: Arc::default(),
        }
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
        let Goal { rename, taken, pieces, keeping, preserve, notes, .. } = self.clone();
        let Goal { keeps_top, new_only, .. } = *self;
        Ok(Place {
            top: Some(top),
            rename,
            keeps_top,
            new_only,
            owner: base.owner,
            keeping,
            preserve,
            notes,
            above,
            taken,
            pieces,
        })
    }
}

/// A folder and those above it.
fn ancestors(folder: &Path) -> impl Iterator<Item = &Path> {
    folder.ancestors().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder })
}

fn open(base: &Base, folder: &Path) -> Result<OwnedFd, FileError> {
    base.root.open_folder(folder).map_err(|e| FileError::from(e).at(folder))
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

/// Copies larger than this are refused: the size is the other side's word, and memory for it is taken here.
pub const OBJECT_MAX: u64 = 1 << 50;
