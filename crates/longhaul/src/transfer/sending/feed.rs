//! What a transfer takes an object's bytes from.

use crate::files::Reader;
use longhaul_proto::endpoint::Source;
use longhaul_proto::session::manifest::EntryIndex;
use longhaul_proto::session::message::GroupHash;
use longhaul_proto::session::reason::Reason;

/// A source, and what it has to say of the bytes.
pub trait Feed: Source {
    /// Hashes of what has been read, appended to `out`.
    fn poll_hashes(&mut self, _out: &mut Vec<GroupHash>) {}

    /// An entry that cannot be read to its end, and why.
    fn poll_failures(&mut self) -> Option<(EntryIndex, Reason)> {
        None
    }
}

impl Feed for Reader {
    fn poll_hashes(&mut self, out: &mut Vec<GroupHash>) {
        Reader::poll_hashes(self, out);
    }

    fn poll_failures(&mut self) -> Option<(EntryIndex, Reason)> {
        Reader::poll_failures(self)
    }
}
