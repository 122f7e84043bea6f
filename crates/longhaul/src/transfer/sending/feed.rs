//! What a transfer takes an object's bytes from.

use crate::error::Error;
use crate::files::Scan;
use crate::listing::ListingError;
use longhaul_proto::endpoint::Source;
use longhaul_proto::object::Shape;
use longhaul_proto::session::manifest::{EntryIndex, Layout, Ranges};
use longhaul_proto::session::message::{GroupHash, Report};
use longhaul_proto::session::reason::Reason;
use std::ops::Range;
use std::sync::Arc;

/// A source, and what it has to say of the bytes. What is more than one part grows.
pub trait Feed: Source {
    /// Hashes of what has been read, appended to `out`.
    fn poll_hashes(&mut self, _out: &mut Vec<GroupHash>) {}

    /// An entry that cannot be read to its end, and why.
    fn poll_failures(&mut self) -> Option<(EntryIndex, Reason)> {
        None
    }

    /// Whether nobody knows how long the object will be.
    fn is_open_ended(&self) -> bool {
        false
    }

    /// Whether nothing can be sent because nothing has come that could be.
    fn awaits_source(&self) -> bool {
        false
    }

    /// Whether little is ready to be sent because more is not read in time.
    fn is_behind(&mut self) -> bool {
        false
    }

    /// How the object, of which the first part has so many bytes, is cut into packets of this length.
    fn cut(&mut self, object_len: u64, packet_len: u32) -> Shape {
        Shape { object_len, packet_len }
    }

    /// The same while it is on its way, cut as `before` until now: how it is cut then, and which bytes of it nobody wants. `None`:
    /// not now, but as soon as the receiver has said what it needs of all that was listed.
    fn recut(&mut self, before: Shape, packet_len: u32) -> Option<(Shape, Ranges)> {
        Some((Shape { packet_len, ..before }, Ranges::new()))
    }

    /// The listing of a further part, as soon as the other side may have it.
    fn poll_listing(&mut self) -> Option<Result<PartListing, ListingError>> {
        None
    }

    /// The receiver has compared the next part that was listed: of its bytes it has, or does not want, `have`, and claims to
    /// have `claimed`.
    fn start(&mut self, _have: &Ranges, _claimed: &Ranges) -> Result<PartStart, Error> {
        Err(Error::Protocol("compares what was not listed"))
    }

    /// The receiver has done all it can about the oldest part.
    fn finish(&mut self, report: Report) -> Result<PartEnd, Error> {
        Ok(PartEnd::Last(report))
    }
}

/// The listing of a part, to be told to the receiver.
pub struct PartListing {
    /// Where in the object its data begins.
    pub base: u64,
    /// The compressed listing.
    pub bytes: Vec<u8>,
    /// What the user should know of it.
    pub warnings: Vec<String>,
}

/// A part that can be sent.
pub struct PartStart {
    /// Its first entry, among all of the copy.
    pub first: EntryIndex,
    /// What it holds.
    pub scan: Arc<Scan>,
    /// Where its files lie in it.
    pub layout: Arc<Layout>,
    /// Object bytes that the receiver has or does not want.
    pub have: Ranges,
    /// Object bytes that it claims to have.
    pub claimed: Ranges,
    /// How far the object goes now, to a packet's end if it is to grow.
    pub object_len: u64,
}

/// What the end of a part means.
pub enum PartEnd {
    /// It was the last: what there is to report of all.
    Last(Report),
    /// These object bytes are done with.
    Done(Range<u64>),
}
