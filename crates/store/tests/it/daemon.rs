//! What a daemon says of an object store that it cannot serve.

use crate::common::*;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

/// Serve a folder of a bucket, which does not go well.
fn refused(command: &mut Command, place: &str) -> String {
    let state = folder();
    command.args(["serve", "--listen", "127.0.0.1:0", "--root", place]).env("XDG_STATE_HOME", state.path());
    command.env("LONGHAUL_TOKEN", "a token for tests, long enough");
    Running::start(command).finish().stderr
}

#[test]
fn a_store_that_says_no_is_told_before_anybody_is_served() {
    let Some(gateway) = Gateway::start() else { return };
    let serve = || {
        let mut command = longhaul();
        command.envs(gateway.environment());
        command
    };
    let said = refused(serve().env("AWS_SECRET_ACCESS_KEY", "another"), "s3://bucket");
    assert!(said.contains("SignatureDoesNotMatch") || said.contains("cannot be mounted"), "{said}");
    let said = refused(&mut serve(), "s3://nowhere/a");
    assert!(said.contains("NoSuchBucket") || said.contains("cannot be mounted"), "{said}");
    let said = refused(&mut serve(), "s3://bucket/a/../b");
    assert!(said.contains("neither empty components") || said.contains("cannot be mounted"), "{said}");
}

#[test]
fn a_daemon_without_the_program_for_stores_names_it() {
    let here = folder();
    let program = here.path().join("longhaul");
    // A link to it would be followed.
    std::fs::copy(PathBuf::from(STORE).with_file_name("longhaul"), &program).unwrap();
    let said = refused(undisturbed(Command::new(&program)).env("PATH", "/usr/bin:/bin"), "s3://bucket");
    assert!(
        said.contains("longhaul-store, which is not installed") || said.contains("cannot be mounted"),
        "{said}"
    );
}

#[test]
fn a_configuration_says_how_a_store_is_reached() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let [endpoint, key, secret] = gateway.environment().map(|(_, value)| value);
    let config = here.path().join("serve.toml");
    write(
        &config,
        format!(
            "listen = \"127.0.0.1:0\"\n[folders]\ndata = \"s3://bucket/a/b\"\nmore = \"s3://bucket/more\"\n\
             [s3]\nendpoint = \"{endpoint}\"\nkey-id = \"{key}\"\nsecret = \"{secret}\"\n"
        ),
    );
    std::fs::set_permissions(&config, PermissionsExt::from_mode(0o600)).unwrap();
    let mut user = longhaul();
    user.args(["user", "add", "alice", "--config"]).arg(&config);
    user.args(["--folder", "data=read-write", "--folder", "more=read-only"]);
    let token = Running::start(&mut user).finish().expect_code(0).stdout;
    let token = token.split_whitespace().last().unwrap().to_owned();

    write(gateway.file("more/y"), "others'");
    let mut serve = longhaul();
    serve.arg("serve").arg("--config").arg(&config).env("XDG_STATE_HOME", state.path());
    let mut running = Running::start(&mut serve);
    let address = |running: &Running| {
        let [stdout, _] = running.said();
        stdout.split_whitespace().skip_while(|word| *word != "at").nth(1).map(str::to_owned)
    };
    wait_until("the daemon listens or ends", || address(&running).is_some() || !running.is_running());
    let Some(address) = address(&running) else {
        let ended = running.finish();
        assert!(ended.stderr.contains("cannot be mounted"), "{}", ended.stderr);
        return;
    };
    write(here.path().join("file"), "something");
    let copy = |args: &[&str]| {
        let mut command = longhaul();
        command.args(["cp", "--json"]).args(args).env("LONGHAUL_TOKEN", &token);
        command.env("XDG_CACHE_HOME", here.path()).env("XDG_STATE_HOME", here.path());
        Running::start(&mut command).finish()
    };
    let file = here.path().join("file");
    copy(&[file.to_str().unwrap(), &format!("longhaul://{address}/data/x")]).expect_code(0);
    assert_eq!(std::fs::read(gateway.file("a/b/x")).unwrap(), b"something");
    let back = here.path().join("back");
    copy(&[&format!("longhaul://{address}/more/y"), back.to_str().unwrap()]).expect_code(0);
    assert_eq!(std::fs::read(back).unwrap(), b"others'");
    let refused = copy(&[file.to_str().unwrap(), &format!("longhaul://{address}/more/x")]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);

    // Another one takes a restart, and what is served stays.
    let text = std::fs::read_to_string(&config).unwrap().replace("s3://bucket/more", "s3://bucket/other");
    std::fs::write(&config, text).unwrap();
    running.signal(Signal::HUP);
    running.await_line("takes a restart");
    copy(&[file.to_str().unwrap(), &format!("longhaul://{address}/data/z")]).expect_code(0);
}

#[test]
fn a_signal_to_all_processes_leaves_the_store_to_the_daemon() {
    let Some(gateway) = Gateway::start() else { return };
    let (state, here) = (folder(), folder());
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    let file = here.path().join("file");
    write_noise(&file, 20 << 20, 1);
    let copy = Running::start(&mut daemon.cp(["--rate", "100mbit", file.to_str().unwrap(), &daemon.url("")]));
    wait_until("a part is stored", || !gateway.parts().is_empty());
    send_to(daemon.store(), Signal::TERM);
    copy.finish().expect_code(0);
    assert_same_bytes(gateway.file("a/b/file"), &file);
}

#[test]
fn a_daemon_whose_store_program_ends_ends_too_and_says_so() {
    let Some(gateway) = Gateway::start() else { return };
    let state = folder();
    let Some(daemon) = Daemon::start(&gateway, state.path()) else { return };
    send_to(daemon.store(), Signal::KILL);
    let ended = daemon.finish().expect_code(1);
    assert!(ended.stderr.contains("s3://bucket/a/b: longhaul-store has ended"), "{}", ended.stderr);
}
