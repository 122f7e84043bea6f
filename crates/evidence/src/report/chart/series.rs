//! The figures that a plot draws, taken out of its table.

use super::super::cells::cell;
use super::shown;
use crate::report::{Column, Plot, Table, Unit, Value};

/// Curves or clouds of points.
pub(super) struct Curves {
    pub(super) x_name: String,
    pub(super) x_unit: Unit,
    pub(super) y_name: String,
    pub(super) y_unit: Unit,
    /// Name, and points in the order of the rows.
    pub(super) series: Vec<(String, Vec<(f64, f64)>)>,
}

/// Bars in groups.
pub(super) struct Bars {
    pub(super) y_name: String,
    pub(super) y_unit: Unit,
    pub(super) series: Vec<String>,
    pub(super) groups: Vec<BarGroup>,
}

/// Name, and a bar for each of the series that has one.
type BarGroup = (String, Vec<Option<f64>>);

/// The columns of a plot, found in its table.
struct Found<'a> {
    table: &'a Table,
    x: usize,
    y: Vec<usize>,
    by: Option<usize>,
    /// Whether the column `by` tells anything apart.
    is_parted: bool,
}

impl<'a> Found<'a> {
    fn of(table: &'a Table, plot: &Plot) -> Option<Found<'a>> {
        let column = |name: &String| table.columns.iter().position(|column| column.name == *name);
        let y: Option<Vec<usize>> = plot.y.iter().map(column).collect();
        let by = match &plot.by {
            Some(name) => Some(column(name)?),
            None => None,
        };
        let values = || by.into_iter().flat_map(|by| table.rows.iter().map(move |row| &row[by]));
        let is_parted = values().any(|value| Some(value) != values().next());
        Some(Found { table, x: column(&plot.x)?, y: y.filter(|y| !y.is_empty())?, by, is_parted })
    }

    fn y_unit(&self) -> Unit {
        self.table.columns[self.y[0]].unit
    }

    /// What the vertical axis shows: the only column's name, or nothing where series have the names.
    fn y_name(&self) -> String {
        if self.y.len() == 1 { self.table.columns[self.y[0]].name.clone() } else { String::new() }
    }

    /// Each row's series and value, column by column.
    fn cells(&self) -> impl Iterator<Item = (String, &'a [Value], Option<f64>)> {
        self.y.iter().flat_map(move |&y| {
            let column = &self.table.columns[y];
            self.table.rows.iter().map(move |row| {
                let value = match row[y] {
                    Value::Number(number) => Some(shown(number, column.unit)),
                    Value::Nothing | Value::Text(_) => None,
                };
                (self.series_name(row, &column.name), row.as_slice(), value)
            })
        })
    }

    fn series_name(&self, row: &[Value], column: &str) -> String {
        let Some(by) = self.by.filter(|_| self.is_parted) else { return column.to_owned() };
        let head = &self.table.columns[by];
        let by = named(&row[by], head);
        if self.y.len() == 1 { by } else { format!("{by}: {column}") }
    }
}

impl Curves {
    /// `None` where there is nothing to draw.
    pub(super) fn of(table: &Table, plot: &Plot) -> Option<Curves> {
        let found = Found::of(table, plot)?;
        let x = &table.columns[found.x];
        let mut series: Vec<(String, Vec<(f64, f64)>)> = vec![];
        for (name, row, y) in found.cells() {
            let (Value::Number(at), Some(y)) = (&row[found.x], y) else { continue };
            let at = shown(*at, x.unit);
            // A logarithm of what is not positive is nowhere.
            if (plot.is_log_x && at <= 0.0) || (plot.is_log_y && y <= 0.0) {
                continue;
            }
            match series.iter_mut().find(|(of, _)| *of == name) {
                Some((_, points)) => points.push((at, y)),
                None => series.push((name, vec![(at, y)])),
            }
        }
        let curves = Curves {
            x_name: x.name.clone(),
            x_unit: x.unit,
            y_name: found.y_name(),
            y_unit: found.y_unit(),
            series,
        };
        (!curves.series.is_empty()).then_some(curves)
    }
}

/// Bars that a table has a second value for, which would stand in place of the first: group and series.
#[cfg(test)]
pub(super) fn clashes(table: &Table, plot: &Plot) -> Vec<(String, String)> {
    let Some(found) = Found::of(table, plot) else { return vec![] };
    let x = &table.columns[found.x];
    let has_value = found.cells().filter(|(_, _, value)| value.is_some());
    let mut bars: Vec<_> = has_value.map(|(name, row, _)| (named(&row[found.x], x), name)).collect();
    bars.sort_unstable();
    bars.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect()
}

impl Bars {
    /// `None` where there is nothing to draw.
    pub(super) fn of(table: &Table, plot: &Plot) -> Option<Bars> {
        let found = Found::of(table, plot)?;
        let x = &table.columns[found.x];
        let name_of = |row: &[Value]| named(&row[found.x], x);
        // In the order of the rows, whichever series has a figure first.
        let mut names = vec![];
        let places: Vec<usize> = table.rows.iter().map(|row| position(&mut names, name_of(row))).collect();
        let mut groups: Vec<BarGroup> = names.into_iter().map(|name| (name, vec![])).collect();
        let mut series: Vec<String> = vec![];
        for ((name, _, y), &group) in found.cells().zip(places.iter().cycle()) {
            let Some(y) = y.filter(|y| !plot.is_log_y || *y > 0.0) else { continue };
            let of = position(&mut series, name);
            let bars = &mut groups[group].1;
            bars.resize(bars.len().max(of + 1), None);
            bars[of] = Some(y);
        }
        groups.retain(|(_, bars)| !bars.is_empty());
        let bars = Bars { y_name: found.y_name(), y_unit: found.y_unit(), series, groups };
        (!bars.groups.is_empty()).then_some(bars)
    }
}

/// A value of a column as a name: words as they are, numbers with what they count.
fn named(value: &Value, column: &Column) -> String {
    let text = cell(value, column.unit);
    match column.unit {
        Unit::Text => text,
        unit => format!("{} {text} {}", column.name, unit.sign()).trim_end().to_owned(),
    }
}

fn position(names: &mut Vec<String>, name: String) -> usize {
    names.iter().position(|one| *one == name).unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    })
}
