//! Where an experiment was measured and simulated: how far its figures agree.

use super::results::Entry;
use super::{Origin, Plot, Results, Stored, Table, Unit, Value};
use longhaul_sim::metrics::Summary;
use std::collections::{BTreeMap, HashMap};

/// A column of figures that was measured and simulated at the same points.
#[derive(Debug, PartialEq)]
struct Agreement {
    /// The headline of its table, and its name.
    figures: String,
    points: usize,
    /// How many of them are near by themselves: a median hides where the others are.
    points_near: usize,
    /// The median of measured over simulated.
    ratio: f64,
}

/// Whether measured over simulated is as good as one.
fn is_near(ratio: f64) -> bool {
    (1.0 / (1.0 + NEAR)..=1.0 + NEAR).contains(&ratio)
}

/// How near to each other measured and simulated figures are.
pub(super) struct Agreements<'a> {
    /// A row for each column of figures that was both measured and simulated.
    pub(super) table: Table,
    /// Of each experiment some of whose figures are farther apart: why.
    pub(super) differences: Vec<(&'a str, &'a str)>,
}

impl Results {
    /// If there is any.
    pub(super) fn agreements(&self) -> Option<Agreements<'_>> {
        let rows: Vec<(&Entry, Agreement)> = self
            .entries()
            .flat_map(|entry| agreements(entry).into_iter().map(move |agreement| (entry, agreement)))
            .collect();
        let table = Table::of("agreement", HEADLINE, &rows)
            .text("experiment", |(entry, _)| entry.id.as_str())
            .text("figures", |(_, one)| one.figures.as_str())
            .column("points", Unit::Number, |(_, one)| one.points)
            .column("points within 15 %", Unit::Number, |(_, one)| one.points_near)
            .column("measured / simulated", Unit::Times, |(_, one)| one.ratio)
            .text("within 15 %", |(_, one)| is_near(one.ratio))
            .table();
        let far = rows.iter().filter(|(_, one)| !is_near(one.ratio));
        let mut differences: Vec<_> = far
            .map(|(entry, _)| (entry.id.as_str(), entry.differs.unwrap_or("the cause is not known")))
            .collect();
        differences.dedup();
        (!rows.is_empty()).then_some(Agreements { table, differences })
    }
}

fn agreements(entry: &Entry) -> Vec<Agreement> {
    let of = |origin: Origin| entry.results.iter().find(|stored| stored.head.origin == origin);
    let Some((measured, simulated)) = of(Origin::Lab).zip(of(Origin::Simulator)) else { return vec![] };
    let pairs = measured.report.tables.iter().filter_map(|table| Some((table, same(simulated, table)?)));
    pairs.flat_map(|(measured, simulated)| columns(measured, simulated)).collect()
}

fn same<'a>(stored: &'a Stored, table: &Table) -> Option<&'a Table> {
    stored.report.tables.iter().find(|other| other.name == table.name)
}

/// The columns that both have and that are drawn, but for those that are the same everywhere: these are the paper's.
fn columns(measured: &Table, simulated: &Table) -> Vec<Agreement> {
    let (at, other) = (points(measured), points(simulated));
    let is_drawn = |name: &String| measured.plots.iter().any(|plot| plot.y.contains(name));
    let figures = measured.columns.iter().filter(|column| is_drawn(&column.name));
    let agreements = figures.filter_map(|column| {
        let figure =
            |row: &BTreeMap<&str, f64>| row.get(column.name.as_str()).copied().filter(|one| *one > 0.0);
        let ratios: Vec<f64> =
            at.iter().filter_map(|(key, row)| Some(figure(row)? / figure(other.get(key)?)?)).collect();
        let is_given = ratios.iter().all(|ratio| *ratio == 1.0);
        let points_near = ratios.iter().filter(|ratio| is_near(**ratio)).count();
        let Summary { count: points, median: ratio, .. } = Summary::of(ratios);
        let figures = format!("{}: {}", measured.title, column.name);
        (!is_given).then_some(Agreement { figures, points, points_near, ratio })
    });
    agreements.collect()
}

/// The numbers of each row by column, under what its plots have along their axis and tell apart. Of rows that are alike in these
/// none is taken.
fn points(table: &Table) -> HashMap<Vec<String>, BTreeMap<&str, f64>> {
    let axes =
        |plot: &'_ Plot| [Some(plot.x.clone()), plot.by.clone()].into_iter().flatten().collect::<Vec<_>>();
    let axes: Vec<String> = table.plots.iter().flat_map(axes).collect();
    let mut found: HashMap<Vec<String>, Option<BTreeMap<&str, f64>>> = HashMap::new();
    if axes.is_empty() {
        return HashMap::new();
    }
    for row in &table.rows {
        let (mut key, mut numbers) = (vec![], BTreeMap::new());
        for (column, value) in table.columns.iter().zip(row) {
            match value {
                _ if axes.contains(&column.name) => key.push(format!("{value:?}")),
                Value::Number(number) => drop(numbers.insert(column.name.as_str(), *number)),
                Value::Nothing | Value::Text(_) => {}
            }
        }
        found.entry(key).and_modify(|row| *row = None).or_insert(Some(numbers));
    }
    found.into_iter().filter_map(|(key, row)| Some((key, row?))).collect()
}

const HEADLINE: &str =
    "Measured and simulated: medians of what was measured over what was simulated at the same points";
/// So far apart figures may be.
const NEAR: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Column;

    fn table(rows: &[(f64, f64, f64)]) -> Table {
        let columns = vec![
            Column::new("flows", Unit::Number),
            Column::new("rate", Unit::Mbps),
            Column::new("goodput", Unit::Mbps),
        ];
        let mut table = Table::new("t", "More flows", columns);
        for (flows, rate, goodput) in rows {
            table.push([*flows, *rate, *goodput].map(Value::from).into());
        }
        table.plot(Plot::lines("flows", &["goodput"]))
    }

    #[test]
    fn figures_at_the_same_points_are_compared_and_conditions_are_not() {
        let measured = table(&[(1.0, 10.0, 5.0), (2.0, 10.0, 8.0), (4.0, 10.0, 9.0)]);
        let simulated = table(&[(1.0, 10.0, 4.0), (2.0, 10.0, 8.0), (3.0, 10.0, 1.0), (4.0, 10.0, 10.0)]);
        let found = columns(&measured, &simulated);
        let figures = "More flows: goodput".into();
        // A quarter more, as much, and a tenth less.
        assert_eq!(found, [Agreement { figures, points: 3, points_near: 2, ratio: 1.0 }]);
    }

    #[test]
    fn rows_that_nothing_tells_apart_are_left_out() {
        let doubled = table(&[(1.0, 10.0, 5.0), (1.0, 10.0, 8.0), (2.0, 10.0, 12.0)]);
        let found = columns(&doubled, &table(&[(1.0, 10.0, 5.0), (2.0, 10.0, 10.0)]));
        assert_eq!((found[0].points, found[0].ratio, is_near(found[0].ratio)), (1, 1.2, false));
    }
}
