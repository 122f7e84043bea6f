//! MD5, by which stores hold what they were sent against what was meant, and name versions.

use md5::{Digest, Md5};
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Reads a stretch of a file, without its position.
pub struct Stretch<'a> {
    file: &'a File,
    left: Range<u64>,
}

impl<'a> Stretch<'a> {
    /// From its beginning.
    pub fn new(file: &'a File, stretch: Range<u64>) -> Stretch<'a> {
        Stretch { file, left: stretch }
    }
}

impl Read for Stretch<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = (self.left.end - self.left.start).min(buffer.len() as u64) as usize;
        if most == 0 {
            return Ok(0);
        }
        match self.file.read_at(&mut buffer[..most], self.left.start)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => {
                self.left.start += n as u64;
                Ok(n)
            }
        }
    }
}

/// Of bytes.
pub fn of(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}

/// Of a stretch of a file.
pub fn of_file(file: &File, stretch: Range<u64>) -> io::Result<[u8; 16]> {
    let mut hasher = Md5::new();
    let mut buffer = vec![0; 1 << 16];
    let mut reader = Stretch::new(file, stretch);
    loop {
        match reader.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().into()),
            n => hasher.update(&buffer[..n]),
        }
    }
}

/// What a version is called that was stored in one piece: a part, say. Not where the store encrypts with a key of its own.
pub fn tag(digest: [u8; 16]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an object is called that was put together of these parts; `None` where their names tell nothing of their data.
pub fn tag_of_parts(tags: &[&str]) -> Option<String> {
    let digest = |tag: &&str| -> Option<[u8; 16]> {
        let digits = bare(tag);
        let byte = |at: usize| u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok();
        let bytes: Vec<u8> = (0..16).map(byte).collect::<Option<_>>()?;
        if digits.len() == 32 { bytes.try_into().ok() } else { None }
    };
    let digests: Vec<[u8; 16]> = tags.iter().map(digest).collect::<Option<_>>()?;
    Some(format!("{}-{}", tag(of(&digests.concat())), tags.len()))
}

/// Without the quotes that it has in headers.
pub fn bare(tag: &str) -> &str {
    tag.trim_matches('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_of_parts_is_called_by_theirs() {
        let parts = [tag(of(b"a")), format!("\"{}\"", tag(of(b"b")))];
        assert_eq!(parts[0], "0cc175b9c0f1b6a831c399e269772661");
        let both = [of(b"a"), of(b"b")].concat();
        assert_eq!(tag_of_parts(&[&parts[0], &parts[1]]), Some(format!("{}-2", tag(of(&both)))));
        for odd in ["", "0cc175b9c0f1b6a831c399e26977266", "0cc175b9c0f1b6a831c399e2697726610", "\"é\""] {
            assert_eq!(tag_of_parts(&[odd]), None, "{odd}");
        }
    }
}
