//! Several TCP connections carry the data, over an emulated path.

use crate::common::lab::{Over, repeat};
use longhaul_lab::{Lab, Scenario, tcp};
use longhaul_testing::machine;
use std::fs;

#[test]
fn stripes_fill_a_path() {
    let Some(_beside_others) = machine::measure_beside_others() else { return };
    for pull in [false, true] {
        let over = Over::path(&Scenario::new(80.0, 30.0), 16_000_000, pull);
        let plain = || plain_tcp_mbps(&over.haul.lab, 4, over.len as u64);
        repeat(&over.haul.lab, || {
            // What the host does beside this changes: plain streams before and after.
            let before = plain();
            let _ = fs::remove_file(over.sides.target());
            let json = over.copy(&["--transport=stripe", "--streams=4", "--congestion=cubic"], |_| {}).json();
            let plain = before.min(plain());
            assert_eq!((&json["transport"], &json["streams"]), (&"stripe".into(), &4.into()), "{json}");
            let mbps = json["goodput_mbps"].as_f64().unwrap();
            println!("4 stripes {mbps:.1} Mb/s, 4 plain streams {plain:.1} Mb/s");
            assert_eq!(json["packets_sent"], json["packets_required"], "nothing is sent twice: {json}");
            assert!(json["rtt_ms_min"].as_f64().unwrap() > 29.0, "{json}");
            if mbps > 0.7 * plain { Ok(()) } else { Err(format!("plain TCP: {plain}; {json}")) }
        });
    }
}

/// What so many streams of the kernel's own TCP reach together.
fn plain_tcp_mbps(lab: &Lab, streams: u64, bytes: u64) -> f64 {
    let seconds = std::thread::scope(|scope| {
        let run =
            || scope.spawn(|| tcp::transfer(lab, bytes / streams, "cubic").expect("cubic is there").seconds);
        let runs: Vec<_> = (0..streams).map(|_| run()).collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).fold(0.0, f64::max)
    });
    bytes as f64 * 8e-6 / seconds
}
