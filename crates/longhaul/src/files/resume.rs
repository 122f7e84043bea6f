//! Takes over what an interrupted run left of a large file.

use super::extents::DataMap;
use super::hash::group_hash;
use super::journal::{Header, group_range, recover};
use super::names::{journal_name, part_name};
use super::scan::open_to_read;
use longhaul_proto::session::manifest::{Entry, EntryIndex, GROUP_LEN, Ranges};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file of which a part is there.
#[derive(Debug)]
pub(super) struct Resumed {
    pub entry: EntryIndex,
    /// Length of the sound part of its journal.
    pub journal_len: u64,
    /// Its verified groups.
    pub groups: Vec<(u32, [u8; 32])>,
    /// Groups that the journal calls verified and that are not there as it says.
    pub lost: Vec<u32>,
    /// Data bytes that need not come again.
    pub kept: Ranges,
    /// How many they are.
    pub kept_bytes: u64,
}

/// Look for a part file and a journal that speaks of it. With `distrust`, all that is taken over as verified is read
/// and hashed again. Nothing is found when `stop` is set meanwhile.
pub(super) fn resume(
    folder: &OwnedFd,
    name: &[u8],
    index: EntryIndex,
    entry: &Entry,
    distrust: bool,
    stop: &AtomicBool,
) -> Option<Resumed> {
    let part = open_to_read(folder, &part_name(name)).ok()?;
    let mut journal = open_to_read(folder, &journal_name(name)).ok()?;
    if !part.metadata().ok()?.is_file() || !journal.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    journal.read_to_end(&mut bytes).ok()?;
    let data_len = entry.kind.data_len();
    let mut found = recover(&Header::new(entry), data_len, &bytes)?;
    let map = DataMap::new(&entry.kind);
    let group_count = data_len.div_ceil(GROUP_LEN) as u32;
    let present_len = part.metadata().ok()?.len();
    let mut kept = Ranges::new();
    let (mut groups, mut lost) = (Vec::new(), Vec::new());
    let mut buf = Vec::new();
    for (group, verified) in found.groups {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let Some(range) = group_range(group, data_len) else { continue };
        let sound = if verified.synced && !distrust {
            is_within(&map, &range, present_len)
        } else {
            hash_again(&part, &map, &range, group, group_count, &mut buf) == Some(verified.hash)
        };
        if sound {
            groups.push((group, verified.hash));
            kept.insert(range);
        } else {
            lost.push(group);
        }
    }
    // A group that is there in full but was never verified: the sender gives hashes of what it sends, so a last bit
    // of it has to come again.
    let mut group = 0;
    while let Some(range) = group_range(group, data_len) {
        if found.ranges.gaps(&range).next().is_none() {
            found.ranges.remove(range.end.saturating_sub(PROOF_LEN).max(range.start)..range.end);
        }
        group += 1;
    }
    for range in found.ranges.iter().filter(|range| is_within(&map, range, present_len)) {
        kept.insert(range.clone());
    }
    let kept_bytes = kept.iter().map(|range| range.end - range.start).sum();
    Some(Resumed { entry: index, journal_len: found.journal_len, groups, lost, kept, kept_bytes })
}

/// Whether a part file of `len` bytes can hold this data.
fn is_within(map: &DataMap, data: &Range<u64>, len: u64) -> bool {
    map.places(data.end - 1..data.end).all(|(at, _)| at < len)
}

fn hash_again(
    part: &File,
    map: &DataMap,
    range: &Range<u64>,
    index: u32,
    count: u32,
    buf: &mut Vec<u8>,
) -> Option<[u8; 32]> {
    buf.resize((range.end - range.start) as usize, 0);
    map.read(part, range.start, buf).ok()?;
    Some(group_hash(index, count, buf))
}

/// How much of a complete but unverified group is sent again.
const PROOF_LEN: u64 = 1024;
