//! `longhaul probe`, over emulated paths.

use crate::common::lab::{Haul, repeat};
use crate::common::tree::folder;
use crate::common::{Ended, LONGHAUL, Running, run, undisturbed};
use longhaul_lab::{Scenario, Side};
use longhaul_testing::machine;

fn probe(haul: &Haul, args: &[&str]) -> Ended {
    let mut command = undisturbed(haul.lab.command(Side::Left, LONGHAUL));
    command
        .arg("probe")
        .arg(haul.server.url(""))
        .arg("--token-file")
        .arg(haul.server.token_file())
        .args(args);
    Running::start(&mut command).finish()
}

#[test]
fn a_path_is_found_as_it_is() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    let there = folder();
    let haul = Haul::start(&Scenario { loss: 0.01, ..Scenario::new(50.0, 30.0) }, there.path());
    repeat(&haul.lab, || {
        let found = probe(&haul, &["--json", "--seconds=4s"]).expect_code(0).json();
        let number = |name: &str| found[name].as_f64().unwrap_or_else(|| panic!("{name}: {found}"));
        assert!(found["ok"] == true && found["udp"] == true && found["path_mtu"] == 1500, "{found}");
        assert_eq!(number("available_mbps"), number("object_mbps").max(number("stripe_mbps")), "{found}");
        assert!(["object", "stripe"].contains(&found["transport"].as_str().unwrap()), "{found}");
        assert!(found["transport"] == "stripe" || found["streams"].is_null(), "{found}");
        let measured = [
            (30.0..40.0).contains(&number("rtt_ms_min")),
            (0.003..0.03).contains(&number("loss")),
            (35.0..50.0).contains(&number("object_mbps")),
            (1.0..50.0).contains(&number("stripe_mbps")),
        ];
        if measured == [true; 4] { Ok(()) } else { Err(format!("{measured:?}: {found}")) }
    });
    // It leaves nothing behind.
    assert_eq!(there.path().read_dir().unwrap().count(), 0);
}

#[test]
fn blocked_udp_is_found() {
    let Some(_shared) = machine::wait() else { return };
    let there = folder();
    let haul = Haul::start(&Scenario::new(50.0, 20.0), there.path());
    haul.lab.block_udp(true);
    let ended = probe(&haul, &["--seconds=2s", "--quiet"]).expect_code(0);
    for part in ["UDP               does not pass", "cp would take     stripe: UDP does not pass", " with "] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}

#[test]
fn what_cannot_be_probed_is_named() {
    let refused = |args: &[&str], code: i32, says: &str| {
        let ended = run(["probe"].iter().chain(args)).expect_code(code);
        assert!(ended.stderr.contains(says), "{args:?}: {}", ended.stderr);
    };
    refused(&["/data"], 2, "is no host");
    refused(&["longhaul://h"], 2, "--token-file");
    refused(&["--transport=ssh", "h"], 2, "cannot be probed");
    refused(&["--seconds=0s", "h"], 2, "between 1s and 24h");
    let keys = folder();
    let token = crate::common::token_file(keys.path());
    let nobody = ["longhaul://127.0.0.1:1", "--json", "--token-file", token.to_str().unwrap()];
    refused(&nobody, 1, "cannot reach 127.0.0.1 port 1");
    let found = run(["probe"].iter().chain(&nobody)).expect_code(1).json();
    assert!(found["ok"] == false && found["error"].as_str().unwrap().contains("cannot reach"), "{found}");
    assert!(found["udp"].is_null(), "nobody knows: {found}");
    // The same failure twice is one line.
    assert_eq!(found["error"].as_str().unwrap().matches("cannot reach").count(), 1);
}
