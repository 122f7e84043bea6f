//! What a receiver does with the bytes of a part: it stores the files that they are of, or passes on what is a stretch of a stream.

use super::sink::{Backlog, FileSink, SinkEvent};
use longhaul_proto::endpoint::Sink;
use longhaul_proto::session::manifest::EntryIndex;
use longhaul_proto::session::message::{GroupHash, Report};
use longhaul_proto::session::reason::Reason;

/// Where the bytes of a part go.
pub trait PartSink: Sink + Send {
    /// The sender's hash of a group.
    fn expect(&mut self, hash: GroupHash);

    /// The next thing to know.
    fn poll_event(&mut self) -> Option<SinkEvent>;

    /// Whether all that could be done is done.
    fn is_finished(&self) -> bool;

    /// What has been done so far.
    fn report(&self) -> Report;

    /// How far the writers are behind.
    fn backlog(&self) -> Backlog;

    /// All parts before this one have come to their end, well or not: now this one may.
    fn go_ahead(&self, _all_well: bool) {}

    /// The sender cannot read a file to its end.
    fn source_failed(&mut self, _entry: EntryIndex, _reason: &Reason) {}

    /// All packets have been delivered.
    fn object_complete(&mut self) {}

    /// Whether so much waits to be done that nothing more should be said of it for now.
    fn is_behind(&self) -> bool {
        false
    }

    /// Why nothing more can be done about the whole copy, if that is so.
    fn broken(&self) -> Option<Reason> {
        None
    }

    /// Stop.
    fn close(&mut self) {}
}

impl PartSink for FileSink {
    fn expect(&mut self, hash: GroupHash) {
        FileSink::expect(self, hash);
    }

    fn poll_event(&mut self) -> Option<SinkEvent> {
        FileSink::poll_event(self)
    }

    fn is_finished(&self) -> bool {
        self.finished()
    }

    fn report(&self) -> Report {
        FileSink::report(self)
    }

    fn backlog(&self) -> Backlog {
        FileSink::backlog(self)
    }

    fn go_ahead(&self, all_well: bool) {
        FileSink::go_ahead(self, all_well);
    }

    fn source_failed(&mut self, entry: EntryIndex, reason: &Reason) {
        FileSink::source_failed(self, entry, reason);
    }

    fn object_complete(&mut self) {
        FileSink::object_complete(self);
    }

    fn is_behind(&self) -> bool {
        FileSink::is_behind(self)
    }

    fn close(&mut self) {
        FileSink::close(self);
    }
}
