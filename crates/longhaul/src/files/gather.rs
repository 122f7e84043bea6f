//! What the sender tells of files beyond contents, permissions and times, where that is asked for. Nothing is looked at otherwise.

use super::attributes::hold;
use super::errors::FileError;
use super::ids::Directory;
use super::xattrs::{self, Wanted};
use crate::net::budget::{Allowance, Budget, Purpose};
use longhaul_proto::session::attributes::{ACLS, Attributes, EntryAttributes, Id, Preserve, Told, acl_ids};
use longhaul_proto::session::manifest::{Kind, Node};
use rustix::fs::{FileType, Stat, major, minor};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

/// Gathers it.
pub(super) struct Gather {
    preserve: Preserve,
    wanted: Wanted,
    names: Option<Arc<Directory>>,
    /// Of which the names are in the part at work.
    users: HashSet<u32>,
    groups: HashSet<u32>,
    links: HashMap<(u64, u64), Named>,
    /// Bytes that these take, and what was taken for them beside other copies.
    links_len: u64,
    room: Allowance,
    /// Names of files that had others before them, whose memory was not to be had.
    pub apart: u64,
}

/// A file that has come under one of its names.
struct Named {
    path: Vec<u8>,
    /// Names that it has beside those that have come.
    more: u64,
}

impl Gather {
    pub(super) fn new(preserve: Preserve, budget: &Arc<Budget>) -> Gather {
        let by_name = (preserve.owner || preserve.group || preserve.acls) && !preserve.numeric_ids;
        Gather {
            preserve,
            wanted: Wanted::of(&preserve, !preserve.confined),
            names: by_name.then(Directory::load),
            users: HashSet::new(),
            groups: HashSet::new(),
            links: HashMap::new(),
            links_len: 0,
            room: Allowance::of(budget, Purpose::Need),
            apart: 0,
        }
    }

    /// A part begins, with these folders of the one before.
    pub(super) fn begin(&mut self, above: Vec<EntryAttributes>) -> Attributes {
        self.users.clear();
        self.groups.clear();
        if !self.preserve.has_attributes() {
            return Attributes::default();
        }
        let told = Told { preserve: self.preserve, all_names: self.wanted.all_names };
        let mut attributes = Attributes { told, ..Attributes::default() };
        for found in above {
            self.add(&mut attributes, found);
        }
        attributes
    }

    /// The next entry has these: how many bytes that takes in memory.
    pub(super) fn add(&mut self, attributes: &mut Attributes, found: EntryAttributes) -> usize {
        if !self.preserve.has_attributes() {
            return 0;
        }
        let len = found.memory_len();
        if let Some(names) = &self.names {
            let acls = found.xattrs.iter().filter(|xattr| ACLS.contains(&xattr.name.as_slice()));
            let acls = acls.filter_map(|xattr| acl_ids(&xattr.value));
            let named = acls.flatten().map(|(_, id)| id);
            for id in [Id::User(found.uid), Id::Group(found.gid)].into_iter().chain(named) {
                let (id, known, ids, told) = match id {
                    Id::User(id) => (id, &mut self.users, &names.users, &mut attributes.users),
                    Id::Group(id) => (id, &mut self.groups, &names.groups, &mut attributes.groups),
                };
                if known.insert(id) {
                    told.extend(ids.name(id).map(|name| (id, name.to_vec())));
                }
            }
        }
        attributes.entries.push(found);
        len
    }

    /// What is told of something in a folder.
    pub(super) fn read_at(
        &self,
        folder: impl AsFd,
        name: &[u8],
        stat: &Stat,
    ) -> Result<EntryAttributes, FileError> {
        if !self.wanted.is_any() {
            return Ok(self.owners(stat));
        }
        self.read(&hold(folder, name)?, stat)
    }

    /// What is told of something that is held.
    pub(super) fn read(&self, held: &impl AsRawFd, stat: &Stat) -> Result<EntryAttributes, FileError> {
        let owners = self.owners(stat);
        if !self.wanted.is_any() {
            return Ok(owners);
        }
        let cannot = |error| match error {
            FileError::System(error) => FileError::step("its extended attributes cannot be read")(error),
            other => other,
        };
        Ok(EntryAttributes { xattrs: xattrs::read(held, self.wanted).map_err(cannot)?, ..owners })
    }

    fn owners(&self, stat: &Stat) -> EntryAttributes {
        let mut found = EntryAttributes::default();
        if self.preserve.owner {
            found.uid = stat.st_uid;
        }
        if self.preserve.group {
            found.gid = stat.st_gid;
        }
        found
    }

    /// The path under which this file has come already.
    pub(super) fn other_name(&self, stat: &Stat) -> Option<&[u8]> {
        if !self.preserve.hard_links || stat.st_nlink < 2 {
            return None;
        }
        self.links.get(&(stat.st_dev, stat.st_ino)).map(|named| named.path.as_slice())
    }

    /// A file has come under this path.
    pub(super) fn came(&mut self, stat: &Stat, path: &[u8]) {
        if !self.preserve.hard_links || stat.st_nlink < 2 {
            return;
        }
        let inode = (stat.st_dev, stat.st_ino);
        if let Some(named) = self.links.get_mut(&inode) {
            named.more = named.more.saturating_sub(1);
            if named.more == 0 {
                self.links_len -= named_len(&named.path);
                self.links.remove(&inode);
            }
            return;
        }
        let len = self.links_len + named_len(path);
        if len > LINKS_LEN_MAX || !self.room.reach(len.next_multiple_of(ROOM_STEP)) {
            self.apart += 1;
            return;
        }
        self.links_len = len;
        let more = u64::from(stat.st_nlink as u32).saturating_sub(1);
        self.links.insert(inode, Named { path: path.to_vec(), more });
    }

    /// A device, a named pipe or a socket, if such are wanted.
    pub(super) fn node(&self, stat: &Stat) -> Option<Kind> {
        let (node, is_wanted) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Fifo => (Node::Fifo, self.preserve.specials),
            FileType::Socket => (Node::Socket, self.preserve.specials),
            FileType::CharacterDevice => (Node::Character, self.preserve.devices),
            FileType::BlockDevice => (Node::Block, self.preserve.devices),
            _ => return None,
        };
        let is_device = matches!(node, Node::Character | Node::Block);
        let device = if is_device { (major(stat.st_rdev), minor(stat.st_rdev)) } else { (0, 0) };
        is_wanted.then_some(Kind::Node { node, device })
    }
}

fn named_len(path: &[u8]) -> u64 {
    (path.len() + LINK_LEN) as u64
}

/// Memory for files some of whose names have not come yet: a million of usual ones.
const LINKS_LEN_MAX: u64 = 128 << 20;
/// What one takes beside its path, in a table that is half full.
const LINK_LEN: usize = 2 * size_of::<((u64, u64), Named)>();
/// Asked for at a time.
const ROOM_STEP: u64 = 1 << 20;
