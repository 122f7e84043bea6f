//! What the figures say of the claims.

use super::super::{Condition, Contender};
use super::{Row, failing};
use crate::report::{Claim, Statement, Verdict};

pub(super) const CLAIMS: [Claim; 9] =
    [ONE_ROUTE, MORE_USED, MORE_ROUTES, REACHED, LESS_EVEN, DEFAULT, GOES_ON, FOR_GOOD, NO_PAUSE];

const ONE_ROUTE: Claim = Claim::paper(
    "Parallel TCP, multiple routes",
    "a single connection uses one route only, however many there are, and leaves the others idle",
);
const MORE_USED: Claim = Claim::paper(
    "Parallel TCP, multiple routes",
    "parallel connections use several routes without any change, and so more of them all than a single one (a tenth more at least, \
     at every number of either)",
);
const MORE_ROUTES: Claim = Claim::paper(
    "Parallel TCP, multiple routes",
    "with more routes than one, parallel connections get more (a tenth more at least, at every number of either)",
);
const REACHED: Claim = Claim::ours(
    "what connections get follows from the hash: four fifths at least of what those routes carry on which it puts one",
);
const LESS_EVEN: Claim = Claim::ours(
    "three connections and more share less evenly over several routes than over one: the hash puts unlike numbers on them (Jain's \
     index, at every number of either)",
);
const DEFAULT: Claim = Claim::ours(
    "flows of longhaul's default control, each of which takes one route too, use several as well as as many CUBICs (a tenth less \
     at most, at every number of either)",
);
const GOES_ON: Claim = Claim::paper(
    "Parallel TCP, multiple routes",
    "a single connection whose route fails goes on over another once routers have noticed",
);
const FOR_GOOD: Claim = Claim::ours(
    "a failure that no router notices stops a single connection for good, and takes of ten and more no more than the route had \
     carried (what they had elsewhere they keep, less a tenth at most)",
);
const NO_PAUSE: Claim = Claim::ours(
    "what ten connections and more bring never pauses for more than a second when a route fails, whether routers notice or not",
);

/// Two rows that are compared.
type Pair<'a> = (&'a Row, &'a Row);

/// Of the rows of one setting.
pub(super) fn of_routes(condition: &Condition, rows: &[Row]) -> Vec<Statement> {
    let of = |contender: &Contender, routes: usize, count: u64| {
        rows.iter().find(|row| (&row.contender, row.routes, row.count) == (contender, routes, count))
    };
    let tcps = || rows.iter().filter(|row| row.contender != Contender::Adaptive);
    let spread = |least: u64| tcps().filter(move |row| row.routes > 1 && row.count >= least);
    let share = |row: &Row| row.mean(|cell| cell.share);
    // What so many get of the routes, in routes.
    let got = |row: &Row| share(row) * row.routes as f64;

    let single: Vec<&Row> = tcps().filter(|row| row.count == 1).collect();
    let on_one = |row: &&Row| row.cells.iter().all(|cell| (cell.used * row.routes as f64 - 1.0).abs() < 1e-9);
    let many: Vec<Pair<'_>> =
        spread(2).filter_map(|row| Some((row, of(&row.contender, row.routes, 1)?))).collect();
    let over_one: Vec<Pair<'_>> =
        spread(2).filter_map(|row| Some((row, of(&row.contender, 1, row.count)?))).collect();
    let uneven: Vec<Pair<'_>> =
        spread(3).filter_map(|row| Some((row, of(&row.contender, 1, row.count)?))).collect();
    let ours = rows.iter().filter(|row| row.contender == Contender::Adaptive);
    let cubic = tcps().find(|row| row.contender.name() == "cubic").map(|row| &row.contender);
    let beside: Vec<Pair<'_>> =
        ours.filter_map(|row| Some((row, of(cubic?, row.routes, row.count)?))).collect();
    // As unlikely as one in ten thousand, of ten connections and more.
    let used = |row: &Row| row.mean(|cell| cell.used);
    let unspread = spread(10).find(|row| used(row) < SPREAD_MIN * row.expected());
    let if_spread = |statement: Statement| match unspread {
        Some(row) => Statement {
            figures: format!(
                "the hash put {} on {:.0} % of the routes, of {:.0} to be expected",
                named(row),
                used(row) * 100.0,
                row.expected() * 100.0
            ),
            verdict: Verdict::Open,
            remark: None,
            ..statement
        },
        None => statement,
    };
    let reached = |row: &Row| row.mean(|cell| cell.share / cell.reached);
    let jain = |row: &Row| row.mean(|cell| cell.jain);
    vec![
        match single.is_empty() {
            true => ONE_ROUTE.leave_open(TOO_FEW),
            false => ONE_ROUTE.judge(single.iter().all(on_one), by_routes(&single)),
        },
        if_spread(least_ratio(&MORE_USED, &many, share, MORE)),
        if_spread(why(condition, least_ratio(&MORE_ROUTES, &over_one, got, MORE))),
        least(&REACHED, tcps(), reached, 0.8),
        if_spread(least_even(&LESS_EVEN, &uneven, jain)),
        match rows.iter().any(|row| row.contender == Contender::Adaptive) {
            true => least_ratio(&DEFAULT, &beside, share, 1.0 - (MORE - 1.0)),
            false => DEFAULT.leave_open("only in the simulator: over real sockets it is not run here"),
        },
    ]
}

/// Why further routes give no more, where that is known.
fn why(condition: &Condition, statement: Statement) -> Statement {
    match condition {
        Condition { window: Some(_), .. } => statement.otherwise(NO_ROOM),
        Condition { sack: false, .. } => statement.otherwise(FEW),
        _ => statement,
    }
}

/// What a single connection gets of all routes.
fn by_routes(single: &[&Row]) -> String {
    let mut routes: Vec<usize> = single.iter().map(|row| row.routes).collect();
    routes.sort_unstable();
    routes.dedup();
    let of = |routes: usize| {
        let shares = single.iter().filter(|row| row.routes == routes).map(|row| row.mean(|cell| cell.share));
        let mean = longhaul_sim::metrics::Summary::of(shares).mean;
        format!("{:.1} % of {routes}", mean * 100.0)
    };
    let each: Vec<String> = routes.into_iter().map(of).collect();
    format!("in the mean of the variants it has {}", each.join(", "))
}

/// That a figure of the first of each pair is so many times that of the second at least.
fn least_ratio(claim: &Claim, pairs: &[Pair<'_>], figure: impl Fn(&Row) -> f64, bar: f64) -> Statement {
    let ratio = |(row, other): &Pair<'_>| figure(row) / figure(other);
    let by_ratio = |a: &&Pair<'_>, b: &&Pair<'_>| ratio(a).total_cmp(&ratio(b));
    let ends = pairs.iter().min_by(by_ratio).zip(pairs.iter().max_by(by_ratio));
    let Some((least, most)) = ends else { return claim.leave_open(TOO_FEW) };
    let missing = pairs.iter().filter(|pair| ratio(pair) < bar).count();
    let text = |pair: &Pair<'_>| format!("{:.2} times ({})", ratio(pair), named(pair.0));
    let figures = format!("from {} to {}; {missing} of {} miss it", text(least), text(most), pairs.len());
    claim.judge(missing == 0, figures)
}

/// That a figure is so high at least.
fn least<'a>(
    claim: &Claim,
    rows: impl Iterator<Item = &'a Row>,
    figure: impl Fn(&Row) -> f64,
    bar: f64,
) -> Statement {
    let rows: Vec<&Row> = rows.collect();
    let Some(lowest) = rows.iter().min_by(|a, b| figure(a).total_cmp(&figure(b))) else {
        return claim.leave_open(TOO_FEW);
    };
    let missing = rows.iter().filter(|row| figure(row) < bar).count();
    let figures = format!(
        "{:.1} % at least ({}); {missing} of {} miss it",
        figure(lowest) * 100.0,
        named(lowest),
        rows.len()
    );
    claim.judge(missing == 0, figures)
}

/// That a figure of the first of each pair is less than that of the second.
fn least_even(claim: &Claim, pairs: &[Pair<'_>], figure: impl Fn(&Row) -> f64) -> Statement {
    let difference = |(row, other): &Pair<'_>| figure(row) - figure(other);
    let by_difference = |a: &&Pair<'_>, b: &&Pair<'_>| difference(a).total_cmp(&difference(b));
    let ends = pairs.iter().min_by(by_difference).zip(pairs.iter().max_by(by_difference));
    let Some((most, least)) = ends else { return claim.leave_open(TOO_FEW) };
    let missing = pairs.iter().filter(|pair| difference(pair) >= 0.0).count();
    let text =
        |pair: &Pair<'_>| format!("{:.3} against {:.3} ({})", figure(pair.0), figure(pair.1), named(pair.0));
    let figures = format!("from {} to {}; {missing} of {} miss it", text(most), text(least), pairs.len());
    claim.judge(missing == 0, figures)
}

fn named(row: &Row) -> String {
    format!("{} {} over {}", row.count, row.contender.name(), row.routes)
}

/// Of routes that failed.
pub(super) fn of_failures(rows: &[failing::Row]) -> Vec<Statement> {
    let claims = [&GOES_ON, &FOR_GOOD, &NO_PAUSE];
    if rows.is_empty() {
        return claims.map(|claim| claim.leave_open("the simulator looks at it")).into();
    }
    let single = |is_noticed: bool| {
        let wanted =
            move |row: &&failing::Row| row.case.count == 1 && row.case.noticed_s.is_some() == is_noticed;
        rows.iter().filter(wanted).flat_map(failing::Row::hits).collect::<Vec<_>>()
    };
    let many = || rows.iter().filter(|row| row.case.count >= MANY);
    let went_on = |runs: &[&failing::Outcome]| runs.iter().filter(|run| run.stopped == 0).count();
    let (noticed, unnoticed) = (single(true), single(false));
    let kept = many().filter(|row| row.case.noticed_s.is_none()).flat_map(|row| &row.runs);
    let kept: Vec<f64> = kept.filter(|run| run.elsewhere > 0.0).map(|run| run.kept / run.elsewhere).collect();
    let least_kept = kept.iter().copied().fold(f64::INFINITY, f64::min);
    let pauses = many().flat_map(|row| row.runs.iter().map(move |run| (row.case, run.pause_s)));
    let longest = pauses.max_by(|a, b| a.1.total_cmp(&b.1));
    vec![
        match noticed.is_empty() {
            true => GOES_ON.leave_open(TOO_FEW),
            false => {
                let pause_s = noticed.iter().map(|run| run.pause_s).fold(0.0, f64::max);
                let figures = format!(
                    "in {} of {} runs in which its route failed, after pauses of up to {pause_s:.1} s",
                    went_on(&noticed),
                    noticed.len()
                );
                GOES_ON.judge(went_on(&noticed) == noticed.len(), figures)
            }
        },
        match unnoticed.is_empty() || kept.is_empty() {
            true => FOR_GOOD.leave_open(TOO_FEW),
            false => FOR_GOOD.judge(
                went_on(&unnoticed) == 0 && least_kept >= 0.9,
                format!(
                    "a single one stops in {} of {} runs in which its route failed; ten and more keep {least_kept:.2} times what they \
                     had elsewhere, or more",
                    unnoticed.len() - went_on(&unnoticed),
                    unnoticed.len()
                ),
            ),
        },
        match longest {
            None => NO_PAUSE.leave_open(TOO_FEW),
            Some((case, pause_s)) => NO_PAUSE.judge(
                pause_s <= 1.0,
                format!(
                    "{pause_s:.1} s at most ({} {} over {} routes)",
                    case.count,
                    case.control.name(),
                    case.routes
                ),
            ),
        },
    ]
}

/// A tenth more.
const MORE: f64 = 1.1;
/// As many connections as the paper finds best.
const MANY: u64 = 10;
const TOO_FEW: &str = "this run has too few numbers of connections, routes or variants";
const FEW: &str = "without SACK a connection repairs one segment a round trip, and a few that the hash puts alone on their routes \
                   repair what their first slow starts lost; several on one route lose less";
const NO_ROOM: &str = "where windows hold a connection to a tenth of a route, nine of them leave room on a single one, and further \
                       routes have nothing to give them";

/// Routes that are used, of those that a fair hash uses in the mean.
const SPREAD_MIN: f64 = 0.6;

#[cfg(test)]
mod tests {
    use super::super::Cell;
    use super::*;
    use crate::report::Verdict;
    use longhaul_proto::control::ControllerKind;

    /// As the hash and full routes would have it.
    fn ideal() -> Vec<Row> {
        let mut rows = vec![];
        for contender in [Contender::Tcp { name: "cubic", kernel: String::new() }, Contender::Adaptive] {
            for routes in [1, 2] {
                for count in [1, 3, 10] {
                    let mut row = Row { contender: contender.clone(), routes, count, cells: vec![] };
                    let used = if count == 1 { 1.0 / routes as f64 } else { row.expected() };
                    let share = 0.9 * used;
                    let jain = if routes == 1 { 0.99 } else { 0.9 };
                    row.cells =
                        vec![Cell { used, reached: used, share, equal_parts: share, loss: 0.0, jain }];
                    rows.push(row);
                }
            }
        }
        rows
    }

    fn verdicts(rows: &[Row]) -> Vec<Verdict> {
        let condition = Condition { buffer_bdp: 1.0, window: None, sack: true };
        of_routes(&condition, rows).iter().map(|one| one.verdict).collect()
    }

    #[test]
    fn each_claim_on_routes_is_met_and_missed_by_its_own_figure() {
        use Verdict::{Met, NotMet, NotReproduced, Open, Reproduced};
        let all = [Reproduced, Reproduced, Reproduced, Met, Met, Met];
        assert_eq!(verdicts(&ideal()), all);
        assert_eq!(verdicts(&[]), [Open; 6]);
        let with = |at: usize, change: fn(&mut Cell)| {
            let mut rows = ideal();
            change(&mut rows[at].cells[0]);
            verdicts(&rows)
        };
        // A single CUBIC over two routes; ten over two; the default's three over two.
        assert_eq!(with(3, |cell| cell.used = 1.0)[0], NotReproduced);
        assert_eq!(with(5, |cell| cell.share = 0.48)[1], NotReproduced);
        assert_eq!(with(5, |cell| cell.share = 0.48)[2], NotReproduced);
        assert_eq!(with(5, |cell| cell.share = 0.7)[3], NotMet);
        assert_eq!(with(5, |cell| cell.jain = 1.0)[4], NotMet);
        assert_eq!(with(10, |cell| cell.share = 0.6)[5], NotMet);
    }

    fn failure(count: u64, noticed_s: Option<u64>, run: failing::Outcome) -> failing::Row {
        let case = failing::Case { control: ControllerKind::NewReno, noticed_s, routes: 2, count };
        failing::Row { case, runs: vec![run] }
    }

    #[test]
    fn each_claim_on_failures_is_met_and_missed_by_its_own_figure() {
        use Verdict::{Met, NotMet, NotReproduced, Open, Reproduced};
        let one = failing::Outcome { hit: 1, stopped: 1, kept: 0.0, elsewhere: 0.0, pause_s: 30.0 };
        let ten = failing::Outcome { hit: 5, stopped: 5, kept: 0.5, elsewhere: 0.5, pause_s: 0.1 };
        let verdicts = |stopped: u64, again: u64, kept: f64, pause_s: f64| {
            let rows = [
                failure(1, None, failing::Outcome { stopped, ..one }),
                failure(1, Some(1), failing::Outcome { stopped: again, kept: 0.9, ..one }),
                failure(10, None, failing::Outcome { kept, pause_s, ..ten }),
            ];
            of_failures(&rows).iter().map(|one| one.verdict).collect::<Vec<_>>()
        };
        assert_eq!(verdicts(1, 0, 0.5, 0.1), [Reproduced, Met, Met]);
        assert_eq!(verdicts(1, 1, 0.5, 0.1), [NotReproduced, Met, Met]);
        assert_eq!(verdicts(0, 0, 0.5, 0.1), [Reproduced, NotMet, Met]);
        assert_eq!(verdicts(1, 0, 0.4, 1.1), [Reproduced, NotMet, NotMet]);
        assert!(of_failures(&[]).iter().all(|one| one.verdict == Open));
    }
}
