//! The scenario files that come with the project.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::FlowSpec;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::Workload;
use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn all_files_are_valid_and_have_their_name() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let scenario = Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(path.file_stem().unwrap().to_str(), Some(scenario.name.as_str()));
        assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario, "written and read again");
        assert_eq!(Scenario::named(&scenario.name).unwrap(), scenario);
        found.insert(scenario.name);
    }
    assert!(found.iter().map(String::as_str).eq(Scenario::names()), "{found:?}");
    let problem = Scenario::named("gigabyte").unwrap_err().to_string();
    assert_eq!(problem, "there is no scenario \"gigabyte\"; did you mean gigabit?");
}

#[test]
fn a_transfer_completes_over_each() {
    for name in Scenario::names() {
        let scenario = Scenario::named(name).unwrap();
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
