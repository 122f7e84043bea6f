//! Names of the files that we keep beside a destination while it is on its way.

use super::journal::PartToken;
use longhaul_proto::session::message::PlanId;

/// Where `name` is received: `.NAME.TOKEN.longhaul-part`. No two copies have the same token.
pub(super) fn part_name(name: &[u8], token: PartToken) -> Vec<u8> {
    let ending = [b".", hex(token).as_bytes(), PART].concat();
    beside(name, &ending)
}

/// Where `name` has its data before it gets its name, if it is small and so has no journal: `.NAME.TOKEN.longhaul-new`.
/// Nobody can go on with it, so nothing that looks after part files takes it for one.
pub(super) fn new_name(name: &[u8], token: PartToken) -> Vec<u8> {
    let ending = [b".", hex(token).as_bytes(), NEW].concat();
    beside(name, &ending)
}

fn hex(token: PartToken) -> String {
    format!("{:016x}", u64::from_be_bytes(token))
}

/// Where it is noted what has been received of `name`: `.NAME.longhaul-journal`.
pub(super) fn journal_name(name: &[u8]) -> Vec<u8> {
    beside(name, JOURNAL)
}

/// The journal that goes with a part file.
pub(super) fn journal_of_part(part: &[u8]) -> Option<Vec<u8>> {
    let stem = part.strip_suffix(PART)?;
    let stem = &stem[..stem.len().checked_sub(TOKEN_LEN)?];
    Some([stem, JOURNAL].concat())
}

/// The file that is received under this name: the reverse of [`part_name`]. `None` where the name does not tell, since it was cut.
pub fn file_of_part(part: &[u8]) -> Option<&[u8]> {
    let stem = part.strip_prefix(b".")?.strip_suffix(PART)?;
    if is_whole(part.len()) { stem.get(..stem.len().checked_sub(TOKEN_LEN)?) } else { None }
}

/// The file that a journal is of: the reverse of [`journal_name`], in the same way.
pub(super) fn file_of_journal(journal: &[u8]) -> Option<&[u8]> {
    let stem = journal.strip_prefix(b".")?.strip_suffix(JOURNAL)?;
    // It is cut where the name of a part file is.
    if is_whole(1 + stem.len() + ENDING_MAX) { Some(stem) } else { None }
}

/// Whether a part file of a name so long has all of its file's in it. Whatever was cut is about as long as a name can be: a character
/// may have been left out at its end.
fn is_whole(part_len: usize) -> bool {
    part_len + 3 < NAME_MAX
}

/// Where `name` is received in pieces: `.NAME.PLAN.longhaul-pieces`.
pub(super) fn pieces_name(name: &[u8], plan: PlanId) -> Vec<u8> {
    of_pieces(name, &[b".", hex(plan).as_bytes(), PIECES].concat())
}

/// Where it is noted what has been received of the piece that begins with this group: `.NAME.PLAN.GROUP.longhaul-piece`.
pub(super) fn piece_journal_name(name: &[u8], plan: PlanId, first_group: u32) -> Vec<u8> {
    of_pieces(name, format!(".{}.{first_group:08x}{PIECE}", hex(plan)).as_bytes())
}

/// Whether a name is that of a file in pieces, or of the journal of one.
pub fn is_of_pieces(name: &[u8]) -> bool {
    name.starts_with(b".") && (name.ends_with(PIECES) || name.ends_with(PIECE.as_bytes()))
}

/// Whether a name is that of a journal.
pub(super) fn is_journal(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(JOURNAL)
}

/// Whether a name is that of a small file that is about to get its name.
pub(super) fn is_new(name: &[u8]) -> bool {
    name.starts_with(b".") && name.ends_with(NEW)
}

/// Whether a name is one that we give; such files are never copied.
pub fn is_ours(name: &[u8]) -> bool {
    is_journal(name) || is_new(name) || is_of_pieces(name) || name.starts_with(b".") && name.ends_with(PART)
}

/// Whether a path has such a name in it.
pub(super) fn names_ours(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(is_ours)
}

/// A name too long for the ending is cut and told apart by its hash.
fn beside(name: &[u8], ending: &[u8]) -> Vec<u8> {
    with_ending(name, ending, ENDING_MAX)
}

fn of_pieces(name: &[u8], ending: &[u8]) -> Vec<u8> {
    with_ending(name, ending, PIECES_ENDING_MAX)
}

/// Names whose endings have the same `longest` one are cut alike.
fn with_ending(name: &[u8], ending: &[u8], longest: usize) -> Vec<u8> {
    if 1 + name.len() + longest <= NAME_MAX {
        return [b".", name, ending].concat();
    }
    let hash = blake3::hash(name).to_hex();
    let hash = &hash.as_bytes()[..16];
    let mut keep = NAME_MAX - 2 - hash.len() - longest;
    // Some file systems take nothing but whole UTF-8 characters.
    while std::str::from_utf8(name).is_ok_and(|text| !text.is_char_boundary(keep)) {
        keep -= 1;
    }
    [b".", &name[..keep], b".", hash, ending].concat()
}

const PART: &[u8] = b".longhaul-part";
const NEW: &[u8] = b".longhaul-new";
const JOURNAL: &[u8] = b".longhaul-journal";
const PIECES: &[u8] = b".longhaul-pieces";
const PIECE: &str = ".longhaul-piece";

/// A dot and the token.
const TOKEN_LEN: usize = 17;

/// So that a part file and its journal are cut alike.
const ENDING_MAX: usize = TOKEN_LEN + PART.len();
/// The same for files in pieces: a dot and eight digits for the group.
const PIECES_ENDING_MAX: usize = TOKEN_LEN + 9 + PIECE.len();

/// Longest name that file systems take.
pub(super) const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_and_fit() {
        let part = |name: &[u8]| part_name(name, [0, 0, 0, 0, 0, 0, 1, 0xa0]);
        assert_eq!(part(b"a"), b".a.00000000000001a0.longhaul-part");
        assert_eq!(new_name(b"a", [0, 0, 0, 0, 0, 0, 1, 0xa0]), b".a.00000000000001a0.longhaul-new");
        assert_eq!(journal_name(b".a"), b"..a.longhaul-journal");
        assert_eq!(pieces_name(b"a", [0, 0, 0, 0, 0, 0, 1, 0xa0]), b".a.00000000000001a0.longhaul-pieces");
        assert_eq!(
            piece_journal_name(b"a", [0, 0, 0, 0, 0, 0, 1, 0xa0], 16),
            b".a.00000000000001a0.00000010.longhaul-piece"
        );
        let mut seen = std::collections::BTreeSet::new();
        for len in 200..=255 {
            for name in [vec![b'x'; len], vec![0xff; len], "é".repeat(len / 2).into_bytes()] {
                let (part, journal) = (part(&name), journal_name(&name));
                let new = new_name(&name, [7; 8]);
                for ours in [pieces_name(&name, [7; 8]), piece_journal_name(&name, [7; 8], u32::MAX)] {
                    assert!(ours.len() <= 255 && is_ours(&ours) && journal_of_part(&ours).is_none());
                    assert!(!is_journal(&ours) && !is_new(&ours));
                }
                assert!(new.len() <= 255 && is_ours(&new) && journal_of_part(&new).is_none());
                assert!(part.len() <= 255 && journal.len() <= 255 && is_ours(&part) && is_ours(&journal));
                assert_eq!(std::str::from_utf8(&name).is_ok(), std::str::from_utf8(&part).is_ok());
                assert_eq!(journal_of_part(&part), Some(journal.clone()));
                assert!(seen.insert(part) && seen.insert(journal) || name.len() < len);
            }
        }
        for name in [&b"a"[..], b".a.longhaul-part", &[b'x'; 100]] {
            assert_eq!([file_of_part(&part(name)), file_of_journal(&journal_name(name))], [Some(name); 2]);
        }
        let cut = [b'x'; 230];
        assert_eq!([file_of_part(&part(&cut)), file_of_journal(&journal_name(&cut))], [None; 2]);
        assert!(!is_ours(b"a.longhaul-part"));
    }
}
