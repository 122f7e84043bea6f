//! The systemd unit that goes with the program, and its configuration.

use crate::common::tree::folder;
use crate::common::{run, skip};
use std::fs;
use std::path::Path;
use std::process::Command;

const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");

#[test]
fn systemd_finds_little_that_the_unit_could_still_give_up() {
    let unit = Path::new(PACKAGING).join("longhaul.service");
    let analyse = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--no-pager"])
        .arg(unit)
        .env("LC_ALL", "C.UTF-8")
        .output();
    let Ok(output) = analyse else { return skip("systemd-analyze is not installed") };
    let [told, errors] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if errors.contains("unrecognized option") {
        return skip("systemd-analyze before version 250 looks at running services alone");
    }
    assert!(output.status.success(), "{errors}");
    let level =
        told.lines().find_map(|line| line.split_once("Overall exposure level for longhaul.service: "));
    let level: f64 = level.and_then(|(_, level)| level.split(' ').next()?.parse().ok()).expect(&told);
    assert!(level < 2.0, "{told}");
}

#[test]
fn the_sample_configuration_makes_sense_with_all_that_it_shows() {
    let sample = fs::read_to_string(Path::new(PACKAGING).join("serve.toml")).unwrap();
    let show = |line: &str| {
        line.strip_prefix('#').filter(|rest| rest.starts_with(char::is_alphabetic)).map(String::from)
    };
    let shown: Vec<String> = sample.lines().map(|line| show(line).unwrap_or_else(|| line.into())).collect();
    assert_ne!(shown.join("\n"), sample.trim_end(), "nothing is shown");
    let here = folder();
    let path = here.path().join("serve.toml");
    for text in [sample, shown.join("\n")] {
        fs::write(&path, text).unwrap();
        assert_eq!(run(["user", "list", "--config", path.to_str().unwrap()]).expect_code(0).stdout, "");
    }
}
