//! Changes of a path in time.

use super::impairments::dice;
use super::measure;
use super::probe::{Probe, Received, Stream, arrival_mbit, within};
use crate::watched::{check, start};
use longhaul_lab::{Lab, Scenario, Side};
use std::time::{Duration, SystemTime};

#[test]
fn rate_changes_when_it_should() {
    measure(|| {
        let lab = start(&with_step(Scenario::new(40.0, 20.0), "at_s = 0.6\nbottleneck_mbit = 10")?)?;
        let probe = Probe::new(&lab, Side::Right)?;
        let received = run_from_zero(&lab, &probe, Stream::at_rate(48.0, 1500, 1.1))?;
        let between = |begin: f64, end: f64| -> Vec<Received> {
            let all = received.iter().filter(|(at, _)| (begin..end).contains(at));
            all.map(|(_, packet)| *packet).collect()
        };
        within("Mb/s before", arrival_mbit(&between(0.2, 0.6), 1500, 0.0), 40.0, 0.02)?;
        within("Mb/s after", arrival_mbit(&between(0.63, 1.1), 1500, 0.0), 10.0, 0.02)?;
        // A packet takes 0.3 ms before and 1.2 ms after.
        let are_slow = |some: &&[(f64, Received)]| some.windows(2).all(|pair| pair[1].0 - pair[0].0 > 0.0009);
        let slow = received.windows(6).find(are_slow).ok_or("the rate never fell")?;
        within("s until the change has come through", slow[0].0, 0.61, 0.02)
    });
}

#[test]
fn outage_takes_what_is_sent_while_it_lasts() {
    measure(|| {
        let lab = start(&with_step(Scenario::new(100.0, 20.0), "at_s = 0.2\noutage_s = 0.3")?)?;
        let probe = Probe::new(&lab, Side::Left)?;
        let stream = Stream { packets: 1400, packet_bytes: 200, gap: Duration::from_micros(500) };
        let received = run_from_zero(&lab, &probe, stream)?;
        let taken = lab.counters().left_to_right.dropped_cut;
        within("packets that the outage took", taken as f64, 600.0, 0.02)?;
        let gaps = received.windows(2).map(|pair| (pair[1].0 - pair[0].0, pair[0].0));
        let (longest, begin) =
            gaps.fold((0.0, 0.0), |longest, one| if one.0 > longest.0 { one } else { longest });
        within("s without a packet", longest, 0.3, 0.02)?;
        within("s until then", begin, 0.21, 0.02)
    });
}

#[test]
fn loss_begins_when_it_should_with_the_seeded_packets() {
    measure(|| {
        let scenario =
            with_step(Scenario { seed: 9, ..Scenario::new(100.0, 20.0) }, "at_s = 0.3\nloss = 0.2")?;
        let lab = start(&scenario)?;
        let probe = Probe::new(&lab, Side::Left)?;
        let stream = Stream { packets: 3000, packet_bytes: 200, gap: Duration::from_micros(250) };
        let received = run_from_zero(&lab, &probe, stream)?;
        let numbers: Vec<u32> = received.iter().map(|(_, packet)| packet.number).collect();
        // Which packet is the first after the step is a matter of time; all else follows from the seed.
        let arriving = |first: u32| -> Vec<u32> {
            let mut dice = dice(&scenario, Side::Left);
            let arrives = |number: &u32| {
                if *number == first {
                    dice.set_loss(0.2);
                }
                !dice.roll().lost
            };
            (0..stream.packets).filter(arrives).collect()
        };
        check((1150..1250).any(|first| arriving(first) == numbers), || {
            format!("{} of {} arrived, not those that the seed says", numbers.len(), stream.packets)
        })
    });
}

/// Packets from the scenario's time zero on, and in seconds since then when they arrived.
fn run_from_zero(lab: &Lab, probe: &Probe, stream: Stream) -> Result<Vec<(f64, Received)>, String> {
    lab.restart_clock().map_err(|error| error.to_string())?;
    lab.reset_counters();
    let zero = SystemTime::UNIX_EPOCH.elapsed().map_err(|error| error.to_string())?;
    let received = probe.run(stream)?;
    Ok(received
        .into_iter()
        .map(|packet| (packet.arrived.as_secs_f64() - zero.as_secs_f64(), packet))
        .collect())
}

fn with_step(scenario: Scenario, step: &str) -> Result<Scenario, String> {
    Scenario::parse(&format!("{scenario}\n[[steps]]\n{step}\n")).map_err(|error| error.to_string())
}
