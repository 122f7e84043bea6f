//! Names of the files that we keep beside a destination while it is on its way.

/// Where `name` is received: `.NAME.longhaul-part`.
pub(super) fn part_name(name: &[u8]) -> Vec<u8> {
    beside(name, PART)
}

/// Where it is noted what has been received of `name`: `.NAME.longhaul-journal`.
pub(super) fn journal_name(name: &[u8]) -> Vec<u8> {
    beside(name, JOURNAL)
}

/// Whether a name is one that we give; such files are never copied.
pub(super) fn is_ours(name: &[u8]) -> bool {
    name.starts_with(b".") && (name.ends_with(PART) || name.ends_with(JOURNAL))
}

/// A name too long for the ending is cut and told apart by its hash.
fn beside(name: &[u8], ending: &[u8]) -> Vec<u8> {
    if 1 + name.len() + ending.len() <= NAME_MAX {
        return [b".", name, ending].concat();
    }
    let hash = blake3::hash(name).to_hex();
    let hash = &hash.as_bytes()[..16];
    let mut keep = NAME_MAX - 2 - hash.len() - ending.len();
    // Some file systems take nothing but whole UTF-8 characters.
    while std::str::from_utf8(name).is_ok_and(|text| !text.is_char_boundary(keep)) {
        keep -= 1;
    }
    [b".", &name[..keep], b".", hash, ending].concat()
}

const PART: &[u8] = b".longhaul-part";
const JOURNAL: &[u8] = b".longhaul-journal";

/// Longest name that file systems take.
const NAME_MAX: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_recognised_and_fit() {
        assert_eq!(part_name(b"a"), b".a.longhaul-part");
        assert_eq!(journal_name(b".a"), b"..a.longhaul-journal");
        let mut seen = std::collections::BTreeSet::new();
        for len in 230..=255 {
            for name in [vec![b'x'; len], vec![0xff; len], "é".repeat(len / 2).into_bytes()] {
                let (part, journal) = (part_name(&name), journal_name(&name));
                assert!(part.len() <= 255 && journal.len() <= 255 && is_ours(&part) && is_ours(&journal));
                assert_eq!(std::str::from_utf8(&name).is_ok(), std::str::from_utf8(&part).is_ok());
                assert!(seen.insert(part) && seen.insert(journal) || name.len() < len);
            }
        }
        assert!(!is_ours(b"a.longhaul-part"));
    }
}
