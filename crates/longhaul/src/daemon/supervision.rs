//! Applies a server's limits to one session, and tells the server's records of its files.

use super::admission::Account;
use super::records::{Event, FileNote, Records, Way, Who};
use super::tally::Tally;
use super::throttle::Share;
use crate::api::{Observer, Phase, Progress};
use longhaul_proto::session::manifest::{EntryIndex, Group, Kind, Layout, Manifest};
use longhaul_proto::session::message::{FileFailure, GroupHash, Report};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::units::Rate;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whose session it is, and where events of it are noted.
#[derive(Clone)]
pub(crate) struct SessionOwner {
    session: u64,
    pub account: Arc<Account>,
    pub from: IpAddr,
    pub way: Way,
    pub records: Arc<dyn Records>,
}

impl SessionOwner {
    pub fn new(account: Arc<Account>, from: IpAddr, way: Way, records: Arc<dyn Records>) -> SessionOwner {
        static SESSIONS: AtomicU64 = AtomicU64::new(1);
        SessionOwner { session: SESSIONS.fetch_add(1, Ordering::Relaxed), account, from, way, records }
    }

    pub fn who(&self) -> Who<'_> {
        Who { session: self.session, user: &self.account.user.name, from: self.from, way: self.way }
    }
}

/// Goes along with a session.
pub(crate) struct Supervision {
    owner: SessionOwner,
    share: Option<Share>,
    /// The parts of the copy that are at work, the oldest first, and the number of each one's first entry.
    parts: VecDeque<(EntryIndex, Tally)>,
    /// What stands before the paths of what is copied.
    prefix: Vec<u8>,
    /// The copy's only file is called what the prefix says.
    renamed: bool,
    /// Nothing is told of the entries of parts: they are none that are copied.
    is_silent: bool,
}

impl Supervision {
    /// `prefix` stands before the paths of what is told of files.
    pub fn new(owner: SessionOwner, share: Option<Share>, prefix: Vec<u8>, is_silent: bool) -> Supervision {
        Supervision { owner, share, parts: VecDeque::new(), prefix, renamed: false, is_silent }
    }

    /// How fast the session may go, of which `used` is the rate of late.
    pub fn rate(&self, used: Option<Rate>) -> Option<Rate> {
        self.share.as_ref().and_then(|share| share.rate(used))
    }

    /// Another part begins, whose entries are numbered from `first`. `renamed`: the copy's only file gets the name that the
    /// client gave.
    pub fn begin(
        &mut self,
        first: EntryIndex,
        manifest: impl FnOnce() -> Arc<Manifest>,
        layout: &Arc<Layout>,
        renamed: bool,
    ) {
        self.renamed = renamed;
        if !self.is_silent && self.owner.records.wants_files() {
            self.parts.push_back((first, Tally::new(manifest(), layout.clone())));
        }
    }

    /// Groups were hashed at the sender.
    pub fn hashes(&mut self, hashes: &[GroupHash]) {
        for hash in hashes {
            if let Some((part, entry)) = self.at(hash.group.entry) {
                let group = Group { entry, ..hash.group };
                self.parts[part].1.note(&[GroupHash { group, ..*hash }]);
            }
        }
    }

    /// A file or link is in place.
    pub fn landed(&mut self, entry: EntryIndex) {
        if let Some((part, entry)) = self.at(entry) {
            self.tell(part, entry, None);
        }
    }

    /// A file could not be stored.
    pub fn failed(&mut self, failure: &FileFailure) {
        let find =
            |(part, (_, tally)): (usize, &(EntryIndex, Tally))| Some((part, tally.find(&failure.path)?));
        if let Some((part, entry)) = self.parts.iter().enumerate().find_map(find) {
            self.tell(part, entry, Some(&failure.reason));
        }
    }

    /// A stream has come to its end, of so many bytes: its hash, or why it broke off.
    pub fn piped(&mut self, bytes: u64, outcome: Result<Option<[u8; 32]>, &Reason>) {
        let (path, hash, failure) = (&self.prefix[..], outcome.ok().flatten(), outcome.err());
        let file = FileNote { path, bytes, hash, failure };
        self.owner.records.note(&Event::File { who: self.owner.who(), file });
    }

    /// All of the oldest part has been told.
    pub fn end_part(&mut self) {
        self.parts.pop_front();
    }

    /// The oldest part has been sent. `report` is the receiver's.
    pub fn sent(&mut self, report: &Report) {
        self.tell_sent(Some(report));
        self.end_part();
    }

    /// The session is over. If parts are left it broke off: the files that had begun failed.
    pub fn end(&mut self) {
        while !self.parts.is_empty() {
            self.tell_sent(None);
            self.end_part();
        }
    }

    fn tell_sent(&mut self, report: Option<&Report>) {
        let Some((_, tally)) = self.parts.front() else { return };
        let failed: HashMap<&[u8], &Reason> = report
            .iter()
            .flat_map(|report| &report.failed.first)
            .map(|failure| (failure.path.as_slice(), &failure.reason))
            .collect();
        let broken = Reason::new(Cause::PeerLeft, "the copy broke off");
        let manifest = tally.manifest().clone();
        for (entry, what) in (0..).zip(&manifest.entries) {
            let failure = failed.get(what.path.as_slice()).copied();
            let begun = self.parts.front().is_some_and(|(_, tally)| tally.has_begun(entry));
            if matches!(what.kind, Kind::File { .. }) && (begun || failure.is_some()) {
                self.tell(0, entry, failure.or_else(|| report.is_none().then_some(&broken)));
            }
        }
    }

    /// Which part an entry of the copy is in, and its number there.
    fn at(&self, entry: EntryIndex) -> Option<(usize, EntryIndex)> {
        let part = self.parts.iter().rposition(|(first, _)| *first <= entry)?;
        Some((part, entry - self.parts[part].0))
    }

    fn tell(&mut self, part: usize, entry: EntryIndex, failure: Option<&Reason>) {
        let tally = &mut self.parts[part].1;
        let manifest = tally.manifest().clone();
        let Some(what) = manifest.entries.get(entry as usize) else { return };
        let Kind::File { size, .. } = what.kind else { return };
        let hash = match failure {
            None => tally.take(entry),
            Some(_) => {
                tally.fail(entry);
                None
            }
        };
        let between: &[u8] = if self.prefix.is_empty() || self.prefix.ends_with(b"/") { b"" } else { b"/" };
        let path = match self.renamed {
            true => self.prefix.clone(),
            false => [&self.prefix[..], between, &what.path].concat(),
        };
        let file = FileNote { path: &path, bytes: size, hash, failure };
        self.owner.records.note(&Event::File { who: self.owner.who(), file });
    }
}

/// Tells the records how far a session is, and when it is dropped that it has ended: also where its thread panics.
pub(crate) struct Meter {
    owner: SessionOwner,
    moved: u64,
    rate: Rate,
    ok: bool,
}

impl Meter {
    /// The session begins.
    pub fn begin(owner: SessionOwner) -> Meter {
        owner.records.note(&Event::Began(owner.who()));
        Meter { owner, moved: 0, rate: Rate::default(), ok: false }
    }

    /// It has ended.
    pub fn end(mut self, ok: bool) {
        self.ok = ok;
    }

    fn tell(&mut self, bytes: u64, rate: Rate) {
        let before = std::mem::replace(&mut self.rate, rate);
        if bytes > 0 || before != rate {
            self.owner.records.note(&Event::Moved { who: self.owner.who(), bytes, before, rate });
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.tell(0, Rate::default());
        self.owner.records.note(&Event::Ended { who: self.owner.who(), ok: self.ok });
    }
}

impl Observer for Meter {
    fn progress(&mut self, progress: &Progress) {
        if progress.phase < Phase::Moving {
            return;
        }
        let was_there = progress.skipped_bytes + progress.resumed_bytes;
        let moved = progress.bytes_done.saturating_sub(was_there).max(self.moved);
        let bytes = moved - std::mem::replace(&mut self.moved, moved);
        self.tell(bytes, progress.goodput);
        self.owner.records.note(&Event::Progress { who: self.owner.who(), progress });
    }

    fn wants_breakdown(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Token;
    use crate::daemon::admission::Admission;
    use crate::daemon::policy::{Access, Policy};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Ends(Mutex<Vec<bool>>);

    impl Records for Ends {
        fn note(&self, event: &Event<'_>) {
            if let Event::Ended { ok, .. } = event {
                self.0.lock().unwrap().push(*ok);
            }
        }
    }

    #[test]
    fn a_session_ends_once_however_it_ends() {
        let token = Token::from("long enough a secret");
        let admission = Admission::new(Policy::one_folder("/", token, Access::ReadOnly)).unwrap();
        let account = admission.rules().find(None).1.unwrap();
        let ends = Arc::new(Ends::default());
        let begin = || {
            let owner = SessionOwner::new(account.clone(), [127, 0, 0, 1].into(), Way::Out, ends.clone());
            Meter::begin(owner)
        };
        begin().end(true);
        begin().end(false);
        drop(begin());
        let died = catch_unwind(AssertUnwindSafe(|| {
            let _meter = begin();
            panic!("a fault in the middle of a session");
        }));
        assert!(died.is_err());
        assert_eq!(*ends.0.lock().unwrap(), [true, false, false, false]);
    }
}
