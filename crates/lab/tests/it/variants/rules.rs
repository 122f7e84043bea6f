//! Growth between losses and the cut at each, against the formulas.

use super::measure_programs;
use super::trace::{self, Sample};
use crate::watched::{Verdict, check, side_by_side};
use longhaul_lab::variants::{Origin, Variant};
use longhaul_lab::{Lab, Scenario, Side, TcpSettings};
use longhaul_sim::path::PathConfig;
use std::ops::Range;
use std::sync::OnceLock;

type Rule = fn() -> Verdict;

/// All at once: four such connections leave much of the machine idle.
#[test]
fn windows_grow_and_are_cut_as_the_formulas_say() {
    let rules: [(&str, Rule); 4] =
        [("scalable", scalable), ("hstcp", hstcp), ("htcp", htcp), ("htcp, full queue", htcp_with_a_queue)];
    measure_programs(|| {
        side_by_side(rules, |(name, rule)| rule().map_err(|why| format!("{name}: {why}"))).map(|_| ())
    });
}

fn scalable() -> Verdict {
    let course = Course::losing("lh_scalable")?;
    course.check_cuts(|_, _| 7.0 / 8.0)?;
    // A hundredth for each segment above 100, 1/w below, as Reno.
    course.check_growth(|sample, _| sample.window / sample.window.min(100.0))
}

fn hstcp() -> Verdict {
    let course = Course::losing("lh_hstcp")?;
    course.check_cuts(|before, _| 1.0 - decrease(before.window))?;
    course.check_growth(|sample, _| increase(sample.window))
}

fn htcp() -> Verdict {
    let course = Course::losing("lh_htcp")?;
    // After slow start there is no throughput to compare with yet, or a much smaller one.
    course.check_cuts(|_, _| 0.5)?;
    course.check_growth(|sample, since_loss_s| alpha(since_loss_s, sample.rtt_min_us / 1e6, 0.5))
}

/// Where the queue holds half a round trip, RTTmin / RTTmax is 2/3. Then H-TCP gives up what empties the queue.
fn htcp_with_a_queue() -> Verdict {
    let course =
        Course::over(&Scenario { queue_bdp: Some(0.5), ..Scenario::new(20.0, 40.0) }, "lh_htcp", 7.0)?;
    // The first ones follow slow start, whose throughput is that of a path not yet full.
    let [_, _, losses @ ..] = &course.losses[..] else { return Err("less than three losses".into()) };
    check(!losses.is_empty(), || "only two losses".into())?;
    let rtt_max_us = course.samples.iter().map(|sample| sample.rtt_us).fold(0.0, f64::max);
    for loss in losses {
        let (kept, expected) = (course.kept(*loss), course.samples[*loss].rtt_min_us / rtt_max_us);
        println!("  kept {kept:.3} of the window, RTTmin / RTTmax {expected:.3}");
        check((0.6..0.72).contains(&expected), || format!("RTTmin / RTTmax is {expected:.3} on this path"))?;
        check((kept - expected).abs() < 0.06, || format!("kept {kept:.3} of the window, not {expected:.3}"))?;
    }
    Ok(())
}

/// A connection that always sends.
struct Course {
    samples: Vec<Sample>,
    /// The first samples of repairs.
    losses: Vec<usize>,
}

impl Course {
    /// The packets that [`LOST`] says get lost, and no other.
    fn losing(name: &str) -> Result<Course, String> {
        static PATH: OnceLock<Option<Scenario>> = OnceLock::new();
        let path = PATH.get_or_init(losing_path).as_ref().ok_or("no seed loses these packets alone")?;
        let course = Course::over(path, name, LOSING_SECONDS)?;
        let found = course.losses.len();
        check(found == LOST.len(), || format!("{found} repairs, not {}", LOST.len()))?;
        Ok(course)
    }

    fn over(scenario: &Scenario, name: &str, seconds: f64) -> Result<Course, String> {
        let variant = Variant::require(name).map_err(|error| error.to_string())?;
        check(variant.origin() == Origin::Program, || "not our program".into())?;
        let lab = Lab::start(scenario).map_err(|error| error.to_string())?;
        let room = TcpSettings { buffer_bytes_max: Some(32_000_000), ..TcpSettings::default() };
        for end in [Side::Left, Side::Right] {
            lab.set_tcp(end, &room).map_err(|error| error.to_string())?;
        }
        let samples = trace::record(&lab, Some(variant.name()), seconds)?;
        let begins = |pair: &[Sample]| !pair[0].is_repairing && pair[1].is_repairing;
        let losses = (1..samples.len()).filter(|at| begins(&samples[at - 1..=*at])).collect();
        Ok(Course { samples, losses })
    }

    /// The share of the window that is kept at a loss.
    fn kept(&self, loss: usize) -> f64 {
        self.samples[loss].threshold / self.samples[loss - 1].window
    }

    /// `keep` says which share of the window is left, from the samples before and after.
    fn check_cuts(&self, keep: impl Fn(&Sample, &Sample) -> f64) -> Verdict {
        for loss in &self.losses {
            let (before, after) = (self.samples[loss - 1], self.samples[*loss]);
            let (kept, expected) = (self.kept(*loss), keep(&before, &after));
            // The window may have grown between two samples, and is a whole number.
            check((kept - expected).abs() < 0.02, || {
                format!("{:.0} → {:.0}: kept {kept:.3}, not {expected:.3}", before.window, after.threshold)
            })?;
        }
        Ok(())
    }

    /// `gain` says by how much a window grows in a round trip, so many seconds after the last loss.
    fn check_growth(&self, gain: impl Fn(&Sample, f64) -> f64) -> Verdict {
        let ends = self.losses[1..].iter().copied().chain([self.samples.len()]);
        for (loss, end) in self.losses.iter().zip(ends) {
            let stretch = &self.samples[*loss..end];
            let repaired = stretch.iter().position(Sample::is_in_avoidance).ok_or("never repaired")?;
            let began_s = stretch[0].at_s;
            let calm = &stretch[repaired..];
            let expected: f64 = calm
                .windows(2)
                .map(|pair| {
                    gain(&pair[0], pair[0].at_s - began_s) * (pair[1].acked - pair[0].acked) / pair[0].window
                })
                .sum();
            let (first, last) = (calm[0], calm[calm.len() - 1]);
            let grown = last.window - first.window;
            let seconds = last.at_s - first.at_s;
            println!(
                "  {:.0} → {:.0} segments in {seconds:.2} s: grew by {grown:.0}, expected {expected:.1}",
                first.window, last.window
            );
            check(expected > GROWTH_MIN, || format!("too little growth to judge: {expected:.1}"))?;
            check((grown - expected).abs() < 0.02 * expected + 1.5, || {
                format!("grew by {grown:.0} in {seconds:.2} s, not by {expected:.1}")
            })?;
        }
        Ok(())
    }
}

/// A path with a queue that never overflows. Its seed is such that within the time exactly one packet of each range of
/// [`LOST`] is lost of those from left to right.
fn losing_path() -> Option<Scenario> {
    let path = Scenario { queue_kb: Some(4_000.0), ..Scenario::new(40.0, 50.0) };
    let packets = (path.bottleneck_mbit * 1e6 / 8.0 / f64::from(path.mtu) * LOSING_SECONDS) as usize;
    let path = Scenario { loss: LOST.len() as f64 / packets as f64, ..path };
    let is_fitting = |scenario: &Scenario| {
        let mut dice = PathConfig::new(scenario).forward.dice();
        let mut losses = (0..packets).filter(|_| dice.roll().lost);
        LOST.iter().all(|range| losses.next().is_some_and(|at| range.contains(&at)))
            && losses.next().is_none()
    };
    (0..SEEDS).map(|seed| Scenario { seed, ..path.clone() }).find(is_fitting)
}

/// RFC 3649, section 5.
fn decrease(window: f64) -> f64 {
    let way = (window / 38.0).ln() / (83_000.0_f64 / 38.0).ln();
    0.5 - 0.4 * way.clamp(0.0, 1.0)
}

/// RFC 3649, section 5.
fn increase(window: f64) -> f64 {
    if window <= 38.0 {
        return 1.0;
    }
    let (b, loss) = (decrease(window), 0.078 / window.powf(1.2));
    (2.0 * window * window * b * loss / (2.0 - b)).max(1.0)
}

/// draft-leith-tcp-htcp, scaled to round trips of 100 ms.
fn alpha(since_loss_s: f64, rtt_min_s: f64, beta: f64) -> f64 {
    let late_s = (since_loss_s - 1.0).max(0.0);
    let factor = 1.0 + 10.0 * late_s + 0.25 * late_s * late_s;
    2.0 * (1.0 - beta) * (factor / (0.1 / rtt_min_s).clamp(0.5, 10.0)).max(1.0)
}

/// The one in slow start, the other some seconds later.
const LOST: [Range<usize>; 2] = [300..400, 8_000..9_000];
const LOSING_SECONDS: f64 = 4.5;
/// Segments that stand out from the whole numbers of windows.
const GROWTH_MIN: f64 = 10.0;
/// One in some thousands fits.
const SEEDS: u64 = 1_000_000;
