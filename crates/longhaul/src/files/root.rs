//! What a side may touch: everything the user may, or one folder and what is below it.

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Where paths that the user wrote are looked up.
#[derive(Clone, Debug)]
pub struct Root {
    jail: Option<Arc<Dir>>,
}

impl Root {
    /// The whole system, as the user sees it: relative paths begin at the working folder.
    pub fn ambient() -> Root {
        Root { jail: None }
    }

    /// Only `folder` and what is below it. Absolute paths begin there; `..` and links that lead out are refused.
    pub fn confined(folder: &Path) -> io::Result<Root> {
        Ok(Root { jail: Some(Arc::new(Dir::open_ambient_dir(folder, ambient_authority())?)) })
    }

    /// Whether this is one folder.
    pub fn is_confined(&self) -> bool {
        self.jail.is_some()
    }

    /// The path as this root looks it up; an error line if it would lead out.
    pub(super) fn local(&self, path: &Path) -> io::Result<PathBuf> {
        if path.as_os_str().as_bytes().contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a path cannot hold a NUL byte"));
        }
        let mut local = PathBuf::new();
        if !self.is_confined() {
            local.push(path);
        } else {
            for component in path.components() {
                match component {
                    Component::Normal(name) => local.push(name),
                    Component::CurDir | Component::RootDir => {}
                    Component::ParentDir | Component::Prefix(_) => {
                        return Err(io::Error::new(
                            io::ErrorKind::PermissionDenied,
                            "\"..\" is not allowed here",
                        ));
                    }
                }
            }
        }
        if local.as_os_str().is_empty() {
            local.push(".");
        }
        Ok(local)
    }

    /// Open a folder, following links as far as they stay inside.
    pub(super) fn open_folder(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = self.local(path)?;
        match &self.jail {
            Some(jail) => Ok(jail.open_dir(path)?.into_std_file().into()),
            None => {
                Ok(openat(CWD, &path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
            }
        }
    }

    /// Make a folder and those above it where they are missing.
    pub(super) fn create_folder(&self, path: &Path) -> io::Result<()> {
        let path = self.local(path)?;
        match &self.jail {
            Some(jail) => jail.create_dir_all(path),
            None => std::fs::create_dir_all(path),
        }
    }

    /// What is at `path`, links followed as far as they stay inside; `None` if there is nothing.
    pub(super) fn kind_of(&self, path: &Path) -> io::Result<Option<FileType>> {
        let local = self.local(path)?;
        let found = match &self.jail {
            // Opening is the one lookup that never leaves the jail, also where a link lies in the way.
            Some(jail) => match jail.metadata(&local) {
                Ok(meta) if meta.is_dir() => Ok(FileType::Directory),
                Ok(meta) if meta.is_file() => Ok(FileType::RegularFile),
                Ok(_) => Ok(FileType::Unknown),
                Err(error) => Err(error),
            },
            None => statat(CWD, &local, AtFlags::empty())
                .map(|stat| FileType::from_raw_mode(stat.st_mode))
                .map_err(io::Error::from),
        };
        match found {
            Ok(kind) => Ok(Some(kind)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A path as the user wrote it, taken apart.
pub(super) struct Written {
    /// The folder that holds the last component.
    pub parent: PathBuf,
    /// The last component, without slashes; `None` for `.`, `..` and `/`.
    pub name: Option<Vec<u8>>,
    /// It names a folder in so many words: a slash or a dot at its end.
    pub is_folder: bool,
}

impl Written {
    pub(super) fn new(path: &Path) -> Written {
        let bytes = path.as_os_str().as_bytes();
        let trimmed = match bytes.iter().rposition(|b| *b != b'/') {
            Some(last) => &bytes[..=last],
            None => &b""[..],
        };
        let cut = trimmed.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
        let (parent, name) = trimmed.split_at(cut);
        let dots = name.is_empty() || name == b"." || name == b"..";
        Written {
            parent: if parent.is_empty() {
                PathBuf::from(".")
            } else {
                PathBuf::from(OsStr::from_bytes(parent))
            },
            name: (!dots).then(|| name.to_vec()),
            is_folder: dots || trimmed.len() < bytes.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_path_says_whether_it_means_a_folder() {
        let read = |path: &str| {
            let w = Written::new(Path::new(path));
            (
                w.parent.to_str().unwrap().to_string(),
                w.name.map(|n| String::from_utf8(n).unwrap()),
                w.is_folder,
            )
        };
        assert_eq!(read("a"), (".".into(), Some("a".into()), false));
        assert_eq!(read("a/b//"), ("a/".into(), Some("b".into()), true));
        assert_eq!(read("/a"), ("/".into(), Some("a".into()), false));
        assert_eq!(read("a/."), ("a/".into(), None, true));
        assert_eq!(read(".."), (".".into(), None, true));
        assert_eq!(read("/"), (".".into(), None, true));
    }

    #[test]
    fn a_confined_root_looks_up_below_itself() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::confined(folder.path()).unwrap();
        assert_eq!(root.local(Path::new("/a/./b")).unwrap(), PathBuf::from("a/b"));
        assert_eq!(root.local(Path::new("/")).unwrap(), PathBuf::from("."));
        assert!(root.local(Path::new("a/../../b")).is_err());
        std::os::unix::fs::symlink("/etc", folder.path().join("out")).unwrap();
        assert!(root.open_folder(Path::new("out")).is_err());
        assert!(root.kind_of(Path::new("out/passwd")).is_err());
        assert!(root.create_folder(Path::new("out/x")).is_err());
    }
}
