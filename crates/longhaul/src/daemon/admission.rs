//! Who may come in: the policy in force, and how another takes its place while copies run.

use super::policy::{Access, Grant, Policy, User, UserKey};
use super::token::psk;
use crate::error::PolicyError;
use crate::files::Root;
use crate::net::control::{ServerKey, TokenId, psk_of_token};
use crate::net::noise::Psk;
use crate::net::random::random;
use longhaul_proto::session::message::Operation;
use longhaul_proto::session::reason::{Cause, Reason};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// What a server goes by at present. Clones are of the same.
#[derive(Clone)]
pub struct Admission {
    current: Arc<RwLock<Arc<Rules>>>,
}

impl Admission {
    /// Go by this policy. Opens its folders.
    pub fn new(policy: Policy) -> Result<Admission, PolicyError> {
        Ok(Admission { current: Arc::new(RwLock::new(Arc::new(Rules::new(policy)?))) })
    }

    /// Go by another from now on. Copies under way go on as they began; only the rate of all together is the new one.
    /// After an error nothing has changed.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyError> {
        let rules = Arc::new(Rules::new(policy)?);
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }

    /// The rules in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Admission(…)")
    }
}

/// A policy with its folders open.
pub(crate) struct Rules {
    policy: Policy,
    with_token: HashMap<TokenId, Arc<Account>>,
    with_secret: Option<Arc<Account>>,
    /// Nobody has it: who comes with an unknown id is answered as who comes with a wrong key.
    nobodys: Psk,
}

impl Rules {
    fn new(mut policy: Policy) -> Result<Rules, PolicyError> {
        let nobodys = random().map_err(PolicyError::Random)?;
        let (mut with_token, mut with_secret, mut names) = (HashMap::new(), None, HashSet::new());
        for user in std::mem::take(&mut policy.users) {
            let name = user.name.clone();
            if !names.insert(name.clone()) {
                return Err(PolicyError::TwoUsers { name });
            }
            let account = Arc::new(Account::open(user)?);
            match &account.user.key {
                UserKey::Own { .. } if policy.identity.is_none() => return Err(PolicyError::NoIdentity),
                UserKey::Own { id, .. } => {
                    if with_token.insert(*id, account.clone()).is_some() {
                        return Err(PolicyError::TwoTokens { name });
                    }
                }
                UserKey::Shared(_) => {
                    if with_secret.replace(account.clone()).is_some() {
                        return Err(PolicyError::TwoTokens { name });
                    }
                }
            }
        }
        Ok(Rules { policy, with_token, with_secret, nobodys })
    }

    /// Who has this token, or the shared secret, and what to answer with.
    pub fn find(&self, id: Option<TokenId>) -> (ServerKey, Option<Arc<Account>>) {
        let account = match id {
            Some(id) => self.with_token.get(&id),
            None => self.with_secret.as_ref(),
        };
        let psk = account.map_or(self.nobodys, |account| account.psk);
        (ServerKey { psk, identity: self.policy.identity.clone() }, account.cloned())
    }

    /// Sessions at a time, of all users together.
    pub fn sessions(&self) -> usize {
        self.policy.limits.sessions.unwrap_or(SESSIONS_MAX)
    }

    /// And of this user. Where there are others too, nobody has all places by himself unless it is written down that he may.
    pub fn sessions_of(&self, user: &User) -> usize {
        let users = self.with_token.len() + usize::from(self.with_secret.is_some());
        let share = if users > 1 { self.sessions().div_ceil(2) } else { self.sessions() };
        user.limits.sessions.unwrap_or(share)
    }

    /// The policy, without its users.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// Sessions served at once if nothing is written down.
const SESSIONS_MAX: usize = 256;

/// A user whose folders are open.
pub(crate) struct Account {
    pub user: User,
    pub psk: Psk,
    rooms: Vec<Room>,
}

/// An open folder and what may be done there.
#[derive(Clone)]
pub(crate) struct Room {
    name: String,
    pub root: Root,
    pub access: Access,
}

/// What an operation does with a folder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

impl Account {
    fn open(user: User) -> Result<Account, PolicyError> {
        let psk = match &user.key {
            UserKey::Own { secret, .. } => psk(secret),
            UserKey::Shared(token) if token.secret().len() < SECRET_LEN_MIN => {
                return Err(PolicyError::WeakToken { min: SECRET_LEN_MIN });
            }
            UserKey::Shared(token) => psk_of_token(token.secret()),
        };
        // A handle alone would show nothing of what may not be read.
        let root = |folder: &Path| std::fs::read_dir(folder).and_then(|_| Root::confined(folder));
        let open = |grant: &Grant| match root(&grant.folder) {
            Ok(root) => Ok(Room { name: grant.name.clone(), root, access: grant.access }),
            Err(source) => Err(PolicyError::Folder { folder: grant.folder.clone(), source }),
        };
        let rooms = user.grants.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Account { user, psk, rooms })
    }

    /// For the far side of an ssh: who logged in may do what the system lets him, in one folder or everywhere.
    pub fn of_login(root: Root, access: Access, psk: Psk) -> Account {
        let key = UserKey::Own { id: Default::default(), secret: Default::default() };
        let controls = longhaul_proto::control::ControllerKind::ALL.to_vec();
        let (name, limits) = ("ssh".into(), Default::default());
        let user = User { name, key, grants: vec![], limits, controls, forwards: vec![], scitag: None };
        Account { user, psk, rooms: vec![Room { name: String::new(), root, access }] }
    }

    /// The same with another key, for a single copy.
    pub fn with_key(&self, psk: Psk) -> Account {
        Account { user: self.user.clone(), psk, rooms: self.rooms.clone() }
    }

    /// The folder that this operation writes to or reads from, and its paths below that; else why it is refused. Folders
    /// that are closed to this user are not mentioned.
    pub fn room(&self, operation: &Operation) -> Result<(Option<Room>, Operation), Reason> {
        let one = |path: &[u8], wanted| self.one_room(path, wanted);
        match operation {
            Operation::Probe => Ok((None, Operation::Probe)),
            Operation::Push { dest } => {
                let (room, dest) = one(dest, Use::Write)?;
                Ok((Some(room.clone()), Operation::Push { dest }))
            }
            Operation::PushPipe { dest } => {
                let (room, dest) = one(dest, Use::Write)?;
                Ok((Some(room.clone()), Operation::PushPipe { dest }))
            }
            Operation::PullPipe { source } => {
                let (room, source) = one(source, Use::Read)?;
                Ok((Some(room.clone()), Operation::PullPipe { source }))
            }
            Operation::Planned { dest, step } => {
                let (room, dest) = one(dest, Use::Write)?;
                if room.access == Access::WriteOnly {
                    return Err(refused("a planned copy looks at what is there: it is write-only for you"));
                }
                Ok((Some(room.clone()), Operation::Planned { dest, step: step.clone() }))
            }
            Operation::Pull { sources } => {
                let found = sources.iter().map(|path| one(path, Use::Read)).collect::<Result<Vec<_>, _>>()?;
                let Some((room, _)) = found.first() else { return Err(refused("nothing is asked for")) };
                let room = (*room).clone();
                if found.iter().any(|(other, _)| other.name != room.name) {
                    let line = "all that is copied at once must be in the same folder of the server; copy the others by themselves";
                    return Err(refused(line));
                }
                let sources = found.into_iter().map(|(_, path)| path).collect();
                Ok((Some(room), Operation::Pull { sources }))
            }
        }
    }

    fn one_room(&self, path: &[u8], wanted: Use) -> Result<(&Room, Vec<u8>), Reason> {
        let (room, rest) = match self.rooms.as_slice() {
            [all] if all.name.is_empty() => (all, path.to_vec()),
            rooms => {
                let start = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
                let path = &path[start..];
                let end = path.iter().position(|b| *b == b'/').unwrap_or(path.len());
                let room = rooms.iter().find(|room| room.name.as_bytes() == &path[..end]);
                let rest = path.get(end + 1..).unwrap_or_default();
                (room.ok_or_else(|| self.no_room(wanted))?, rest.to_vec())
            }
        };
        let name = if room.name.is_empty() { "this server" } else { &room.name };
        match (wanted, room.access) {
            (Use::Read, Access::WriteOnly) => {
                Err(refused(format!("{name} only takes: it is write-only for you")))
            }
            (Use::Write, Access::ReadOnly) => {
                Err(refused(format!("{name} only sends: it is read-only for you")))
            }
            _ => Ok((room, rest)),
        }
    }

    fn no_room(&self, wanted: Use) -> Reason {
        let is_open = |room: &&Room| match wanted {
            Use::Read => room.access != Access::WriteOnly,
            Use::Write => room.access != Access::ReadOnly,
        };
        let names: Vec<&str> = self.rooms.iter().filter(is_open).map(|room| room.name.as_str()).collect();
        let way = if wanted == Use::Read { "from" } else { "into" };
        match names.as_slice() {
            [] => refused(format!("you may copy nothing {way} this server")),
            names => {
                let names = names.join(", ");
                refused(format!("a path here begins with a folder's name; you may copy {way}: {names}"))
            }
        }
    }
}

fn refused(line: impl fmt::Display) -> Reason {
    Reason::new(Cause::Refused, line)
}

/// Characters that a secret of one's own must have: it can be guessed at home from one recorded handshake.
const SECRET_LEN_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Token;
    use crate::daemon::policy::usual_controls;
    use crate::net::noise::Identity;

    fn user(name: &str, id: u8, grants: &[(&str, &Path, Access)]) -> User {
        let grant = |(name, folder, access): &(&str, &Path, Access)| Grant {
            name: name.to_string(),
            folder: folder.into(),
            access: *access,
        };
        User {
            name: name.into(),
            key: UserKey::Own { id: [id; 8], secret: [id; 16] },
            grants: grants.iter().map(grant).collect(),
            limits: Default::default(),
            controls: usual_controls(),
            forwards: vec![],
            scitag: None,
        }
    }

    fn policy(users: Vec<User>) -> Policy {
        Policy { identity: Some(Identity::generate().unwrap()), users, ..Policy::default() }
    }

    fn push(path: &str) -> Operation {
        Operation::Push { dest: path.into() }
    }

    fn pull(paths: &[&str]) -> Operation {
        Operation::Pull { sources: paths.iter().map(|path| path.as_bytes().to_vec()).collect() }
    }

    #[test]
    fn where_there_are_others_nobody_has_all_places_unless_that_is_written_down() {
        let sessions_of = |all: Option<usize>, of_users: &[Option<usize>]| {
            let mut users: Vec<_> =
                (1..).zip(of_users).map(|(id, _)| user(&format!("{id}"), id, &[])).collect();
            users.iter_mut().zip(of_users).for_each(|(user, sessions)| user.limits.sessions = *sessions);
            let mut policy = policy(users.clone());
            policy.limits.sessions = all;
            let rules = Rules::new(policy).unwrap();
            users.iter().map(|user| rules.sessions_of(user)).collect::<Vec<_>>()
        };
        assert_eq!(sessions_of(None, &[None]), [256]);
        assert_eq!(sessions_of(None, &[None, Some(200), Some(1)]), [128, 200, 1]);
        assert_eq!(sessions_of(Some(3), &[None, None]), [2, 2]);
    }

    #[test]
    fn paths_begin_with_the_name_of_a_folder_that_is_open_to_the_user() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path();
        let grants =
            [("data", at, Access::ReadOnly), ("in", at, Access::WriteOnly), ("both", at, Access::ReadWrite)];
        let rules = Rules::new(policy(vec![user("alice", 1, &grants)])).unwrap();
        let alice = rules.find(Some([1; 8])).1.unwrap();
        let goes = |operation| alice.room(&operation).map(|(room, rest)| (room.unwrap().name, rest)).ok();
        assert_eq!(goes(pull(&["data/a/", "/data/b"])), Some(("data".into(), pull(&["a/", "b"]))));
        assert_eq!(goes(push("in")), Some(("in".into(), push(""))));
        assert_eq!(goes(push("both/x/y")), Some(("both".into(), push("x/y"))));
        let line = |operation| alice.room(&operation).map(drop).unwrap_err().line;
        assert!(line(push("data/x")).contains("read-only"));
        assert!(line(pull(&["in/x"])).contains("write-only"));
        assert!(line(pull(&["data/x", "both/y"])).contains("same folder"));
        assert!(line(pull(&["other/x"])).ends_with("from: data, both"));
        assert!(line(push("")).ends_with("into: in, both"));
        assert!(line(push("../x")).ends_with("into: in, both"));
    }

    #[test]
    fn the_one_folder_without_a_name_is_the_root() {
        let folder = tempfile::tempdir().unwrap();
        let one = Policy::one_folder(folder.path(), Token::from("long enough a secret"), Access::ReadOnly);
        let rules = Rules::new(one).unwrap();
        let anyone = rules.find(None).1.unwrap();
        assert_eq!(anyone.room(&pull(&["a/b", ""])).map(|(_, rest)| rest), Ok(pull(&["a/b", ""])));
        assert!(anyone.room(&push("a")).is_err());
        assert!(rules.find(Some([0; 8])).1.is_none());
    }

    #[test]
    fn a_policy_that_makes_no_sense_is_refused_and_the_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let all = [("", folder.path(), Access::ReadWrite)];
        let admission = Admission::new(policy(vec![user("alice", 1, &all)])).unwrap();
        let refuse = |policy| admission.replace(policy).unwrap_err().to_string();
        assert!(refuse(policy(vec![user("a", 1, &all), user("b", 1, &all)])).contains("same token"));
        assert!(refuse(policy(vec![user("a", 1, &all), user("a", 2, &all)])).contains("two users"));
        let nowhere = [("", Path::new("/no/such/folder"), Access::ReadWrite)];
        assert!(refuse(policy(vec![user("a", 1, &nowhere)])).contains("/no/such/folder"));
        let short = Policy::one_folder(folder.path(), Token::from("short"), Access::ReadWrite);
        assert!(refuse(short).contains("16"));
        assert!(refuse(Policy { identity: None, ..policy(vec![user("a", 1, &all)]) }).contains("identity"));
        assert!(admission.rules().find(Some([1; 8])).1.is_some());
        admission.replace(policy(vec![user("bob", 2, &all)])).unwrap();
        assert!(admission.rules().find(Some([1; 8])).1.is_none());
    }
}
