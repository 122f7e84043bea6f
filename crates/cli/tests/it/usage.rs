//! Command lines that make no sense, help, completions, exit codes.

use crate::common::{Ended, Running, longhaul, run, token_file};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

/// A copy that is refused before anything happens.
fn refused(args: &[&str], says: &str) -> Ended {
    let ended = run(["cp"].iter().chain(args)).expect_code(2);
    assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    ended
}

#[test]
fn nothing_at_all_shows_help() {
    let ended = run::<&str>([]).expect_code(2);
    assert!(ended.stderr.contains("Usage: longhaul <COMMAND>") && ended.stdout.is_empty());
}

#[test]
fn help_is_worth_reading() {
    let top = run(["--help"]).expect_code(0).stdout;
    for part in [
        "cp",
        "serve",
        "demo",
        "sim",
        "lab",
        "trace",
        "longhaul-lab",
        "completions",
        "Examples:",
        "130 interrupted",
    ] {
        assert!(top.contains(part), "{part}: {top}");
    }
    assert!(!top.contains("agent"), "{top}");
    let cp = run(["cp", "--help"]).expect_code(0).stdout;
    for part in ["Files:", "Speed:", "Reaching the other host:", "Output:", "Examples:", "--stall-timeout"] {
        assert!(cp.contains(part), "{part}: {cp}");
    }
    for help in [top, cp, run(["serve", "--help"]).stdout, run(["ctl", "--help"]).stdout] {
        let long: Vec<_> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(long.is_empty(), "too long for a terminal: {long:?}");
        assert!(help.lines().count() > 10, "more than a line about each flag: {help}");
    }
    assert!(run(["--version"]).expect_code(0).stdout.starts_with("longhaul "));
}

#[test]
fn misspelt_names_get_a_suggestion() {
    refused(&["--control", "adaptve", "a", "h:b"], "'adaptive'");
    refused(&["--control", "sabull", "a", "h:b"], "'sabul'");
    refused(&["--control", "nothing-like-it", "a", "h:b"], "adaptive, fixed, greedy");
    refused(&["--select", "cirkular", "a", "h:b"], "'circular'");
    refused(&["--exlude", "x", "a", "h:b"], "'--exclude'");
    let ended = run(["sevre"]).expect_code(2);
    assert!(ended.stderr.contains("'serve'"), "{}", ended.stderr);
}

#[test]
fn values_that_make_no_sense_are_named() {
    refused(&["--rate", "800", "a", "h:b"], "a rate needs its unit");
    refused(&["--rate", "5parsec", "a", "h:b"], "parsec");
    refused(&["--stall-timeout", "0s", "a", "h:b"], "between 1s and 24h");
    refused(&["--ports", "9-3", "a", "h:b"], "3-9");
    refused(&["--packet-size", "70000", "a", "h:b"], "256..=65507");
    refused(&["--batch", "0", "a", "h:b"], "--batch");
    refused(&["--control", "fixed", "a", "h:b"], "--rate 800mbit");
    refused(&["--control", "rbudp", "a", "h:b"], "--rate 800mbit");
    refused(&["--control=fixed", "--rate=08:00-18:00 1g", "a", "h:b"], "at any time");
    refused(&["--rate", "1g, 08:00-18:00 2g", "a", "h:b"], "comes last");
    refused(&["--rate", "08:00-28:00 1g", "a", "h:b"], "28:00");
    refused(&["--dscp", "64", "a", "h:b"], "no code point \"64\"");
    refused(&["--dscp", "af12x", "a", "h:b"], "did you mean");
    refused(&["--scitag", "2.64", "a", "h:b"], "\"2.64\" is no SciTag");
    refused(&["--scitag", "144", "a", "h:b"], "EXPERIMENT.ACTIVITY");
    refused(&["--firefly", "collector", "a", "h:b"], "--scitag");
    refused(&["--scitag=2.16", "--firefly=collector:0", "a", "h:b"], "is not a port");
    refused(&["--scitag=2.16", "--firefly=:10514", "a", "h:b"], "write HOST");
    refused(
        &["--scitag=2.16", "--firefly=no.such.host.invalid", "a", "h:b"],
        "--firefly no.such.host.invalid:10514",
    );
    refused(&["--scitag=2.16", "--firefly=127.0.0.1", "g:a", "h:b"], "two other hosts");
    refused(&["--streams", "65", "a", "h:b"], "from 1 to 64");
    refused(&["--transport=object", "--streams=4", "a", "h:b"], "leave one of the two out");
    refused(&["--transport=ssh", "--congestion=reno", "a", "h:b"], "leave one of the two out");
    refused(&["--congestion=no-such-control", "a", "h:b"], "no-such-control");
    refused(&["--background", "--control=cubic", "a", "h:b"], "yields to nobody");
    refused(&["--why", "--quiet", "a", "h:b"], "cannot be used with");
    refused(&["--files-from", "/nowhere/list", "a", "h:b"], "no such file");
    refused(&["--files-from", "/dev/null", "--delete", "a", "h:b"], "leave one of the two out");
    refused(&["--part", "3", "a", "h:b"], "--plan");
    refused(&["--exclude", "[a", "a", "h:b"], "--exclude \"[a\"");
    refused(&["--retry=2", "-", "h:b"], "leave out --retry");
    refused(&["a"], "<DST>");
    refused(&["a", "longhaul://h:0x/"], "is not a port");
    refused(&["a", "longhaul://h/"], "LONGHAUL_TOKEN");
}

#[test]
fn an_empty_token_variable_is_none() {
    let with_empty = |command: &str| {
        let mut run = longhaul();
        Running::start(run.args(command.split(' ')).env("LONGHAUL_TOKEN", "")).finish()
    };
    for command in ["cp a longhaul://h/", "probe longhaul://h"] {
        let ended = with_empty(command).expect_code(2);
        assert!(ended.stderr.contains("give --token-file"), "{command}: {}", ended.stderr);
    }
    // Over ssh none is needed.
    let ended = with_empty("cp --ssh=false /etc/hostname h:b").expect_code(1);
    assert!(!ended.stderr.contains("token"), "{}", ended.stderr);
}

#[test]
fn a_probe_prints_json_too_when_its_command_line_is_wrong() {
    let json = run(["probe", "--json", "--seconds", "soon", "h"]).expect_code(2).json();
    assert_eq!(
        (&json["ok"], &json["rtt_ms_min"], &json["path_mtu"]),
        (&false.into(), &().into(), &().into())
    );
    assert!(json["error"].as_str().is_some_and(|text| text.contains("--seconds")), "{json}");
}

#[test]
fn json_comes_even_when_the_command_line_is_wrong() {
    for args in [
        &["--json", "--rate", "800", "a", "h:b"][..],
        &["--json", "a"],
        &["a", "h:b", "--json", "--frobnicate"],
        &["--json", "--streams", "0", "a", "h:b"],
        &["--json", "a", "longhaul://h/"],
    ] {
        let json = refused(args, "error: ").json();
        assert_eq!(json["ok"], false, "{json}");
        assert!(
            json["error"].as_str().is_some_and(|text| !text.is_empty() && !text.starts_with("error")),
            "{json}"
        );
    }
    assert!(refused(&["--json", "a"], "<SRC>").json()["error"].as_str().unwrap().ends_with("<DST>"));
    assert_eq!(run(["cp", "--", "--json"]).expect_code(2).stdout, "", "after -- it is a file name");
}

#[test]
fn a_server_that_is_not_there_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "data").unwrap();
    let token = token_file(folder.path());
    let mut command = longhaul();
    command.args(["cp", "--json", "--token-file"]).args([&token, &file]).arg("longhaul://127.0.0.1:1/");
    let ended = Ended::of(command.output().unwrap()).expect_code(1);
    let json = ended.json();
    assert_eq!((&json["ok"], &json["hash_verified"]), (&false.into(), &false.into()));
    assert!(json["seconds"].as_f64().unwrap() > 0.0);
    let error = json["error"].as_str().unwrap();
    assert!(ended.stderr.contains(&format!("error: {error}")), "{}", ended.stderr);
    let quiet = Ended::of(command.arg("--quiet").output().unwrap()).expect_code(1);
    assert_eq!(quiet.stderr.lines().count(), 1, "only the error: {}", quiet.stderr);
}

#[test]
fn a_token_that_others_can_read_is_warned_about() {
    let folder = tempfile::tempdir().unwrap();
    let token = token_file(folder.path());
    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    let cp = |more: &[&str]| {
        let args = ["cp", "--token-file", token.to_str().unwrap(), "/dev/null", "longhaul://127.0.0.1:1/"];
        run(args.iter().chain(more)).stderr
    };
    assert!(cp(&[]).contains("warning: ") && cp(&[]).contains("chmod 600"));
    assert!(!cp(&["--quiet"]).contains("warning: "));
}

#[test]
fn serve_refuses_what_it_cannot_serve() {
    for (args, says) in [
        (&["--root", "/nowhere/at/all"][..], "no such folder"),
        (&["--root", "/", "--listen", "somewhere"], "ADDR:PORT"),
        (&["--root", "/", "--max-rate", "9"], "needs its unit"),
        (&["--root", "/", "--token-file", "/dev/null"], "holds no token"),
        (&[], "--root <DIR>"),
    ] {
        let ended = run(["serve"].iter().chain(args)).expect_code(2);
        assert!(ended.stderr.contains(says), "{}", ended.stderr);
    }
}

#[test]
fn a_log_filter_that_makes_no_sense_is_named() {
    let output =
        longhaul().args(["cp", "--json", "a", "h:b"]).env("LONGHAUL_LOG", "longhaul=loud").output().unwrap();
    let ended = Ended::of(output).expect_code(2);
    assert!(ended.stderr.contains("LONGHAUL_LOG") && ended.json()["ok"] == false);
}

#[test]
fn completions_know_the_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(["completions", shell]).expect_code(0).stdout;
        for name in ["stall-timeout", "circular-strict", "rounds", "rbudp", "udt"] {
            assert!(script.contains(name), "{shell}: {name}");
        }
    }
    run(["completions", "cmd.exe"]).expect_code(2);
}

#[test]
fn what_goes_to_standard_output_is_the_data_alone_when_the_command_line_is_wrong() {
    let ended = run(["cp", "--json", "--bogus", "h:b", "-"]).expect_code(2);
    assert!(
        ended.stdout.is_empty() && ended.stderr.contains("\"error\":"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn a_pipe_that_nobody_reads_is_no_reason_to_panic() {
    for (args, code) in [
        (&["completions", "bash"][..], 0),
        (&["--help"], 0),
        (&["cp", "--help"], 0),
        (&["cp", "--json", "--retry=2", "-", "h:b"], 2),
        (&["cp", "--json"], 2),
    ] {
        let mut child = longhaul().args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        Ended::of(child.wait_with_output().unwrap()).expect_code(code);
        let mut child = longhaul().args(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stderr.take());
        assert_eq!(child.wait().unwrap().code(), Some(code), "{args:?} with a closed standard error");
    }
}
