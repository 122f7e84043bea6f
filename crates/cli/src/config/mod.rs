//! The configuration of `longhaul serve --config`: what stands in the file, and what it comes to.

mod edit;
mod identity;
mod written;

pub use edit::{Draft, Listed};
pub use identity::load_or_make;

use self::written::{Span, Written, WrittenUser};
use longhaul::daemon::policy::{Grant, Limits, Policy, User, UserKey, usual_controls};
use longhaul::daemon::token::from_hex;
use longhaul::{CollectorName, ControllerKind};
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use toml_edit::Document;

/// Why a configuration is of no use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file cannot be read or written.
    #[error("{}: {}", path.display(), crate::values::describe(source))]
    File {
        /// Which.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// What stands in it makes no sense.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1 on.
        line: usize,
        /// In a few words.
        what: String,
    },
    /// A file with a key in it is not the user's alone.
    #[error("{path} can be read or written by other users of this host; run: chmod 600 {path}", path = .0.display())]
    NotPrivate(PathBuf),
    /// A key file holds something else.
    #[error("{}: not a key that longhaul wrote; remove it to have another made, for which users need new tokens", .0.display())]
    NoKey(PathBuf),
    /// A user is to be added who is there.
    #[error("there is a user {0} already; revoke that one first")]
    UserExists(String),
    /// A user is to be removed who is not there.
    #[error("there is no user {0}; `longhaul user list` names all")]
    NoUser(String),
    /// A user is to have a folder that is not there.
    #[error("there is no folder {name:?} in the configuration; it has: {known}")]
    NoFolder {
        /// As it was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// A name that cannot be one.
    #[error("{0:?} is no name for a user: letters, digits, . - and _, 64 at most")]
    UserName(String),
    /// The system gives no random bytes.
    #[error("no randomness for a key: {0}")]
    Random(io::Error),
}

/// What a file says.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: Option<SocketAddr>,
    /// Who may do what. Its identity is not set yet.
    pub policy: Policy,
    /// Where the server's key is.
    pub key_file: PathBuf,
    /// Where a line is written for each file.
    pub audit: Option<PathBuf>,
    /// Where metrics are told.
    pub metrics: Option<SocketAddr>,
    /// Mebibytes for all copies together.
    pub memory_mib: Option<u64>,
    /// Whether the server is to give up what it does not need.
    pub sandbox: bool,
    /// Whether the server connects to hosts that its users name, for copies between it and those.
    pub third_party: bool,
    /// Whether it keeps owners, devices and all else that takes privileges, for users who ask for it.
    pub may_set_all: bool,
    /// The addresses at which clients find further paths to it.
    pub announce: Vec<IpAddr>,
    /// What is told of flows.
    pub firefly: Option<CollectorName>,
    /// How object stores are reached: variables of the environment that longhaul-store looks at.
    pub store: Vec<(&'static str, String)>,
}

impl Config {
    /// Read a file. Relative paths in it begin at its folder.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::File { path: path.into(), source })?;
        Config::parse(&text, path)
    }

    /// Read what stands in a file.
    pub fn parse(text: &str, path: &Path) -> Result<Config, ConfigError> {
        let at = |span: Span, what: String| ConfigError::Line {
            path: path.into(),
            line: line_of(text, span),
            what,
        };
        let document = Document::parse(text.to_owned()).map_err(|e| at(e.span(), first_line(e.message())))?;
        let written: Written = toml_edit::de::from_document(document.clone())
            .map_err(|e| at(e.span(), first_line(e.message())))?;
        let reader = Reader { document: &document, folder: path.parent().unwrap_or(Path::new(".")) };
        let key_file = match &written.key_file {
            Some(file) => reader.folder.join(file),
            None => path.with_extension("key"),
        };
        let policy = reader.policy(&written).map_err(|(span, what)| at(span, what))?;
        Ok(Config {
            listen: written.listen,
            policy,
            key_file,
            audit: written.audit.as_ref().map(|file| reader.folder.join(file)),
            metrics: written.metrics,
            memory_mib: written.memory_mib.map(|memory| memory.0),
            sandbox: written.sandbox.unwrap_or(true),
            third_party: written.allow_third_party.unwrap_or(false),
            may_set_all: written.allow_super.unwrap_or(false),
            announce: written.announce.clone(),
            firefly: written.firefly.as_ref().map(|collector| collector.0.clone()),
            store: written.s3.variables(),
        })
    }
}

/// What is wrong, and where.
type Wrong = (Span, String);

struct Reader<'a> {
    document: &'a Document<String>,
    folder: &'a Path,
}

impl Reader<'_> {
    fn policy(&self, written: &Written) -> Result<Policy, Wrong> {
        if written.folders.is_empty() {
            return Err((
                None,
                "it names no folders; write for example: folders = { data = \"/srv/data\" }".into(),
            ));
        }
        for name in written.folders.keys() {
            let wrong = |what: &str| (self.span(&["folders", name]), what.to_owned());
            if name == ROOT && written.folders.len() > 1 {
                return Err(wrong(
                    "\"/\" stands for the whole server; it cannot be beside folders with names",
                ));
            }
            let odd = |c: char| c == '/' || c.is_control();
            if name != ROOT && (name.is_empty() || name.contains(odd) || name == "." || name == "..") {
                return Err(wrong("a folder's name is one component of a path, or \"/\" for the only one"));
            }
        }
        let users = written.users.iter().map(|(name, user)| self.user(written, name, user));
        Ok(Policy {
            identity: None,
            users: users.collect::<Result<_, _>>()?,
            limits: Limits { rates: written.rates(), sessions: written.sessions },
            fsync: written.fsync.unwrap_or(false),
        })
    }

    fn user(&self, written: &Written, name: &str, user: &WrittenUser) -> Result<User, Wrong> {
        let path = |key| ["users", name, key];
        if !is_user_name(name) {
            return Err((self.span(&["users", name]), ConfigError::UserName(name.into()).to_string()));
        }
        let hex = |key, what: &str| (self.span(&path(key)), format!("{what}; `longhaul user add` writes it"));
        let id = from_hex(&user.id).ok_or_else(|| hex("id", "an id has 16 hexadecimal digits"))?;
        let secret = from_hex(&user.key).ok_or_else(|| hex("key", "a key has 32 hexadecimal digits"))?;
        let mut grants = vec![];
        for (folder, access) in &user.folders {
            let Some(place) = written.folders.get(folder) else {
                let known: Vec<&str> = written.folders.keys().map(String::as_str).collect();
                let error = ConfigError::NoFolder { name: folder.clone(), known: known.join(", ") };
                return Err((self.span(&["users", name, "folders", folder]), error.to_string()));
            };
            let shown = if folder == ROOT { String::new() } else { folder.clone() };
            // What lies in an object store is no path.
            let folder = if is_url(place) { place.clone() } else { self.folder.join(place) };
            grants.push(Grant { name: shown, folder, access: access.0 });
        }
        Ok(User {
            name: name.into(),
            key: UserKey::Own { id, secret },
            grants,
            limits: Limits { rates: user.rates(), sessions: user.sessions },
            controls: self.controls(written, user),
            forwards: user
                .allow_forward
                .as_ref()
                .unwrap_or(&written.allow_forward)
                .iter()
                .map(|to| to.0.clone())
                .collect(),
            scitag: user.scitag.as_ref().or(written.scitag.as_ref()).map(|tag| tag.0),
        })
    }

    fn controls(&self, written: &Written, user: &WrittenUser) -> Vec<ControllerKind> {
        let named = user.controls.as_ref().or(written.controls.as_ref());
        named.map_or_else(usual_controls, |named| named.iter().map(|control| control.0).collect())
    }

    /// Where something stands, or else what it would stand in.
    fn span(&self, path: &[&str]) -> Span {
        let mut item = self.document.as_item();
        let mut span = None;
        for key in path {
            let Some(inner) = item.get(key) else { break };
            item = inner;
            span = item.span().or(span);
        }
        span
    }
}

/// The line, from 1 on, in which something begins.
fn line_of(text: &str, span: Span) -> usize {
    let start = span.map_or(0, |span| span.start).min(text.len());
    text.as_bytes()[..start].iter().filter(|b| **b == b'\n').count() + 1
}

/// What is wrong, without the list of all that would be right.
fn first_line(message: &str) -> String {
    message.lines().collect::<Vec<_>>().join(", ")
}

/// In the file, in the log, in paths of metrics.
pub fn is_user_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=64).contains(&name.len()) && name.chars().all(fits)
}

/// Whether a folder lies in an object store.
pub fn is_url(folder: &Path) -> bool {
    folder.as_os_str().as_encoded_bytes().starts_with(b"s3://")
}

/// The folder that is all of the server.
pub const ROOT: &str = "/";

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Rate;
    use longhaul::daemon::policy::Access;
    use longhaul::schedule::Moment;

    const FULL: &str = r#"
# All that can be said.
listen = "127.0.0.1:7701"
sessions = 100
memory-mib = 512
rate = "10gbit"
rates = [{ from = "08:00", to = "18:00", days = "mon-fri", rate = "200M" }]
controls = ["adaptive", "ledbat"]
fsync = true
audit = "audit.jsonl"
metrics = "127.0.0.1:9700"
sandbox = false
allow-third-party = true
allow-super = true
allow-forward = ["localhost:22", "db.example.org:5432"]
key-file = "/etc/longhaul/other.key"
scitag = "2.16"
firefly = "collector.example.org"

[folders]
data = "/srv/data"
in = "incoming"

[users.alice]
id = "0102030405060708"
key = "000102030405060708090a0b0c0d0e0f"
folders = { data = "read-only", in = "write-only" }
rate = "1gbit"
rates = [{ from = "22:00", to = "06:00", rate = "2gbit" }]
sessions = 4
controls = ["fixed"]
allow-forward = []
scitag = "3.1"

[users.bob]
id = "1102030405060708"
key = "100102030405060708090a0b0c0d0e0f"
folders = { data = "read-write" }
"#;

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("/etc/longhaul/serve.toml"))
    }

    #[test]
    fn all_that_can_be_said_is_read() {
        let config = parse(FULL).unwrap();
        assert_eq!(config.listen, Some("127.0.0.1:7701".parse().unwrap()));
        assert_eq!(config.metrics, Some("127.0.0.1:9700".parse().unwrap()));
        assert_eq!(config.audit, Some("/etc/longhaul/audit.jsonl".into()));
        assert_eq!(config.key_file, Path::new("/etc/longhaul/other.key"));
        assert!(
            config.third_party
                && config.may_set_all
                && !config.sandbox
                && config.policy.fsync
                && config.memory_mib == Some(512)
        );
        let limits = &config.policy.limits;
        assert_eq!((limits.sessions, limits.rates.always), (Some(100), Some(Rate(10_000_000_000))));
        let noon = Some(Moment { day: 0, minute: 12 * 60 });
        assert_eq!(limits.rates.rate_at(noon), Some(Rate(200_000_000)));
        let [alice, bob] = config.policy.users.as_slice() else { panic!() };
        assert_eq!((alice.name.as_str(), alice.limits.sessions), ("alice", Some(4)));
        assert!(matches!(&alice.key, UserKey::Own { id, secret } if id[0] == 1 && secret[15] == 15));
        let granted: Vec<_> =
            alice.grants.iter().map(|g| (g.name.as_str(), g.folder.to_str().unwrap(), g.access)).collect();
        let wanted =
            [("data", "/srv/data", Access::ReadOnly), ("in", "/etc/longhaul/incoming", Access::WriteOnly)];
        assert_eq!(granted, wanted);
        assert_eq!(alice.controls, [ControllerKind::Fixed]);
        assert_eq!(bob.controls, [ControllerKind::Adaptive, ControllerKind::Ledbat]);
        assert_eq!(bob.limits.sessions, None);
        let forwards =
            ["localhost:22", "db.example.org:5432"].map(|to| to.parse::<longhaul::Target>().unwrap());
        assert_eq!((alice.forwards.len(), &bob.forwards[..]), (0, &forwards[..]));
        let tags = [alice, bob].map(|user| user.scitag.unwrap().to_string());
        assert_eq!(tags, ["3.1", "2.16"]);
        assert_eq!(config.firefly.unwrap().to_string(), "collector.example.org:10514");
    }

    #[test]
    fn little_need_be_said() {
        let config = parse("folders = { \"/\" = \"/srv\" }").unwrap();
        assert!(
            config.sandbox
                && !config.third_party
                && !config.may_set_all
                && !config.policy.fsync
                && config.policy.users.is_empty()
        );
        assert_eq!(config.key_file, Path::new("/etc/longhaul/serve.key"));
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_line() {
        for (was, is, line, says) in [
            ("sessions = 100", "session = 100", 4, "unknown field `session`"),
            ("sessions = 100", "sessions = -1", 4, "-1"),
            ("memory-mib = 512", "memory-mib = 5", 5, "at least 64"),
            ("rate = \"10gbit\"", "rate = \"10furlongs\"", 6, "furlongs"),
            ("\"08:00\"", "\"8 o'clock\"", 7, "HH:MM"),
            ("\"18:00\"", "\"08:00\"", 7, "no time"),
            ("mon-fri", "mon-frei", 7, "frei"),
            ("\"ledbat\"", "\"ledbatt\"", 8, "ledbat"),
            ("\"127.0.0.1:9700\"", "\"here\"", 11, "ADDR:PORT"),
            ("\"localhost:22\"", "\"localhost\"", 15, "HOST:PORT"),
            ("scitag = \"2.16\"", "scitag = \"2.64\"", 17, "2.16"),
            ("example.org\"\n\n", "example.org:0\"\n\n", 18, "port"),
            ("in = \"incoming\"", "\"a/b\" = \"incoming\"", 22, "one component"),
            ("in = \"incoming\"", "\"/\" = \"incoming\"", 22, "beside folders"),
            ("0102030405060708\"\n", "01020304\"\n", 25, "16 hexadecimal"),
            ("data = \"read-only\"", "date = \"read-only\"", 27, "no folder \"date\""),
            ("data = \"read-only\"", "data = \"readonly\"", 27, "read-only"),
            ("folders = { data = \"read-write\" }", "", 35, "folders"),
            ("[users.bob]", "[users.\"b ob\"]", 35, "no name"),
            ("sandbox = false", "sandbox = maybe", 12, ""),
        ] {
            assert!(FULL.contains(was), "{was}");
            let error = parse(&FULL.replacen(was, is, 1)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("/etc/longhaul/serve.toml:{line}: ")), "{is}: {error}");
            assert!(error.contains(says) && !error.contains('\n'), "{is}: {error}");
        }
        assert!(parse("").unwrap_err().to_string().contains("no folders"));
    }
}
