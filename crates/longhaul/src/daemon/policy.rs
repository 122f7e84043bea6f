//! Who may do what at a server, and how fast, as it is written down.

use super::token::Secret;
use crate::api::{ControllerKind, Dscp, Rate, SciTag, Token};
use crate::net::control::TokenId;
use crate::net::noise::Identity;
use crate::schedule::Schedule;
use longhaul_proto::forward::Target;
use longhaul_proto::suggest::UnknownName;
use std::path::PathBuf;
use std::str::FromStr;

/// Everything that a server goes by.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// What the server proves to be itself with: users with tokens of their own need it.
    pub identity: Option<Identity>,
    /// Who may come in.
    pub users: Vec<User>,
    /// For all users together.
    pub limits: Limits,
    /// Files are on the disk before the other side is told that they are there.
    pub fsync: bool,
}

/// One who may come in.
#[derive(Clone, Debug)]
pub struct User {
    /// In the log, in records and in the configuration.
    pub name: String,
    /// What shows that it is this one.
    pub key: UserKey,
    /// What is open to this user.
    pub grants: Vec<Grant>,
    /// For all copies of this user together.
    pub limits: Limits,
    /// What may decide how fast the server sends.
    pub controls: Vec<ControllerKind>,
    /// Where the server connects to for this user, who forwards connections.
    pub forwards: Vec<Target>,
    /// Whose traffic this user's copies are, where they say nothing else.
    pub scitag: Option<SciTag>,
}

/// What shows who somebody is.
#[derive(Clone, Debug)]
pub enum UserKey {
    /// A secret that is all there is to know. One user at most has such a key.
    Shared(Token),
    /// What a [`UserToken`](super::token::UserToken) holds.
    Own {
        /// Says whose it is.
        id: TokenId,
        /// Shows that it is.
        secret: Secret,
    },
}

/// A folder that is open to a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// What a client calls it: the first component of its paths. Empty: all of the server that the user sees.
    pub name: String,
    /// Where it is.
    pub folder: PathBuf,
    /// What may be done there.
    pub access: Access,
}

/// What may be done in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Copied from.
    ReadOnly,
    /// New files may be put there. What is there can neither be read nor listed nor replaced.
    WriteOnly,
    /// Copied from and into.
    #[default]
    ReadWrite,
}

impl Access {
    /// All of them.
    pub const ALL: [Access; 3] = [Access::ReadOnly, Access::WriteOnly, Access::ReadWrite];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Access::ReadOnly => "read-only",
            Access::WriteOnly => "write-only",
            Access::ReadWrite => "read-write",
        }
    }
}

impl FromStr for Access {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Access, UnknownName> {
        let known = Access::ALL.into_iter().find(|access| access.name() == name);
        known.ok_or_else(|| UnknownName::new("access", name, Access::ALL.iter().map(|access| access.name())))
    }
}

/// How much.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// How fast, in each direction.
    pub rates: Schedule,
    /// Copies at a time, if they are bounded.
    pub sessions: Option<usize>,
}

impl Policy {
    /// What is open, to whom.
    pub fn grants(&self) -> impl Iterator<Item = (&User, &Grant)> {
        self.users.iter().flat_map(|user| user.grants.iter().map(move |grant| (user, grant)))
    }

    /// One folder, and one secret that opens it.
    pub fn one_folder(folder: impl Into<PathBuf>, token: Token, access: Access) -> Policy {
        Policy {
            users: vec![User {
                name: "anyone".into(),
                key: UserKey::Shared(token),
                grants: vec![Grant { name: String::new(), folder: folder.into(), access }],
                limits: Limits::default(),
                controls: usual_controls(),
                forwards: vec![],
                scitag: None,
            }],
            ..Policy::default()
        }
    }

    /// The same, connecting to these for everybody who forwards connections.
    pub fn with_forwards(mut self, forwards: &[Target]) -> Policy {
        self.users.iter_mut().for_each(|user| user.forwards = forwards.to_vec());
        self
    }

    /// The same, never faster than this.
    pub fn with_rate(mut self, rate: Option<Rate>) -> Policy {
        self.limits.rates = Schedule::always(rate);
        self
    }
}

/// What clients may have a server send with unless it is said: all but what heeds nothing. Of those that keep a rate the
/// rate must be named.
pub fn usual_controls() -> Vec<ControllerKind> {
    ControllerKind::ALL.iter().copied().filter(|kind| *kind != ControllerKind::Greedy).collect()
}

/// Whether a server marks its packets so where a client asks for it: as those of others or as less (DF, LE, CS1), and with the
/// assured classes, which are for data. What routers let go before all else, such as calls and their own messages, is not for
/// clients to choose.
pub(crate) fn grants_mark(dscp: Dscp) -> bool {
    let value = u8::from(dscp);
    let is_assured = matches!((value >> 3, value & 7), (1..=4, 2 | 4 | 6));
    is_assured || matches!(value, 0 | 1 | 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_let_go_before_all_others() {
        let granted: Vec<String> =
            (0..64).map(Dscp::from).filter(|dscp| grants_mark(*dscp)).map(|dscp| dscp.to_string()).collect();
        assert_eq!(granted[..3], ["df", "le", "cs1"]);
        assert_eq!(granted.len(), 3 + 12);
        assert!(granted[3..].iter().all(|name| name.starts_with("af")), "{granted:?}");
    }
}
