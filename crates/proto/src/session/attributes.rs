//! What a copy keeps of files beyond contents, permissions and times, where that is asked for: owners, extended attributes and
//! ACLs, hard links, devices. A listing has it beside its manifest, and only then.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// The first version that knows of it.
pub const SINCE: u8 = 14;

/// What is to be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preserve {
    /// Files with several names in the copy stay one file.
    pub hard_links: bool,
    /// Extended attributes.
    pub xattrs: bool,
    /// POSIX ACLs.
    pub acls: bool,
    /// Who owns a file.
    pub owner: bool,
    /// Its group.
    pub group: bool,
    /// Character and block devices.
    pub devices: bool,
    /// Named pipes and sockets.
    pub specials: bool,
    /// Owners and groups go by number, not by name.
    pub numeric_ids: bool,
    /// This side does for the other one nothing that takes privileges, although it may have them. This side's own word: it does
    /// not travel.
    #[serde(skip)]
    pub confined: bool,
}

impl Preserve {
    /// All of it, owners and groups by name.
    pub const ARCHIVE: Preserve = Preserve {
        hard_links: true,
        xattrs: true,
        acls: true,
        owner: true,
        group: true,
        devices: true,
        specials: true,
        numeric_ids: false,
        confined: false,
    };

    /// Whether there is anything to keep.
    pub fn is_any(&self) -> bool {
        self.has_attributes() || self.hard_links || self.devices || self.specials
    }

    /// Whether entries have attributes.
    pub fn has_attributes(&self) -> bool {
        self.owner || self.group || self.has_xattrs()
    }

    /// Whether they have extended ones; ACLs are such.
    pub fn has_xattrs(&self) -> bool {
        self.xattrs || self.acls
    }

    /// What is left of it for somebody for whom nothing is done that takes privileges.
    pub fn confine(self) -> Preserve {
        Preserve { owner: false, group: false, devices: false, specials: false, confined: true, ..self }
    }

    /// What both say.
    pub fn and(self, other: Preserve) -> Preserve {
        Preserve {
            hard_links: self.hard_links && other.hard_links,
            xattrs: self.xattrs && other.xattrs,
            acls: self.acls && other.acls,
            owner: self.owner && other.owner,
            group: self.group && other.group,
            devices: self.devices && other.devices,
            specials: self.specials && other.specials,
            numeric_ids: self.numeric_ids,
            confined: self.confined,
        }
    }

    /// The first version that this can be asked of, if it is a later one than any.
    pub fn since(&self) -> Option<u8> {
        self.is_any().then_some(SINCE)
    }
}

/// The attributes of a manifest's entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// What is told of them.
    pub told: Told,
    /// Names of users that own entries or that ACLs name, by number.
    pub users: Vec<(u32, Vec<u8>)>,
    /// The same of groups.
    pub groups: Vec<(u32, Vec<u8>)>,
    /// Of each entry; nothing at all where nothing is told.
    pub entries: Vec<EntryAttributes>,
}

/// What is told of a manifest's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// What was looked at.
    pub preserve: Preserve,
    /// Extended attributes of all names, not of `user.` alone.
    pub all_names: bool,
}

/// Of an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntryAttributes {
    /// The user that owns it.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Extended attributes, by name.
    #[serde(deserialize_with = "read_xattrs")]
    pub xattrs: Vec<Xattr>,
}

/// No more of them than an honest side sends: each takes much more memory than it may take bytes.
fn read_xattrs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Xattr>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Xattr>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {XATTRS_MAX} extended attributes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Xattr>, A::Error> {
            let mut found = Vec::new();
            while let Some(xattr) = items.next_element()? {
                if found.len() == XATTRS_MAX {
                    return Err(A::Error::custom("too many extended attributes"));
                }
                found.push(xattr);
            }
            Ok(found)
        }
    }
    from.deserialize_seq(Bounded)
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Xattr {
    /// Its name, with the namespace in front.
    pub name: Vec<u8>,
    /// What it holds.
    pub value: Vec<u8>,
}

impl Attributes {
    /// Those of these entries.
    pub fn of(&self, entries: impl Iterator<Item = usize>) -> Attributes {
        let (users, groups) = (self.users.clone(), self.groups.clone());
        let entries = entries.filter_map(|entry| self.entries.get(entry).cloned()).collect();
        Attributes { told: self.told, users, groups, entries }
    }

    /// Whether they fit a manifest of so many entries: of each or of none.
    pub(super) fn fit(&self, entries: usize) -> bool {
        let is_name = |(_, name): &(u32, Vec<u8>)| !name.is_empty() && name.len() <= ID_NAME_MAX;
        let is_right = if self.told.preserve.has_attributes() { entries } else { 0 };
        self.entries.len() == is_right
            && self.users.iter().chain(&self.groups).all(is_name)
            && self.entries.iter().all(EntryAttributes::are_sane)
    }
}

impl EntryAttributes {
    /// Bytes that they take in memory.
    pub fn memory_len(&self) -> usize {
        let xattrs = self.xattrs.iter();
        size_of::<EntryAttributes>() + xattrs.map(Xattr::memory_len).sum::<usize>()
    }

    /// Names once each and in order, all of them such as are copied, and no more than an honest side sends.
    pub fn are_sane(&self) -> bool {
        let len: usize = self.xattrs.iter().map(|xattr| xattr.name.len() + xattr.value.len()).sum();
        self.xattrs.len() <= XATTRS_MAX
            && len <= XATTRS_LEN_MAX
            && self.xattrs.is_sorted_by(|one, next| one.name < next.name)
            && self.xattrs.iter().all(Xattr::is_sane)
    }
}

impl Xattr {
    fn memory_len(&self) -> usize {
        size_of::<Xattr>() + self.name.len() + self.value.len()
    }

    fn is_sane(&self) -> bool {
        let is_acl = ACLS.contains(&self.name.as_slice());
        self.name.len() <= XATTR_NAME_MAX
            && !self.name.contains(&0)
            && self.value.len() <= XATTR_LEN_MAX
            && (is_acl && acl_ids(&self.value).is_some() || is_copied(&self.name))
    }
}

/// Whether extended attributes of this name are copied as they are. Those of `system.` are the file system's own, and labels and
/// signatures go with a host's own policy.
pub fn is_copied(name: &[u8]) -> bool {
    let spaces = [&b"user."[..], b"security.", b"trusted."];
    spaces.iter().any(|space| name.len() > space.len() && name.starts_with(space))
        && !OF_THE_HOST.iter().any(|own| name.starts_with(own))
}

/// Names that begin so are the host's own.
const OF_THE_HOST: [&[u8]; 4] = [b"security.selinux", b"security.ima", b"security.evm", b"security.SMACK64"];

/// The numbers in an ACL as the kernel gives it: each with its place in the bytes, and whether it is a user's. `None` if it is no
/// ACL.
pub fn acl_ids(acl: &[u8]) -> Option<Vec<(usize, Id)>> {
    let entries = acl.strip_prefix(&2u32.to_le_bytes())?;
    if entries.len() % ACL_ENTRY_LEN != 0 {
        return None;
    }
    let read = |(at, entry): (usize, &[u8])| {
        let (tag, id) = entry.split_at(4);
        let number = u32::from_le_bytes(id.try_into().ok()?);
        let place = 4 + at * ACL_ENTRY_LEN + 4;
        match u16::from_le_bytes([tag[0], tag[1]]) {
            ACL_USER => Some((place, Id::User(number))),
            ACL_GROUP => Some((place, Id::Group(number))),
            _ => None,
        }
    };
    Some(entries.chunks(ACL_ENTRY_LEN).enumerate().filter_map(read).collect())
}

/// What an ACL gives to the file's group: 4 to read, 2 to write, 1 to execute. `None` if it is no ACL, or does not say.
pub fn acl_group(acl: &[u8]) -> Option<u32> {
    acl_ids(acl)?;
    let entries = acl[4..].chunks(ACL_ENTRY_LEN);
    let of = |wanted: u16| {
        let mut found = entries.clone().filter(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted);
        found.next().map(|entry| u32::from(u16::from_le_bytes([entry[2], entry[3]])))
    };
    Some(of(ACL_GROUP_OBJ)? & of(ACL_MASK).unwrap_or(7) & 7)
}

/// Whose a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    /// A user's.
    User(u32),
    /// A group's.
    Group(u32),
}

/// The extended attribute that is a file's ACL.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// That of a folder which new files in it get.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";
/// Both.
pub const ACLS: [&[u8]; 2] = [ACL_ACCESS, ACL_DEFAULT];
/// Tag, permissions and number, in struct posix_acl_xattr_entry of the kernel.
const ACL_ENTRY_LEN: usize = 8;
const ACL_USER: u16 = 2;
const ACL_GROUP_OBJ: u16 = 4;
const ACL_GROUP: u16 = 8;
const ACL_MASK: u16 = 16;

/// Extended attributes of an entry: more than a kernel lists.
pub const XATTRS_MAX: usize = 4096;
/// Bytes of them, names and all.
pub const XATTRS_LEN_MAX: usize = 1 << 20;
/// Bytes of one, as the kernel has it.
pub const XATTR_LEN_MAX: usize = 64 << 10;
/// Bytes of a name, as the kernel has it.
const XATTR_NAME_MAX: usize = 255;
/// Bytes of a user's or group's name.
pub const ID_NAME_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel gives it: owner, user 1000, group 7, mask, others.
    fn acl() -> Vec<u8> {
        let entry = |tag: u16, permissions: u16, id: u32| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let entries = [
            entry(1, 6, u32::MAX),
            entry(2, 4, 1000),
            entry(8, 4, 7),
            entry(16, 4, u32::MAX),
            entry(32, 0, 0),
        ];
        [2u32.to_le_bytes().to_vec(), entries.concat()].concat()
    }

    #[test]
    fn an_acl_tells_whom_it_names() {
        let ids = acl_ids(&acl()).unwrap();
        assert_eq!(ids, [(4 + 8 + 4, Id::User(1000)), (4 + 16 + 4, Id::Group(7))]);
        assert_eq!(acl_ids(&acl()[..acl().len() - 1]), None);
        assert_eq!(acl_group(&acl()[..4]), None);
        let entry = |tag: u16, perm: u16| [&tag.to_le_bytes()[..], &perm.to_le_bytes(), &[255; 4]].concat();
        let with = |entries: &[Vec<u8>]| acl_group(&[&2u32.to_le_bytes()[..], &entries.concat()].concat());
        assert_eq!(with(&[entry(1, 6), entry(4, 5), entry(16, 6)]), Some(4), "no more than the mask lets");
        assert_eq!(with(&[entry(1, 6), entry(4, 5)]), Some(5));
        assert_eq!(acl_ids(b"\x01\0\0\0"), None);
        assert_eq!(acl_ids(b"\x02\0\0\0"), Some(vec![]));
    }

    #[test]
    fn what_no_honest_side_sends_is_no_attribute() {
        let with = |xattrs: &[(&[u8], &[u8])]| {
            let xattr = |(name, value): &(&[u8], &[u8])| Xattr { name: name.to_vec(), value: value.to_vec() };
            EntryAttributes { xattrs: xattrs.iter().map(xattr).collect(), ..EntryAttributes::default() }
        };
        let acl = acl();
        let fine: &[(&[u8], &[u8])] =
            &[(b"security.capability", b"x"), (ACL_ACCESS, &acl), (b"trusted.a", b""), (b"user.b", b"\0")];
        assert!(with(fine).are_sane());
        let long = vec![0; XATTR_LEN_MAX + 1];
        let bad: [&[(&[u8], &[u8])]; 8] = [
            &[(b"user.b", b""), (b"user.a", b"")],
            &[(b"user.a", b""), (b"user.a", b"")],
            &[(b"user.", b"")],
            &[(b"user.a\0b", b"")],
            &[(b"system.nfs4_acl", b"")],
            &[(ACL_DEFAULT, b"none")],
            &[(b"plain", b"")],
            &[(b"user.a", &long)],
        ];
        for xattrs in bad {
            assert!(!with(xattrs).are_sane(), "{:?}", xattrs[0].0);
        }
    }

    #[test]
    fn attributes_are_of_each_entry_or_of_none() {
        let preserve = Preserve { owner: true, ..Preserve::default() };
        let told = Told { preserve, all_names: true };
        let attributes =
            Attributes { told, entries: vec![EntryAttributes::default(); 2], ..Attributes::default() };
        assert!(attributes.fit(2) && !attributes.fit(1) && !attributes.fit(0));
        assert!(Attributes::default().fit(5));
        let nameless = Attributes { users: vec![(5, vec![])], ..attributes };
        assert!(!nameless.fit(2));
    }
}
