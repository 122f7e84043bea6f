//! Extended attributes of what is held, and not of whatever its name may lead to by now. A POSIX ACL is one of them.

use super::attributes::itself;
use super::errors::FileError;
use longhaul_proto::session::attributes::{
    ACLS, EntryAttributes, Preserve, XATTR_LEN_MAX, XATTRS_LEN_MAX, Xattr, is_copied,
};
use rustix::fs::{XattrFlags, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;
use std::os::fd::AsRawFd;

/// Which extended attributes are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub xattrs: bool,
    pub acls: bool,
    /// Those of the system and of its administrator too.
    pub all_names: bool,
}

impl Wanted {
    /// What is asked for.
    pub(super) fn of(preserve: &Preserve, all_names: bool) -> Wanted {
        Wanted { xattrs: preserve.xattrs, acls: preserve.acls, all_names }
    }

    pub(super) fn is_any(&self) -> bool {
        self.xattrs || self.acls
    }

    /// Whether one of this name is.
    pub(super) fn has(&self, name: &[u8]) -> bool {
        match ACLS.contains(&name) {
            true => self.acls,
            false => self.xattrs && is_copied(name) && (self.all_names || name.starts_with(b"user.")),
        }
    }
}

/// Those that are wanted, by name.
pub(super) fn read(held: &impl AsRawFd, wanted: Wanted) -> Result<Vec<Xattr>, FileError> {
    let path = itself(held);
    let mut short = [0; LIST_USUAL];
    let mut long = Vec::new();
    let names = match listxattr(path.as_str(), &mut short[..]) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(len) => &short[..len],
        Err(Errno::RANGE) => {
            long.resize(LIST_MAX, 0);
            let len = listxattr(path.as_str(), &mut long[..])?;
            &long[..len]
        }
        Err(error) => return Err(error.into()),
    };
    let mut found = EntryAttributes::default();
    let (mut value, mut len) = (vec![0; XATTR_LEN_MAX], 0);
    for name in names.split(|byte| *byte == 0).filter(|name| wanted.has(name)) {
        match getxattr(path.as_str(), name, &mut value[..]) {
            Ok(value_len) => {
                len += name.len() + value_len;
                found.xattrs.push(Xattr { name: name.to_vec(), value: value[..value_len].to_vec() });
            }
            // It has gone since it was listed.
            Err(Errno::NODATA) => {}
            Err(error) => return Err(error.into()),
        }
        if len > XATTRS_LEN_MAX {
            return Err(FileError::Attributes { max: XATTRS_LEN_MAX });
        }
    }
    found.xattrs.sort();
    if found.are_sane() { Ok(found.xattrs) } else { Err(FileError::Attributes { max: XATTRS_LEN_MAX }) }
}

/// Set one.
pub(super) fn set(held: &impl AsRawFd, xattr: &Xattr) -> Result<(), Errno> {
    setxattr(itself(held), xattr.name.as_slice(), &xattr.value, XattrFlags::empty())
}

/// Remove one, if it is there.
pub(super) fn remove(held: &impl AsRawFd, name: &[u8]) -> Result<(), Errno> {
    match removexattr(itself(held), name) {
        Err(Errno::NODATA) => Ok(()),
        other => other,
    }
}

/// What the names of a file take as a rule.
const LIST_USUAL: usize = 1024;
/// And at most.
const LIST_MAX: usize = 64 << 10;
