//! What a server tells of what it does, for metrics and for an audit.

use crate::api::Progress;
use longhaul_proto::forward::Target;
use longhaul_proto::session::reason::Reason;
use longhaul_proto::units::Rate;
use std::net::IpAddr;

/// Where a server tells what it does. Called by many threads; none of them should have to wait.
pub trait Records: Send + Sync {
    /// Something happened.
    fn note(&self, event: &Event<'_>);

    /// Whether files are to be told one by one. Their hashes take 33 bytes for each MiB of the files under way.
    fn wants_files(&self) -> bool {
        false
    }
}

/// Records that nobody keeps.
impl Records for () {
    fn note(&self, _event: &Event<'_>) {}
}

/// What happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// Somebody connected who has shown no key yet.
    Connected,
    /// Somebody connected and had no key that is known here, or is no longhaul.
    TurnedAway,
    /// A user's request was refused.
    Refused(Who<'a>),
    /// A session began.
    Began(Who<'a>),
    /// Data has moved.
    Moved {
        /// Whose.
        who: Who<'a>,
        /// Bytes since the last such event of the session.
        bytes: u64,
        /// The session's rate was this before.
        before: Rate,
        /// It is this now.
        rate: Rate,
    },
    /// How far a session is, ten times a second while it moves data.
    Progress {
        /// Whose.
        who: Who<'a>,
        /// How far.
        progress: &'a Progress,
    },
    /// A file has come to its end. Those that were in place already are not told.
    File {
        /// Whose.
        who: Who<'a>,
        /// What of it.
        file: FileNote<'a>,
    },
    /// A forwarded connection has come to its end, or came to nothing.
    Forwarded(Forward<'a>),
    /// A session ended.
    Ended {
        /// Whose.
        who: Who<'a>,
        /// It came to its end, whatever became of single files.
        ok: bool,
    },
}

/// Whose session it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Who<'a> {
    /// Tells the sessions of this process apart.
    pub session: u64,
    /// The user's name.
    pub user: &'a str,
    /// Where the client is.
    pub from: IpAddr,
    /// Which way the data goes.
    pub way: Way,
}

/// What became of a forwarded connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward<'a> {
    /// The user's name.
    pub user: &'a str,
    /// Where the client is.
    pub from: IpAddr,
    /// Where it leads.
    pub target: &'a Target,
    /// Bytes that went there.
    pub bytes_there: u64,
    /// Bytes that came from there.
    pub bytes_back: u64,
    /// Why it was refused, came to nothing or broke; `None`: both sides ended it.
    pub failure: Option<&'a Reason>,
}

/// Which way data goes, as the server sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the server.
    Out,
    /// To the server.
    In,
}

impl Way {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Way::Out => "out",
            Way::In => "in",
        }
    }
}

/// What became of a file.
#[derive(Clone, Debug)]
pub struct FileNote<'a> {
    /// As the client would write it.
    pub path: &'a [u8],
    /// Its size.
    pub bytes: u64,
    /// BLAKE3 of its data, if all of it was hashed in this session.
    pub hash: Option<[u8; 32]>,
    /// Why it failed; `None`: it was copied.
    pub failure: Option<&'a Reason>,
}
