use super::*;
use crate::ids::Side;
use crate::traffic::{Arrivals, Distribution};
use longhaul_proto::units::Time;
use std::time::Duration;

fn problem(text: &str) -> String {
    Scenario::parse(text).unwrap_err().to_string()
}

#[test]
fn a_whole_file_is_read() {
    let text = "name = 'far'\nnic_mbit = 100\nbottleneck_mbit = 622.08\nrtt_ms = 65\nqueue_bdp = 0.5\n\
                loss = 0.01\nloss_reverse = 1e-3\nburst = 3\njitter_ms = 2\nreorder = 0.1\n\
                duplicate = 0.2\ncorrupt = 0.3\nmtu = 9000\nseed = 7\n";
    let scenario = Scenario::parse(text).unwrap();
    assert_eq!(scenario.name, "far");
    assert_eq!((scenario.nic_mbit, scenario.bottleneck_mbit), (Some(100.0), 622.08));
    assert_eq!((scenario.burst, scenario.mtu, scenario.seed), (Some(3.0), 9000, 7));
    assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario);
    let policed =
        Scenario { policer_mbit: Some(50.0), policer_burst_ms: Some(20.0), ..Scenario::new(200.0, 40.0) };
    assert_eq!(policed.policer_burst_bytes(50.0), 125_000);
    assert_eq!(Scenario::parse(&policed.to_string()).unwrap(), policed);
    let scenario = Scenario { super_packets: true, seed: u64::MAX, ..Scenario::new(1e4, 20.0) };
    assert!(scenario.to_string().contains("seed = 18446744073709551615"), "{scenario}");
    let scenario = Scenario { seed: 1, ..scenario };
    assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario);
}

#[test]
fn queue_and_product() {
    let mut scenario = Scenario::new(100.0, 65.0);
    assert_eq!(scenario.bdp_bytes(), 812_500);
    assert_eq!(scenario.queue_bytes(), 812_500);
    scenario.queue_bdp = Some(0.25);
    assert_eq!(scenario.queue_bytes(), 203_125);
    scenario.queue_bdp = Some(0.0);
    assert_eq!(scenario.queue_bytes(), 1500);
    (scenario.queue_bdp, scenario.queue_kb) = (None, Some(64.0));
    assert_eq!(scenario.queue_bytes(), 64_000);
}

#[test]
fn unknown_fields_name_line_and_near_matches() {
    let text = "bottleneck_mbit = 1\nrtt_ms = 1\n\nlos = 0.1\n";
    assert_eq!(problem(text), "line 4: there is no field \"los\"; did you mean loss?");
    let text = "queue_bytes = 1\nbottleneck_mbit = 1\nrtt_ms = 1\n";
    assert_eq!(
        problem(text),
        "line 1: there is no field \"queue_bytes\"; did you mean queue_bdp or queue_kb or queue_discipline?"
    );
    assert!(problem("colour = 1").contains("choose one of name, nic_mbit"));
}

#[test]
fn impossible_values_are_refused_with_their_line() {
    for (line, expected) in [
        ("nic_mbit = 0", "line 3: nic_mbit must be above 0"),
        ("nic_mbit = nan", "line 3: nic_mbit must be above 0"),
        ("queue_bdp = -1", "line 3: queue_bdp must be 0 to"),
        ("queue_kb = inf", "line 3: queue_kb must be 0 to"),
        ("loss = 1.5", "line 3: loss must be a share from 0 to 1, not 1.5"),
        ("loss_reverse = -0.1", "line 3: loss_reverse must be a share"),
        ("burst = 0.5", "line 3: burst must be at least 1 packet"),
        ("burst = 2\nloss = 0.9", "line 3: burst of 2 packets cannot lose a share of 0.9"),
        ("reorder = nan", "line 3: reorder must be a share"),
        ("duplicate = 2", "line 3: duplicate must be a share"),
        ("corrupt = 2", "line 3: corrupt must be a share"),
        ("jitter_ms = -1", "line 3: jitter_ms must be 0 to"),
        ("mtu = 0", "line 3: mtu must be 68 to 65535 bytes, not 0"),
        ("queue_discipline = 'codal'", "line 3: there is no queue discipline \"codal\"; did you mean codel?"),
        ("mark_ms = 5", "line 3: mark_ms goes with queue_discipline = \"step\""),
        ("queue_discipline = 'step'\nmark_ms = -1", "line 4: mark_ms must be 0 to"),
        ("policer_mbit = 0", "line 3: policer_mbit must be above 0"),
        ("policer_burst_ms = 5", "line 3: policer_burst_ms goes with policer_mbit"),
        ("policer_mbit = 1\npolicer_burst_ms = -1", "line 4: policer_burst_ms must be 0 to"),
        ("marks = 'lost'", "line 3: unknown variant `lost`, expected one of"),
        ("super_packets = true\nreorder = 0.1", "line 3: super_packets cannot stand beside reorder"),
        ("queue_bdp = 1\nqueue_kb = 1", "line 4: queue_kb cannot stand beside queue_bdp"),
    ] {
        let found = problem(&format!("bottleneck_mbit = 1\nrtt_ms = 1\n{line}\n"));
        assert!(found.starts_with(expected), "{line}: {found}");
    }
    assert!(problem("bottleneck_mbit = -5\nrtt_ms = 1").starts_with("line 1: bottleneck_mbit"));
    assert!(problem("bottleneck_mbit = 5\nrtt_ms = nan").starts_with("line 2: rtt_ms"));
}

#[test]
fn what_is_not_a_scenario_is_refused_in_one_line() {
    assert_eq!(problem("rtt_ms = 1"), "bottleneck_mbit is missing; it must be given");
    for text in ["bottleneck_mbit = 'fast'\nrtt_ms = 1", "bottleneck_mbit = = 1", "rtt_ms = 1\nseed = -1"] {
        let found = problem(text);
        assert!(found.starts_with("line ") && !found.contains('\n'), "{found}");
    }
}

#[test]
fn files_are_named_in_errors() {
    let missing = Path::new("/nonexistent/path.toml");
    let found = Scenario::load(missing).unwrap_err().to_string();
    assert!(found.starts_with("cannot read the scenario /nonexistent/path.toml: "), "{found}");
    let found = Scenario::parse("rtt_ms = -1\nbottleneck_mbit = 1").unwrap_err().in_file(missing).to_string();
    assert!(found.starts_with("/nonexistent/path.toml:1: rtt_ms must be"), "{found}");
}
#[test]
fn steps_and_traffic_are_read() {
    let text = "bottleneck_mbit = 100\nrtt_ms = 40\nqueue_discipline = 'fq'\n\
                [[steps]]\nat_s = 5\nbottleneck_mbit = 20\n[[steps]]\nat_s = 2.5\nloss = 0.1\n\
                [[steps]]\nat_s = 7\noutage_s = 0.5\n\
                [[traffic]]\ncontrol = 'tcp:cubic'\ncount = 4\nstart_s = 1\nstagger_s = 0.5\nstop_s = 60\n\
                [[traffic]]\ncontrol = 'adaptive'\nbytes = 250_000\nbytes_shape = 1.25\nload = 0.3\ngap_shape = 1.2\n\
                [[traffic]]\ncontrol = 'fixed'\nrate_mbit = 10\non_s = 1\noff_s = 2\non_off_shape = 1.5\nreverse = true\n";
    let scenario = Scenario::parse(text).unwrap();
    assert_eq!(scenario.queue_discipline, QueueDiscipline::Fair);
    assert_eq!(scenario.steps[0], Step { at_s: 5.0, bottleneck_mbit: Some(20.0), ..Step::default() });
    assert_eq!((scenario.steps[1].loss, scenario.steps[2].outage_s), (Some(0.1), Some(0.5)));
    assert_eq!((scenario.traffic.len(), scenario.traffic[0].count), (3, 4));
    assert_eq!(Scenario::parse(&scenario.to_string()).unwrap(), scenario);
    let traffic = scenario.cross_traffic().unwrap();
    assert!(traffic.iter().all(|one| one.is_background));
    assert_eq!(
        (traffic[0].spec.protocol.to_string(), traffic[0].spec.from),
        ("tcp:cubic".into(), Side::Left)
    );
    assert_eq!(
        traffic[0].arrivals,
        Arrivals::Staggered { from: Time::from_millis(1000), gap: Duration::from_millis(500), count: 4 }
    );
    assert_eq!(traffic[0].stop, Some(Time::from_millis(60_000)));
    assert_eq!(traffic[1].sizes, Some(Distribution::Pareto { shape: 1.25, mean: 250_000.0 }));
    let Arrivals::Random { gap_s: Distribution::Pareto { shape, mean }, .. } = traffic[1].arrivals else {
        panic!("{:?}", traffic[1].arrivals)
    };
    // 250 000 bytes at 30 Mb/s
    assert!(shape == 1.2 && (mean - 2.0 / 30.0).abs() < 1e-9);
    assert!(matches!(traffic[2].arrivals, Arrivals::OnOff { sources: 1, .. }));
    assert_eq!(traffic[2].spec.from, Side::Right);
}

#[test]
fn mistakes_in_tables_are_told_with_their_line() {
    for (table, expected) in [
        ("[[steps]]\nat_s = 1\nlos = 2", "line 5: there is no field of a step \"los\"; did you mean loss?"),
        ("[[steps]]\nat_s = 1", "line 4: at_s stands alone; a step needs one of"),
        ("[[steps]]\nloss = 1\nat_s = 1\noutage_s = 1", "line 5: at_s stands with several changes"),
        ("[[steps]]\nat_s = -1\nloss = 0.1", "line 4: at_s must be 0 to"),
        ("[[steps]]\nat_s = 1\nloss = 1.1", "line 5: loss must be a share from 0 to 1, not 1.1"),
        ("[[steps]]\nat_s = 1\nbottleneck_mbit = 0", "line 5: bottleneck_mbit must be above 0"),
        ("[[steps]]\nat_s = 1\noutage_s = 0", "line 5: outage_s must be above 0"),
        ("[[steps]]\nloss = 0.1\n[[steps]]\nloss = 2", "line 6: loss must be a share"),
        (
            "burst = 1.5\n[[steps]]\nat_s = 1\nloss = 0.9",
            "line 6: loss of 0.9 cannot come in bursts so short",
        ),
        ("[[steps]]\nat_s = 'soon'", "line 4: invalid type"),
        ("steps = 3", "line 3: invalid type"),
        (
            "[[traffic]]\ncontroll = 'cubic'",
            "line 4: there is no field of traffic \"controll\"; did you mean control?",
        ),
        ("[[traffic]]\ncount = 2", "line 3: control is missing"),
        (
            "[[traffic]]\ncontrol = 'tcp:cubci'",
            "line 4: control is unknown: there is no control \"tcp:cubci\"; did you mean tcp:cubic?",
        ),
        ("[[traffic]]\ncontrol = 'cubic'\ncount = 0", "line 5: count must be at least 1"),
        ("[[traffic]]\ncontrol = 'cubic'\nstart_s = 5\nstop_s = 4", "line 6: stop_s must come after start_s"),
        ("[[traffic]]\ncontrol = 'cubic'\nstart_s = nan", "line 5: start_s must be 0 to"),
        ("[[traffic]]\ncontrol = 'cubic'\nstagger_s = -1", "line 5: stagger_s must be 0 to"),
        ("[[traffic]]\ncontrol = 'cubic'\nbytes = 0", "line 5: bytes must be at least 1"),
        ("[[traffic]]\ncontrol = 'cubic'\nload = 0.5", "line 5: load needs bytes"),
        ("[[traffic]]\ncontrol = 'cubic'\nload = 50", "line 5: load must be above 0 and at most 10"),
        (
            "[[traffic]]\ncontrol = 'cubic'\nload = 0.5\nbytes = 9\ncount = 3",
            "line 7: count cannot stand beside load",
        ),
        ("[[traffic]]\ncontrol = 'cubic'\non_s = 1", "line 5: on_s stands alone"),
        ("[[traffic]]\ncontrol = 'cubic'\noff_s = 1", "line 5: off_s stands alone"),
        ("[[traffic]]\ncontrol = 'cubic'\non_s = 1\noff_s = inf", "line 6: off_s must be above 0"),
        (
            "[[traffic]]\ncontrol = 'cubic'\non_s = 1\noff_s = 1\nload = 1\nbytes = 1",
            "line 5: on_s cannot stand beside load",
        ),
        ("[[traffic]]\ncontrol = 'cubic'\nbytes = 9\nbytes_shape = 1", "line 6: bytes_shape must be above 1"),
        ("[[traffic]]\ncontrol = 'cubic'\nbytes_shape = 2", "line 5: bytes_shape needs bytes"),
        ("[[traffic]]\ncontrol = 'cubic'\ngap_shape = 2", "line 5: gap_shape needs load"),
        ("[[traffic]]\ncontrol = 'cubic'\non_off_shape = 2", "line 5: on_off_shape needs on_s and off_s"),
        ("[[traffic]]\ncontrol = 'fixed'\nrate_mbit = 0", "line 5: rate_mbit must be above 0"),
        (
            "[[traffic]]\ncontrol = 'tcp:cubic'\nrate_mbit = 3",
            "line 5: rate_mbit goes with fixed or rbudp; tcp:cubic finds its rate by itself",
        ),
        (
            "[[traffic]]\ncontrol = 'cubic'\nstagger_s = 1\nload = 0.5\nbytes = 9",
            "line 5: stagger_s cannot stand beside load or on_s",
        ),
        (
            "[[traffic]]\ncontrol = 'cubic'\non_s = 1\noff_s = 1\nstagger_s = 1",
            "line 7: stagger_s cannot stand beside load or on_s",
        ),
    ] {
        let found = problem(&format!("bottleneck_mbit = 1\nrtt_ms = 1\n{table}\n"));
        assert!(found.starts_with(expected), "{table}\n{found}");
        assert!(!found.contains('\n'), "{found}");
    }
    let mut scenario = Scenario { steps: vec![Step::default()], ..Scenario::new(1.0, 1.0) };
    scenario.steps.insert(0, Step { loss: Some(0.5), ..Step::default() });
    let found = scenario.validate().unwrap_err().to_string();
    assert!(found.starts_with("steps 2: at_s stands alone"), "{found}");
}
