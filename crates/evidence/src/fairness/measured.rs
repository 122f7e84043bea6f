//! Copies by the program over an emulated path, beside the kernel's TCP.

use super::mix::{FlowMix, MixOutcomes, Ours, Way};
use super::{BACKGROUND_ALONE, BBR, CUBIC, CUBIC_ALONE, RENO, about_path, path};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::meeting::{Guest, Meeting};
use longhaul_proto::units::Time;
use std::time::Duration;

/// What is to meet, and for how long.
struct Extent {
    mixes: Vec<FlowMix>,
    rounds: usize,
    timing: Timing,
    /// For a flow by itself.
    alone: Timing,
}

impl Extent {
    fn of(bench: &Bench<'_>) -> Extent {
        let copy = FlowMix::of(Ours::DEFAULT, 1);
        let yielding = [CUBIC_ALONE, BACKGROUND_ALONE, BACKGROUND_ALONE.beside(CUBIC, 1)];
        let udp = FlowMix::of(Ours { way: Way::Udp, ..Ours::DEFAULT }, 1).beside(CUBIC, 1);
        let full = || -> Vec<FlowMix> {
            let rivals = [CUBIC, RENO, BBR]
                .into_iter()
                .flat_map(|rival| [1, 4].map(|count| copy.beside(rival, count)));
            let alike = ALIKE_COPIES.map(|count| FlowMix::of(Ours::DEFAULT, count));
            alike.into_iter().chain(rivals).chain([udp]).chain(yielding).collect()
        };
        let few = [FlowMix::of(Ours::DEFAULT, 3), copy.beside(CUBIC, 1), udp, copy.beside(BBR, 1)];
        let timing = |gap_s: f64, settle_s: f64, measure_s: f64| {
            let [gap, settle, measure] = [gap_s, settle_s, measure_s].map(Duration::from_secs_f64);
            Timing { gap, settle, measure }
        };
        let quick = few.into_iter().chain(yielding).collect();
        let smoke = vec![copy.beside(CUBIC, 1)];
        let usual: Vec<FlowMix> = bench.pick(full(), quick, smoke);
        let is_wanted = |mix: &FlowMix| bench.wants(&mix.name(), usual.contains(mix));
        let mixes = full().into_iter().filter(is_wanted).collect();
        let (rounds, timing, alone) = bench.pick(
            (3, timing(2.0, 10.0, 20.0), timing(0.0, 5.0, 10.0)),
            (1, timing(1.0, 2.5, 4.0), timing(0.0, 2.0, 2.0)),
            (1, timing(0.1, 0.2, 0.3), timing(0.0, 0.2, 0.3)),
        );
        Extent { mixes, rounds, timing, alone }
    }

    fn timing(&self, mix: FlowMix) -> Timing {
        if [CUBIC_ALONE, BACKGROUND_ALONE].contains(&mix) { self.alone } else { self.timing }
    }
}

/// When flows begin and are measured.
#[derive(Clone, Copy, Debug)]
struct Timing {
    /// Between beginnings.
    gap: Duration,
    /// From the last beginning until they are measured.
    settle: Duration,
    measure: Duration,
}

/// How it was measured, and what came of it.
pub(super) fn meet(bench: &Bench<'_>) -> Result<(Vec<String>, Vec<MixOutcomes>), ExperimentError> {
    let extent = Extent::of(bench);
    bench.check_parts()?;
    bench.expect_runs(extent.mixes.len() * extent.rounds);
    let lab = bench.lab(&path())?;
    let meeting = |mix: FlowMix, round: usize| mix.meeting(extent.timing(mix), round % 2 == 1);
    let longest: Vec<Meeting> = extent.mixes.iter().map(|&mix| meeting(mix, 0)).collect();
    let payload = Meeting::payload(bench, &longest)?;
    let mut outcomes: Vec<MixOutcomes> =
        extent.mixes.iter().map(|&mix| MixOutcomes { mix, shares: vec![] }).collect();
    for round in 0..extent.rounds {
        for one in &mut outcomes {
            one.shares.push(meeting(one.mix, round).measure(bench, &lab, &payload)?.0);
        }
    }
    let Timing { gap, settle, measure } = extent.timing;
    let method = vec![
        format!(
            "{} Copies by longhaul cp as it \
             comes, each to a server of its own, by what arrives at its port; TCP of the kernel's, by what its programs get, with \
             its headers. In whole IP packets, as a share of what the link carries.",
            about_path()
        ),
        format!(
            "Programs begin {} s apart, the copies first (with more than one round, last in every other); {} s after the last \
             beginning all are measured for {} s, and none is at its end before. {} round(s); worst: of these.",
            gap.as_secs_f64(),
            settle.as_secs_f64(),
            measure.as_secs_f64(),
            extent.rounds
        ),
    ];
    Ok((method, outcomes))
}

impl FlowMix {
    /// Copies on that path, one after another. The others begin together, and first if `rivals_first`.
    fn meeting(self, timing: Timing, rivals_first: bool) -> Meeting {
        let at = |gaps: u32| Time::ZERO + timing.gap * gaps;
        let has_rivals = u32::from(self.rivals.is_some());
        let (first, rivals_at) = if rivals_first { (has_rivals, 0) } else { (0, self.count) };
        let ours = (first..first + self.count).map(|gaps| self.ours.guest(at(gaps)));
        let rivals = self.rivals.map_or(vec![], |(control, connections)| {
            (0..connections).map(|_| Guest::tcp(control, at(rivals_at))).collect()
        });
        let from = at(self.count + has_rivals) + timing.settle;
        let transport = if self.ours.way == Way::Udp { "object" } else { "auto" };
        Meeting { path: path(), ours: ours.collect(), rivals, from, until: from + timing.measure, transport }
    }
}

/// So many copies meet each other.
pub(super) const ALIKE_COPIES: [u32; 3] = [2, 3, 4];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_begins_in_a_gap_of_its_own_whoever_comes_first() {
        let second = Duration::from_secs(1);
        let timing = Timing { gap: second, settle: 2 * second, measure: 3 * second };
        let mix = FlowMix::of(Ours::DEFAULT, 2).beside(CUBIC, 4);
        let begun = |rivals_first| {
            let Meeting { ours, rivals, from, until, .. } = mix.meeting(timing, rivals_first);
            assert_eq!([from, until], [5000, 8000].map(Time::from_millis));
            let seconds =
                |guests: Vec<Guest>| guests.iter().map(|guest| guest.at.as_secs_f64()).collect::<Vec<_>>();
            (seconds(ours), seconds(rivals))
        };
        assert_eq!(begun(false), (vec![0.0, 1.0], vec![2.0; 4]));
        assert_eq!(begun(true), (vec![1.0, 2.0], vec![0.0; 4]));
    }
}
