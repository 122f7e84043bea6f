//! Flows in the simulator.

use super::mix::{FlowMix, MixOutcomes, Ours, Way};
use super::{BACKGROUND_ALONE, BBR, CUBIC, CUBIC_ALONE, about_path, path};
use crate::Scale;
use crate::meeting::{Guest, Meeting, Shares};
use crate::sim::{Options, run_jobs};
use fastrand::Rng;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::scenario::Scenario;
use std::time::Duration;

/// How long runs are, and how many.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Flows are measured from here …
    from: Time,
    /// … to here.
    until: Time,
    /// Between the beginnings of flows of a kind that share the path among themselves.
    gap: Duration,
    /// Each mix takes place with so many seeds, which decide when in a gap a flow begins.
    seeds: u64,
}

impl Extent {
    fn of(scale: Scale) -> Extent {
        let of = |from_ms, until_ms, gap_ms, seeds| Extent {
            from: Time::from_millis(from_ms),
            until: Time::from_millis(until_ms),
            gap: Duration::from_millis(gap_ms),
            seeds,
        };
        scale.pick(of(30_000, 60_000, 2000, SEEDS_FULL), of(30_000, 60_000, 2000, 1), of(400, 800, 40, 1))
    }
}

/// How it was simulated, and what came of it.
pub(super) fn meet(options: &Options<'_>) -> (Vec<String>, Vec<MixOutcomes>) {
    let extent = Extent::of(options.scale);
    let mixes = mixes(options.scale);
    let seeds = |mix| (0..extent.seeds).map(move |nth| (mix, options.seed + nth));
    let jobs: Vec<(FlowMix, u64)> = mixes.iter().copied().flat_map(seeds).collect();
    let shares = run_jobs(options, &jobs, |(mix, seed)| mix.simulate(extent, *seed));
    let shares = shares.chunks(extent.seeds as usize).map(<[Shares]>::to_vec);
    let outcomes = mixes.into_iter().zip(shares).map(|(mix, shares)| MixOutcomes { mix, shares });
    let method = vec![
        format!(
            "{} What each flow \
             delivers from {:.0} s to {:.0} s, as a share of what the link carries of object bytes (1434 of each \
             1500; TCP's headers are shorter). {} run(s) of each; worst: of these.",
            about_path(),
            extent.from.as_secs_f64(),
            extent.until.as_secs_f64(),
            extent.seeds
        ),
        format!(
            "Flows with their like begin {} s apart, with rivals all within that time; chance decides the rest. A \
             round trip is four times the others' by a longer way to the link.",
            extent.gap.as_secs_f64()
        ),
    ];
    (method, outcomes.collect())
}

fn mixes(scale: Scale) -> Vec<FlowMix> {
    let alike = [false, true]
        .into_iter()
        .flat_map(|has_far| COUNTS.map(|count| FlowMix { has_far, ..FlowMix::of(Ours::DEFAULT, count) }));
    let counts: &[u32] = scale.pick(&[1, 4, 16], &[1, 4], &[1]);
    let one = |control, way| FlowMix::of(Ours { control, way }, 1);
    let beside = [CUBIC, BBR].into_iter().flat_map(|rival| counts.iter().map(move |count| (rival, *count)));
    let beside =
        beside.flat_map(|(rival, count)| OURS.map(|control| one(control, Way::Default).beside(rival, count)));
    let yielding = YIELDING.map(|control| one(control, Way::Background));
    let behind = yielding.map(|mix| mix.beside(CUBIC, 1));
    alike.chain(beside).chain([CUBIC_ALONE]).chain(yielding).chain(behind).collect()
}

impl FlowMix {
    fn simulate(self, extent: Extent, seed: u64) -> Shares {
        let mut rng = Rng::with_seed(seed);
        let mut at = |gaps: u32| Time::ZERO + extent.gap * gaps + extent.gap.mul_f64(rng.f64());
        // Of one kind, they come one after another.
        let ours = (0..self.count).map(|number| {
            let access_delay = if self.has_far && number % 2 == 1 { LONGER } else { Duration::ZERO };
            Guest { access_delay, ..self.ours.guest(at(number)) }
        });
        let ours = ours.collect();
        let rivals = self.rivals.map_or(vec![], |(control, connections)| {
            (0..connections).map(|_| Guest::tcp(control, at(0))).collect()
        });
        let Extent { from, until, .. } = extent;
        Meeting { path: Scenario { seed, ..path() }, ours, rivals, from, until, transport: "auto" }.simulate()
    }
}

/// Each way: 160 ms instead of 40 ms there and back.
const LONGER: Duration = Duration::from_millis(60);
const COUNTS: [u32; 3] = [2, 4, 8];
const SEEDS_FULL: u64 = 5;
/// Ours, and others for comparison.
const OURS: [ControllerKind; 5] = [
    ControllerKind::Adaptive,
    ControllerKind::Pcp,
    ControllerKind::Udt,
    ControllerKind::Ledbat,
    ControllerKind::Cubic,
];
/// Those that can be told to yield: ours, and LEDBAT for comparison.
const YIELDING: [ControllerKind; 2] = [BACKGROUND_ALONE.ours.control, ControllerKind::Ledbat];
