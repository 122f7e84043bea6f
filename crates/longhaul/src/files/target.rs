//! The destination: where each entry goes, its part file, and how it lands.

use super::attributes::{ITSELF, itself, modified, set_mode, times};
use super::calls::{fchmod, fsync, futimens, linkat, mkdirat, openat, renameat_with, unlinkat};
use super::complete::{Complete, Held};
use super::disk::{Disk, reopen, room, unnamed};
use super::errors::FileError;
use super::extents::DataMap;
use super::folders::{Folders, list, make_all, split};
use super::journal::{Owner, PartToken};
use super::keeping::{Keeping, NODES, Notes};
use super::lease::{self, Lease};
use super::names::{is_journal, is_new, journal_name, new_name, part_name, piece_journal_name, pieces_name};
use super::part::Part;
use super::parts::Parts;
use super::pieces::{Assembled, Pieces};
use super::removal::remove_tree;
use super::scan::{mtime, open_to_read};
use super::twins::{Taken, Twins};
use crate::net::random::random;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Group, Kind, Layout, Manifest, Node};
use rustix::fs::{
    Advice, AtFlags, CWD, Mode, OFlags, RenameFlags, UTIME_NOW, fadvise, fchown, fstat, utimensat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the entries of a manifest go.
#[derive(Clone, Debug, Default)]
pub(super) struct Place {
    /// The folder below which they go; `None` if nothing is to be stored.
    pub top: Option<Arc<OwnedFd>>,
    /// The name that a copy's only entry is given.
    pub rename: Option<Vec<u8>>,
    /// The top folder keeps its own permissions and time.
    pub keeps_top: bool,
    /// Nothing that is there is replaced.
    pub new_only: bool,
    /// The user of a daemon who sends the copy.
    pub owner: Owner,
    /// What is kept of entries beyond permissions and times.
    pub keeping: Option<Arc<Keeping>>,
    /// Which devices and pipes may be made, and what could not be kept.
    pub preserve: Preserve,
    pub notes: Arc<Notes>,
    /// Folders above it that are new, and the one that holds them.
    pub above: Vec<Arc<OwnedFd>>,
    /// Of a copy in parts.
    pub taken: Option<Arc<Taken>>,
    /// Which entries are in pieces.
    pub pieces: Pieces,
}

/// The journals that lie in each folder.
pub(super) type Journals = HashMap<Vec<u8>, HashSet<Vec<u8>>>;

/// The destination of a copy.
pub(super) struct Target {
    pub manifest: Arc<Manifest>,
    pub layout: Arc<Layout>,
    place: Place,
    /// In the names of this copy's part files.
    token: PartToken,
    /// In those of part files that an earlier run left.
    resumed: HashMap<EntryIndex, PartToken>,
    /// The file system cannot make files without a name.
    pub(super) names_needed: AtomicBool,
    folders: Mutex<Folders>,
    /// Folders in which part files without a journal were looked for.
    swept: Mutex<HashSet<Vec<u8>>>,
    pub parts: Parts,
    pub disk: Disk,
    twins: Twins,
    /// Files all of whose pieces are here, until they are in place: the names of the pieces' journals.
    assembled: Mutex<HashMap<EntryIndex, Vec<Vec<u8>>>>,
}

impl Target {
    pub(super) fn new(
        manifest: Arc<Manifest>,
        layout: Arc<Layout>,
        place: Place,
        resumed: HashMap<EntryIndex, PartToken>,
    ) -> Target {
        Target {
            manifest,
            layout,
            // Without randomness no session comes about either.
            token: random().expect("the system gives random bytes"),
            resumed,
            names_needed: AtomicBool::new(!Path::new(ITSELF).exists()),
            folders: Mutex::new(Folders::new(place.top.clone())),
            disk: place.top.as_deref().map(Disk::of).unwrap_or_default(),
            place,
            swept: Mutex::default(),
            parts: Parts::default(),
            twins: Twins::default(),
            assembled: Mutex::default(),
        }
    }

    pub(super) fn entry(&self, entry: EntryIndex) -> &Entry {
        &self.manifest.entries[entry as usize]
    }

    /// Whose the journals are.
    pub(super) fn owner(&self) -> Owner {
        self.place.owner
    }

    /// Whether a file is journalled: one group is sent again sooner than looked after.
    pub(super) fn is_journalled(&self, entry: EntryIndex) -> bool {
        self.layout.group_count(entry) > 1
    }

    /// Whether a file is longer than one group, holes included.
    pub(super) fn is_long(&self, entry: EntryIndex) -> bool {
        matches!(self.entry(entry).kind, Kind::File { size, .. } if size > GROUP_LEN)
    }

    /// What is kept of entries beyond permissions and times.
    pub(super) fn keeping(&self) -> Option<&Keeping> {
        self.place.keeping.as_deref()
    }

    /// Whether something of this kind is made.
    pub(super) fn may_make(&self, node: Node) -> bool {
        let Preserve { devices, specials, .. } = self.place.preserve;
        if matches!(node, Node::Character | Node::Block) { devices } else { specials }
    }

    /// Whether all devices, pipes and sockets that came were made.
    pub(super) fn has_all_nodes(&self) -> bool {
        !self.place.notes.has(NODES)
    }

    /// Something of an entry is not kept.
    pub(super) fn note(&self, what: &'static str, entry: EntryIndex, why: &str) {
        self.place.notes.note(what, &self.entry(entry).path, why);
    }

    /// Lines about what could not be kept.
    pub(super) fn noted(&self) -> Vec<String> {
        self.place.notes.lines()
    }

    /// Whether what is there may give way.
    pub(super) fn may_replace(&self) -> bool {
        !self.place.new_only
    }

    /// Whether the top folder keeps its own permissions and time.
    pub(super) fn keeps_top(&self) -> bool {
        self.place.keeps_top
    }

    /// Bytes that may still be stored, if the file system tells.
    pub(super) fn room(&self) -> Option<u64> {
        self.place.top.as_ref().and_then(room)
    }

    /// A file's part file; `open` opens it where it is not open yet (one thread at a time).
    pub(super) fn part(
        &self,
        entry: EntryIndex,
        open: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Arc<Part>> {
        self.parts.get(entry, || Ok(Part::new(open()?, &self.entry(entry).kind)))
    }

    /// It is a part of a planned copy.
    pub(super) fn is_part(&self) -> bool {
        self.place.pieces.is_part()
    }

    /// Whether an entry is a piece of a file, which is not put in place by itself.
    pub(super) fn is_piece(&self, entry: EntryIndex) -> bool {
        self.place.pieces.piece(entry).is_some()
    }

    /// The hash of a group's data.
    pub(super) fn group_hash(&self, group: Group, data: &[u8]) -> [u8; 32] {
        self.place.pieces.hash(&self.layout, group, data)
    }

    /// All pieces of a file are here; their journals stay until it is in place.
    pub(super) fn hold_pieces(&self, assembled: Assembled) {
        lock(&self.assembled).insert(assembled.entry, assembled.journals);
    }

    /// A file that came in pieces is in place, or what came of it is worth nothing: the journals go.
    fn remove_piece_journals(&self, entry: EntryIndex, folder: &OwnedFd) {
        for name in lock(&self.assembled).remove(&entry).unwrap_or_default() {
            // One that stays is never believed without the part file.
            let _ = remove_file(folder, &name);
        }
    }

    /// What tells this part file's name from others'.
    pub(super) fn token(&self, entry: EntryIndex) -> PartToken {
        if let Some(plan) = self.place.pieces.plan_of(entry) {
            return plan;
        }
        self.resumed.get(&entry).copied().unwrap_or_else(|| self.own_token(entry))
    }

    /// Each entry has its own: a file system may take names for one another that differ only in case.
    fn own_token(&self, entry: EntryIndex) -> PartToken {
        (u64::from_be_bytes(self.token) ^ u64::from(entry)).to_be_bytes()
    }

    /// The name of what is to be renamed soon.
    pub(super) fn new_name(&self, entry: EntryIndex, name: &[u8]) -> Vec<u8> {
        new_name(name, self.own_token(entry))
    }

    /// The name of an entry's part file.
    fn part_name(&self, entry: EntryIndex, name: &[u8]) -> Vec<u8> {
        match self.place.pieces.plan_of(entry) {
            Some(plan) => pieces_name(name, plan),
            None => part_name(name, self.token(entry)),
        }
    }

    /// The name of an entry's journal.
    fn journal_name(&self, entry: EntryIndex, name: &[u8]) -> Vec<u8> {
        match self.place.pieces.piece(entry) {
            Some((plan, first_group)) => piece_journal_name(name, plan, first_group),
            None => journal_name(name),
        }
    }

    /// Make a new part file. Its journal, which names it, is there before. A file of pieces may have been made for another piece.
    pub(super) fn create_part(&self, entry: EntryIndex) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        let part = self.part_name(entry, name);
        let file = match lease::create_file(&folder, &part) {
            Err(Errno::EXIST) if self.is_piece(entry) => {
                let foreign = || io::Error::other("what is in the place of its part file is not; remove it");
                lease::open_pieces(&folder, &part)?.ok_or_else(foreign)?
            }
            made => made?,
        };
        self.announce_time(entry, &file);
        Ok(file)
    }

    /// An object store wants to know a file's time before its first byte; everywhere else the last thing done to the file counts.
    fn announce_time(&self, entry: EntryIndex, file: &File) {
        let _ = futimens(file, &times(self.entry(entry)));
    }

    /// An error unless a part file is there still.
    pub(super) fn find_part(&self, entry: EntryIndex, part: &File) -> io::Result<()> {
        let (folder, name) = self.parent(entry)?;
        if lease::is_at(part, &folder, &self.part_name(entry, name)) {
            return Ok(());
        }
        Err(io::Error::other("its part file was taken away; copy it again"))
    }

    /// Open a part file that was made before.
    pub(super) fn reopen_part(&self, entry: EntryIndex) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        let part =
            lease::open_known(&folder, &self.part_name(entry, name), |file| self.parts.is(entry, file))?;
        let file = part.ok_or(Errno::NOENT)?;
        self.announce_time(entry, &file);
        Ok(file)
    }

    /// Make a file's journal, which is then ours, in place of any that nobody is at work with.
    pub(super) fn create_journal(&self, entry: EntryIndex) -> io::Result<Lease> {
        self.look_for_twin(entry)?;
        let (folder, name) = self.parent(entry)?;
        if lock(&self.swept).insert(split(&self.entry(entry).path).0.to_vec()) {
            lease::remove_orphans(&folder);
        }
        let journal_name = |name: &[u8]| self.journal_name(entry, name);
        let journal = lease::create(&folder, &journal_name(name)).map_err(|error| match error.kind() {
            // A twin that has just let go of the journal has its name.
            io::ErrorKind::ResourceBusy => self
                .only_case(entry, beside(journal_name))
                .or_else(|| self.only_case(entry, <[u8]>::to_vec))
                .unwrap_or(error),
            _ => error,
        })?;
        // A twin may have got its name since, and then have let go of the journal, which is the same file.
        if let Some(error) = self.only_case(entry, <[u8]>::to_vec) {
            lease::give_up(&journal, &folder, &journal_name(name));
            return Err(error);
        }
        Ok(journal)
    }

    pub(super) fn remove_part(&self, entry: EntryIndex) -> io::Result<()> {
        let (folder, name) = self.parent(entry)?;
        if self.is_piece(entry) {
            // Others have their pieces in it.
            return Ok(());
        }
        self.remove_piece_journals(entry, &folder);
        Ok(remove_file(&folder, &self.part_name(entry, name))?)
    }

    pub(super) fn remove_journal(&self, entry: EntryIndex) -> io::Result<()> {
        let (folder, name) = self.parent(entry)?;
        Ok(remove_file(&folder, &self.journal_name(entry, name))?)
    }

    /// Nothing is kept of a file, whose journal this is.
    pub(super) fn give_up(&self, entry: EntryIndex, journal: &Lease) -> io::Result<()> {
        let (folder, name) = self.parent(entry)?;
        lease::give_up(journal, &folder, &self.journal_name(entry, name));
        Ok(())
    }

    /// Remove what an earlier run left of a file that is in place, and in its folder what killed copies left of small files.
    /// `journals`: those that lie in each folder.
    pub(super) fn remove_leftover(&self, entry: EntryIndex, journals: &mut Journals) -> io::Result<()> {
        let (parent, name) = split(self.path(entry));
        let open = || lock(&self.folders).open(parent);
        if !journals.contains_key(parent) {
            let folder = open()?;
            let names: Vec<_> = list(&folder).unwrap_or_default().into_iter().map(|(name, _)| name).collect();
            names.iter().filter(|name| is_new(name)).for_each(|name| lease::remove_abandoned(&folder, name));
            journals.insert(parent.to_vec(), names.into_iter().filter(|name| is_journal(name)).collect());
        }
        let there = &journals[parent];
        if there.is_empty() || !there.contains(&journal_name(name)) {
            return Ok(());
        }
        lease::discard(&*open()?, &journal_name(name))
    }

    /// An entry's path below the top.
    pub(super) fn path(&self, entry: EntryIndex) -> &[u8] {
        self.place.rename.as_deref().unwrap_or(&self.entry(entry).path)
    }

    /// A folder below the top (empty: the top itself).
    pub(super) fn handle(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        lock(&self.folders).open(path)
    }

    /// The same, opened for reading.
    pub(super) fn open_folder(&self, path: &[u8]) -> io::Result<File> {
        Ok(reopen(&*self.handle(path)?)?)
    }

    /// The folders above the top that this copy has changed, opened for reading.
    pub(super) fn open_above(&self) -> impl Iterator<Item = io::Result<File>> {
        self.place.above.iter().map(|folder| Ok(reopen(folder)?))
    }

    /// Open the file that is in place.
    pub(super) fn open_in_place(&self, entry: EntryIndex) -> io::Result<File> {
        let (folder, name) = self.parent(entry)?;
        Ok(open_to_read(&folder, name)?)
    }

    /// A part file that holds all data. It stays ours alone until it gets its name, so that it can be gone on with if that does not
    /// come about.
    pub(super) fn complete_part(&self, entry: EntryIndex, part: Arc<Part>) -> io::Result<Complete> {
        self.fit(entry, &part.file)?;
        Ok(Complete { entry, held: Held::Part(part) })
    }

    /// Give a file of a folder its name, in place of what is there if that may be.
    pub(super) fn rename(
        &self,
        entry: EntryIndex,
        folder: &OwnedFd,
        part: &[u8],
        name: &[u8],
    ) -> io::Result<()> {
        let rename = |flags| renameat_with(folder, part, folder, name, flags);
        match rename(RenameFlags::NOREPLACE) {
            // Not every file system has such renaming.
            Err(Errno::EXIST | Errno::INVAL) if !self.place.new_only => {}
            // A second name is had only where there is nothing.
            Err(Errno::INVAL) => {
                linkat(folder, part, folder, name, AtFlags::empty())?;
                return Ok(unlinkat(folder, part, AtFlags::empty())?);
            }
            other => return Ok(other?),
        }
        // It may have come just now.
        self.look_for_twin(entry)?;
        Ok(rename(RenameFlags::empty())?)
    }

    /// An error if an entry's path leads to what another path of this copy stands for.
    pub(super) fn look_for_twin(&self, entry: EntryIndex) -> io::Result<()> {
        self.only_case(entry, <[u8]>::to_vec).map_or_else(|| self.take_place(entry), Err)
    }

    /// From now on an entry has the place of its path, once there is something. An error if one of another part has it.
    pub(super) fn take_place(&self, entry: EntryIndex) -> io::Result<()> {
        let Some(taken) = &self.place.taken else { return Ok(()) };
        let (folder, _) = self.parent(entry)?;
        let other = taken.holder(&folder, self.path(entry));
        other.map_or(Ok(()), |other| Err(io::Error::other(FileError::only_case(&other))))
    }

    fn only_case(&self, entry: EntryIndex, beside: impl Fn(&[u8]) -> Vec<u8>) -> Option<io::Error> {
        let other = self.twins.holder(&self.manifest, entry, &mut lock(&self.folders), beside)?;
        Some(io::Error::other(FileError::only_case(other)))
    }

    /// A file without data. Until it has its name nobody else can reach it.
    pub(super) fn begin(&self, entry: EntryIndex) -> io::Result<Complete> {
        let (folder, name) = self.parent(entry)?;
        let held = match self.create_unnamed(&folder)? {
            Some(file) => Held::Unnamed(file),
            None => Held::Named(lease::create_new(&folder, &self.new_name(entry, name))?),
        };
        Ok(Complete { entry, held })
    }

    /// Store a file of one group, or of none, in one go.
    pub(super) fn complete_small(&self, entry: EntryIndex, data: &[u8]) -> io::Result<Complete> {
        let complete = self.begin(entry)?;
        let file = complete.file();
        let stored = DataMap::new(&self.entry(entry).kind).write(file, 0, data);
        match stored.and_then(|()| self.dress(entry, file)) {
            Ok(()) => Ok(complete),
            Err(error) => {
                self.discard(&complete);
                Err(error)
            }
        }
    }

    /// Give a complete file its name, in place of what is there.
    pub(super) fn put_in_place(&self, complete: &Complete) -> io::Result<()> {
        self.look_for_twin(complete.entry)?;
        let (folder, name) = self.parent(complete.entry)?;
        match &complete.held {
            Held::Unnamed(file) => self.give_name(complete.entry, file, &folder, name)?,
            Held::Named(_) => {
                self.rename(complete.entry, &folder, &self.new_name(complete.entry, name), name)?
            }
            Held::Part(held) => {
                self.find_part(complete.entry, &held.file)?;
                let part = self.part_name(complete.entry, name);
                self.dress_last(complete.entry, &held.file)?;
                self.rename(complete.entry, &folder, &part, name)?;
                self.remove_piece_journals(complete.entry, &folder);
            }
        }
        // Now it can be told whether others could take its place.
        let _ = self.take_place(complete.entry);
        Ok(())
    }

    /// A complete file is not put in place: a small one leaves nothing behind, a part file can be gone on with.
    pub(super) fn discard(&self, complete: &Complete) {
        match &complete.held {
            Held::Unnamed(_) => {}
            Held::Part(part) => {
                if self.keeping().is_some() {
                    let _ = fchown(&part.file, Some(geteuid()), None);
                }
                let _ = fchmod(&part.file, Mode::from_raw_mode(0o600));
            }
            Held::Named(_) => {
                if let Ok((folder, name)) = self.parent(complete.entry) {
                    let _ = remove_file(&folder, &self.new_name(complete.entry, name));
                }
            }
        }
    }

    /// A file without a name in a folder; `None` where the file system, or the lack of `/proc`, does not allow it.
    fn create_unnamed(&self, folder: &OwnedFd) -> io::Result<Option<File>> {
        if self.names_needed.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let made = unnamed(folder)?;
        if made.is_none() {
            self.names_needed.store(true, Ordering::Relaxed);
        }
        Ok(made)
    }

    /// Put a file without a name in place, and in place of what is there.
    fn give_name(&self, entry: EntryIndex, file: &File, folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
        let itself = itself(file);
        let link = |name: &[u8]| linkat(CWD, itself.as_str(), folder, name, AtFlags::SYMLINK_FOLLOW);
        match link(name) {
            Err(Errno::EXIST) if !self.place.new_only => {}
            other => return Ok(other?),
        }
        let new = self.new_name(entry, name);
        let _ = lease::lock(file);
        link(&new)?;
        self.rename(entry, folder, &new, name).inspect_err(|_| {
            let _ = remove_file(folder, &new);
        })
    }

    /// A file for what comes in pieces and is to be gone with this process, in the destination's file system.
    pub(super) fn scratch(&self) -> io::Result<File> {
        let top = self.place.top.as_ref().ok_or(Errno::NOENT)?;
        if let Some(file) = self.create_unnamed(top)? {
            return Ok(file);
        }
        let name = new_name(b"longhaul", self.token);
        let file = lease::create_file(top, &name)?;
        remove_file(top, &name)?;
        Ok(file)
    }

    /// Make a folder, or see to it that an existing one can be written to.
    pub(super) fn make_folder(&self, entry: EntryIndex) -> io::Result<()> {
        let wanted = self.entry(entry);
        if wanted.path.is_empty() {
            return Ok(());
        }
        let (folder, name) = self.parent(entry)?;
        match mkdirat(&folder, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => {
                let _ = self.take_place(entry);
                Ok(())
            }
            Err(Errno::EXIST) => {
                self.look_for_twin(entry)?;
                let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let there = openat(&folder, name, flags, Mode::empty())?;
                let mode = fstat(&there)?.st_mode & 0o7777;
                if mode & 0o700 != 0o700 {
                    set_mode(&there, Mode::from_raw_mode(mode | 0o700))?;
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Remove something that the source has not, with all that is in it. What vanished by itself is no error. The folder that it
    /// was in, which may have its permissions and time already, has them afterwards as well.
    pub(super) fn remove(&self, path: &[u8]) -> io::Result<()> {
        let (folder, name) = match lock(&self.folders).parent(path) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let before = fstat(&folder)?;
        let mode = before.st_mode & 0o7777;
        let is_writable =
            mode & 0o700 == 0o700 || set_mode(&folder, Mode::from_raw_mode(mode | 0o700)).is_err();
        let removed = remove_tree(&folder, name);
        if !is_writable {
            set_mode(&folder, Mode::from_raw_mode(mode))?;
        }
        removed?;
        // Somebody else's folder keeps the time of what happened in it.
        let _ = utimensat(CWD, itself(&folder).as_str(), &modified(mtime(&before)), AtFlags::empty());
        Ok(())
    }

    /// Nobody knows what of this file the disk has. Whoever copies next is not to take it for the source's by its time, nor by what
    /// memory has of it.
    pub(super) fn distrust(&self, entry: EntryIndex) -> io::Result<()> {
        let file = self.open_in_place(entry)?;
        futimens(&file, &modified((0, UTIME_NOW as u32)))?;
        Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
    }

    /// Forget handles of folders that may be gone.
    pub(super) fn forget_folders(&self) {
        lock(&self.folders).forget();
    }

    /// Bring the names in the folder that an entry lies in to the disk.
    pub(super) fn sync_folder(&self, entry: EntryIndex) -> io::Result<()> {
        let (folder, _) = self.parent(entry)?;
        Ok(fsync(reopen(&folder)?)?)
    }

    /// The folder that an entry lies in, made if it is missing, and the entry's name in it.
    pub(super) fn parent(&self, entry: EntryIndex) -> io::Result<(Arc<OwnedFd>, &[u8])> {
        let (parent, name) = split(self.path(entry));
        let mut folders = lock(&self.folders);
        match folders.open(parent) {
            Ok(folder) => Ok((folder, name)),
            Err(Errno::NOENT) => Ok((make_all(&mut folders, parent)?, name)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The path of what lies beside a file, by how its name follows from the file's.
fn beside(name_of: impl Fn(&[u8]) -> Vec<u8>) -> impl Fn(&[u8]) -> Vec<u8> {
    move |path| {
        let name = split(path).1;
        [&path[..path.len() - name.len()], &name_of(name)].concat()
    }
}

pub(super) fn remove_file(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    match unlinkat(folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
