//! What is kept of a file beside its data: as headers of its object, by the names that rclone and s3fs use too.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What an object stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    File,
    /// An empty object whose key ends with a slash, or just what other keys begin with.
    Folder,
    /// A symbolic link; the object holds where it leads.
    Link,
}

/// What is kept of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Meta {
    /// Permissions.
    pub mode: u32,
    /// Seconds since 1970, before that below 0.
    pub seconds: i64,
    /// And these.
    pub nanoseconds: u32,
}

/// An object that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it stands for.
    pub kind: Kind,
    /// Its bytes.
    pub len: u64,
    /// When it was stored.
    pub stored: SystemTime,
    /// What is kept of the file.
    pub meta: Meta,
    /// Which version of it this is.
    pub etag: String,
}

impl Meta {
    /// A file that nothing is known of.
    pub fn of(kind: Kind, stored: SystemTime) -> Meta {
        let mode = match kind {
            Kind::File => FILE_MODE,
            Kind::Folder => FOLDER_MODE,
            Kind::Link => 0o777,
        };
        Meta { mode, ..Meta::default() }.at(stored)
    }

    /// Of what is made now.
    pub fn now(mode: u32) -> Meta {
        Meta { mode, ..Meta::default() }.at(SystemTime::now())
    }

    /// With another time.
    pub fn at(self, time: SystemTime) -> Meta {
        let (seconds, nanoseconds) = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => (after.as_secs() as i64, after.subsec_nanos()),
            Err(before) => {
                let before = before.duration();
                let rest = before.subsec_nanos();
                let whole = -(before.as_secs() as i64);
                if rest == 0 { (whole, 0) } else { (whole - 1, NANOSECONDS - rest) }
            }
        };
        Meta { seconds, nanoseconds, ..self }
    }

    /// The time.
    pub fn time(&self) -> SystemTime {
        let rest = Duration::from_nanos(self.nanoseconds.into());
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let whole =
            if self.seconds < 0 { UNIX_EPOCH.checked_sub(whole) } else { UNIX_EPOCH.checked_add(whole) };
        whole.and_then(|whole| whole.checked_add(rest)).unwrap_or(UNIX_EPOCH)
    }

    /// The headers that say it.
    pub fn headers(&self, kind: Kind) -> [(&'static str, String); 2] {
        let format = match kind {
            Kind::File => 0o100_000,
            Kind::Folder => 0o040_000,
            Kind::Link => 0o120_000,
        };
        // The fraction counts from the seconds downwards where these are below 0, as a number's does.
        let (seconds, rest) = (self.seconds, self.nanoseconds);
        let text = match seconds < 0 && rest > 0 {
            false => format!("{seconds}.{rest:09}"),
            true => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), NANOSECONDS - rest),
        };
        [(TIME, text), (MODE, (format | self.mode & 0o7777).to_string())]
    }

    /// What headers say, and for what they do not say the usual.
    pub fn read<'a>(kind: Kind, stored: SystemTime, get: impl Fn(&str) -> Option<&'a str>) -> (Kind, Meta) {
        let mode = get(MODE).and_then(|text| read_mode(kind, text));
        let kind = match mode {
            Some(mode) if kind == Kind::File && mode & 0o170_000 == 0o120_000 => Kind::Link,
            _ => kind,
        };
        let mut meta = Meta::of(kind, stored);
        if let Some(mode) = mode {
            meta.mode = mode & 0o7777;
        }
        if let Some((seconds, nanoseconds)) = get(TIME).and_then(read_time) {
            meta = Meta { seconds, nanoseconds, ..meta };
        }
        (kind, meta)
    }
}

impl Default for Meta {
    fn default() -> Meta {
        Meta { mode: FILE_MODE, seconds: 0, nanoseconds: 0 }
    }
}

/// Kind and permissions: in decimal digits as s3fs writes them, or in octal ones as rclone does. No number is a mode both ways.
fn read_mode(kind: Kind, text: &str) -> Option<u32> {
    let is_mode = |mode: &u32| match kind {
        Kind::Folder => mode >> 12 == 0o04,
        Kind::File | Kind::Link => matches!(mode >> 12, 0o10 | 0o12),
    };
    let read = |radix| u32::from_str_radix(text, radix).ok().filter(is_mode);
    read(10).or_else(|| read(8))
}

/// Seconds with up to nine digits of a fraction. More are left out.
fn read_time(text: &str) -> Option<(i64, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let digits = &fraction[..fraction.len().min(9)];
    let rest: u32 = format!("{digits:0<9}").parse().ok()?;
    let seconds: i64 = whole.parse().ok()?;
    if whole.starts_with('-') && rest > 0 {
        return Some((seconds.checked_sub(1)?, NANOSECONDS - rest));
    }
    Some((seconds, rest))
}

/// rclone's and s3fs's name for the time.
const TIME: &str = "x-amz-meta-mtime";
/// s3fs's name for kind and permissions, and rclone's.
const MODE: &str = "x-amz-meta-mode";
/// Of files that say nothing of theirs.
pub const FILE_MODE: u32 = 0o644;
const FOLDER_MODE: u32 = 0o755;
const NANOSECONDS: u32 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(headers: &[(&str, &str)]) -> (Kind, Meta) {
        let stored = UNIX_EPOCH + Duration::from_secs(7);
        Meta::read(Kind::File, stored, |name| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v))
    }

    #[test]
    fn what_other_programs_wrote_is_understood() {
        assert_eq!(read(&[]), (Kind::File, Meta { mode: 0o644, seconds: 7, nanoseconds: 0 }));
        // rclone's.
        let (_, meta) = read(&[(TIME, "1354037983.123456789")]);
        assert_eq!((meta.seconds, meta.nanoseconds), (1_354_037_983, 123_456_789));
        // s3fs's.
        let (kind, meta) = read(&[(TIME, "1354037983"), (MODE, "41471")]);
        assert_eq!((kind, meta.mode, meta.seconds), (Kind::Link, 0o777, 1_354_037_983));
        for odd in ["", "x", "-1", "600", "99999999999"] {
            assert_eq!(read(&[(MODE, odd)]).1.mode, 0o644, "{odd}");
        }
        for odd in ["", "x", "1.x", "1.2.3", "99999999999999999999"] {
            assert_eq!(read(&[(TIME, odd)]).1.seconds, 7, "{odd}");
        }
    }

    /// As s3fs and rclone write them.
    #[test]
    fn no_mode_can_be_taken_for_another() {
        for (kind, format) in [(Kind::Folder, 0o040_000), (Kind::File, 0o100_000), (Kind::File, 0o120_000)] {
            for mode in (0..0o10000).map(|mode| format | mode) {
                for text in [format!("{mode}"), format!("{mode:o}")] {
                    assert_eq!(read_mode(kind, &text), Some(mode), "{text}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(seconds in -(1i64 << 33)..1i64 << 33, nanoseconds in 0..NANOSECONDS, mode in 0u32..0o10000) {
            let meta = Meta { mode, seconds, nanoseconds };
            let headers = meta.headers(Kind::File);
            let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
            prop_assert_eq!(read(&headers), (Kind::File, meta));
            prop_assert_eq!(Meta { mode, ..Meta::default() }.at(meta.time()), meta);
        }
    }
}
