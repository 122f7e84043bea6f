//! Journals, each held by one copy at a time: whoever has a file's journal locked is the one who receives that
//! file.

use super::calls::{FileExt, fchmod, openat, set_len, statat, unlinkat};
use super::folders::list;
use super::journal::{Header, PartToken};
use super::names::{journal_of_part, part_name};
use super::twins::{inode, inode_of};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Stat, flock, fstat};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A journal that is ours. It is given back when this is dropped, at once: a child that another thread is about to start has
/// a copy of the descriptor until it runs its program, and with it the lock.
#[derive(Debug)]
pub(super) struct Lease(File);

impl Deref for Lease {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Without locks there is nothing to give back.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

/// How long to wait for another copy's journal, and what ends that earlier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience<'a> {
    until: Instant,
    pub stop: &'a AtomicBool,
}

impl<'a> Patience<'a> {
    /// Of all that is looked for from now on: one that was interrupted lets go of its files when the disk has them.
    pub fn new(stop: &'a AtomicBool) -> Patience<'a> {
        Patience { until: Instant::now() + BUSY_MAX, stop }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.stop.load(Ordering::Relaxed)
    }
}

/// Take over the journal that is there, in its turn. `None`: there is none that is ours and nobody's at work. An error of
/// kind `ResourceBusy`: another copy has it.
pub(super) fn take_in_turn(
    folder: &OwnedFd,
    name: &[u8],
    patience: Patience<'_>,
) -> io::Result<Option<Lease>> {
    Ok(seize_in_turn(folder, name, patience)?.ours())
}

/// The same, only to be read: also where the file system has no locks.
pub(super) fn read_in_turn(
    folder: &OwnedFd,
    name: &[u8],
    patience: Patience<'_>,
) -> io::Result<Option<Lease>> {
    match seize_in_turn(folder, name, patience)? {
        There::Ours(journal) | There::Unsure(journal) => Ok(Some(journal)),
        There::Foreign(_) | There::Nothing => Ok(None),
    }
}

fn seize_in_turn(folder: &OwnedFd, name: &[u8], patience: Patience<'_>) -> io::Result<There<Lease>> {
    loop {
        match seize(folder, name) {
            Err(error) if is_busy(&error) && !patience.is_over() => thread::sleep(BUSY_PAUSE),
            settled => return settled,
        }
    }
}

fn seize(folder: &OwnedFd, name: &[u8]) -> io::Result<There<Lease>> {
    for _ in 0..ATTEMPTS {
        let journal = match look(folder, name)? {
            There::Ours(journal) | There::Unsure(journal) => journal,
            // Where the file system says of ours that it is another's, it may be that of a copy which is at work.
            There::Foreign(Some(file)) if lock(&file) == Err(Errno::WOULDBLOCK) => return Err(busy()),
            There::Foreign(_) => return Ok(There::Foreign(None)),
            There::Nothing => return Ok(There::Nothing),
        };
        match hold(journal, folder, name)? {
            Held::Ours(journal) => return Ok(There::Ours(journal)),
            Held::Gone => {}
            Held::NoLocks(journal) => return Ok(There::Unsure(Lease(journal))),
        }
    }
    Err(busy())
}

/// What came of locking a journal.
enum Held {
    Ours(Lease),
    /// Another copy has removed it, and may have one of its own there now.
    Gone,
    /// The file system has no locks.
    NoLocks(File),
}

/// Lock a journal that was opened by its name. Between the two another copy may have held it, and have removed it.
fn hold(journal: File, folder: &OwnedFd, name: &[u8]) -> io::Result<Held> {
    match flock(&journal, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(busy()),
        Err(_) => Ok(Held::NoLocks(journal)),
        Ok(()) => {
            let journal = Lease(journal);
            Ok(if is_at(&journal, folder, name) { Held::Ours(journal) } else { Held::Gone })
        }
    }
}

/// Make a new journal in place of any that nobody is at work with. The part files that went with that one go with it.
pub(super) fn create(folder: &OwnedFd, name: &[u8]) -> io::Result<Lease> {
    for _ in 0..ATTEMPTS {
        match create_file(folder, name) {
            Ok(journal) => match hold(journal, folder, name)? {
                Held::Ours(journal) => return Ok(journal),
                Held::Gone => {}
                // Another copy of the kind then makes one of its own, and this one goes on without a name.
                Held::NoLocks(journal) => return Ok(Lease(journal)),
            },
            Err(Errno::EXIST) => match seize(folder, name)? {
                // It may be another copy's that has not locked it yet, which then meets this one. If it were made anew, that copy
                // could do the same, and so on until both give up.
                There::Ours(journal) => {
                    set_len(&journal, 0)?;
                    remove_parts(folder, name);
                    return Ok(journal);
                }
                There::Foreign(_) | There::Unsure(_) => remove(folder, name)?,
                There::Nothing => {}
            },
            Err(error) => return Err(error.into()),
        }
    }
    Err(busy())
}

/// Remove a journal that nobody is at work with, and its part files.
pub(super) fn discard(folder: &OwnedFd, name: &[u8]) -> io::Result<()> {
    // Held until it is gone.
    let _stale = match seize(folder, name)? {
        // One that comes now is another copy's.
        There::Nothing => return Ok(()),
        there => there,
    };
    Ok(remove(folder, name)?)
}

fn remove(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    remove_parts(folder, name);
    match unlinkat(folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

/// What a journal of ours says may not be so: it goes, and its part files with it. Should the disk refuse one of these, the others
/// see to it that nobody believes it.
pub(super) fn give_up(journal: &Lease, folder: &OwnedFd, name: &[u8]) {
    let _ = set_len(journal, 0);
    // Where it has gone another copy's may be.
    if is_at(journal, folder, name) {
        let _ = remove(folder, name);
    }
}

/// Remove the part files that go with a journal, whatever it says itself.
fn remove_parts(folder: &OwnedFd, journal: &[u8]) {
    for (name, _) in list(folder).unwrap_or_default() {
        if journal_of_part(&name).as_deref() == Some(journal) {
            // One that stays takes room and does no harm.
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

/// Remove part files in a folder whose journal is gone: nobody can go on with them.
pub(super) fn remove_orphans(folder: &OwnedFd) {
    for (name, _) in list(folder).unwrap_or_default() {
        // A journal is there before its part file and after it.
        let is_orphan = |journal: Vec<u8>| {
            matches!(statat(folder, journal, AtFlags::SYMLINK_NOFOLLOW), Err(Errno::NOENT))
        };
        if journal_of_part(&name).is_some_and(is_orphan)
            && open_ours(folder, &name).is_ok_and(|ours| ours.is_some())
        {
            let _ = unlinkat(folder, name, AtFlags::empty());
        }
    }
}

/// Make a file that was not there, for its owner alone.
pub(super) fn create_file(folder: &OwnedFd, name: &[u8]) -> Result<File, Errno> {
    openat(folder, name, CREATE, Mode::from_raw_mode(0o600)).map(File::from)
}

/// Make a file that is to be renamed soon. It is locked until it is closed, so that nobody takes it for abandoned.
pub(super) fn create_new(folder: &OwnedFd, name: &[u8]) -> io::Result<File> {
    loop {
        let file = create_file(folder, name)?;
        // Another copy may have seen it before it was locked. Then it is gone when that copy lets go of it.
        let _ = flock(&file, FlockOperation::LockExclusive);
        if is_at(&file, folder, name) {
            return Ok(file);
        }
    }
}

/// Lock a file of ours until it is closed. Without locks nobody takes it for abandoned either.
pub(super) fn lock(file: &File) -> Result<(), Errno> {
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Remove a file that was to be renamed, if it is ours and whoever made it is gone.
pub(super) fn remove_abandoned(folder: &OwnedFd, name: &[u8]) {
    // To open a device may do something.
    if !statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|stat| is_our_file(&stat)) {
        return;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(folder, name, flags, Mode::empty()).map(File::from) else { return };
    if fstat(&file).is_ok_and(|stat| is_our_file(&stat)) && lock(&file).is_ok() && is_at(&file, folder, name)
    {
        // One that stays takes room and does no harm.
        let _ = unlinkat(folder, name, AtFlags::empty());
    }
}

/// What a name stands for.
enum There<T> {
    Ours(T),
    /// Ours, and nobody can know whether somebody else still writes to it: the file system has no locks.
    Unsure(T),
    /// Not ours, or we cannot know. Here it is if it could be opened.
    Foreign(Option<File>),
    Nothing,
}

impl<T> There<T> {
    fn ours(self) -> Option<T> {
        match self {
            There::Ours(ours) => Some(ours),
            There::Unsure(_) | There::Foreign(_) | There::Nothing => None,
        }
    }
}

/// Open a part file or journal of ours: a regular file that belongs to us, which nobody else can read or write and which
/// has no other name. `None` if there is no such thing.
pub(super) fn open_ours(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    Ok(look(folder, name)?.ours())
}

/// The same, or one that the caller knows: some file systems do not say that what we made is ours.
pub(super) fn open_known(
    folder: &OwnedFd,
    name: &[u8],
    is_known: impl FnOnce(&File) -> bool,
) -> io::Result<Option<File>> {
    Ok(match look(folder, name)? {
        There::Ours(file) => Some(file),
        There::Foreign(file) => file.filter(is_known),
        There::Unsure(_) | There::Nothing => None,
    })
}

/// The same of a file of pieces. It may have been about to get its name, and have its permissions already: if nobody else can write
/// to it, it is ours alone again.
pub(super) fn open_pieces(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(file) = openat(folder, name, flags, Mode::empty())
        && fstat(&file)
            .is_ok_and(|stat| is_our_file(&stat) && stat.st_nlink == 1 && stat.st_mode & 0o7022 == 0)
    {
        fchmod(&file, Mode::from_raw_mode(0o600))?;
    }
    open_ours(folder, name)
}

fn look(folder: &OwnedFd, name: &[u8]) -> io::Result<There<File>> {
    loop {
        let file = match openat(folder, name, OPEN, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT) => return Ok(There::Nothing),
            Err(Errno::ACCESS) if was_at_work(folder, name) => return Err(busy_of(OTHERS_BUSY)),
            Err(Errno::LOOP | Errno::ACCESS | Errno::ISDIR | Errno::NXIO) => return Ok(There::Foreign(None)),
            Err(error) => return Err(error.into()),
        };
        let stat = fstat(&file)?;
        // One that was removed since it was opened: another may be there.
        if stat.st_nlink > 0 {
            let file = File::from(file);
            return Ok(if is_ours(&stat) { There::Ours(file) } else { There::Foreign(Some(file)) });
        }
    }
}

/// Whether a file that may not be opened was written lately: what another user's copy is at work with nobody else can lock.
fn was_at_work(folder: &OwnedFd, name: &[u8]) -> bool {
    let Ok(stat) = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
    let is_theirs = stat.st_mode & libc::S_IFMT == libc::S_IFREG && !is_our_file(&stat);
    let written = UNIX_EPOCH + Duration::from_secs(stat.st_mtime.try_into().unwrap_or_default());
    // What was written in time to come was written just now by another clock.
    is_theirs && written.elapsed().unwrap_or_default() < ABANDONED
}

fn is_ours(stat: &Stat) -> bool {
    is_our_file(stat) && stat.st_mode & 0o7777 == 0o600 && stat.st_nlink == 1
}

/// Whether it is a regular file that belongs to us.
fn is_our_file(stat: &Stat) -> bool {
    stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_uid == rustix::process::geteuid().as_raw()
}

/// Whether an open file is what `name` names.
pub(super) fn is_at(file: &File, folder: &OwnedFd, name: &[u8]) -> bool {
    let here = inode_of(file);
    here.is_ok() && here == inode(folder, name)
}

/// The name of the part file that goes with the journal that is there.
pub(super) fn left_part(folder: &OwnedFd, journal: &[u8], file_name: &[u8]) -> Option<Vec<u8>> {
    let journal = open_ours(folder, journal).ok()??;
    Some(part_name(file_name, part_of(&journal)?))
}

fn part_of(journal: &File) -> Option<PartToken> {
    let mut start = [0; HEADER_MAX];
    let len = journal.read_at(&mut start, 0).ok()?;
    Header::read(&start[..len]).map(|header| header.part())
}

fn busy() -> io::Error {
    busy_of(BUSY)
}

fn busy_of(whom: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ResourceBusy, whom)
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

const BUSY: &str = "another copy writes this file; wait until it has ended";
const OTHERS_BUSY: &str = "another user's copy has written this file within the last day; wait until it has ended, or remove what it \
                           left, which has its name with longhaul in it";
/// A copy that is at work writes more often than that.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A disk takes some seconds for what a copy gives it between one time and the next. Tests have others that do not let go.
const BUSY_MAX: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(10) };
const BUSY_PAUSE: Duration = Duration::from_millis(20);

/// Another copy may come in between.
const ATTEMPTS: u32 = 3;

/// Enough of a journal to know its header.
const HEADER_MAX: usize = 64;

const OPEN: OFlags = OFlags::RDWR.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);
const CREATE: OFlags =
    OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::Path;
    use std::time::SystemTime;

    fn folder() -> (tempfile::TempDir, OwnedFd) {
        let folder = tempfile::tempdir().unwrap();
        let handle = File::open(folder.path()).unwrap().into();
        (folder, handle)
    }

    fn take(folder: &OwnedFd, name: &[u8]) -> io::Result<Option<Lease>> {
        Ok(seize(folder, name)?.ours())
    }

    /// A journal as a copy leaves it that was killed.
    fn left(path: &Path) {
        std::fs::write(path, Header::new(*b"12345678", [0; 16]).bytes()).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_descriptor_that_a_child_still_has_keeps_nobody_out() {
        let (_folder, handle) = folder();
        let first = create(&handle, b".f.longhaul-journal").unwrap();
        let copy = first.try_clone().unwrap();
        drop(first);
        assert!(take(&handle, b".f.longhaul-journal").unwrap().is_some());
        drop(copy);
    }

    #[test]
    fn one_copy_at_a_time_has_a_journal() {
        let (_folder, handle) = folder();
        let first = create(&handle, b".f.longhaul-journal").unwrap();
        assert!(is_busy(&take(&handle, b".f.longhaul-journal").unwrap_err()));
        assert!(is_busy(&create(&handle, b".f.longhaul-journal").unwrap_err()));
        drop(first);
        let second = take(&handle, b".f.longhaul-journal").unwrap().expect("left by the first");
        assert!(is_busy(&take(&handle, b".f.longhaul-journal").unwrap_err()));
        drop(second);
        assert!(create(&handle, b".f.longhaul-journal").is_ok());
    }

    #[test]
    fn who_is_patient_has_a_journal_that_another_copy_lets_go_of() {
        let (_folder, handle) = folder();
        let name: &[u8] = b".f.longhaul-journal";
        let first = create(&handle, name).unwrap();
        let stop = AtomicBool::new(false);
        let late = take_in_turn(&handle, name, Patience::new(&stop));
        assert!(is_busy(&late.unwrap_err()), "nobody waits for ever");
        let patience = Patience { until: Instant::now() + Duration::from_secs(3600), stop: &stop };
        thread::scope(|scope| {
            let second = scope.spawn(|| take_in_turn(&handle, name, patience));
            drop(first);
            let second = second.join().unwrap().unwrap().expect("left by the first");
            stop.store(true, Ordering::Relaxed);
            assert!(is_busy(&take_in_turn(&handle, name, patience).unwrap_err()), "it is called off");
            drop(second);
        });
    }

    #[test]
    fn of_many_copies_at_once_none_removes_the_journal_that_another_holds() {
        let (_folder, handle) = folder();
        let name: &[u8] = b".f.longhaul-journal";
        let take_turns = || {
            for _ in 0..3000 {
                let Ok(journal) = create(&handle, name) else { continue };
                thread::yield_now();
                assert!(is_at(&journal, &handle, name));
                unlinkat(&handle, name, AtFlags::empty()).unwrap();
            }
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(take_turns))));
    }

    /// Whoever thinks that a journal is its own removes it by its name when its file has landed.
    #[test]
    fn a_journal_that_somebody_takes_away_before_it_is_locked_is_not_held() {
        let (_folder, handle) = folder();
        let name: &[u8] = b".f.longhaul-journal";
        let opened = || create_file(&handle, name).unwrap();
        let first = opened();
        discard(&handle, name).unwrap();
        assert!(matches!(hold(first.try_clone().unwrap(), &handle, name), Ok(Held::Gone)));
        let _second = opened();
        assert!(matches!(hold(first, &handle, name), Ok(Held::Gone)), "another one is there");
    }

    #[test]
    fn of_two_copies_that_begin_at_once_one_has_the_journal() {
        let (_folder, handle) = folder();
        let name: &[u8] = b".f.longhaul-journal";
        // Before it is locked.
        let first = create_file(&handle, name).unwrap();
        let second = create(&handle, name).unwrap();
        assert!(hold(first, &handle, name).is_err_and(|error| is_busy(&error)));
        assert!(is_at(&second, &handle, name));
    }

    #[test]
    fn what_is_to_be_renamed_goes_when_whoever_made_it_is_gone() {
        let (folder, handle) = folder();
        let name: &[u8] = b".f.0123456789abcdef.longhaul-new";
        let path = folder.path().join(".f.0123456789abcdef.longhaul-new");
        let new = create_new(&handle, name).unwrap();
        new.set_permissions(Permissions::from_mode(0o644)).unwrap();
        remove_abandoned(&handle, name);
        assert!(path.exists());
        drop(new);
        remove_abandoned(&handle, name);
        assert!(!path.exists());
        symlink("elsewhere", &path).unwrap();
        remove_abandoned(&handle, name);
        assert!(path.is_symlink());
    }

    #[test]
    fn a_new_file_that_another_copy_takes_for_abandoned_is_made_again() {
        let (_folder, handle) = folder();
        let name: &[u8] = b".f.0123456789abcdef.longhaul-new";
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    remove_abandoned(&handle, name);
                }
            });
            for _ in 0..2000 {
                let new = create_new(&handle, name);
                assert!(new.as_ref().is_ok_and(|new| is_at(new, &handle, name)), "{new:?}");
                unlinkat(&handle, name, AtFlags::empty()).unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_new_journal_takes_the_stale_part_file_away() {
        let (folder, handle) = folder();
        left(&folder.path().join(".f.longhaul-journal"));
        let part = part_name(b"f", *b"12345678");
        let part = folder.path().join(std::str::from_utf8(&part).unwrap());
        std::fs::write(&part, b"stale").unwrap();
        create(&handle, b".f.longhaul-journal").unwrap();
        assert!(!part.exists());
    }

    /// As some network file systems have it, where no file is its maker's.
    #[test]
    fn a_journal_that_is_held_stays_though_it_seems_to_be_anothers() {
        let (folder, handle) = folder();
        let name: &[u8] = b".f.longhaul-journal";
        let held = create(&handle, name).unwrap();
        held.set_permissions(Permissions::from_mode(0o644)).unwrap();
        assert!(is_busy(&create(&handle, name).unwrap_err()));
        assert!(is_busy(&discard(&handle, name).unwrap_err()));
        assert!(folder.path().join(".f.longhaul-journal").exists());
        drop(held);
        assert!(create(&handle, name).is_ok());
    }

    /// Nobody can lock what he cannot open.
    #[test]
    fn a_journal_of_another_user_who_may_be_at_work_stays() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (folder, handle) = folder();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let name: &[u8] = b".f.longhaul-journal";
        let theirs = as_user(40_001, || create(&handle, name).unwrap());
        let tries = || {
            let [taken, created] =
                [take(&handle, name).map(drop), create(&handle, name).map(drop)].map(Result::unwrap_err);
            let discarded = discard(&handle, name).unwrap_err();
            [taken, created, discarded].map(|error| (is_busy(&error), error.to_string()))
        };
        for (is_busy, told) in as_user(40_002, tries) {
            assert!(is_busy && told.contains("another user"), "{told}");
        }
        assert!(is_at(&theirs, &handle, name));
        theirs.set_modified(SystemTime::now() - 2 * ABANDONED).unwrap();
        as_user(40_002, || create(&handle, name).map(drop)).unwrap();
        assert!(!is_at(&theirs, &handle, name), "nobody was at work");
    }

    /// On a thread of its own, which this user has to himself.
    fn as_user<T: Send>(user: u32, work: impl FnOnce() -> T + Send) -> T {
        let user = Uid::from_raw(user);
        thread::scope(|scope| {
            let there = scope.spawn(move || {
                set_thread_res_uid(user, user, user).unwrap();
                work()
            });
            there.join().unwrap()
        })
    }

    #[test]
    fn what_is_not_ours_alone_is_not_taken_over() {
        let (folder, handle) = folder();
        let path = folder.path().join(".f.longhaul-journal");
        left(&path);
        assert!(take(&handle, b".f.longhaul-journal").unwrap().is_some());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
        assert!(take(&handle, b".f.longhaul-journal").unwrap().is_none(), "others can read it");
        left(&path);
        std::fs::hard_link(&path, folder.path().join("second")).unwrap();
        assert!(take(&handle, b".f.longhaul-journal").unwrap().is_none(), "it has another name");
        std::fs::remove_file(&path).unwrap();
        symlink("second", &path).unwrap();
        assert!(take(&handle, b".f.longhaul-journal").unwrap().is_none(), "a link");
        // What is in the way gives way, and where the link led stays as it is.
        create(&handle, b".f.longhaul-journal").unwrap();
        assert!(folder.path().join("second").exists() && !path.is_symlink());
        if rustix::process::geteuid().is_root() {
            std::fs::remove_file(&path).unwrap();
            left(&path);
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            assert!(take(&handle, b".f.longhaul-journal").unwrap().is_none(), "another user's");
        }
    }
}
