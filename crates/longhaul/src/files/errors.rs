//! What went wrong, in words.

use std::io;

/// The reason alone, without the number: "permission denied".
pub(super) fn why(error: impl Into<io::Error>) -> String {
    let error = error.into();
    match error.raw_os_error() {
        Some(libc::ENOSPC) => "no space left".into(),
        Some(libc::EDQUOT) => "the disk quota is used up".into(),
        Some(libc::ENOENT) => "no such file or folder".into(),
        Some(libc::ELOOP) => "a symbolic link is in the way".into(),
        Some(libc::ENOTDIR) => "something that is not a folder is in the way".into(),
        Some(libc::EISDIR) => "a folder is in the way".into(),
        Some(libc::EMFILE | libc::ENFILE) => "too many open files; raise the limit with ulimit -n".into(),
        Some(libc::EIO) => "the disk reports an input/output error".into(),
        _ => {
            let text = error.to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            let mut letters = text.chars();
            // The system's messages begin with a capital letter; here they stand inside a sentence.
            match letters.next() {
                Some(first) => first.to_lowercase().chain(letters).collect(),
                None => text.into(),
            }
        }
    }
}

/// Whether nothing more can be stored there for now.
pub(super) fn is_no_room(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

/// A count of bytes as a person reads it.
pub(super) fn shown_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let mut value = bytes as f64 / 1000.0;
    let mut unit = 0;
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_like_part_of_a_sentence() {
        assert_eq!(why(io::Error::from_raw_os_error(libc::EACCES)), "permission denied");
        assert_eq!(why(io::Error::other("Odd thing")), "odd thing");
    }

    #[test]
    fn byte_counts_have_units() {
        assert_eq!(shown_bytes(999), "999 bytes");
        assert_eq!(shown_bytes(1_000), "1.0 kB");
        assert_eq!(shown_bytes(999_999), "1.0 MB");
        assert_eq!(shown_bytes(3_200_000_000), "3.2 GB");
    }
}
