//! The systemd unit that goes with the program.

use crate::common::skip;
use std::path::Path;
use std::process::Command;

#[test]
fn systemd_finds_little_that_the_unit_could_still_give_up() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/longhaul.service");
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
