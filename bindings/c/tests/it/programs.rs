//! Programs in C and C++: built against the installed library, run against each other, and hardly different from
//! what they were over sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

/// The library, installed in a folder of its own.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Installed {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        // Cargo puts the library where it puts the tests.
        let libraries = std::env::current_exe().unwrap().parent().unwrap().to_owned();
        let mut make = Command::new("make");
        make.args(["-s", "install-c"]).current_dir(root);
        make.arg(format!("PREFIX={}", folder.path().display()));
        make.arg(format!("C_LIBRARIES={}", libraries.display()));
        // Those of a make that runs the tests are not for this one.
        make.env_remove("MAKEFLAGS").env_remove("MFLAGS");
        succeed(&mut make);
        Installed { folder }
    }

    /// Build an example. Without `-O2` and `_FORTIFY_SOURCE`, which distributions use, system headers differ.
    fn build(&self, source: &str) -> PathBuf {
        let program = self.folder.path().join(source.replace(['/', '.'], "-"));
        let mut compiler = match Path::new(source).extension().unwrap().to_str() {
            Some("c") => Command::new("cc"),
            _ => Command::new("c++"),
        };
        if source.ends_with(".cpp") {
            compiler.arg("-std=c++17");
        }
        compiler.args(["-Wall", "-Wextra", "-Werror", "-O2", "-D_FORTIFY_SOURCE=2", "-o"]).arg(&program);
        compiler.arg(examples().join(source));
        compiler.args(self.flags()).arg("-pthread");
        compiler.arg(format!("-Wl,-rpath,{}/lib", self.folder.path().display()));
        succeed(&mut compiler);
        program
    }

    /// Build an example with the library in it.
    fn build_static(&self, source: &str) -> PathBuf {
        let program = self.folder.path().join("static");
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&program).arg(examples().join(source));
        compiler.arg(format!("-I{}/include", self.folder.path().display()));
        compiler.arg(self.folder.path().join("lib/liblonghaul.a"));
        let pc = fs::read_to_string(self.folder.path().join("lib/pkgconfig/longhaul.pc")).unwrap();
        let private = pc.lines().find_map(|line| line.strip_prefix("Libs.private: ")).unwrap();
        compiler.args(private.split_whitespace());
        succeed(&mut compiler);
        program
    }

    /// What pkg-config says, or would say.
    fn flags(&self) -> Vec<String> {
        let lib = self.folder.path().join("lib");
        let asked = Command::new("pkg-config")
            .args(["--cflags", "--libs", "longhaul"])
            .env("PKG_CONFIG_PATH", lib.join("pkgconfig"))
            .output();
        if let Ok(output) = asked {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let flags = String::from_utf8(output.stdout).unwrap();
            return flags.split_whitespace().map(str::to_owned).collect();
        }
        println!("no pkg-config here: its file is not tested");
        let include = format!("-I{}/include", self.folder.path().display());
        vec![include, format!("-L{}", lib.display()), "-llonghaul".into()]
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A program that waits for others, stopped when done.
struct Waiting {
    child: Child,
    port: String,
}

impl Waiting {
    /// Start it; it prints its port in the first line.
    fn start(command: &mut Command) -> Waiting {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Waiting { child, port: line.trim().to_owned() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fastrand::Rng::with_seed(2).fill(&mut bytes);
    bytes
}

/// Send a file from one example to another.
fn sends_a_file(sender: &Path, receiver: &Path, folder: &Path) {
    let (from, to) = (folder.join("from"), folder.join("to"));
    let bytes = text(10_000_000);
    fs::write(&from, &bytes).unwrap();
    let mut waiting = Waiting::start(Command::new(receiver).args(["receive", "0"]).arg(&to));
    succeed(Command::new(sender).args(["send", "127.0.0.1", &waiting.port]).arg(&from));
    assert!(waiting.child.wait().unwrap().success());
    assert!(fs::read(&to).unwrap() == bytes);
}

/// Ask one example what another sends back.
fn echoes(server: &Path, client: &Path) {
    let waiting = Waiting::start(Command::new(server).args(["serve", "0"]));
    let sent = text(5_000_000);
    let mut asking = Command::new(client)
        .args(["ask", "127.0.0.1", &waiting.port])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut question = asking.stdin.take().unwrap();
    let mut answer = vec![];
    thread::scope(|scope| {
        scope.spawn(|| {
            question.write_all(&sent).unwrap();
            drop(question);
        });
        asking.stdout.take().unwrap().read_to_end(&mut answer).unwrap();
    });
    assert!(asking.wait().unwrap().success());
    assert!(answer == sent);
}

#[test]
fn programs_in_c_and_cpp_run_over_either() {
    let installed = Installed::new();
    for source in ["file.c", "sockets/file.c"] {
        let program = installed.build(source);
        sends_a_file(&program, &program, installed.folder.path());
    }
    let program = installed.build_static("file.c");
    sends_a_file(&program, &program, installed.folder.path());
    survives_its_peer(&installed.build("../tests/endless.c"), &installed.build("file.c"));
    talks_through_descriptors(&installed.build("../tests/descriptors.c"));
    for source in ["echo.cpp", "sockets/echo.cpp"] {
        let program = installed.build(source);
        echoes(&program, &program);
    }
}

/// What is written to a lane whose other end is gone must not raise SIGPIPE, which ends a C program that does not ignore
/// it.
fn survives_its_peer(sender: &Path, receiver: &Path) {
    let mut waiting = Waiting::start(Command::new(receiver).args(["receive", "0", "/dev/null"]));
    let mut sending = Command::new(sender).arg(&waiting.port).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(sending.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "sending\n");
    waiting.child.kill().unwrap();
    said.read_to_string(&mut line).unwrap();
    let status = sending.wait().unwrap();
    assert_eq!((status.signal(), status.code()), (None, Some(0)), "{line}");
    assert!(line.contains("all lanes are gone"), "{line}");
}

/// One end waits in poll() and never in a call, the other reads and writes through stdio.
fn talks_through_descriptors(program: &Path) {
    let mut waiting = Waiting::start(Command::new(program).arg("serve"));
    let output = Command::new(program).args(["connect", &waiting.port]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, b"50000 lines\n");
    assert!(waiting.child.wait().unwrap().success());
}

#[test]
fn the_readmes_program_compiles() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(project.join("README.md")).unwrap();
    let snippet = readme.split("```c\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("readme.c");
    fs::write(&source, snippet).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"]).arg(project.join("include"));
    succeed(compiler.arg(source));
}

#[test]
fn at_most_three_lines_change() {
    for source in ["file.c", "echo.cpp"] {
        let output = Command::new("diff")
            .arg(examples().join("sockets").join(source))
            .arg(examples().join(source))
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let [gone, come] = ["< ", "> "].map(|mark| text.lines().filter(|l| l.starts_with(mark)).count());
        assert!((1..=3).contains(&gone) && (1..=3).contains(&come), "{text}");
    }
}
