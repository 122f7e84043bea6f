//! Tables: columns with units over rows.

use super::Plot;
use serde::{Deserialize, Serialize};

/// Figures in rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Its name in JSON.
    pub name: String,
    /// Its headline.
    pub title: String,
    /// What its rows hold.
    pub columns: Vec<Column>,
    /// The rows, each with a value for every column.
    pub rows: Vec<Vec<Value>>,
    /// Too long to be printed: for programs to read.
    pub is_detail: bool,
    /// How to draw it.
    pub plots: Vec<Plot>,
}

impl Table {
    /// An empty table.
    pub fn new(name: impl Into<String>, title: impl Into<String>, columns: Vec<Column>) -> Table {
        let (name, title) = (name.into(), title.into());
        Table { name, title, columns, rows: Vec::new(), is_detail: false, plots: Vec::new() }
    }

    /// A table with a row for each of these; columns are [added](Rows::column) as functions of a row.
    pub fn of<R>(name: impl Into<String>, title: impl Into<String>, rows: &[R]) -> Rows<'_, R> {
        let mut table = Table::new(name, title, vec![]);
        table.rows = vec![vec![]; rows.len()];
        Rows { table, rows }
    }

    /// Leave out the columns in which no row has anything, and what would be drawn of them.
    pub fn drop_empty_columns(&mut self) {
        let is_empty = |at: usize| self.rows.iter().all(|row| row[at] == Value::Nothing);
        let kept: Vec<bool> =
            (0..self.columns.len()).map(|at| self.rows.is_empty() || !is_empty(at)).collect();
        let mut each = kept.iter();
        self.columns.retain(|_| each.next() == Some(&true));
        for row in &mut self.rows {
            let mut each = kept.iter();
            row.retain(|_| each.next() == Some(&true));
        }
        for plot in &mut self.plots {
            plot.y.retain(|name| self.columns.iter().any(|column| column.name == *name));
        }
        self.plots.retain(|plot| !plot.y.is_empty());
    }

    /// The same, too long to be printed.
    pub fn detail(mut self) -> Table {
        self.is_detail = true;
        self
    }

    /// The same, to be drawn like this too.
    ///
    /// # Panics
    /// If it has not all the columns that the plot names.
    pub fn plot(mut self, plot: Plot) -> Table {
        for name in plot.columns() {
            assert!(
                self.columns.iter().any(|column| column.name == name),
                "{} has a column {name}",
                self.name
            );
        }
        self.plots.push(plot);
        self
    }

    /// Add a row.
    ///
    /// # Panics
    /// If it has not one value for each column.
    pub fn push(&mut self, row: Vec<Value>) {
        assert_eq!(row.len(), self.columns.len(), "a row of {} has a value for each column", self.name);
        self.rows.push(row);
    }
}

/// A table that is made column by column.
#[derive(Debug)]
pub struct Rows<'a, R> {
    table: Table,
    rows: &'a [R],
}

impl<'a, R> Rows<'a, R> {
    /// With a column of numbers: what each row has in it.
    pub fn column<V: Into<Value>>(
        mut self,
        name: impl Into<String>,
        unit: Unit,
        of: impl Fn(&'a R) -> V,
    ) -> Rows<'a, R> {
        self.table.columns.push(Column::new(name, unit));
        for (values, row) in self.table.rows.iter_mut().zip(self.rows) {
            values.push(of(row).into());
        }
        self
    }

    /// With a column of each of these names; `of` is told which.
    pub fn columns<V: Into<Value>>(
        self,
        names: &[impl AsRef<str>],
        unit: Unit,
        of: impl Fn(&'a R, usize) -> V,
    ) -> Rows<'a, R> {
        let names = names.iter().enumerate();
        names.fold(self, |table, (at, name)| table.column(name.as_ref(), unit, |row| of(row, at)))
    }

    /// With a column of words.
    pub fn text<V: Into<Value>>(self, name: impl Into<String>, of: impl Fn(&'a R) -> V) -> Rows<'a, R> {
        self.column(name, Unit::Text, of)
    }

    /// The table.
    pub fn table(self) -> Table {
        self.table
    }
}

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// A word or two.
    pub name: String,
    /// What its numbers count.
    pub unit: Unit,
}

impl Column {
    /// A column of numbers.
    pub fn new(name: impl Into<String>, unit: Unit) -> Column {
        Column { name: name.into(), unit }
    }

    /// A column of words.
    pub fn text(name: impl Into<String>) -> Column {
        Column::new(name, Unit::Text)
    }

    /// Its name in JSON, with the unit at the end.
    pub fn key(&self) -> String {
        let mut key = String::new();
        for letter in self.name.chars() {
            match letter {
                letter if letter.is_ascii_alphanumeric() => key.extend(letter.to_lowercase()),
                _ if key.ends_with('_') || key.is_empty() => {}
                _ => key.push('_'),
            }
        }
        let stem = key.trim_end_matches('_');
        match self.unit.suffix() {
            "" => stem.to_owned(),
            suffix => format!("{stem}_{suffix}"),
        }
    }
}

/// What numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Words, no numbers.
    Text,
    /// Things, or nothing at all (an index, a ratio).
    Number,
    /// A share of a whole, 0 to 1; shown in percent.
    Share,
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Millis,
    /// 10⁶ bit/s.
    Mbps,
    /// Bytes.
    Bytes,
    /// Bandwidth-delay products.
    Bdp,
    /// Times as much.
    Times,
}

impl Unit {
    /// The sign behind a number; empty where there is none, or where it depends on the number.
    pub fn sign(self) -> &'static str {
        match self {
            Unit::Text | Unit::Number | Unit::Bytes => "",
            Unit::Share => "%",
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Mbps => "Mb/s",
            Unit::Bdp => "BDP",
            Unit::Times => "×",
        }
    }

    /// What stands at the end of a name in JSON.
    fn suffix(self) -> &'static str {
        match self {
            Unit::Text | Unit::Number => "",
            Unit::Share => "share",
            Unit::Seconds => "s",
            Unit::Millis => "ms",
            Unit::Mbps => "mbps",
            Unit::Bytes => "bytes",
            Unit::Bdp => "bdp",
            Unit::Times => "times",
        }
    }
}

/// What stands in a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// Not measured, or not to be measured.
    Nothing,
    /// A number in the column's unit.
    Number(f64),
    /// Words.
    Text(String),
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        if number.is_finite() { Value::Number(number) } else { Value::Nothing }
    }
}

impl From<Option<f64>> for Value {
    fn from(number: Option<f64>) -> Value {
        number.map_or(Value::Nothing, Value::from)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::Number(number as f64)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Number(f64::from(number))
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Value {
        Value::Number(number as f64)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(is_so: bool) -> Value {
        if is_so { "yes" } else { "no" }.into()
    }
}

impl<T: Clone> From<&T> for Value
where
    Value: From<T>,
{
    fn from(value: &T) -> Value {
        value.clone().into()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_end_in_units() {
        let keys = [
            Column::new("goodput", Unit::Mbps),
            Column::new("queue, mean", Unit::Bdp),
            Column::text("FQ (ideal)"),
            Column::new("Jain index", Unit::Number),
            Column::new("> 5 s", Unit::Share),
        ];
        let keys: Vec<_> = keys.iter().map(Column::key).collect();
        assert_eq!(keys, ["goodput_mbps", "queue_mean_bdp", "fq_ideal", "jain_index", "5_s_share"]);
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        assert_eq!(Value::from(f64::NAN), Value::Nothing);
        assert_eq!(Value::from(Some(1.5)), Value::Number(1.5));
        assert_eq!(Value::from(None), Value::Nothing);
    }

    #[test]
    #[should_panic(expected = "t has a column b")]
    fn plots_of_what_is_not_there_are_a_bug() {
        let _ = Table::new("t", "T", vec![Column::text("a")]).plot(Plot::bars("a", &["b"]));
    }

    #[test]
    #[should_panic(expected = "a value for each column")]
    fn short_rows_are_a_bug() {
        Table::new("t", "T", vec![Column::text("a"), Column::text("b")]).push(vec!["x".into()]);
    }
}
