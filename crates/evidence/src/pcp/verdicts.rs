//! What the figures of the PCP paper's simulations say of its claims.

use super::dumbbell::{Point, SenderKind};
use crate::report::{Claim, Statement};

/// On Figure 4.
pub const LOAD: [Claim; 4] = [
    claim("PCP NSDI'06, Figure 4", "PCP's flows take less time than TCP's at every load"),
    claim("PCP NSDI'06, Figure 4", "PCP's times vary less than TCP's at every load"),
    claim("PCP NSDI'06, Figure 4", NEAR_TEXT),
    claim("PCP NSDI'06, Figure 4", "PCP loses no packets (less than one of 10 000)"),
];
/// On Figure 5.
pub const FAIR_QUEUEING: [Claim; 2] = [
    claim("PCP NSDI'06, Figure 5", "fair queueing in the router makes PCP's times vary less"),
    claim("PCP NSDI'06, Figure 5", "fair queueing in the router makes TCP slightly slower"),
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
    let [faster_claim, steadier_claim, near_claim, loss_claim] = &LOAD;
    let steadier = points.iter().all(|point| sd(point, SenderKind::Pcp) < sd(point, SenderKind::Tcp));
    let most_loss = points.iter().map(|point| point.of(SenderKind::Pcp).loss()).fold(0.0, f64::max);
    vec![
        faster(faster_claim, points),
        steadier_claim
            .judge(steadier, each(points, |point| format!("{:.2} against {:.2} s", sd(point, SenderKind::Pcp), sd(point, SenderKind::Tcp))))
            .otherwise(LOAD_REMARK),
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
    let varies_less = pairs.iter().all(|(tail, fair)| sd(fair, SenderKind::Pcp) <= sd(tail, SenderKind::Pcp));
    let ratio = |pair: &(&Point, &Point)| mean(pair.1, SenderKind::Tcp) / mean(pair.0, SenderKind::Tcp);
    let mean_ratio = pairs.iter().map(ratio).sum::<f64>() / pairs.len() as f64;
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
            .judge(varies_less, format!("standard deviation {}", sds.collect::<Vec<_>>().join(", ")))
            .otherwise("where the queue stays short the discipline changes little, and the rest is chance"),
        slower
            .judge((1.0..=1.25).contains(&mean_ratio), format!("{mean_ratio:.2} times as long in the mean over the loads"))
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
    let ratio = mean(large, SenderKind::Tcp) / ideal(large);
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
        slow_start.judge(ratio >= 2.0, format!("{ratio:.1} times the ideal at {} ms", large.at)),
        near(tracks, points),
    ]
}

/// See [`RANDOM_LOSS`].
pub fn random_loss(points: &[Point]) -> Vec<Statement> {
    let [explodes, barely] = &RANDOM_LOSS;
    let (Some(clean), Some(lossy)) = (points.first(), points.last()) else { return Vec::new() };
    let ratio = |sender: SenderKind| mean(lossy, sender) / mean(clean, sender);
    let text = |sender: SenderKind| {
        format!("{:.2} s without, {:.2} s at {}", mean(clean, sender), mean(lossy, sender), percent(lossy.at))
    };
    vec![
        explodes.judge(ratio(SenderKind::Tcp) >= 3.0, text(SenderKind::Tcp)),
        barely.judge(ratio(SenderKind::Pcp) <= 1.5, text(SenderKind::Pcp)).otherwise(
            "a lost packet of a train fails the probe, and the last packets of a flow wait for their repair",
        ),
    ]
}

/// Whether PCP's mean is below TCP's everywhere.
fn faster(claim: &Claim, points: &[Point]) -> Statement {
    let holds = points.iter().all(|point| mean(point, SenderKind::Pcp) < mean(point, SenderKind::Tcp));
    claim
        .judge(
            holds,
            each(points, |point| {
                format!("{:.2} against {:.2} s", mean(point, SenderKind::Pcp), mean(point, SenderKind::Tcp))
            }),
        )
        .otherwise(LOAD_REMARK)
}

/// Whether PCP's mean is near the ideal everywhere.
fn near(claim: &Claim, points: &[Point]) -> Statement {
    let ratio = |point: &Point| mean(point, SenderKind::Pcp) / ideal(point);
    claim.judge(points.iter().all(|point| ratio(point) <= NEAR), each(points, |point| format!("{:.1} times", ratio(point)))).otherwise(
        "the ideal router tells every flow its share after one round trip and again at every change; PCP needs two more \
         with history, as in the paper, and a probe to find what others have left; the paper gives no figures, and its \
         router's shares are a round trip old",
    )
}

fn mean(point: &Point, sender: SenderKind) -> f64 {
    point.of(sender).response().mean
}

fn sd(point: &Point, sender: SenderKind) -> f64 {
    point.of(sender).response().sd
}

fn ideal(point: &Point) -> f64 {
    point.of(SenderKind::Pcp).ideal().mean
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Figures of every point, in the order of the table.
fn each(points: &[Point], figure: impl Fn(&Point) -> String) -> String {
    points.iter().map(figure).collect::<Vec<_>>().join(", ")
}

/// How near the ideal counts as near.
const NEAR: f64 = 1.5;
const NEAR_TEXT: &str = "PCP comes near fair queueing with a router's help (1.5 times its time at most)";
const LOAD_REMARK: &str = "where many flows with a few packets a round trip share the link, probes meet those of others, and the least step \
     is a large part of a rate";
