//! The scenario files that come with the project.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::FlowSpec;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::Workload;
use std::path::{Path, PathBuf};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_scenario = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
    let mut files: Vec<PathBuf> = files.filter(is_scenario).collect();
    files.sort();
    files
}

#[test]
fn all_are_valid_and_named_after_their_files() {
    assert!(files().len() >= 15);
    for path in files() {
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            Some(format!("{}.toml", scenario.name).as_ref()),
            path.file_name().unwrap().to_str(),
            "name"
        );
        assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario, "written and read again");
    }
}

#[test]
fn a_transfer_completes_over_each() {
    for path in files() {
        let scenario = Scenario::load(&path).unwrap();
        let flows =
            [FlowSpec::object(ControllerKind::Adaptive, BYTES), FlowSpec::tcp(ControllerKind::Cubic, BYTES)];
        let traffic = flows
            .map(|spec| Traffic::new(spec, Arrivals::Together { at: Time::from_millis(1000), count: 1 }));
        let measured = Workload::over(&scenario, traffic.to_vec(), Time::from_millis(120_000)).unwrap().run();
        for flow in measured.of(0).chain(measured.of(1)) {
            assert!(flow.acknowledged.is_some(), "{}: {flow:?}", scenario.name);
            assert_eq!(flow.stats.bytes_delivered, BYTES, "{}", scenario.name);
        }
        let others =
            measured.flows.iter().filter(|flow| flow.traffic > 1).map(|flow| flow.stats.bytes_delivered);
        assert_eq!(others.sum::<u64>() > 0, !scenario.traffic.is_empty(), "{}", scenario.name);
    }
}

const BYTES: u64 = 1_000_000;
