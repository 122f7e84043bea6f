//! Figure 3: bandwidth against the size of the packets, on a path that the hosts can hardly fill.

use super::plan::{Plan, Sweep};
use super::run::{Fobs, OBJECT_BYTES, failures, percent};
use super::simulated::Hosts;
use super::slowed;
use crate::ExperimentError;
use crate::experiment::{self, Backend, Experiment};
use crate::report::{Claim, Findings, Plane, Plot, Statement, Table, Unit};
use longhaul_lab::Scenario;

pub(super) const EXPERIMENT: Experiment = Experiment::either(
    "fobs-fig3",
    "Share of an OC-12 that FOBS gets, against the size of its packets (Figure 3)",
    &[TREMENDOUS, PEAK],
    measure,
)
.alone()
.differing(
    "the simulator's hosts are of the paper's time and take 50 µs and more for a datagram; today's take a tenth of that, and hand \
     many to the kernel with one call",
);

const TREMENDOUS: Claim = Claim::paper(
    "FOBS §5, Figure 3",
    "the size of the packet makes a tremendous difference (the best gets three times what the worst gets)",
);
const PEAK: Claim = Claim::paper(
    "FOBS §5, Figure 3",
    "at the best size FOBS gets about 52 % of the available bandwidth (47 % at least)",
);

/// Packet sizes and what FOBS got with each.
struct Sizes<'a> {
    /// Both ends get a millisecond of a processor in so many; as many processors as there are, if none.
    period_ms: Option<u32>,
    sizes: &'a [u32],
    sweep: Sweep,
}

fn measure(backend: &Backend<'_>) -> Result<Findings, ExperimentError> {
    let sizes = backend.pick(&SIZES[..], backend.choose(&SIZES[..], &QUICK_SIZES[..]), &[1024]);
    let (rounds, bytes) =
        (backend.pick(5, 3, 1), backend.pick(OBJECT_BYTES, OBJECT_BYTES, OBJECT_BYTES / 20));
    let variants: Vec<Fobs> = sizes
        .iter()
        .map(|&packet_len| Fobs { packet_len, ack_every: ACK_EVERY, ..Fobs::default() })
        .collect();
    let slow_ms = backend.pick(&PERIODS_MS[..], &QUICK_PERIODS_MS[..], &QUICK_PERIODS_MS);
    let slowed::Hosts { periods_ms, about } = slowed::Hosts::of(backend, slow_ms);
    let (paths, hosts) = ([path()], Hosts::Gigabit);
    let plan = |&period_ms| Plan { paths: &paths, bytes, rounds, variants: &variants, hosts, period_ms };
    let plans: Vec<Plan<'_>> = periods_ms.iter().map(plan).collect();
    let sweeps = Plan::run_all(&plans, backend)?.into_iter().zip(&periods_ms);
    let measured: Vec<Sizes<'_>> =
        sweeps.map(|(sweep, &period_ms)| Sizes { period_ms, sizes, sweep }).collect();
    let path = format!(
        "{:.1} MB over an OC-12 ({OC12_MBIT} Mb/s, {} ms, no loss), which the sending host's card holds it to; packets \
         travel whole (the path's MTU is {} bytes). FOBS: F = {ACK_EVERY}, B = 2, circular.",
        bytes as f64 / 1e6,
        path().rtt_ms,
        path().mtu
    );
    let hosts = backend.choose(
        "Hosts are ours, the paper gives no costs: 60 µs for a datagram sent, 50 µs for one received, 23 ns a byte. Where the \
         peak lies follows from the cost per byte; only the shape compares."
            .to_owned(),
        format!(
            "A file; goodput: its bytes over the time from program start to verified completion; the handshake before and the \
             check after are about a fifth of the time that the data takes at full rate. Medians of {rounds} rounds. What \
             limits small packets is this host, which is both ends and the path between them; the paper's were an SGI \
             Origin2000 and a Pentium III. Only the shape compares."
        ),
    );
    let failed = failures(measured.iter().flat_map(|sizes| sizes.sweep.all()));
    let method = [path, hosts].into_iter().chain(about).chain(failed).collect();
    let tables = measured.iter().map(Sizes::table);
    let mut plane = Plane::default();
    measured.iter().for_each(|sizes| plane.push(slowed::condition(sizes.period_ms), sizes.judge()));
    Ok(plane.findings(method, tables))
}

/// NCSA–LCSE: gigabit cards, an OC-12 between them (FOBS §4). The paper gives no round trip; it is a short haul. That the
/// card has the OC-12's rate keeps a host that is faster than the paper's from throwing away what the OC-12 cannot take.
fn path() -> Scenario {
    Scenario { name: "NCSA–LCSE".into(), ..experiment::path("fobs-oc12") }
}

impl Sizes<'_> {
    fn table(&self) -> Table {
        let (name, title) = slowed::titled("sizes", "Share of the OC-12, by size of packet", self.period_ms);
        Table::of(name, title, &self.sizes.iter().zip(&self.sweep.fobs).collect::<Vec<_>>())
            .column("packet", Unit::Bytes, |(size, _)| *size)
            .column("FOBS's goodput", Unit::Mbps, |(_, runs)| runs.goodput_mbps())
            .column("FOBS", Unit::Share, |(_, runs)| runs.share(OC12_MBIT))
            .column("longhaul's default", Unit::Share, |(_, _)| self.sweep.default_share(OC12_MBIT))
            .column("paper's best", Unit::Share, |(_, _)| PAPER_PEAK)
            .column("waste", Unit::Share, |(_, runs)| runs.waste())
            .table()
            .plot(Plot::lines("packet", &["FOBS", "longhaul's default", "paper's best"]).log_x())
    }

    fn judge(&self) -> Vec<Statement> {
        let shares: Vec<(u32, f64)> = self
            .sizes
            .iter()
            .zip(&self.sweep.fobs)
            .filter_map(|(size, runs)| Some((*size, runs.share(OC12_MBIT)?)))
            .collect();
        let best = shares.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
        let worst = shares.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1));
        let (Some(best), Some(worst)) = (best, worst) else {
            return [TREMENDOUS, PEAK].map(|claim| claim.leave_open("no copy was done")).into();
        };
        let done = format!("{} of {} sizes were done", shares.len(), self.sizes.len());
        let is_whole = shares.len() == self.sizes.len();
        let figures = format!(
            "{} with {} bytes, {} with {}",
            percent(Some(worst.1)),
            worst.0,
            percent(Some(best.1)),
            best.0
        );
        // A size more can only make the difference larger, and the best better.
        let judge = |claim: Claim, holds: bool, is_enough: bool| match holds || is_enough {
            true => claim.judge(holds, figures.clone()),
            false => claim.leave_open(format!("{done}: {figures}")),
        };
        let has_two = is_whole && shares.len() > 1;
        vec![
            judge(TREMENDOUS, best.1 >= TREMENDOUS_TIMES * worst.1, has_two).otherwise(
                "a datagram costs this host little beside what it lasts on an OC-12, for the kernel takes many with one call",
            ),
            judge(PEAK, best.1 >= PEAK_MIN, is_whole)
                .better_if(best.1 >= PEAK_BETTER)
                .otherwise("this host, which is both ends and the path, is too slow or too busy"),
        ]
    }
}

/// OC-12, 10⁶ bit/s.
const OC12_MBIT: f64 = 622.08;
const ACK_EVERY: u32 = 256;
/// The paper's horizontal axis is not given.
const SIZES: [u32; 9] = [512, 1024, 1472, 2048, 4096, 8192, 16_384, 32_768, 61_440];
const QUICK_SIZES: [u32; 5] = [512, 1024, 4096, 16_384, 61_440];
/// The kernel gives a group of programs a millisecond in a period at least, so that a smaller share has a longer period.
const PERIODS_MS: [u32; 4] = [2, 3, 4, 8];
const QUICK_PERIODS_MS: [u32; 1] = [4];
/// FOBS §5.
const PAPER_PEAK: f64 = 0.52;
const PEAK_MIN: f64 = 0.47;
const PEAK_BETTER: f64 = 0.57;
const TREMENDOUS_TIMES: f64 = 3.0;

#[cfg(test)]
mod tests {
    use super::super::run::Runs;
    use super::*;
    use crate::report::Verdict;

    fn verdicts(goodputs: [f64; 2]) -> Vec<Verdict> {
        let sweep = Sweep::of(goodputs.map(|mbps| Runs::one(mbps, 0.0)).into(), Runs::default());
        let statements = Sizes { period_ms: None, sizes: &[512, 4096], sweep }.judge();
        statements.into_iter().map(|statement| statement.verdict).collect()
    }

    #[test]
    fn the_difference_and_the_peak_are_judged_apart() {
        assert_eq!(verdicts([100.0, 330.0]), [Verdict::Reproduced; 2]);
        assert_eq!(verdicts([200.0, 330.0]), [Verdict::NotReproduced, Verdict::Reproduced]);
        assert_eq!(verdicts([200.0, 400.0]), [Verdict::NotReproduced, Verdict::Better]);
        assert_eq!(verdicts([200.0, 250.0]), [Verdict::NotReproduced; 2]);
    }

    #[test]
    fn a_size_that_came_to_nothing_leaves_open_what_it_might_have_decided() {
        let verdicts = |mbps: &[Option<f64>]| {
            let runs = mbps.iter().map(|mbps| mbps.map_or(Runs::default(), |mbps| Runs::one(mbps, 0.0)));
            let sweep = Sweep::of(runs.collect(), Runs::default());
            let statements =
                Sizes { period_ms: None, sizes: &[512, 4096, 8192][..mbps.len()], sweep }.judge();
            statements.into_iter().map(|statement| statement.verdict).collect::<Vec<_>>()
        };
        let open = Verdict::Open;
        assert_eq!(verdicts(&[None, Some(200.0), Some(250.0)]), [open; 2]);
        assert_eq!(verdicts(&[None, Some(100.0), Some(330.0)]), [Verdict::Reproduced; 2]);
        assert_eq!(verdicts(&[Some(330.0)]), [open, Verdict::Reproduced], "one size has no difference");
    }
}
