//! The measurement behind all three figures, over emulated paths.

use super::{
    BUFFERS_BDP, COUNTS, Cell, Condition, Contender, FULL, Job, Measured, Plan, RATE_MBIT, START_GAP, Times,
    VARIANTS, WINDOWS_BDP, background, path,
};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::datagrams::failed;
use crate::lab::figures::possible;
use crate::lab::flows;
use crate::lab::side_by_side::{Halt, Outcome, side_by_side};
use longhaul_lab::datagrams::joined;
use longhaul_lab::variants::{Origin, Variant};
use longhaul_lab::{Flows, Lab, Side, TcpSettings};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::flow::{ENDLESS, FlowSpec, KnownPath};
use longhaul_sim::metrics::jain;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Measure.
pub(super) fn measure(bench: &Bench<'_>) -> Result<Measured, ExperimentError> {
    let counts: &[u64] = bench.pick(&COUNTS[..], &[1, 5, 10, 30], &[2]);
    let buffers: &[f64] = bench.pick(&BUFFERS_BDP[..2], &BUFFERS_BDP[..1], &BUFFERS_BDP[..1]);
    let windows: &[_] = bench.pick(&WINDOWS_BDP[..4], &WINDOWS_BDP[..3], &WINDOWS_BDP[..1]);
    let (times, seeds) = (Times::of(bench.options.scale), bench.pick(2, 1, 1));
    let wanted: &[&'static str] = bench.pick(&VARIANTS[..], &VARIANTS[..], &VARIANTS[..1]);
    // Programs in BPF are there for as long as these are.
    let (variants, mut remarks) = variants(wanted);
    let kernel =
        |(name, variant): &(&'static str, Variant)| Contender::Tcp { name, kernel: variant.name().into() };
    let contenders: Vec<Contender> = variants.iter().map(kernel).chain([Contender::Adaptive]).collect();
    let first = bench.options.seed;
    let plan = Plan {
        conditions: Condition::all(buffers, windows),
        contenders,
        counts,
        seeds: first..first + seeds,
    };
    let runs: Vec<_> = plan.jobs().into_iter().map(|job| PtcpRun { job, times }).collect();
    bench.expect_runs(runs.len());
    let is_ours = |(_, run): &(usize, PtcpRun<'_>)| *run.job.contender == Contender::Adaptive;
    let (ours, theirs): (Vec<_>, Vec<_>) = runs.into_iter().enumerate().partition(is_ours);
    let mut cells = vec![];
    for (runs, at_a_time) in [(theirs, AT_A_TIME), (ours, OURS_AT_A_TIME)] {
        let found = side_by_side(bench, at_a_time, &runs, |(_, run), halt| run.run(halt))?;
        cells.extend(runs.into_iter().map(|(nth, _)| nth).zip(found));
    }
    cells.sort_by_key(|(nth, _)| *nth);
    let cells: Vec<Cell> = cells.into_iter().map(|(_, cell)| cell).collect();
    let programs: Vec<&str> =
        variants.iter().filter(|(_, variant)| variant.origin() == Origin::Program).map(|one| one.0).collect();
    if !programs.is_empty() {
        remarks.push(format!(
            "This kernel lacks {}: our programs in BPF took their place.",
            programs.join(", ")
        ));
    }
    let how = format!(
        "The kernel's own TCP, one congestion control at a time, over {RATE_MBIT} Mb/s; flows begin {} ms after \
         one another and go on. {times}; means of {seeds} seed(s). Utilisation: what programs got, the background's \
         included, over the link's rate ({:.1} % is full: headers); loss: packets dropped at the link over packets sent to \
         it; Jain's index over what each flow's program got.",
        START_GAP.as_millis(),
        FULL * 100.0
    );
    let method = [how].into_iter().chain(remarks).collect();
    Ok(Measured { grids: plan.grids(&cells), method, late: bench.late_runs() })
}

/// Those that can be had, and a remark on each that cannot.
fn variants(wanted: &[&'static str]) -> (Vec<(&'static str, Variant)>, Vec<String>) {
    let (mut variants, mut remarks) = (vec![], vec![]);
    for &name in wanted {
        match Variant::require(name) {
            Ok(variant) => variants.push((name, variant)),
            Err(error) => remarks.push(format!("Without {name}: {error}.")),
        }
    }
    (variants, remarks)
}

/// A run.
struct PtcpRun<'a> {
    job: Job<'a>,
    times: Times,
}

impl PtcpRun<'_> {
    fn run(&self, halt: Halt<'_>) -> Result<Outcome<Cell>, ExperimentError> {
        let Job { condition, contender, count, seed } = self.job;
        let path = path(condition.buffer_bdp, seed);
        let lab = Lab::start(&path)?;
        for end in [Side::Left, Side::Right] {
            lab.set_tcp(end, &TcpSettings { sack: Some(condition.sack), ..TcpSettings::default() })?;
        }
        let background = lab.flows("reno", vec![background(condition, &path)], seed)?;
        let cell = match contender {
            Contender::Tcp { kernel, .. } => {
                let flows = lab.flows(kernel, vec![contender.flows(count, condition)], seed)?;
                self.watch(&lab, &background, || flows::check(&flows).map(|()| flows.received()), halt)
            }
            Contender::Adaptive => self.adaptive(&lab, &background, halt),
        }?;
        flows::check(&background)?;
        Ok(Outcome { of: cell, is_late: lab.cpu_limited() })
    }

    /// Flows of the default control.
    fn adaptive(&self, lab: &Lab, background: &Flows, halt: Halt<'_>) -> Result<Cell, ExperimentError> {
        let Job { condition, count, seed: first, .. } = self.job;
        let mut ends = vec![];
        for number in 0..count {
            let seed = first + number;
            let spec = FlowSpec { seed, ..FlowSpec::object(ControllerKind::Adaptive, ENDLESS) };
            ends.push(lab.ends(&spec, KnownPath::of(&path(condition.buffer_bdp, first)))?);
        }
        let arrived: Vec<AtomicU64> = ends.iter().map(|_| AtomicU64::new(0)).collect();
        let over = AtomicBool::new(false);
        let within = halt.until(&over);
        thread::scope(|scope| {
            let flows = ends.into_iter().zip(&arrived).enumerate().map(|(number, (ends, arrived))| {
                let over = &over;
                scope.spawn(move || match within.sleep(START_GAP * number as u32) {
                    Ok(()) => ends.stream(over, arrived).map_err(failed),
                    // It is over before it began.
                    Err(_) => Ok(()),
                })
            });
            let flows: Vec<_> = flows.collect();
            let read = || Ok(arrived.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect());
            let cell = self.watch(lab, background, read, within);
            over.store(true, Ordering::Relaxed);
            // A flow that breaks off interrupts the rest: then its own error says why.
            flows.into_iter().try_for_each(joined).and(cell)
        })
    }

    /// What happens while it is measured; `received` tells what each flow has brought so far.
    fn watch(
        &self,
        lab: &Lab,
        background: &Flows,
        received: impl Fn() -> Result<Vec<u64>, ExperimentError>,
        halt: Halt<'_>,
    ) -> Result<Cell, ExperimentError> {
        halt.sleep(self.times.settle(self.job.count))?;
        lab.reset_counters();
        let (start, before, others_before) = (Instant::now(), received()?, background.received());
        halt.sleep(self.times.measure)?;
        let (seconds, after, others) = (start.elapsed().as_secs_f64(), received()?, background.received());
        let link = lab.counters().left_to_right;
        // A flow that has not come yet has got nothing.
        let earlier = before.iter().copied().chain(std::iter::repeat(0));
        let mut goodputs: Vec<f64> = after
            .iter()
            .zip(earlier)
            .map(|(after, before)| (after - before) as f64 * 8e-6 / seconds)
            .collect();
        goodputs.resize(self.job.count as usize, 0.0);
        let mbps: f64 = goodputs.iter().sum();
        let others = others.iter().sum::<u64>() - others_before.iter().sum::<u64>();
        let all_mbps = possible(mbps + others as f64 * 8e-6 / seconds, RATE_MBIT)?;
        Ok(Cell {
            utilisation: all_mbps / RATE_MBIT,
            loss: link.dropped_queue as f64 / link.packets_in.max(1) as f64,
            jain: jain(&goodputs),
            mbps,
        })
    }
}

/// Paths of 10 Mb/s at a time: 14 000 packets a second altogether. On two processors, beside another experiment, none of 728 runs
/// came late.
const AT_A_TIME: usize = 16;
/// Our own control takes an emulator that comes late for a queue.
const OURS_AT_A_TIME: usize = 4;
