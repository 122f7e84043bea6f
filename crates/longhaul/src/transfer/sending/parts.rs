//! The files that are sent, a few parts of them at a time: one whose last files are being put in place, one that is on its
//! way, and one that the receiver compares with what it has.

use super::feed::{Feed, PartEnd, PartListing, PartStart};
use super::pieces::Pieces;
use crate::error::Error;
use crate::files::{Listed, Lister, Reader, Scan, Stretch, Wake};
use crate::listing::ListingError;
use crate::net::budget::{Allowance, Budget, Purpose};
use longhaul_proto::endpoint::{NotReady, Source};
use longhaul_proto::object::Shape;
use longhaul_proto::session::manifest::{EntryIndex, Layout, Manifest, PARTS_MAX, Ranges, shifted};
use longhaul_proto::session::message::{GroupHash, Report};
use longhaul_proto::session::reason::Reason;
use std::collections::VecDeque;
use std::sync::Arc;

/// What was listed of a copy so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Data bytes.
    pub bytes: u64,
    /// Regular files.
    pub files: u64,
    /// Entries of all kinds.
    pub entries: u64,
}

impl Totals {
    /// A further part was listed.
    pub fn add(&mut self, manifest: &Manifest, layout: &Layout) {
        self.bytes += layout.object_len();
        self.files += manifest.regular_files();
        self.entries += manifest.entries.len() as u64 - u64::from(manifest.seams.continued);
    }

    /// All parts are of one file.
    pub fn of_one_file(&mut self) {
        (self.files, self.entries) = (1, 1);
    }
}

/// The object as the parts of a copy, one after the other.
pub struct Parts {
    /// Lists what follows; `None`: all is listed.
    lister: Option<Lister>,
    /// Parts of which the receiver may still want something, the oldest first.
    live: VecDeque<Part>,
    /// Entries of all parts so far: the number of the next part's first.
    entries: u64,
    /// Where the next part's data begins, once packets have a length.
    end: Option<u64>,
    cut: Cut,
    totals: Totals,
    /// It comes of a pipe.
    is_pipe: bool,
    report: Option<Report>,
    wake: Wake,
    /// Of all sessions.
    budget: Arc<Budget>,
}

/// How the object is cut into packets.
#[derive(Clone, Copy)]
struct Cut {
    packet_len: u32,
    /// Bytes in the longest packet of earlier cuts. The receiver may not know yet of the latest.
    longest_before: u32,
}

struct Part {
    scan: Arc<Scan>,
    layout: Arc<Layout>,
    base: u64,
    first: EntryIndex,
    /// What comes of a pipe, until the receiver has said that it takes it.
    stretch: Option<Stretch>,
    /// Once the receiver has said what it needs.
    data: Option<Data>,
    /// The memory that the reader's sets of this take.
    said: Pieces,
}

/// Where a part's bytes are.
enum Data {
    /// In files.
    Files(Reader),
    /// In memory, as they came of a pipe.
    Pipe(Stretch),
}

impl Parts {
    /// Of which the first part was listed to the receiver; `lister` has the others.
    pub fn new(first: Listed, lister: Lister, wake: Wake, budget: Arc<Budget>) -> Parts {
        lister.tell(&wake);
        let mut parts = Parts {
            lister: Some(lister),
            live: VecDeque::new(),
            entries: 0,
            end: None,
            cut: Cut { packet_len: 1, longest_before: 0 },
            totals: Totals::default(),
            is_pipe: first.stretch.is_some(),
            report: None,
            wake,
            budget,
        };
        parts.push(first.scan, first.stretch, 0, 0);
        parts
    }

    /// What was listed so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn push(&mut self, scan: Arc<Scan>, stretch: Option<Stretch>, base: u64, first: EntryIndex) {
        let layout = Arc::new(Layout::new(&scan.manifest));
        self.totals.add(&scan.manifest, &layout);
        if stretch.is_some() {
            self.totals.of_one_file();
        }
        self.entries = u64::from(first) + scan.manifest.entries.len() as u64;
        if !scan.manifest.seams.has_more {
            self.lister = None;
        }
        self.live.push_back(Part {
            scan,
            layout,
            base,
            first,
            stretch,
            data: None,
            said: Pieces::of(&self.budget),
        });
    }

    fn is_growing(&self) -> bool {
        self.lister.is_some()
    }
}

impl Part {
    fn len(&self) -> u64 {
        self.layout.object_len()
    }

    /// Where it ends, with what its last packet lacks if another part follows.
    fn end(&self, cut: Cut) -> u64 {
        let end = self.base + self.len();
        if self.scan.manifest.seams.has_more { cut.end(end) } else { end }
    }
}

impl Cut {
    /// Where a packet begins that holds nothing of what ends there, nor did in an earlier cut.
    fn end(self, end: u64) -> u64 {
        Shape::growing(end + u64::from(self.longest_before), self.packet_len).object_len
    }
}

impl Feed for Parts {
    fn poll_hashes(&mut self, out: &mut Vec<GroupHash>) {
        for part in &mut self.live {
            let from = out.len();
            match &mut part.data {
                Some(Data::Files(reader)) => reader.poll_hashes(out),
                Some(Data::Pipe(stretch)) => stretch.poll_hashes(out),
                None => continue,
            }
            out[from..].iter_mut().for_each(|hash| hash.group.entry += part.first);
        }
    }

    fn poll_failures(&mut self) -> Option<(EntryIndex, Reason)> {
        self.live.iter_mut().find_map(|part| {
            let Some(Data::Files(reader)) = &mut part.data else { return None };
            let (entry, reason) = reader.poll_failures()?;
            Some((part.first + entry, reason))
        })
    }

    fn is_open_ended(&self) -> bool {
        self.is_pipe
    }

    fn awaits_source(&self) -> bool {
        self.is_pipe && self.is_growing() && self.live.len() < PARTS_MAX
    }

    fn is_behind(&mut self) -> bool {
        self.live.iter_mut().any(|part| match &mut part.data {
            Some(Data::Files(reader)) => reader.is_behind(),
            _ => false,
        })
    }

    fn cut(&mut self, object_len: u64, packet_len: u32) -> Shape {
        self.cut.packet_len = packet_len;
        let object_len = self.live.front().map_or(object_len, |part| part.end(self.cut));
        self.end = Some(object_len);
        Shape { object_len, packet_len }
    }

    fn recut(&mut self, before: Shape, packet_len: u32) -> Option<(Shape, Ranges)> {
        // What was listed begins where a packet did in the cut before.
        if self.live.iter().any(|part| part.data.is_none()) {
            return None;
        }
        self.cut = Cut { packet_len, longest_before: self.cut.longest_before.max(self.cut.packet_len) };
        let known = self.live.back().map_or(before.object_len, |part| part.base + part.len());
        let object_len = if self.is_growing() { self.cut.end(known) } else { known };
        self.end = Some(object_len);
        let mut unwanted = Ranges::new();
        if known < object_len {
            unwanted.insert(known..object_len);
        }
        Some((Shape { object_len, packet_len }, unwanted))
    }

    fn poll_listing(&mut self) -> Option<Result<PartListing, ListingError>> {
        let base = self.end.filter(|_| self.live.len() < PARTS_MAX)?;
        let listed = match self.lister.as_ref()?.poll()? {
            Ok(listed) => listed,
            Err(error) => return Some(Err(error)),
        };
        let Listed { scan, listing, stretch } = listed;
        let all = self.entries + scan.manifest.entries.len() as u64;
        let (Ok(first), Ok(_)) = (EntryIndex::try_from(self.entries), EntryIndex::try_from(all)) else {
            return Some(Err(ListingError::TooLong));
        };
        let warnings = scan.warnings();
        self.push(scan, stretch, base, first);
        self.end = self.live.back().map(|part| part.end(self.cut));
        Some(Ok(PartListing { base, bytes: listing, warnings }))
    }

    fn start(&mut self, have: &Ranges, claimed: &Ranges) -> Result<PartStart, Error> {
        let (wake, cut) = (self.wake.clone(), self.cut);
        let part = self.live.iter_mut().find(|part| part.data.is_none());
        let part = part.ok_or(Error::Protocol("compares what was not listed"))?;
        part.said.hold(have.len() + claimed.len())?;
        part.data = Some(match part.stretch.take() {
            Some(stretch) => Data::Pipe(stretch),
            None => {
                let (scan, layout) = (part.scan.clone(), part.layout.clone());
                let buffers = Allowance::of(&self.budget, Purpose::Speed);
                Data::Files(Reader::beside_others(scan, layout, (have, claimed), wake, buffers)?)
            }
        });
        let (end, object_len) = (part.base + part.len(), part.end(cut));
        let mut have = shifted(have, part.base);
        if end < object_len {
            have.insert(end..object_len);
        }
        Ok(PartStart {
            first: part.first,
            scan: part.scan.clone(),
            layout: part.layout.clone(),
            have,
            claimed: shifted(claimed, part.base),
            object_len,
        })
    }

    fn finish(&mut self, report: Report) -> Result<PartEnd, Error> {
        let oldest = self.live.pop_front().filter(|part| part.data.is_some());
        let part = oldest.ok_or(Error::Protocol("is finished with what was not begun"))?;
        match &mut self.report {
            Some(all) => all.add(report),
            none => *none = Some(report),
        }
        if self.live.is_empty() && !self.is_growing() {
            return Ok(PartEnd::Last(self.report.take().unwrap_or_default()));
        }
        let end = self.live.front().map_or_else(|| part.end(self.cut), |next| next.base);
        Ok(PartEnd::Done(part.base..end))
    }
}

impl Source for Parts {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let end = offset + buf.len() as u64;
        let mut at = offset;
        while at < end {
            let rest = &mut buf[(at - offset) as usize..];
            let index = self.live.iter().rposition(|part| part.base <= at);
            let next = self.live.get(index.map_or(0, |index| index + 1));
            let len = next.map_or(end, |part| part.base.min(end)) - at;
            let piece = &mut rest[..len as usize];
            match index {
                Some(index) => self.live[index].read_at(at, piece)?,
                // Of a part that is done with.
                None => piece.fill(0),
            }
            at += len;
        }
        Ok(())
    }
}

impl Part {
    /// Nobody wants what lies between this part and the next.
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let at = offset - self.base;
        let len = self.len().saturating_sub(at).min(buf.len() as u64);
        let (data, rest) = buf.split_at_mut(len as usize);
        rest.fill(0);
        match &mut self.data {
            Some(Data::Files(reader)) if !data.is_empty() => reader.read_at(at, data),
            Some(Data::Pipe(stretch)) if !data.is_empty() => stretch.read_at(at, data),
            _ => {
                data.fill(0);
                Ok(())
            }
        }
    }
}
