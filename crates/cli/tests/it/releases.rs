//! This release and the one before it.

use crate::common::tree::*;
use crate::common::{LONGHAUL, Running, Server, skip, undisturbed};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

#[test]
#[ignore = "minutes: make test-long builds the last release for it"]
fn a_release_and_the_one_before_it_copy_both_ways() {
    let Some(old) = std::env::var_os("LONGHAUL_LAST_RELEASE").filter(|path| !path.is_empty()) else {
        return skip("no last release is built: make test-long builds it");
    };
    let (old, new) = (PathBuf::from(old), PathBuf::from(LONGHAUL));
    for (client, server) in [(&old, &new), (&new, &old)] {
        let there = folder();
        let server =
            Server::start_with(undisturbed(Command::new(server)), there.path(), &["--listen", "127.0.0.1:0"]);
        let here = folder();
        write_zoo(&here.path().join("zoo"));
        write_noise(here.path().join("zoo/large"), 5_000_000, 1);
        let copy = |from: OsString, to: OsString| {
            let mut command = undisturbed(Command::new(client));
            command.arg("cp").arg("--token-file").arg(server.token_file()).args([from, to]);
            Running::start(&mut command).finish().expect_code(0);
        };
        copy(here.path().join("zoo").into(), server.url("").into());
        copy(server.url("zoo/").into(), here.path().join("back").into());
        assert_eq!(snapshot(&here.path().join("back")), snapshot(&here.path().join("zoo")));
    }
}
