//! Where a file's data lies in the file: data offsets count data only, file offsets count holes too.

use super::calls::FileExt;
use longhaul_proto::session::manifest::Kind;
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::ops::Range;

/// Turns data offsets of one file into file offsets.
#[derive(Clone, Debug, Default)]
pub(super) struct DataMap {
    /// Data offset at which each extent begins, and its place in the file; `None` where all is data.
    extents: Option<Vec<(u64, Range<u64>)>>,
}

impl DataMap {
    pub(super) fn new(kind: &Kind) -> DataMap {
        let Kind::File { extents: Some(extents), .. } = kind else { return DataMap { extents: None } };
        let mut at = 0;
        let place = |extent: &Range<u64>| {
            let start = at;
            at += extent.end - extent.start;
            (start, extent.clone())
        };
        DataMap { extents: Some(extents.iter().map(place).collect()) }
    }

    /// The places in the file of a range of data, in order: file offset and length.
    pub(super) fn places(&self, data: Range<u64>) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut at = data.start;
        std::iter::from_fn(move || {
            if at >= data.end {
                return None;
            }
            let Some(extents) = &self.extents else {
                let place = (at, data.end - at);
                at = data.end;
                return Some(place);
            };
            let (start, extent) =
                &extents[extents.partition_point(|(start, _)| *start <= at).checked_sub(1)?];
            let file_offset = extent.start + (at - start);
            let len = extent.end.checked_sub(file_offset).filter(|len| *len > 0)?.min(data.end - at);
            at += len;
            Some((file_offset, len))
        })
    }

    /// Fill `buf` with data from `offset` on. A file that ends too early is an error of kind `UnexpectedEof`.
    pub(super) fn read(&self, file: &File, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let mut rest = buf;
        for (at, len) in self.places(offset..offset + rest.len() as u64) {
            let (piece, after) = rest.split_at_mut(len as usize);
            file.read_exact_at(piece, at)?;
            rest = after;
        }
        Ok(())
    }

    /// Write data from `offset` on.
    pub(super) fn write(&self, file: &File, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        for (at, len) in self.places(offset..offset + rest.len() as u64) {
            let (piece, after) = rest.split_at(len as usize);
            file.write_all_at(piece, at)?;
            rest = after;
        }
        Ok(())
    }
}

/// Whether a file of `len` bytes can hold this data.
pub(super) fn is_within(map: &DataMap, data: &Range<u64>, len: u64) -> bool {
    map.places(data.end - 1..data.end).all(|(at, _)| at < len)
}

/// The data extents of a file of `size` bytes, or `None` where it has no holes worth a mention (or the file system
/// does not tell).
pub(super) fn data_extents(file: &File, size: u64) -> Option<Vec<Range<u64>>> {
    let mut extents: Vec<Range<u64>> = Vec::new();
    let mut at = 0;
    while at < size {
        let start = match seek(file, SeekFrom::Data(at)) {
            Ok(start) if start < size => start,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(_) => return None,
        };
        let end = seek(file, SeekFrom::Hole(start)).ok()?.min(size);
        if end <= start {
            return None;
        }
        match extents.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => extents.push(start..end),
        }
        at = end;
    }
    let mut gap = 64 << 10;
    while extents.len() > EXTENTS_MAX {
        extents = close_gaps(extents, gap);
        gap *= 4;
    }
    let whole = extents.len() == 1 && extents[0] == (0..size);
    (!whole).then_some(extents)
}

/// Count holes shorter than `gap` as data.
fn close_gaps(extents: Vec<Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    let mut closed: Vec<Range<u64>> = Vec::new();
    for extent in extents {
        match closed.last_mut() {
            Some(last) if extent.start - last.end < gap => last.end = extent.end,
            _ => closed.push(extent),
        }
    }
    closed
}

/// More extents than this make a manifest that costs more than the short holes save.
const EXTENTS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_offsets_find_their_place() {
        let kind = Kind::File { size: 100, extents: Some(vec![10..20, 30..35, 90..100]), version: None };
        let map = DataMap::new(&kind);
        assert_eq!(map.places(0..25).collect::<Vec<_>>(), [(10, 10), (30, 5), (90, 10)]);
        assert_eq!(map.places(5..12).collect::<Vec<_>>(), [(15, 5), (30, 2)]);
        assert_eq!(map.places(15..16).collect::<Vec<_>>(), [(90, 1)]);
        assert_eq!(map.places(20..40).collect::<Vec<_>>(), [(95, 5)]);
        let dense = DataMap::new(&Kind::File { size: 100, extents: None, version: None });
        assert_eq!(dense.places(7..9).collect::<Vec<_>>(), [(7, 2)]);
        assert_eq!(dense.places(7..7).count(), 0);
    }

    #[test]
    fn holes_are_found_and_short_ones_closed() {
        let file = tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap();
        file.set_len(4 << 20).unwrap();
        assert_eq!(data_extents(&file, 4 << 20), Some(vec![]));
        file.write_all_at(&[1; 4096], 1 << 20).unwrap();
        let extents = data_extents(&file, 4 << 20).unwrap();
        assert_eq!(extents.len(), 1);
        assert!(extents[0].start <= 1 << 20 && extents[0].end >= (1 << 20) + 4096);
        assert_eq!(close_gaps(vec![0..1, 2..3, 10..11], 5), [0..3, 10..11]);
    }
}
