//! What a terminal shows of a copy.

use crate::common::sides::Sides;
use crate::common::tree::write_noise;
use longhaul_testing::PATIENCE;
use rustix::fs::{Mode, OFlags, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::Stdio;
use std::thread;

/// Run a copy with a terminal of so many columns for its standard error: what it wrote there.
fn shown(columns: u16, pull: bool) -> String {
    let sides = Sides::new(pull);
    (0..8).for_each(|n| write_noise(sides.from().join(format!("file-{n}")), 500_000, n));
    let server = sides.serve();
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, vec![]).unwrap();
    let end = open(&*name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut command = server.cp_command(sides.args(server.url(""), &["--rate=20mbit"]));
    command.env("TERM", "xterm").stdout(Stdio::null()).stderr(end);
    let mut copy = command.spawn().unwrap();
    // With it goes this process's copy of the terminal's end: reading ends when the program does.
    drop(command);
    let read = thread::spawn(move || {
        let (mut bytes, mut terminal) = (vec![], File::from(terminal));
        match terminal.read_to_end(&mut bytes) {
            // Nobody has it open any more.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => drop(outcome.unwrap()),
        }
        String::from_utf8(bytes).unwrap()
    });
    assert_eq!(crate::common::wait(&mut copy, PATIENCE), 0);
    read.join().unwrap()
}

/// What stands in a line of a terminal each time that it was drawn anew, without what moves the cursor or colours it.
fn drawn(text: &str) -> Vec<String> {
    let (mut lines, mut line, mut letters) = (vec![], String::new(), text.chars());
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => drop(letters.by_ref().skip(1).find(|letter| letter.is_ascii_alphabetic())),
            '\r' | '\n' => lines.push(std::mem::take(&mut line)),
            letter => line.push(letter),
        }
    }
    lines.push(line);
    lines.iter().map(|line| line.trim_end().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_line_fits_terminals_of_any_width() {
    for (columns, pull) in [(20, false), (40, true), (80, false), (200, true)] {
        let lines = drawn(&shown(columns, pull));
        // The last line, which tells what came of it, is a text.
        let (summary, progress) = lines.split_last().unwrap();
        assert!(summary.contains("verified"), "{lines:?}");
        for line in progress {
            assert!(line.chars().count() <= usize::from(columns), "{columns}: {line:?}");
        }
        let shows = |part: &str| progress.iter().any(|line| line.contains(part));
        assert!(shows("/4.0 MB") && shows("%"), "{columns}: {progress:?}");
        assert_eq!(shows("Mb/s"), columns > 20, "{columns}: {progress:?}");
        if columns >= 80 {
            assert!(shows("/8 files") && shows("by rate_cap"), "{columns}: {progress:?}");
        }
    }
}
