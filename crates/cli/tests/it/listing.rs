//! What is listed before a copy: names that are chosen, and what cannot be listed.

use crate::common::tree::*;
use crate::common::{Server, longhaul};
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

/// A copy of some sources with these flags; the destination comes last.
fn args(paths: &[&dyn AsRef<std::ffi::OsStr>], flags: &[&str]) -> Vec<OsString> {
    let paths = paths.iter().map(|path| path.as_ref().to_os_string());
    paths.chain(flags.iter().map(OsString::from)).collect()
}

/// The receiver knows of it before it does anything, also where nothing has to be sent.
#[test]
fn what_cannot_be_listed_is_told_and_then_nothing_is_removed() {
    let (here, there) = (folder(), folder());
    write(here.path().join("data/a"), b"a");
    write(there.path().join("from/a"), b"a");
    write(there.path().join("to/old"), b"old");
    write(here.path().join("to/old"), b"old");
    let server = Server::start(there.path(), &[]);
    let data = format!("{}/", here.path().join("data").display());
    let push = [data, here.path().join("missing").display().to_string(), server.url("to")];
    let pull = [server.url("from/"), server.url("missing"), here.path().join("to").display().to_string()];
    for paths in [push, pull] {
        let paths = paths.each_ref().map(|path| path as &dyn AsRef<std::ffi::OsStr>);
        let copy = |flags: &[&str]| {
            let json = server.cp(args(&paths, flags)).expect_code(1).json();
            assert_eq!((&json["ok"], &json["files_failed"]), (&false.into(), &1.into()), "{flags:?}: {json}");
            assert!(json["error"].as_str().unwrap().contains("missing"), "{json}");
        };
        copy(&["--dry-run", "--delete"]);
        for _ in 0..5 {
            copy(&["--delete"]);
        }
    }
    assert_eq!(names(&there.path().join("to")), ["a", "old"]);
    assert_eq!(names(&here.path().join("to")), ["a", "old"]);
}

#[test]
fn a_list_of_many_names_goes_both_ways() {
    let (here, there) = (folder(), folder());
    // Names that cannot be compressed to what fits the first message.
    let hex = |n: u64| noise(20, n).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let listed: Vec<String> = (0..4000).map(hex).collect();
    for name in &listed {
        write(here.path().join("data").join(name), b"");
    }
    write(here.path().join("data/other"), b"");
    write(here.path().join("list"), listed.join("\n"));
    let list = format!("--files-from={}", here.path().join("list").display());
    let server = Server::start(there.path(), &[]);
    let data = format!("{}/", here.path().join("data").display());
    let json = server.cp(args(&[&data, &server.url("copy")], &[&list])).expect_code(0).json();
    assert_eq!(json["files"], 4000, "{json}");
    assert_eq!(names(&there.path().join("copy")).len(), 4000);
    write(there.path().join("copy/other"), b"");
    let pull: [&dyn AsRef<std::ffi::OsStr>; 2] = [&server.url("copy/"), &here.path().join("back")];
    let json = server.cp(args(&pull, &[&list])).expect_code(0).json();
    assert_eq!(json["files"], 4000, "{json}");
    assert_eq!(names(&here.path().join("back")).len(), 4000);
}

/// Not with the few descriptors that a shell gives, of which each copy takes dozens.
#[test]
fn copies_do_not_run_out_of_descriptors() {
    let (here, there) = (folder(), folder());
    for n in 0..100 {
        write_noise(here.path().join("data").join(n.to_string()), 1_200_000, n);
    }
    let few = || {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -S -n 40; exec \"$0\" \"$@\""]).arg(longhaul().get_program());
        command
    };
    let server = Server::start_with(few(), there.path(), &["--listen", "127.0.0.1:0"]);
    let data = here.path().join("data");
    let copies: Vec<_> = ["one", "two"]
        .map(|to| {
            let args = args(&[&data, &server.url(to)], &["--transport=stripe", "--streams=16"]);
            crate::common::Running::start(&mut server.cp_by(few(), args))
        })
        .into();
    copies.into_iter().for_each(|copy| drop(copy.finish().expect_code(0)));
    for to in ["one", "two"] {
        assert_eq!(snapshot(&there.path().join(to).join("data")), snapshot(Path::new(&data)));
    }
}
