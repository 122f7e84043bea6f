//! The server's key, in a file beside the configuration.

use super::ConfigError;
use super::edit::keep_owner;
use longhaul::Identity;
use longhaul::daemon::token::{from_hex, to_hex};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Read the key in a file, which is made where it is missing, for whose the configuration is.
pub fn load_or_make(path: &Path, config: &Path) -> Result<Identity, ConfigError> {
    match load(path) {
        Err(ConfigError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            make(path, config)?;
            load(path)
        }
        loaded => loaded,
    }
}

fn load(path: &Path) -> Result<Identity, ConfigError> {
    let failed = |source| ConfigError::File { path: path.into(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & 0o077 != 0 {
        return Err(ConfigError::NotPrivate(path.into()));
    }
    let mut text = String::new();
    file.take(LEN_MAX).read_to_string(&mut text).map_err(failed)?;
    let private = from_hex(text.trim()).ok_or_else(|| ConfigError::NoKey(path.into()))?;
    Ok(Identity::from_private(private))
}

/// Whole or not at all, and never in place of one that another process has just made.
fn make(path: &Path, config: &Path) -> Result<(), ConfigError> {
    let identity = Identity::generate().map_err(ConfigError::Random)?;
    let text = format!("{}\n", to_hex(identity.private()));
    let made = path.with_extension(format!("key.{}", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&made)?;
        file.write_all(text.as_bytes())?;
        // Root's may be read by a group; who serves is then whose the key's folder is.
        let is_roots = fs::metadata(config).is_ok_and(|meta| meta.uid() == 0);
        keep_owner(path.parent().filter(|_| is_roots).unwrap_or(config), &file);
        file.sync_all()?;
        match fs::hard_link(&made, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    };
    let written = write();
    let _ = fs::remove_file(&made);
    written.map_err(|source| ConfigError::File { path: path.into(), source })
}

/// More than a key takes.
const LEN_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_that_root_makes_belongs_to_whom_the_configuration_belongs() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("serve.toml");
        fs::write(&config, "").unwrap();
        fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
        // Who is not root has nothing to give away, and makes a key of its own.
        let _ = std::os::unix::fs::chown(&config, Some(4711), Some(4712));
        let owner = |path: &Path| {
            fs::metadata(path).map(|meta| (meta.uid(), meta.gid(), meta.mode() & 0o077)).unwrap()
        };
        let path = folder.path().join("serve.key");
        load_or_make(&path, &config).unwrap();
        assert_eq!(owner(&path), owner(&config));
    }

    #[test]
    fn the_key_is_made_once_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.key");
        let made = load_or_make(&path, Path::new("none")).unwrap();
        assert!(load_or_make(&path, Path::new("none")).unwrap() == made);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(load_or_make(&path, Path::new("none")).unwrap_err().to_string().contains("chmod 600"));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "something else").unwrap();
        assert!(matches!(load_or_make(&path, Path::new("none")), Err(ConfigError::NoKey(_))));
    }
}
