//! What the figures of the PCP paper's simulations say of its claims.

use super::dumbbell::{Point, SenderKind};
use crate::report::{Claim, Finding, Interval, Statement};
use longhaul_sim::metrics::Summary;

/// On Figure 4.
pub const LOAD: [Claim; 5] = [
    claim("PCP NSDI'06, Figure 4", "PCP's flows take less time than TCP's at every load"),
    claim("PCP NSDI'06, Figure 4", "PCP's times vary less than TCP's at every load"),
    claim(
        "PCP NSDI'06, §4.2",
        "at low load (15 %) PCP takes about two round trips more than fair queueing with a router's help (2.5 at most)",
    ),
    claim("PCP NSDI'06, Figure 4", NEAR_TEXT),
    claim("PCP NSDI'06, Figure 4", "PCP loses no packets (less than one of 10 000)"),
];
/// On Figure 5.
pub const FAIR_QUEUEING: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 5", "fair queueing in the router makes PCP's times vary less"),
    claim(
        "PCP NSDI'06, Figure 5",
        "fair queueing in the router makes TCP slightly slower where the link is loaded (45 % and more)",
    ),
];
/// On Figure 6.
pub const HEAVY_TAILS: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 6", "PCP's flows take less time than TCP's with heavy tails too"),
    claim("PCP NSDI'06, Figure 6", NEAR_TEXT),
];
/// On Figure 7.
pub const TOGETHER: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 7", "PCP's flows take less time than TCP's when many begin together"),
    claim("PCP NSDI'06, Figure 7", NEAR_TEXT),
];
/// On Figure 8.
pub const RATE: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 8", "PCP's flows take less time than TCP's at every rate"),
    claim("PCP NSDI'06, Figure 8", NEAR_TEXT),
];
/// On Figure 9.
pub const ROUND_TRIP: [Claim; 3] = [
    claim(
        "PCP NSDI'06, Figure 9",
        "TCP overruns the queue where round trips are small: it loses more there than where they are large",
    ),
    claim(
        "PCP NSDI'06, Figure 9",
        "TCP is bound by slow start where round trips are large: twice the ideal time and more",
    ),
    claim("PCP NSDI'06, Figure 9", NEAR_TEXT),
];
/// On Figure 10.
pub const LENGTH: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 10", "PCP's flows take less time than TCP's at every length"),
    claim("PCP NSDI'06, Figure 10", NEAR_TEXT),
];
/// On Figure 11.
pub const RANDOM_LOSS: [Claim; 2] = [
    claim(
        "PCP NSDI'06, Figure 11",
        "random loss makes TCP's times explode: three times as long at 5 % as without",
    ),
    claim("PCP NSDI'06, Figure 11", "random loss barely changes PCP's: half as long again at most at 5 %"),
];

const fn claim(place: &'static str, text: &'static str) -> Claim {
    Claim::paper(place, text)
}

/// See [`LOAD`].
pub fn load(points: &[Point]) -> Vec<Statement> {
    let [faster_claim, steadier_claim, trips_claim, near_claim, loss_claim] = &LOAD;
    let most_loss = points.iter().map(|point| point.of(SenderKind::Pcp).loss()).fold(0.0, f64::max);
    let steadier = points.iter().map(|point| ratio(point, deviation).at_most(1.0));
    vec![
        faster(faster_claim, points),
        steadier_claim
            .judge_by(
                Finding::everywhere(steadier),
                fewest(points),
                each(points, |point| format!("{:.2} against {:.2} s", sd(point, SenderKind::Pcp), sd(point, SenderKind::Tcp))),
            )
            .otherwise(LOAD_REMARK),
        two_round_trips(trips_claim, points),
        near(near_claim, points),
        loss_claim.judge(most_loss < 1e-4, format!("{:.3} % at most", most_loss * 100.0)).otherwise(
            "several flows can find the same room free at the same time, and each probe takes only a part of the queue to \
             go unnoticed",
        ),
    ]
}

/// See [`FAIR_QUEUEING`].
pub fn fair_queueing(points: &[Point]) -> Vec<Statement> {
    let [varies, slower] = &FAIR_QUEUEING;
    let pairs: Vec<(&Point, &Point)> = points.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect();
    let varies_less = pairs.iter().map(|pair| against(pair, SenderKind::Pcp, deviation).at_most(1.0));
    let loaded = pairs.iter().filter(|(tail, _)| tail.at >= LOADED);
    let slower_by: Vec<Interval> = loaded.map(|pair| against(pair, SenderKind::Tcp, mean_of)).collect();
    let mean_ratio = mean_of(&slower_by.iter().map(|ratio| ratio.figure).collect::<Vec<_>>());
    // At some load by more than chance, at none faster.
    let is_sure = slower_by.iter().any(|ratio| ratio.at_least(1.0) == Finding::Holds)
        && slower_by.iter().all(|ratio| ratio.at_least(1.0) != Finding::Fails);
    let sds = pairs.iter().map(|(tail, fair)| {
        format!(
            "{:.2} against {:.2} s at {}",
            sd(fair, SenderKind::Pcp),
            sd(tail, SenderKind::Pcp),
            percent(tail.at)
        )
    });
    vec![
        varies
            .judge_by(
                Finding::everywhere(varies_less),
                fewest(points),
                format!("standard deviation {}", sds.collect::<Vec<_>>().join(", ")),
            )
            .otherwise("where the queue stays short the discipline changes little, and the rest is chance"),
        slower
            .judge(
                is_sure && (1.0..=1.25).contains(&mean_ratio),
                format!("{mean_ratio:.2} times as long in the mean over the loads: {}", listed(&slower_by)),
            )
            .otherwise("our fair queueing drops from the longest queue, which spares new flows; the paper's is not described"),
    ]
}

/// See [`HEAVY_TAILS`].
pub fn heavy_tails(points: &[Point]) -> Vec<Statement> {
    vec![faster(&HEAVY_TAILS[0], points), near(&HEAVY_TAILS[1], points)]
}

/// See [`TOGETHER`].
pub fn together(points: &[Point]) -> Vec<Statement> {
    vec![faster(&TOGETHER[0], points), near(&TOGETHER[1], points)]
}

/// See [`RATE`].
pub fn rate(points: &[Point]) -> Vec<Statement> {
    vec![faster(&RATE[0], points), near(&RATE[1], points)]
}

/// See [`LENGTH`].
pub fn length(points: &[Point]) -> Vec<Statement> {
    vec![faster(&LENGTH[0], points), near(&LENGTH[1], points)]
}

/// See [`ROUND_TRIP`].
pub fn round_trip(points: &[Point]) -> Vec<Statement> {
    let [overruns, slow_start, tracks] = &ROUND_TRIP;
    let (Some(small), Some(large)) = (points.first(), points.last()) else { return Vec::new() };
    let loss = |point: &Point| point.of(SenderKind::Tcp).loss();
    let times = compared(&large.of(SenderKind::Tcp).responses_s, &large.of(SenderKind::Tcp).ideal_s, mean_of);
    vec![
        overruns.judge(
            loss(small) > loss(large),
            format!(
                "{:.2} % at {} ms, {:.2} % at {} ms",
                loss(small) * 100.0,
                small.at,
                loss(large) * 100.0,
                large.at
            ),
        ),
        slow_start.judge_by(
            times.at_least(2.0),
            fewest(points),
            format!("{times} times the ideal at {} ms", large.at),
        ),
        near(tracks, points),
    ]
}

/// See [`RANDOM_LOSS`].
pub fn random_loss(points: &[Point]) -> Vec<Statement> {
    let [explodes, barely] = &RANDOM_LOSS;
    let (Some(clean), Some(lossy)) = (points.first(), points.last()) else { return Vec::new() };
    let times = |sender| compared(&lossy.of(sender).responses_s, &clean.of(sender).responses_s, mean_of);
    let (tcp, pcp) = (times(SenderKind::Tcp), times(SenderKind::Pcp));
    let text = |sender: SenderKind, times: &Interval| {
        let (without, with) = (mean(clean, sender), mean(lossy, sender));
        format!("{without:.2} s without, {with:.2} s at {}, {times} times as long", percent(lossy.at))
    };
    vec![
        explodes.judge_by(tcp.at_least(3.0), fewest(points), text(SenderKind::Tcp, &tcp)),
        barely.judge_by(pcp.at_most(1.5), fewest(points), text(SenderKind::Pcp, &pcp)).otherwise(
            "a lost packet of a train fails the probe, and the last packets of a flow wait for their repair",
        ),
    ]
}

/// Whether PCP's mean is below TCP's everywhere.
fn faster(claim: &Claim, points: &[Point]) -> Statement {
    let found = points.iter().map(|point| ratio(point, mean_of).at_most(1.0));
    let figures = each(points, |point| {
        format!("{:.2} against {:.2} s", mean(point, SenderKind::Pcp), mean(point, SenderKind::Tcp))
    });
    claim.judge_by(Finding::everywhere(found), fewest(points), figures).otherwise(LOAD_REMARK)
}

/// Whether PCP's mean is nearer to the ideal than to TCP's everywhere: of the way from the one to the other, less than half. Who is
/// faster than the ideal is at it: shares that are told are equal, which is not the least mean time where flows begin together.
fn near(claim: &Claim, points: &[Point]) -> Statement {
    let found: Vec<Interval> = points
        .iter()
        .map(|point| {
            let [pcp, tcp] = [SenderKind::Pcp, SenderKind::Tcp].map(|sender| point.of(sender));
            let flows: Vec<[f64; 3]> =
                (0..len(point)).map(|n| [pcp.ideal_s[n], pcp.responses_s[n], tcp.responses_s[n]]).collect();
            drawn(&flows, |flows| {
                let more = |of: fn(&[f64; 3]) -> f64| flows.iter().map(of).sum::<f64>();
                let from_ideal = more(|[ideal, pcp, _]| pcp - ideal).max(0.0);
                let way = from_ideal + more(|[_, pcp, tcp]| tcp - pcp).abs();
                if way > 0.0 { from_ideal / way } else { 0.0 }
            })
        })
        .collect();
    let finding = Finding::everywhere(found.iter().map(|share| share.at_most(0.5)));
    let trips = each(points, |point| format!("{:.1}", over_ideal(point, |_| true).figure));
    let figures = format!("{trips} round trips from it; of the way from it to TCP {}", listed(&found));
    claim.judge_by(finding, fewest(points), figures).otherwise(NEAR_REMARK)
}

/// Whether it is two round trips where the load is low.
fn two_round_trips(claim: &Claim, points: &[Point]) -> Statement {
    let low: Vec<&Point> = points.iter().filter(|point| point.at <= LOW_LOAD).collect();
    let found: Vec<Interval> = low.iter().map(|point| over_ideal(point, |_| true)).collect();
    let finding = Finding::everywhere(found.iter().map(|trips| trips.at_most(2.5)));
    let figures = format!(
        "{} more; {}",
        listed(&found),
        each(points, |point| {
            format!("{:.1} at {}", over_ideal(point, |_| true).figure, percent(point.at))
        })
    );
    claim.judge_by(finding, fewest(points), figures).otherwise(NEAR_REMARK)
}

/// Round trips that PCP's flows take beyond the ideal, in the mean over those chosen by their numbers.
pub fn over_ideal(point: &Point, is_chosen: impl Fn(usize) -> bool) -> Interval {
    let pcp = point.of(SenderKind::Pcp);
    let chosen = (0..len(point)).filter(|n| is_chosen(*n));
    let trips: Vec<f64> = chosen.map(|n| (pcp.responses_s[n] - pcp.ideal_s[n]) / pcp.rtt_s[n]).collect();
    drawn(&trips, mean_of)
}

/// PCP's figure over TCP's.
fn ratio(point: &Point, of: fn(&[f64]) -> f64) -> Interval {
    compared(&point.of(SenderKind::Pcp).responses_s, &point.of(SenderKind::Tcp).responses_s, of)
}

/// A figure of one set of times over that of another of the same flows.
fn compared(ours: &[f64], theirs: &[f64], of: fn(&[f64]) -> f64) -> Interval {
    let flows: Vec<(f64, f64)> = ours.iter().copied().zip(theirs.iter().copied()).collect();
    drawn(&flows, |flows| {
        let (ours, theirs): (Vec<f64>, Vec<f64>) = flows.iter().copied().unzip();
        of(&ours) / of(&theirs)
    })
}

/// The interval of a figure of flows, of which those that came one after another met the same others.
fn drawn<T: Copy>(flows: &[T], figure: impl Fn(&[T]) -> f64) -> Interval {
    let blocks: Vec<&[T]> = flows.chunks(BLOCK).collect();
    Interval::of(&blocks, |blocks| {
        figure(&blocks.iter().copied().copied().flatten().copied().collect::<Vec<T>>())
    })
}

fn mean_of(values: &[f64]) -> f64 {
    Summary::of(values.iter().copied()).mean
}

fn deviation(values: &[f64]) -> f64 {
    Summary::of(values.iter().copied()).sd
}

/// A sender's figure with fair queueing over that without.
fn against((tail, fair): &(&Point, &Point), sender: SenderKind, of: fn(&[f64]) -> f64) -> Interval {
    compared(&fair.of(sender).responses_s, &tail.of(sender).responses_s, of)
}

/// Flows at the point with fewest of them.
fn fewest(points: &[Point]) -> usize {
    points.iter().map(len).min().unwrap_or_default()
}

fn len(point: &Point) -> usize {
    point.of(SenderKind::Pcp).responses_s.len().min(point.of(SenderKind::Tcp).responses_s.len())
}

fn listed(intervals: &[Interval]) -> String {
    intervals.iter().map(Interval::to_string).collect::<Vec<_>>().join(", ")
}

fn mean(point: &Point, sender: SenderKind) -> f64 {
    point.of(sender).response().mean
}

fn sd(point: &Point, sender: SenderKind) -> f64 {
    point.of(sender).response().sd
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Figures of every point, in the order of the table.
fn each(points: &[Point], figure: impl Fn(&Point) -> String) -> String {
    points.iter().map(figure).collect::<Vec<_>>().join(", ")
}

/// The paper's words, without a figure. Its own two round trips at low load are more than half of what the ideal takes.
const NEAR_TEXT: &str = "PCP comes near fair queueing with a router's help: nearer than to TCP";
const NEAR_REMARK: &str = "the ideal router tells every flow its share with the set-up; PCP needs two probes more, a round \
                           trip each, where it remembers the path rightly, and others' flows make probes fail: see the \
                           table of distances";
/// The paper speaks of loaded conditions.
const LOADED: f64 = 0.45;
/// The lowest of the paper's loads.
const LOW_LOAD: f64 = 0.15;
/// Flows that are drawn together: about as many as a busy time of the link lasts for.
const BLOCK: usize = 20;
const LOAD_REMARK: &str = "where many flows with a few packets a round trip share the link, probes meet those of others, and the least step \
     is a large part of a rate";
