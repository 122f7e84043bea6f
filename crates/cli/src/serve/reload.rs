//! Reading the configuration again, and what is wrong with one that nobody would notice.

use super::load;
use super::sandbox::Needs;
use super::stores::Stores;
use crate::config::Config;
use crate::failure::Failure;
use crate::signals;
use longhaul::Identity;
use longhaul::daemon::admission::Admission;
use longhaul::daemon::policy::{Access, Grant, Policy};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Those who may read the server's key or its users', for these lie in a folder that is served.
pub(super) fn readable_secrets(path: &Path, config: &Config, policy: &Policy) -> Vec<String> {
    let there = |file: &Path| std::fs::canonicalize(file).unwrap_or_else(|_| file.into());
    let secrets = [there(path), there(&config.key_file)];
    let grants = policy.grants().filter(|(_, grant)| grant.access != Access::WriteOnly);
    let readable = grants.flat_map(|(user, grant)| {
        let folder = there(&grant.folder);
        let inside = secrets.iter().filter(move |secret| secret.starts_with(&folder));
        inside.map(move |secret| {
            format!("{} can read {}: serve another folder, or move the file", user.name, secret.display())
        })
    });
    readable.collect()
}

/// What a server was started with.
pub(super) struct Started {
    pub(super) config: (PathBuf, Config),
    /// Who it is, until it ends.
    pub(super) identity: Option<Identity>,
    /// What of the file system it has kept for itself, if it has given up the rest.
    pub(super) needs: Option<Needs>,
}

impl Started {
    /// What of another configuration only the next start takes up.
    fn waits(&self, config: &Config, policy: &Policy) -> Vec<String> {
        let old = &self.config.1;
        let fields = [
            ("listen", old.listen != config.listen),
            ("key-file", old.key_file != config.key_file),
            ("audit", old.audit != config.audit),
            ("metrics", old.metrics != config.metrics),
            ("memory-mib", old.memory_mib != config.memory_mib),
            ("sandbox", old.sandbox != config.sandbox),
            ("allow-third-party", old.third_party != config.third_party),
            ("allow-super", old.may_set_all != config.may_set_all),
            ("announce", old.announce != config.announce),
            ("firefly", old.firefly != config.firefly),
            ("store", old.store != config.store),
        ];
        let changed = fields.into_iter().filter(|(_, is_other)| *is_other).map(|(name, _)| name.to_owned());
        let closed = policy.grants().filter(|(_, grant)| !self.is_open(grant)).map(|(user, grant)| {
            format!("{} {} for {}", grant.folder.display(), grant.access.name(), user.name)
        });
        changed.chain(closed).collect()
    }

    /// Whether the sandbox lets the server do there what may be done there.
    fn is_open(&self, grant: &Grant) -> bool {
        let Some(needs) = &self.needs else { return true };
        let within = |folders: &[PathBuf]| folders.iter().any(|folder| grant.folder.starts_with(folder));
        within(&needs.write) || grant.access == Access::ReadOnly && within(&needs.read)
    }
}

/// Reads the configuration again. One that is of no use is refused, and the old one stays.
pub(super) fn reloader(started: Started, admission: Admission, stores: Arc<Stores>) -> signals::HangUp {
    Box::new(move || {
        let path = &started.config.0;
        let mut waits = vec![];
        let replaced = load(path).map_err(Failure::from).and_then(|(config, mut policy)| {
            policy.identity = started.identity.clone();
            stores.put_in_place(&mut policy)?;
            let users = policy.users.len();
            waits = started.waits(&config, &policy);
            readable_secrets(path, &config, &policy).iter().for_each(|line| tracing::warn!("{line}"));
            Ok(admission.replace(policy).map(|()| users)?)
        });
        match replaced {
            Ok(users) => tracing::info!("{} was read again: {users} users", path.display()),
            Err(error) => tracing::error!("the old configuration stays: {error}"),
        }
        if !waits.is_empty() {
            tracing::warn!("restart the server for: {}", waits.join(", "));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Token;

    #[test]
    fn who_can_read_the_key_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("serve.toml");
        let config = Config::parse("[folders]\ndata = \"data\"\n", &path).unwrap();
        for file in [&path, &config.key_file, &folder.path().join("data")] {
            std::fs::write(file, "").unwrap();
        }
        let told = |served: &Path, access| {
            readable_secrets(&path, &config, &Policy::one_folder(served, Token::from(""), access))
        };
        let lines = told(folder.path(), Access::ReadOnly);
        assert!(lines.len() == 2 && lines[0].contains("serve.toml"), "{lines:?}");
        assert!(told(folder.path(), Access::WriteOnly).is_empty());
        assert!(told(&folder.path().join("data"), Access::ReadWrite).is_empty());
    }
}
