//! Everything the program prints, and how it ends. Standard output carries results (the JSON object, lines to
//! paste), standard error everything else. A pipe that nobody reads any more is no reason to stop, let alone to
//! panic.

use longhaul::Summary;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is done and verified.
    Done,
    /// Something failed.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The user stopped it.
    Interrupted,
    /// A command that was run failed, with this status.
    Command(u8),
}

impl Exit {
    /// As shells tell it.
    pub fn of_command(status: ExitStatus) -> Exit {
        let code = status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1);
        match u8::try_from(code).unwrap_or(1) {
            0 => Exit::Done,
            code => Exit::Command(code),
        }
    }

    /// The exit status.
    pub const fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// Print a line to standard error.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", harmless(line));
}

/// Print a warning.
pub fn warn(line: &str) {
    say(&format!("warning: {line}"));
}

/// Print what went wrong.
pub fn error(line: &str) {
    say(&format!("error: {line}"));
}

/// When the program began. The first call, which belongs at the top of `main`, fixes it.
pub fn program_start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

/// Print a result to standard output, at once.
pub fn result(text: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Print something as a line of JSON: on standard error where standard output is for something else.
pub fn json<T: Serialize>(value: &T, is_aside: bool) {
    match serde_json::to_string(value) {
        Ok(text) if is_aside => say(&text),
        Ok(text) => result(&text),
        Err(e) => error(&format!("cannot write the result as JSON: {e}")),
    }
}

/// The JSON of a copy that ended early.
pub fn failed_summary(error: &str, control: &str) -> Summary {
    Summary {
        seconds: program_start().elapsed().as_secs_f64(),
        control: control.into(),
        error: Some(error.into()),
        ..Summary::default()
    }
}

/// `line` without anything that would move the cursor or colour the terminal: parts of it may come from file names or
/// from the other side.
pub fn harmless(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for letter in line.chars() {
        if letter.is_control() && letter != '\n' {
            let _ = write!(shown, "{}", letter.escape_default());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// A path as text on one line; the empty one is that of the folder itself.
pub fn path_text(path: &[u8]) -> String {
    let path = if path.is_empty() { b"." } else { path };
    harmless(&String::from_utf8_lossy(path)).replace('\n', "\\n")
}

/// A number of files.
pub fn files_text(files: u64) -> String {
    if files == 1 { "1 file".into() } else { format!("{files} files") }
}

/// How long something took: `3.9 s`, `12 min 5 s`, `3 h 7 min`.
pub fn seconds_text(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..100 => format!("{seconds:.1} s"),
        100..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Time to go: `0:07`, `12:05`, `3:07:00`.
pub fn eta_text(left: Duration) -> String {
    let seconds = left.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        1..100 => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => "days".into(),
    }
}

/// Bytes with a decimal unit: `40.0 MB`.
pub fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1e3;
    let mut unit = 0;
    // 999.95 and more would be shown as 1000.0
    while value >= 999.95 && unit + 1 < UNITS.len() {
        value /= 1e3;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// A share from 0 to 1 in percent: `0 %`, `0.02 %`, `1.5 %`, `87 %`.
pub fn share_text(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        ..0.005 => "0 %".into(),
        ..0.1 => format!("{percent:.2} %"),
        ..10.0 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_the_shells() {
        let code = |raw| Exit::of_command(ExitStatus::from_raw(raw)).code();
        assert_eq!([0, 0x300, 9].map(code), [0, 3, 137]);
    }

    #[test]
    fn spans() {
        let shown: Vec<_> = [0.04, 99.4, 99.6, 3599.0, 11_245.0].map(seconds_text).into();
        assert_eq!(shown, ["0.0 s", "99.4 s", "1 min 40 s", "59 min 59 s", "3 h 7 min"]);
        let shown: Vec<_> = [0, 7, 725, 11_220, 9_999_999].map(|s| eta_text(Duration::from_secs(s))).into();
        assert_eq!(shown, ["0:00", "0:07", "12:05", "3:07:00", "days"]);
    }

    #[test]
    fn sizes() {
        let shown: Vec<_> = [0, 999, 1000, 999_949, 999_950, 40_000_000, u64::MAX].map(bytes_text).into();
        assert_eq!(shown, ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "40.0 MB", "18.4 EB"]);
    }

    #[test]
    fn shares() {
        let shown: Vec<_> = [0.0, 0.0002, 0.015, 0.099_96, 0.87, 1.0].map(share_text).into();
        assert_eq!(shown, ["0 %", "0.02 %", "1.5 %", "10.0 %", "87 %", "100 %"]);
        assert_eq!(share_text(f64::NAN), "NaN %");
    }

    #[test]
    fn names_cannot_drive_the_terminal() {
        assert_eq!(harmless("a\x1b[2Jb\rc"), "a\\u{1b}[2Jb\\rc");
        assert_eq!(path_text(b""), ".");
        assert_eq!(path_text(b"a\nb\xff/\x07"), "a\\nb\u{fffd}/\\u{7}");
    }

    #[test]
    fn json_has_the_promised_fields() {
        let value = serde_json::to_value(failed_summary("no", "adaptive")).unwrap();
        let fields = [
            "ok",
            "limited_by",
            "limits_ms",
            "files",
            "files_in_place",
            "files_failed",
            "bytes",
            "seconds",
            "goodput_mbps",
            "transport",
            "paths",
            "relayed",
            "control",
            "encrypted",
            "packets_required",
            "packets_sent",
            "waste",
            "retransmit_share",
            "rtt_ms_min",
            "rtt_ms_mean",
            "loss",
            "receiver_drops",
            "path_mtu",
            "resumed_bytes",
            "delta_bytes",
            "skipped_bytes",
            "compared_bytes",
            "removed",
            "streams",
            "switches",
            "hash_verified",
            "durable",
            "error",
        ];
        let object = value.as_object().unwrap();
        for field in fields {
            assert!(object.contains_key(field), "{field}");
        }
        assert_eq!(object.len(), fields.len());
        assert_eq!((&object["ok"], &object["error"]), (&false.into(), &"no".into()));
    }
}
