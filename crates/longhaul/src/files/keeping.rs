//! Owners, extended attributes and ACLs of what a receiver stores, where they are kept. What the system does not let be set is
//! noted and told in the end, and no failure.

use super::attributes::{PERMISSIONS, itself, set_mode, times};
use super::errors::why;
use super::ids::Directory;
use super::scan::mtime;
use super::xattrs::{self, Wanted};
use longhaul_proto::session::attributes::{
    ACL_ACCESS, ACLS, EntryAttributes, Id, Preserve, Xattr, acl_group, acl_ids,
};
use longhaul_proto::session::manifest::{Entry, Manifest};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Stat, Uid, chownat, fstat, utimensat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid, getgroups};
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Arc, Mutex, PoisonError};

/// How the attributes of a part's entries are kept.
#[derive(Debug)]
pub(super) struct Keeping {
    /// What is asked for, told by the sender and allowed here.
    preserve: Preserve,
    wanted: Wanted,
    /// The numbers here of users and groups that have others at the sender.
    users: HashMap<u32, u32>,
    groups: HashMap<u32, u32>,
    /// As whom this process runs.
    is_root: bool,
    own_groups: Vec<u32>,
    notes: Arc<Notes>,
}

impl Keeping {
    /// Of a part; `None` if there is nothing to keep.
    pub(super) fn of(
        manifest: &Manifest,
        asked: Preserve,
        directory: &Directory,
        notes: &Arc<Notes>,
    ) -> Option<Keeping> {
        let attributes = &manifest.attributes;
        let preserve = asked.and(attributes.told.preserve);
        if !preserve.has_attributes() {
            return None;
        }
        let is_root = geteuid().is_root();
        let translate = |by_name: bool| match by_name {
            true => {
                (directory.users.translate(&attributes.users), directory.groups.translate(&attributes.groups))
            }
            false => Default::default(),
        };
        let (users, groups) = translate(!preserve.numeric_ids);
        let mut own_groups: Vec<u32> =
            getgroups().unwrap_or_default().iter().map(|gid| gid.as_raw()).collect();
        own_groups.push(getegid().as_raw());
        // Who may not set them neither looks at them nor removes any.
        let all_names = attributes.told.all_names && is_root && !preserve.confined;
        let (wanted, notes) = (Wanted::of(&preserve, all_names), notes.clone());
        Some(Keeping { preserve, wanted, users, groups, is_root, own_groups, notes })
    }

    /// Give what is held all that its entry says: owner, attributes, permissions and time.
    pub(super) fn dress(
        &self,
        held: &(impl AsFd + AsRawFd),
        entry: &Entry,
        attributes: &EntryAttributes,
    ) -> io::Result<()> {
        let mut stat = fstat(held)?;
        if self.set_owner(held, &stat, entry, attributes) {
            stat = fstat(held)?;
        }
        let set = self.set_xattrs(held, &stat, entry, attributes)?;
        if set.any {
            stat = fstat(held)?;
        }
        let mut mode = self.mode(entry, &stat, attributes);
        let acl = attributes.xattrs.iter().find(|xattr| set.lacks_acl && xattr.name == ACL_ACCESS);
        // The permissions give the group all that the ACL gives to anybody whom it names.
        if let Some(group) = acl.and_then(|acl| acl_group(&acl.value)) {
            mode &= !0o070 | group << 3;
        }
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink && stat.st_mode & 0o7777 != mode {
            set_mode(held, Mode::from_raw_mode(mode))?;
        }
        if mtime(&stat) != entry.mtime {
            utimensat(CWD, itself(held).as_str(), &times(entry), AtFlags::empty())?;
        }
        Ok(())
    }

    /// The permissions that it gets. Set-user-ID and set-group-ID bits mean something else where the owner is another.
    fn mode(&self, entry: &Entry, stat: &Stat, attributes: &EntryAttributes) -> u32 {
        let mut kept = PERMISSIONS;
        let (uid, gid) = (self.uid(attributes.uid), self.gid(attributes.gid));
        if self.preserve.owner && uid == stat.st_uid {
            kept |= libc::S_ISUID | libc::S_ISVTX;
        }
        if self.preserve.group && gid == stat.st_gid {
            kept |= libc::S_ISGID;
        }
        entry.mode & kept
    }

    /// `true` if something was changed.
    fn set_owner(&self, held: &impl AsFd, stat: &Stat, entry: &Entry, attributes: &EntryAttributes) -> bool {
        let mut uid = Some(self.uid(attributes.uid)).filter(|uid| self.preserve.owner && *uid != stat.st_uid);
        let mut gid = Some(self.gid(attributes.gid)).filter(|gid| self.preserve.group && *gid != stat.st_gid);
        if uid.is_some() && !self.is_root {
            uid = None;
            self.notes.note(OWNER, &entry.path, TAKES_ROOT);
        }
        if gid.is_some_and(|gid| !self.is_root && !self.own_groups.contains(&gid)) {
            gid = None;
            self.notes.note(GROUP, &entry.path, "whoever receives is not in it");
        }
        if uid.is_none() && gid.is_none() {
            return false;
        }
        let change = |uid: Option<u32>, gid: Option<u32>| {
            chownat(held, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)
        };
        if change(uid, gid).is_err() {
            // The one may be allowed where the other is not.
            for (kind, uid, gid) in [(OWNER, uid, None), (GROUP, None, gid)] {
                if (uid.is_some() || gid.is_some())
                    && let Err(error) = change(uid, gid)
                {
                    self.notes.note(kind, &entry.path, &why(error));
                }
            }
        }
        true
    }

    fn set_xattrs(
        &self,
        held: &impl AsRawFd,
        stat: &Stat,
        entry: &Entry,
        attributes: &EntryAttributes,
    ) -> io::Result<Set> {
        if !self.wanted.is_any() {
            return Ok(Set::default());
        }
        let there = match xattrs::read(held, self.wanted) {
            Ok(there) => there,
            Err(error) => {
                self.notes.note(XATTRS, &entry.path, &error.to_string());
                return Ok(Set { any: false, lacks_acl: true });
            }
        };
        let wanted = attributes.xattrs.iter().map(|xattr| self.translated(xattr));
        let (wanted, foreign): (Vec<_>, Vec<_>) = wanted.partition(|xattr| self.wanted.has(&xattr.name));
        let is_asked = |xattr: &Xattr| self.preserve.xattrs && !ACLS.contains(&xattr.name.as_slice());
        if foreign.iter().any(is_asked) {
            let why = if self.preserve.confined { NOT_FOR_ALL } else { TAKES_ROOT };
            self.notes.note(XATTRS, &entry.path, why);
        }
        let is_gone = |xattr: &&Xattr| wanted.iter().all(|other| other.name != xattr.name);
        let gone: Vec<_> = there.iter().filter(is_gone).collect();
        let mut new: Vec<_> = wanted.iter().filter(|xattr| !there.contains(xattr)).collect();
        // An ACL may take the right to write away, without which a user sets no others.
        new.sort_by_key(|xattr| ACLS.contains(&xattr.name.as_slice()));
        for xattr in &gone {
            self.try_to(held, stat, entry, &|| xattrs::remove(held, &xattr.name));
        }
        let mut set = Set { any: !gone.is_empty() || !new.is_empty(), lacks_acl: false };
        for xattr in &new {
            let is_set = self.try_to(held, stat, entry, &|| xattrs::set(held, xattr));
            set.lacks_acl |= !is_set && xattr.name == ACL_ACCESS;
        }
        Ok(set)
    }

    /// Attributes of a user's own may be changed by who may write to the file.
    fn try_to(
        &self,
        held: &impl AsRawFd,
        stat: &Stat,
        entry: &Entry,
        change: &dyn Fn() -> Result<(), Errno>,
    ) -> bool {
        let mut changed = change();
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        if changed == Err(Errno::ACCESS)
            && !mode.contains(Mode::WUSR)
            && set_mode(held, mode | Mode::WUSR).is_ok()
        {
            changed = change();
        }
        if let Err(error) = changed {
            self.notes.note(XATTRS, &entry.path, &why(error));
        }
        changed.is_ok()
    }

    /// With the numbers that those have here whom an ACL names.
    fn translated(&self, xattr: &Xattr) -> Xattr {
        let mut xattr = xattr.clone();
        if ACLS.contains(&xattr.name.as_slice()) {
            for (place, id) in acl_ids(&xattr.value).unwrap_or_default() {
                let here = match id {
                    Id::User(id) => self.uid(id),
                    Id::Group(id) => self.gid(id),
                };
                xattr.value[place..place + 4].copy_from_slice(&here.to_le_bytes());
            }
        }
        xattr
    }

    fn uid(&self, id: u32) -> u32 {
        self.users.get(&id).copied().unwrap_or(id)
    }

    fn gid(&self, id: u32) -> u32 {
        self.groups.get(&id).copied().unwrap_or(id)
    }
}

/// What came of a file's extended attributes.
#[derive(Default)]
struct Set {
    /// Something was changed.
    any: bool,
    /// It has not got the ACL that it should have, if any.
    lacks_acl: bool,
}

/// What could not be kept, of all parts of a copy.
#[derive(Debug, Default)]
pub(super) struct Notes(Mutex<BTreeMap<&'static str, Noted>>);

#[derive(Debug)]
struct Noted {
    count: u64,
    first: Vec<u8>,
    why: String,
}

impl Notes {
    /// Something of this entry.
    pub(super) fn note(&self, what: &'static str, path: &[u8], why: &str) {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Noted { count: 0, first: path.to_vec(), why: why.into() };
        notes.entry(what).or_insert_with(new).count += 1;
    }

    /// Whether there is something of this kind.
    pub(super) fn has(&self, what: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(what)
    }

    /// A line for each kind of thing.
    pub(super) fn lines(&self) -> Vec<String> {
        let notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(what, Noted { count, first, why }): (&&str, &Noted)| {
            let first = if first.is_empty() { b".".as_slice() } else { first };
            format!("{what} ({count} in all, such as {}): {why}", String::from_utf8_lossy(first))
        };
        notes.iter().map(line).collect()
    }
}

/// What is left out of devices and the like.
pub(super) const NODES: &str = "devices, pipes and sockets are not made";
const OWNER: &str = "the owner is not kept";
const GROUP: &str = "the group is not kept";
const XATTRS: &str = "not all extended attributes and ACLs are kept";
/// In place of what takes privileges that the receiver has not.
pub(super) const TAKES_ROOT: &str = "that takes root at the receiving side";
/// Where the receiver has them and the sender does not count.
pub(super) const NOT_FOR_ALL: &str = "that is not done here for whoever sends it";
