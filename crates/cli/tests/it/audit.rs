//! What a daemon notes of copies that break off.

use crate::common::site::Site;
use crate::common::tree::*;
use crate::common::{Running, wait_until};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;

/// Path, outcome and error of each file that was told.
fn lines_of(site: &Site) -> Vec<(String, String, String)> {
    let text = fs::read_to_string(site.path("audit.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let text = |line: &serde_json::Value, key: &str| line[key].as_str().unwrap_or_default().to_owned();
    lines.map(|line| (text(&line, "path"), text(&line, "outcome"), text(&line, "error"))).collect()
}

#[test]
fn uploads_that_break_off_are_in_the_audit() {
    let site = Site::new("audit = \"audit.jsonl\"");
    site.add("alice", &["both=read-write"]);
    let (daemon, here, alice) = (site.serve(), folder(), site.path("alice"));
    write_noise(here.path().join("tree/large"), 25_000_000, 1);
    write(here.path().join("tree/small"), b"small");
    let lines = || lines_of(&site);
    let ends = [here.path().join("tree").into_os_string(), daemon.url("both")];
    let slowly = ["--rate=50mbit", "--stall-timeout=2s"].map(OsString::from);
    for (run, signal) in [Signal::INT, Signal::KILL].into_iter().enumerate() {
        let copy = Running::start(&mut daemon.cp_command(&alice, &[&ends[..], &slowly].concat()));
        let arrived = || {
            let part = site.path("both/tree").exists().then(|| part_of(site.path("both/tree/large")));
            part.filter(|part| part.exists()).map_or(0, disk_bytes)
        };
        let kept = if run == 0 { 0 } else { arrived() };
        wait_until("it is under way", || arrived() > kept + 3_000_000);
        copy.signal(signal);
        copy.finish();
        let broken = || lines().iter().filter(|(path, ..)| path == "both/tree/large").count();
        wait_until("the end is told", || broken() > run);
        assert_eq!(broken(), run + 1);
    }
    daemon.cp(&alice, &ends).expect_code(0);
    let told = |name: &str| -> Vec<(String, String)> {
        let of = lines().into_iter().filter(|(path, ..)| path.ends_with(name));
        of.map(|(_, outcome, error)| (outcome, error)).collect()
    };
    let copied = ("copied".to_string(), String::new());
    let broke_off = ("failed".to_string(), "the copy broke off".to_string());
    wait_until("both", || ["large", "small"].iter().all(|name| told(name).last() == Some(&copied)));
    assert_eq!(told("large"), [broke_off.clone(), broke_off, copied]);
}

#[test]
fn a_dry_run_is_not_in_the_audit() {
    let site = Site::new("audit = \"audit.jsonl\"");
    site.add("alice", &["both=read-write"]);
    let (daemon, here, alice) = (site.serve(), folder(), site.path("alice"));
    write(here.path().join("file"), b"here");
    write(site.path("both/file"), b"there");
    let (near, far) = (here.path().join("file").into_os_string(), daemon.url("both/file"));
    let dry = ["--dry-run", "--checksum"].map(OsString::from);
    daemon.cp(&alice, &[&[near.clone(), far.clone()][..], &dry].concat()).expect_code(0);
    daemon.cp(&alice, &[&[far, near.clone()][..], &dry].concat()).expect_code(0);
    daemon.cp(&alice, &[near, daemon.url("both/last")]).expect_code(0);
    wait_until("a line", || !lines_of(&site).is_empty());
    assert_eq!(lines_of(&site), [("both/last".into(), "copied".into(), String::new())]);
}
