//! What is said of files: by the other side, and by what an earlier run left on the disk.

use super::Script;
use longhaul::files::Exclude;
use longhaul_proto::session::attributes::{
    ACLS, Attributes, EntryAttributes, Preserve, Told, Xattr, acl_ids,
};
use longhaul_proto::session::manifest::{Entry, Kind, Layout, Manifest, Named, Node};

// The crate keeps these to itself: here they are taken in as source, and what no target calls is dead.
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/files/journal.rs"]
mod journal;
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/listing.rs"]
mod listing;
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/files/names.rs"]
mod names;
#[allow(dead_code)]
#[path = "../../../crates/longhaul/src/files/recover.rs"]
mod recover;

use journal::{Header, Ours, Record, Source, group_range, seal};
use recover::recover;

/// A manifest that is accepted names nothing outside the destination, and its layout is sound.
pub fn manifest(bytes: &[u8]) {
    let [kind, rest @ ..] = bytes else { return };
    // The names that a client asks for come the same way.
    let _ = listing::decode_names(rest, &mut listing::Room::of(listing::PART_ROOM));
    let manifest = if kind % 3 == 0 {
        let Ok((manifest, _)) = listing::decode(rest, &mut listing::Room::of(listing::PART_ROOM)) else {
            return;
        };
        manifest
    } else {
        // Past the compression, where mutations seldom get.
        let Ok((mut manifest, more)) = postcard::take_from_bytes::<Manifest>(rest) else { return };
        if kind % 3 == 1 {
            let Ok((told, users, groups, entries)) = postcard::from_bytes(more) else { return };
            manifest.attributes = Attributes { told, users, groups, entries };
        }
        if manifest.validate().is_err() {
            return;
        }
        let encoded = listing::encode(&manifest, &[]).expect("a manifest can be written");
        assert_eq!(
            listing::decode(&encoded, &mut listing::Room::of(listing::PART_ROOM))
                .ok()
                .map(|(manifest, _)| manifest)
                .as_ref(),
            Some(&manifest)
        );
        manifest
    };
    for entry in &manifest.entries {
        if let Kind::Link { to, .. } = &entry.kind {
            assert!(
                to.split(|b| *b == b'/')
                    .all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0))
            );
        }
        let mut parts = entry.path.split(|b| *b == b'/');
        let top = entry.path.is_empty() && entry.kind == Kind::Dir;
        assert!(top || parts.all(|part| !matches!(part, b"" | b"." | b"..") && !part.contains(&0)));
    }
    for found in &manifest.attributes.entries {
        assert!(found.memory_len() < 2 << 20 && found.are_sane());
        for xattr in found.xattrs.iter().filter(|xattr| ACLS.contains(&xattr.name.as_slice())) {
            let ids = acl_ids(&xattr.value).expect("it was looked at");
            assert!(ids.iter().all(|(place, _)| place + 4 <= xattr.value.len()));
        }
    }
    check_layout(&manifest);
}

fn check_layout(manifest: &Manifest) {
    let layout = Layout::new(manifest);
    let total: u64 = manifest.entries.iter().map(|entry| entry.kind.data_len()).sum();
    assert_eq!(layout.object_len(), total);
    if total > OBJECT_MAX {
        return;
    }
    let mut at = 0;
    for group in layout.groups_in(0..total).take(GROUPS_LOOKED_AT) {
        let range = layout.group_range(group);
        assert!(range.start == at && range.end > at && layout.group_at(range.end - 1) == group);
        at = range.end;
    }
}

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    let entry = |path: &str, kind| Entry { path: path.into(), kind, mode: 0o644, mtime: (1_700_000_000, 5) };
    let file = |size, extents| Kind::File { size, extents, version: None };
    let entries = vec![
        entry("", Kind::Dir),
        entry("a", Kind::Dir),
        entry("a/big", file(5 << 20, None)),
        entry("a/holes", file(1 << 30, Some(vec![0..4096, 1 << 20..3 << 20]))),
        entry("a/link", Kind::Symlink { target: b"../x".to_vec() }),
        entry("b", Kind::File { size: 77, extents: None, version: Some([1; 16]) }),
    ];
    let plain = Manifest::of(entries);
    let kept = with_attributes();
    let to_bytes =
        |manifest: &Manifest| postcard::to_allocvec(manifest).expect("plain data always serialises");
    let Attributes { told, users, groups, entries } = &kept.attributes;
    let behind =
        postcard::to_allocvec(&(told, users, groups, entries)).expect("plain data always serialises");
    let pack = |manifest: &Manifest| listing::encode(manifest, &[]).expect("a manifest can be written");
    vec![
        [&[0][..], &pack(&plain)].concat(),
        [&[2][..], &to_bytes(&plain)].concat(),
        [&[0][..], &pack(&kept)].concat(),
        [&[1][..], &to_bytes(&kept), &behind].concat(),
    ]
}

/// A folder, a file with another name and a device, with owners, attributes and ACLs.
pub(super) fn with_attributes() -> Manifest {
    let entry = |path: &str, kind| Entry { path: path.into(), kind, mode: 0o6755, mtime: (1_700_000_000, 5) };
    let entries = vec![
        entry("a", Kind::Dir),
        entry("a/file", Kind::File { size: 9, extents: None, version: None }),
        entry("a/again", Kind::Link { to: b"a/file".to_vec(), of: Named::File(9) }),
        entry("null", Kind::Node { node: Node::Character, device: (1, 3) }),
        entry("pipe", Kind::Node { node: Node::Fifo, device: (0, 0) }),
    ];
    let acl = [
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 4, 0, 232, 3, 0, 0, 32, 0, 0, 0, 255, 255, 255, 255,
    ];
    let xattr = |name: &[u8], value: &[u8]| Xattr { name: name.to_vec(), value: value.to_vec() };
    let xattrs = vec![xattr(ACLS[0], &acl), xattr(b"trusted.x", b""), xattr(b"user.note", b"some value")];
    let rich = EntryAttributes { uid: 1000, gid: 100, xattrs };
    let attributes = Attributes {
        told: Told { preserve: Preserve::ARCHIVE, all_names: true },
        users: vec![(1000, b"alice".to_vec())],
        groups: vec![(100, b"users".to_vec())],
        entries: entries.iter().map(|_| rich.clone()).collect(),
    };
    Manifest { attributes, ..Manifest::of(entries) }
}

/// What a journal yields lies within the file, and its sound part alone yields the same.
pub fn journal(bytes: &[u8]) {
    let wanted = Source::new(&journalled(DATA_LEN));
    let [kind, rest @ ..] = bytes else { return };
    let bytes = if kind % 2 == 0 { rest.to_vec() } else { written(rest) };
    let Some(found) = recover(&wanted, &OURS, &bytes[..]) else { return };
    assert!(found.journal_len <= bytes.len() as u64);
    assert!(found.ranges.iter().all(|range| range.end <= DATA_LEN));
    for (index, _) in found.groups.iter() {
        let range = group_range(index, DATA_LEN).expect("a group of this file");
        assert!(!found.ranges.overlaps(&range));
    }
    let sound = &bytes[..found.journal_len as usize];
    let again = recover(&wanted, &OURS, sound).expect("what is sound is a journal");
    assert_eq!(
        (again.journal_len, again.ranges, again.groups),
        (found.journal_len, found.ranges, found.groups)
    );
}

/// A journal whose records are all well made and say what a script says.
fn written(script: &[u8]) -> Vec<u8> {
    let header = Header::new([1; 8], OURS.owner);
    let mut script = Script { bytes: script };
    let mut journal = header.bytes().to_vec();
    while let (Some(kind), Some(a), Some(b)) = (script.u8(), script.u64(), script.u64()) {
        let record = match kind % 6 {
            0 => Record::Range(a..b),
            1 => Record::Group { index: a as u32, hash: [b as u8; 32] },
            2 => Record::Lost { index: a as u32 },
            3 => {
                let len = (a as usize).min(journal.len());
                let seal = seal(blake3::Hasher::new_keyed(&OURS.key).update(&journal[..len]));
                Record::Synced { journal_len: a, seal }
            }
            4 => Record::Source(Source::new(&journalled(a))),
            _ => {
                let seal = seal(blake3::Hasher::new_keyed(&OURS.key).update(&journal));
                Record::Kept { boot: [b as u8; 16], seal }
            }
        };
        record.write(&header, journal.len() as u64, &mut journal);
    }
    journal
}

fn journalled(size: u64) -> Entry {
    let kind = Kind::File { size, extents: None, version: Some([7; 16]) };
    Entry { path: b"f".to_vec(), kind, mode: 0o644, mtime: (1, 2) }
}

pub fn journal_seeds() -> Vec<Vec<u8>> {
    let mut script = vec![1];
    let steps = [
        (4, DATA_LEN, 0),
        (0, 0, 5000),
        (1, 1, 9),
        (3, 150, 0),
        (0, 2 << 20, 3 << 20),
        (2, 1, 0),
        (4, 3 << 20, 0),
        (1, 2, 1),
    ];
    for (kind, a, b) in steps {
        script.push(kind);
        script.extend(u64::to_be_bytes(a));
        script.extend(u64::to_be_bytes(b));
    }
    let journal = written(&script[1..]);
    vec![[&[0][..], &journal].concat(), script]
}

/// Patterns from a client are understood or refused; none makes matching fail.
pub fn exclude(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let patterns: Vec<&str> = text.lines().collect();
    if let Ok(exclude) = Exclude::new(&patterns) {
        for path in [&b"a/b/c.o"[..], b"cache", b"\xff/[x]", b""] {
            let _ = exclude.leaves_out(path, true);
            let _ = exclude.leaves_out(path, false);
        }
    }
}

pub fn exclude_seeds() -> Vec<Vec<u8>> {
    ["*.o\n!keep.o", "/a/**/b?.[ch]", "cache/\n{x,y{1,2}}*", "\\*[!a-z]"].map(|text| text.into()).to_vec()
}

/// A name that we give fits a file system, is known for ours, and leads from a part file to its journal.
pub fn part_name(bytes: &[u8]) {
    let _ = (names::is_ours(bytes), names::is_journal(bytes), names::journal_of_part(bytes));
    if bytes.is_empty() || bytes.len() > 255 || bytes.iter().any(|byte| matches!(byte, 0 | b'/')) {
        return;
    }
    let (part, journal) = (names::part_name(bytes, [0xa5; 8]), names::journal_name(bytes));
    assert!(part.len() <= 255 && journal.len() <= 255);
    assert!(names::is_ours(&part) && !names::is_journal(&part) && names::is_journal(&journal));
    assert_eq!(names::journal_of_part(&part), Some(journal));
    assert!(std::str::from_utf8(bytes).is_err() || std::str::from_utf8(&part).is_ok());
}

pub fn part_name_seeds() -> Vec<Vec<u8>> {
    let long = "\u{e4}".repeat(127);
    let texts =
        ["a.dat", ".a.dat.0123456789abcdef.longhaul-part", ".a.longhaul-journal", &long, ".longhaul-part"];
    texts.map(|text| text.into()).to_vec()
}

/// What the target's journals are sealed with.
const OURS: Ours = Ours { key: [3; 32], boot: [4; 16], owner: [5; 16] };
/// Four groups and a bit.
const DATA_LEN: u64 = (4 << 20) + 77;
/// Larger copies are refused before they are laid out.
const OBJECT_MAX: u64 = 1 << 50;
const GROUPS_LOOKED_AT: usize = 1000;
