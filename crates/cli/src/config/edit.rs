//! Changes to the file that leave the rest of it, comments too, as it is.

use super::{Config, ConfigError, ROOT, is_user_name};
use longhaul::daemon::policy::Access;
use longhaul::daemon::token::{UserToken, to_hex};
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, InlineTable, Item, Table, value};

/// A configuration that is being changed.
pub struct Draft {
    path: PathBuf,
    document: DocumentMut,
    config: Config,
}

/// What is told of a user.
pub struct Listed {
    /// The name.
    pub name: String,
    /// The token's public part.
    pub id: String,
    /// Folders and what may be done there.
    pub folders: String,
}

impl Draft {
    /// Read a file that makes sense.
    pub fn open(path: &Path) -> Result<Draft, ConfigError> {
        let failed = |source| ConfigError::File { path: path.into(), source };
        // A link stays one.
        let path = fs::canonicalize(path).map_err(failed)?;
        let text = fs::read_to_string(&path).map_err(failed)?;
        let config = Config::parse(&text, &path)?;
        let document = text.parse().expect("what was parsed can be parsed");
        Ok(Draft { path, document, config })
    }

    /// What it says.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Add a user with these folders; without any, all of them to be read.
    pub fn add(
        &mut self,
        name: &str,
        token: &UserToken,
        folders: &[(String, Access)],
    ) -> Result<(), ConfigError> {
        if !is_user_name(name) {
            return Err(ConfigError::UserName(name.into()));
        }
        if self.config.policy.users.iter().any(|user| user.name == name) {
            return Err(ConfigError::UserExists(name.into()));
        }
        let known: Vec<String> = self.document["folders"]
            .as_table_like()
            .into_iter()
            .flat_map(|all| all.iter().map(|(name, _)| name.to_owned()))
            .collect();
        let mut granted = InlineTable::new();
        for (folder, access) in folders {
            if !known.contains(folder) {
                return Err(ConfigError::NoFolder { name: folder.clone(), known: known.join(", ") });
            }
            granted.insert(folder, access.name().into());
        }
        if folders.is_empty() {
            known.iter().for_each(|folder| drop(granted.insert(folder, Access::ReadOnly.name().into())));
        }
        let mut user = Table::new();
        user["id"] = value(to_hex(&token.id));
        user["key"] = value(to_hex(&token.secret));
        user["folders"] = value(granted);
        let users = self.document.entry("users").or_insert_with(|| {
            let mut users = Table::new();
            users.set_implicit(true);
            Item::Table(users)
        });
        match users.as_table_like_mut() {
            Some(users) => drop(users.insert(name, Item::Table(user))),
            None => unreachable!("the file was read as one with a table of users"),
        }
        Ok(())
    }

    /// Remove a user.
    pub fn revoke(&mut self, name: &str) -> Result<(), ConfigError> {
        let users = self.document.get_mut("users").and_then(Item::as_table_like_mut);
        users.and_then(|users| users.remove(name)).map(drop).ok_or_else(|| ConfigError::NoUser(name.into()))
    }

    /// All users.
    pub fn list(&self) -> Vec<Listed> {
        let users = self.config.policy.users.iter();
        let one = |user: &longhaul::daemon::policy::User| {
            let id = match &user.key {
                longhaul::daemon::policy::UserKey::Own { id, .. } => to_hex(id),
                _ => String::new(),
            };
            let folders = user.grants.iter().map(|grant| {
                let name = if grant.name.is_empty() { ROOT } else { &grant.name };
                format!("{name} {}", grant.access.name())
            });
            Listed { name: user.name.clone(), id, folders: folders.collect::<Vec<_>>().join(", ") }
        };
        users.map(one).collect()
    }

    /// Write it, so that whoever reads it sees all of the old one or all of the new one, and nobody else reads it.
    pub fn save(&self) -> Result<(), ConfigError> {
        let text = self.document.to_string();
        // What does not make sense is not written.
        Config::parse(&text, &self.path)?;
        let new = self.path.with_extension(format!("toml.{}", std::process::id()));
        let write = || {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
            file.write_all(text.as_bytes())?;
            keep_owner(&self.path, &file);
            file.sync_all()?;
            fs::rename(&new, &self.path)
        };
        write().map_err(|source| {
            let _ = fs::remove_file(&new);
            ConfigError::File { path: self.path.clone(), source }
        })
    }
}

/// Root may write a file for the user that serves, who is to be able to read it afterwards: it gets the owner of another
/// one, or of its folder.
pub(super) fn keep_owner(of: &Path, new: &fs::File) {
    use std::os::unix::fs::MetadataExt;
    if let Ok(meta) = fs::metadata(of) {
        // Only root can give a file away, and for others there is nothing to give.
        let _ = std::os::unix::fs::fchown(new, Some(meta.uid()), Some(meta.gid()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn users_come_and_go_and_comments_stay() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let text = "# Ours.\nfolders = { data = \"/srv\", in = \"/in\" } # two\n\n# Nobody yet.\n";
        fs::write(&path, text).unwrap();
        let token = UserToken::generate([7; 32]).unwrap();
        let add = |name: &str, folders: &[(String, Access)]| {
            let mut draft = Draft::open(&path).unwrap();
            draft.add(name, &token, folders).and_then(|()| draft.save())
        };
        add("alice", &[]).unwrap();
        assert!(matches!(add("alice", &[]), Err(ConfigError::UserExists(_))));
        assert!(matches!(add("a b", &[]), Err(ConfigError::UserName(_))));
        let elsewhere = [("elsewhere".to_string(), Access::ReadOnly)];
        assert!(add("bob", &elsewhere).unwrap_err().to_string().ends_with("it has: data, in"));
        let text = fs::read_to_string(&path).unwrap();
        for part in ["# Ours.\n", "# two\n", "# Nobody yet.\n", "[users.alice]\n"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let draft = Draft::open(&path).unwrap();
        let [alice] = &draft.list()[..] else { panic!("{text}") };
        assert_eq!(
            (alice.id.as_str(), alice.folders.as_str()),
            (&*to_hex(&token.id), "data read-only, in read-only")
        );
        let mut draft = Draft::open(&path).unwrap();
        draft.revoke("alice").and_then(|()| draft.save()).unwrap();
        assert!(matches!(draft.revoke("alice"), Err(ConfigError::NoUser(_))));
        assert_eq!(Draft::open(&path).unwrap().list().len(), 0);
    }
}
