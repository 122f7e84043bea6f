//! A copy that a third host arranges is as fast as one between the two.

use crate::common::lab::Haul;
use crate::common::tree::{assert_same_bytes, folder, write_noise};
use crate::common::{LONGHAUL, Server, undisturbed};
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;
use std::fs;

#[test]
#[ignore = "takes minutes"]
fn a_copy_between_two_other_hosts_takes_as_long_as_one_of_ones_own() {
    let Some(_alone) = machine::measure() else { return };
    let (near, there) = (folder(), folder());
    write_noise(near.path().join("file"), LEN, 1);
    let haul = Haul::start(&Scenario::new(100.0, 65.0), there.path());
    let listen = format!("{}:0", haul.lab.address(Side::Left));
    let command = undisturbed(haul.lab.command(Side::Left, LONGHAUL));
    let source = Server::start_with(command, near.path(), &["--listen", &listen, "--allow-third-party"]);
    let (own, named) = (near.path().join("file").display().to_string(), source.url("file"));
    let seconds = |from: &str| {
        let json = haul.cp([from, &haul.server.url("file")]).expect_code(0).json();
        assert_same_bytes(near.path().join("file"), there.path().join("file"));
        fs::remove_file(there.path().join("file")).unwrap();
        json["seconds"].as_f64().expect("a number")
    };
    let mut ratios: Vec<f64> = (0..PAIRS)
        .map(|pair| {
            // Each goes first as often as the other.
            let (one, two) = match pair % 2 {
                0 => (seconds(&own), seconds(&named)),
                _ => {
                    let two = seconds(&named);
                    (seconds(&own), two)
                }
            };
            println!("one's own {one:.2} s, between two others {two:.2} s");
            two / one
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[PAIRS / 2];
    assert!(median < 1.05, "{ratios:?}");
}

/// Ten seconds of the path.
const LEN: usize = 120_000_000;
const PAIRS: usize = 5;
