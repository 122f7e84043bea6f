//! What a part of a planned copy holds, from what was listed.

use super::cut::Cut;
use super::folder::Run;
use crate::error::PlanError;
use crate::files::{FileError, Pieces, Scan, is_below, piece_of};
use longhaul_proto::session::manifest::{EntryIndex, GROUP_LEN, Kind, Manifest, Seams};
use longhaul_proto::session::message::{Piece, PlanStep, PlanTask};
use std::ops::Range;
use std::path::PathBuf;

/// What of a stretch of the list is in a part.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stretch {
    chunk: u32,
    entries: Range<u32>,
    /// The first entry's data from here on.
    from_byte: u64,
    /// The last entry's data up to here, if not all.
    to_byte: Option<u64>,
}

/// Entries that are copied, and the folders above them.
struct Slice {
    manifest: Manifest,
    /// The first entry of each source, and the folder that its path is relative to.
    origins: Vec<(EntryIndex, PathBuf)>,
    /// The entries that are pieces of files, and the first group of each.
    pieces: Vec<Piece>,
}

impl Run {
    /// What is said of a part to the other side.
    pub(super) fn part_step(&self, part: u32) -> Result<PlanStep, PlanError> {
        let (mut pieces, mut entries) = (Vec::new(), 0);
        for stretch in self.stretches(part)? {
            let len = if stretch.is_cut() {
                let slice = self.slice(&stretch, false)?;
                pieces.extend(
                    slice.pieces.iter().map(|piece| Piece { entry: piece.entry + entries, ..*piece }),
                );
                slice.manifest.entries.len()
            } else {
                self.len_of(&stretch)?
            };
            entries += len as EntryIndex;
        }
        Ok(self.step(PlanTask::Part { number: part, pieces }))
    }

    /// What is said of the last step to the other side.
    pub(super) fn last_step(&self) -> PlanStep {
        self.step(PlanTask::Finish)
    }

    fn step(&self, task: PlanTask) -> PlanStep {
        PlanStep { plan: self.id(), is_single: self.plan.is_single, task }
    }

    /// List a part, with what its step says; `emit` takes it piece by piece, and says whether to go on.
    pub(super) fn list_part(
        &self,
        part: u32,
        step: &PlanStep,
        emit: &mut dyn FnMut(Scan) -> bool,
    ) -> Result<(), PlanError> {
        let stretches = self.stretches(part)?;
        let mut first = 0;
        for (index, stretch) in stretches.iter().enumerate() {
            let has_more = index + 1 < stretches.len();
            let Slice { mut manifest, origins, .. } = self.slice(stretch, has_more)?;
            manifest.seams.continued = if index == 0 { 0 } else { manifest.seams.continued };
            let len = manifest.entries.len();
            let pieces = Pieces::of(step, first, len);
            first += len as u64;
            let scan = Scan::planned((manifest, vec![]), &origins, pieces, self.key());
            if !emit(scan.map_err(|error| self.unreadable(error))?) {
                break;
            }
        }
        Ok(())
    }

    /// List all, as it was listed.
    pub(super) fn list_all(&self, emit: &mut dyn FnMut(Scan) -> bool) -> Result<(), PlanError> {
        for (index, chunk) in self.chunks().iter().enumerate() {
            let origins: Vec<_> = chunk.origins.iter().map(|(at, path)| (*at, path.into())).collect();
            let listed = self.read(index as u32)?;
            let scan = Scan::planned(listed, &origins, Pieces::default(), self.key());
            if !emit(scan.map_err(|error| self.unreadable(error))?) {
                break;
            }
        }
        Ok(())
    }

    fn unreadable(&self, error: FileError) -> PlanError {
        PlanError::Damaged { path: self.folder.clone(), what: error.to_string() }
    }

    /// Which parts hold an entry of the list, by its stretch and its number there.
    pub(super) fn parts_of(&self, chunk: u32, entry: u32) -> Range<u32> {
        let cuts: Vec<Cut> =
            (0..self.plan.parts).filter_map(|part| Some(self.bounds(part).ok()?.0)).collect();
        let at = |cut: &Cut| (cut.chunk, cut.entry, cut.from_byte);
        // The part that holds its beginning, and those that begin inside of it.
        let first = cuts.partition_point(|cut| at(cut) <= (chunk, entry, 0)).max(1) - 1;
        let end = cuts.partition_point(|cut| at(cut) < (chunk, entry + 1, 0));
        first as u32..end.max(first + 1) as u32
    }

    fn stretches(&self, part: u32) -> Result<Vec<Stretch>, PlanError> {
        let (begin, end) = self.bounds(part)?;
        let last = self.chunks().len() as u32 - 1;
        let chunks = begin.chunk..=end.map_or(last, |end| end.chunk);
        let stretch = |chunk: u32| {
            let known = &self.chunks()[chunk as usize];
            let (mut entries, mut from_byte, mut to_byte) = (known.continued..known.entries, 0, None);
            if chunk == begin.chunk {
                (entries.start, from_byte) = (begin.entry, begin.from_byte);
            }
            if let Some(end) = end.filter(|end| end.chunk == chunk) {
                let is_cut = end.from_byte > 0;
                entries.end = end.entry + u32::from(is_cut);
                to_byte = is_cut.then_some(end.from_byte);
            }
            Stretch { chunk, entries, from_byte, to_byte }
        };
        Ok(chunks.map(stretch).filter(|stretch| !stretch.entries.is_empty()).collect())
    }

    /// How many entries its slice has, of a stretch that is not the first of its part.
    fn len_of(&self, stretch: &Stretch) -> Result<usize, PlanError> {
        let chunk = &self.chunks()[stretch.chunk as usize];
        if stretch.entries.start == chunk.continued {
            return Ok((chunk.continued + stretch.entries.end - stretch.entries.start) as usize);
        }
        Ok(self.slice(stretch, false)?.manifest.entries.len())
    }

    fn slice(&self, stretch: &Stretch, has_more: bool) -> Result<Slice, PlanError> {
        let chunk = &self.chunks()[stretch.chunk as usize];
        let (listed, _) = self.read(stretch.chunk)?;
        let (first, last) = (stretch.entries.start as usize, stretch.entries.end as usize - 1);
        let above = match stretch.entries.start == chunk.continued {
            true => (0..first).collect(),
            false => ancestors(&listed, first),
        };
        let shift = above.len();
        let mut entries: Vec<_> = above.iter().map(|index| listed.entries[*index].clone()).collect();
        let attributes = listed.attributes.of(above.into_iter().chain(first..=last));
        let mut pieces = Vec::new();
        for (index, entry) in listed.entries.iter().enumerate().take(last + 1).skip(first) {
            let from = if index == first { stretch.from_byte } else { 0 };
            let to = stretch.to_byte.filter(|_| index == last);
            if from == 0 && to.is_none() {
                entries.push(entry.clone());
                continue;
            }
            let first_group = (from / GROUP_LEN) as u32;
            pieces.push(Piece { entry: entries.len() as EntryIndex, first_group });
            let data_len = entry.kind.data_len();
            let data = from.min(data_len)..to.unwrap_or(data_len).min(data_len);
            entries.push(piece_of(entry, data));
        }
        let origin = |(at, path): &(u32, String)| {
            let at = (*at as usize).saturating_sub(first);
            (if at == 0 { 0 } else { (at + shift) as EntryIndex }, PathBuf::from(path))
        };
        let mut origins: Vec<_> =
            chunk.origins.iter().filter(|(at, _)| *at as usize <= last).map(origin).collect();
        // Of those before the first entry the last one counts.
        let before = origins.iter().take_while(|(at, _)| *at == 0).count();
        origins.drain(..before.max(1) - 1);
        let seams = Seams { continued: chunk.continued, has_more, ..Seams::default() };
        Ok(Slice { manifest: Manifest { entries, seams, attributes }, origins, pieces })
    }
}

impl Stretch {
    fn is_cut(&self) -> bool {
        self.from_byte > 0 || self.to_byte.is_some()
    }
}

/// The folders above an entry, by their numbers.
fn ancestors(listed: &Manifest, entry: usize) -> Vec<usize> {
    let path = &listed.entries[entry].path;
    let is_above = |index: &usize| {
        let folder = &listed.entries[*index];
        matches!(folder.kind, Kind::Dir) && is_below(path, &folder.path)
    };
    (0..entry).filter(is_above).collect()
}
