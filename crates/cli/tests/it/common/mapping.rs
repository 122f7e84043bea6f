//! A program that has mapped a file and writes to it through the mapping.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

pub struct Mapping {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Mapping {
    pub fn new(file: &Path) -> Mapping {
        let mut child = Command::new("python3")
            .args(["-c", PROGRAM])
            .arg(file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Mapping { child, orders, answers }
    }

    /// Store a byte.
    pub fn write(&mut self, at: usize, byte: u8) {
        writeln!(self.orders, "{at} {byte}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        assert_eq!(answer, "done\n");
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PROGRAM: &str = "
import mmap, sys
with open(sys.argv[1], 'r+b') as file:
    area = mmap.mmap(file.fileno(), 0)
    for line in sys.stdin:
        at, byte = map(int, line.split())
        area[at] = byte
        print('done', flush=True)
";
