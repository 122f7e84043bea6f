//! Copies by the program over an emulated path, beside the kernel's TCP.

use super::mix::{FlowMix, MixOutcomes, Ours, Shares, Way};
use super::{BACKGROUND_ALONE, BBR, CUBIC, CUBIC_ALONE, RENO, about_path, path};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copiers::Payload;
use crate::lab::copies::Copies;
use crate::lab::process::Process;
use crate::lab::striped::{Amount, Streams, Striped, Underway};
use longhaul_lab::{Lab, Side};
use std::rc::Rc;
use std::time::{Duration, Instant};

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

    /// More than any copy gets through before it is stopped.
    fn source_bytes(&self) -> u64 {
        let longest = self.mixes.iter().map(|&mix| self.timing(mix).total(mix));
        let longest = longest.max().unwrap_or_default() + START_TIME_MAX;
        (longest.as_secs_f64() * path().bottleneck_mbit * 1e6 / 8.0) as u64
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

impl Timing {
    /// All of it.
    fn total(self, mix: FlowMix) -> Duration {
        self.gap * mix.programs() + self.settle + self.measure
    }
}

/// How it was measured, and what came of it.
pub(super) fn meet(bench: &Bench<'_>) -> Result<(Vec<String>, Vec<MixOutcomes>), ExperimentError> {
    let extent = Extent::of(bench);
    bench.check_parts()?;
    bench.expect_runs(extent.mixes.len() * extent.rounds);
    let lab = bench.lab(&path())?;
    let source = Rc::new(Payload::file(bench, extent.source_bytes())?);
    let mut outcomes: Vec<MixOutcomes> =
        extent.mixes.iter().map(|&mix| MixOutcomes { mix, shares: vec![] }).collect();
    for round in 0..extent.rounds {
        for one in &mut outcomes {
            let timing = extent.timing(one.mix);
            one.shares.push(one.mix.measure(bench, &lab, &source, timing, round % 2 == 1)?);
        }
    }
    let Timing { gap, settle, measure } = extent.timing;
    let method = vec![
        format!(
            "{} Copies by longhaul cp as it \
             comes, each to a server of its own; TCP of the kernel's, in clear. What arrives at each one's port, in whole IP \
             packets, as a share of what the link carries.",
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

/// A program that sends.
enum Flow {
    Copy { process: Process, copies: Copies },
    Tcp(Underway),
}

impl Flow {
    fn port(&self) -> u16 {
        match self {
            Flow::Copy { copies, .. } => copies.port(),
            Flow::Tcp(underway) => underway.port,
        }
    }

    fn is_running(&mut self) -> bool {
        match self {
            Flow::Copy { process, .. } => process.is_running(),
            Flow::Tcp(underway) => underway.is_running(),
        }
    }
}

impl FlowMix {
    /// Let copies meet on that path. The others begin first if `rivals_first`.
    fn measure(
        self,
        bench: &Bench<'_>,
        lab: &Lab,
        source: &Rc<Payload>,
        timing: Timing,
        rivals_first: bool,
    ) -> Result<Shares, ExperimentError> {
        bench.run(lab, || {
            let (mut copies, mut rivals) = (vec![], vec![]);
            for is_rivals_turn in [rivals_first, !rivals_first] {
                if is_rivals_turn {
                    if let Some((control, connections)) = self.rivals {
                        rivals.push(Flow::Tcp(tcp(control, connections, timing.total(self)).begin(lab)?));
                        bench.wait(timing.gap)?;
                    }
                    continue;
                }
                for number in 0..self.count as u16 {
                    copies.push(self.copy(bench, lab, source, FIRST_PORT + number)?);
                    bench.wait(timing.gap)?;
                }
            }
            bench.wait(timing.settle)?;
            let ports: Vec<u16> = copies.iter().chain(&rivals).map(Flow::port).collect();
            lab.watch_ports(Side::Right, &ports);
            let arrived = || ports.iter().map(|port| lab.bytes_to(Side::Right, *port)).collect::<Vec<u64>>();
            let (before, from) = (arrived(), Instant::now());
            bench.wait(timing.measure)?;
            let (after, seconds) = (arrived(), from.elapsed().as_secs_f64());
            if !copies.iter_mut().chain(&mut rivals).all(Flow::is_running) {
                let reason = "one of them was at its end before it had been measured".into();
                return Err(ExperimentError::Program {
                    program: "programs that share a path".into(),
                    reason,
                });
            }
            let mbit = path().bottleneck_mbit;
            let shares = after
                .iter()
                .zip(&before)
                .map(|(after, before)| (after - before) as f64 * 8e-6 / seconds / mbit);
            let mut shares: Vec<f64> = shares.collect();
            let rivals = shares.split_off(copies.len()).iter().sum();
            Ok(Shares { ours: shares, rivals, queue_bdp: None })
        })
    }

    fn copy(
        self,
        bench: &Bench<'_>,
        lab: &Lab,
        source: &Rc<Payload>,
        port: u16,
    ) -> Result<Flow, ExperimentError> {
        let copies = Copies::of(bench, lab, source.clone(), port)?;
        let args: &[&str] = match self.ours.way {
            Way::Default => &[],
            Way::Udp => &["--transport", "object"],
            Way::Background => &["--background"],
        };
        Ok(Flow::Copy { process: copies.begin(bench, lab, args)?, copies })
    }
}

/// TCP of the kernel's for so long at least.
fn tcp(control: &'static str, connections: u32, time: Duration) -> Striped {
    let measure = time.as_secs_f64() + TCP_LONGER_S;
    Striped {
        streams: Streams::Fixed(connections),
        congestion: control,
        amount: Amount::Seconds { skip: 0.0, measure },
        ..Striped::default()
    }
}

/// The program's own is left to others.
const FIRST_PORT: u16 = 7710;
/// A start that takes its time.
const TCP_LONGER_S: f64 = 30.0;
/// Until a program has begun.
const START_TIME_MAX: Duration = Duration::from_secs(5);
/// So many copies meet each other.
pub(super) const ALIKE_COPIES: [u32; 3] = [2, 3, 4];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_begins_in_a_gap_of_its_own() {
        let second = Duration::from_secs(1);
        let timing = Timing { gap: second, settle: 2 * second, measure: 3 * second };
        assert_eq!(timing.total(FlowMix::of(Ours::DEFAULT, 0).beside("cubic", 4)), 6 * second);
        assert_eq!(timing.total(FlowMix::of(Ours::DEFAULT, 3)), 8 * second);
        assert_eq!(timing.total(BACKGROUND_ALONE.beside("cubic", 1)), 7 * second);
    }
}
