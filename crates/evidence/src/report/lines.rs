//! A result as JSON, one object a line, for programs, and back.
//!
//! `kind` says what a line is: `run` (always the first: the [`Head`]), `method`, `table` (name, title and columns
//! of the rows that follow), `row` (each value under its column's name and unit), `statement`, and `end`.

use crate::report::{Column, Head, Plot, Report, Statement, Table, Value};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// A report, where it comes from and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// How it came about.
    pub head: Head,
    /// What was found.
    pub report: Report,
    /// How long it took.
    pub seconds: f64,
}

impl Stored {
    /// What it says of a claim.
    pub(super) fn statement(&self, claim: &str) -> Option<&Statement> {
        self.report.statements.iter().find(|one| one.claim == claim)
    }

    /// As JSON lines.
    pub fn lines(&self) -> Vec<Json> {
        let Stored { head, report, seconds } = self;
        let method = Line::Method { title: report.title.clone(), text: report.method.clone() };
        let tables = report.tables.iter().flat_map(Line::of_table);
        let statements = report.statements.iter().cloned().map(Line::Statement);
        let end = Line::End { seconds: (seconds * 1e3).round() / 1e3 };
        let opening = [Line::Run(head.clone()), method].into_iter();
        opening.chain(tables).chain(statements).chain([end]).map(|line| line.json()).collect()
    }
}

/// What is wrong with a line: its number from 1, and what.
#[derive(Debug, PartialEq)]
pub(super) struct BadLine {
    pub(super) number: usize,
    pub(super) reason: String,
    /// A line as other versions of the program write it.
    pub(super) is_foreign: bool,
}

/// The result that these lines are.
pub(super) fn read(text: &str) -> Result<Stored, BadLine> {
    let mut lines = text.lines().enumerate();
    let mut reader = match lines.next().map(|(_, line)| parse(line)) {
        Some(Ok(Line::Run(head))) => Reader::new(head),
        Some(Err(bad)) => return Err(bad.at(1)),
        Some(Ok(_)) => return Err(Bad::damaged("no head of a result").at(1)),
        None => return Err(Bad::damaged("the file is empty").at(1)),
    };
    for (at, line) in lines {
        parse(line).and_then(|line| reader.take(line)).map_err(|bad| bad.at(at + 1))?;
    }
    reader.finish().map_err(|bad| bad.at(text.lines().count()))
}

#[derive(Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Run(Head),
    Method {
        title: String,
        text: Vec<String>,
    },
    Table {
        table: String,
        title: String,
        columns: Vec<KeyedColumn>,
        is_detail: bool,
        plots: Vec<Plot>,
    },
    Row {
        table: String,
        #[serde(flatten)]
        values: Map<String, Json>,
    },
    Statement(Statement),
    End {
        seconds: f64,
    },
}

#[derive(Serialize, Deserialize)]
struct KeyedColumn {
    #[serde(flatten)]
    column: Column,
    /// Its name in rows.
    key: String,
}

impl Line {
    fn json(&self) -> Json {
        serde_json::to_value(self).expect("a line has names for all it holds")
    }

    /// A table and its rows.
    fn of_table(table: &Table) -> Vec<Line> {
        let keys = keys(table);
        let columns = table.columns.iter().cloned().zip(&keys);
        let columns = columns.map(|(column, key)| KeyedColumn { column, key: key.clone() }).collect();
        let head = Line::Table {
            table: table.name.clone(),
            title: table.title.clone(),
            columns,
            is_detail: table.is_detail,
            plots: table.plots.clone(),
        };
        let rows = table.rows.iter().map(|row| {
            let values = keys.iter().cloned().zip(row.iter().map(|value| serde_json::json!(value)));
            Line::Row { table: table.name.clone(), values: values.collect() }
        });
        [head].into_iter().chain(rows).collect()
    }
}

/// Takes lines in and makes a result of them.
struct Reader {
    result: Stored,
    /// Under which names the rows of the last table have their values.
    keys: Vec<String>,
    has_method: bool,
    has_end: bool,
}

impl Reader {
    fn new(head: Head) -> Reader {
        let (id, title) = (head.what.clone(), String::new());
        let report = Report { id, title, method: vec![], tables: vec![], statements: vec![] };
        Reader {
            result: Stored { head, report, seconds: 0.0 },
            keys: vec![],
            has_method: false,
            has_end: false,
        }
    }

    fn take(&mut self, line: Line) -> Result<(), Bad> {
        if self.has_end {
            return Err(Bad::damaged("a line behind the end"));
        }
        let report = &mut self.result.report;
        match line {
            Line::Run(_) => return Err(Bad::damaged("a second head")),
            Line::Method { title, text } => {
                (report.title, report.method, self.has_method) = (title, text, true);
            }
            Line::Table { table, title, columns, is_detail, plots } => {
                let columns = columns.into_iter().map(|keyed| (keyed.column, keyed.key));
                let (columns, keys) = columns.unzip();
                let mut table = Table::new(table, title, columns);
                (table.is_detail, table.plots) = (is_detail, checked(plots, &table)?);
                self.keys = keys;
                report.tables.push(table);
            }
            Line::Row { table: name, values: row } => {
                let table = report.tables.last_mut().filter(|table| table.name == name);
                let table = table.ok_or_else(|| Bad::foreign("a row of no table"))?;
                table.push(values(&row, &self.keys)?);
            }
            Line::Statement(statement) => report.statements.push(statement),
            Line::End { seconds } => (self.result.seconds, self.has_end) = (seconds, true),
        }
        Ok(())
    }

    fn finish(self) -> Result<Stored, Bad> {
        if !self.has_end {
            return Err(Bad::damaged("the end is missing"));
        }
        if !self.has_method {
            return Err(Bad::damaged("the method is missing"));
        }
        Ok(self.result)
    }
}

/// What is wrong with a line whose number is not known yet.
struct Bad {
    reason: String,
    is_foreign: bool,
}

impl Bad {
    fn damaged(reason: impl Into<String>) -> Bad {
        Bad { reason: reason.into(), is_foreign: false }
    }

    fn foreign(reason: impl Into<String>) -> Bad {
        Bad { reason: reason.into(), is_foreign: true }
    }

    fn at(self, number: usize) -> BadLine {
        BadLine { number, reason: self.reason, is_foreign: self.is_foreign }
    }
}

fn parse(line: &str) -> Result<Line, Bad> {
    let value: Json = serde_json::from_str(line).map_err(|_| Bad::damaged("no JSON"))?;
    serde_json::from_value(value).map_err(|error| Bad::foreign(error.to_string()))
}

/// Plots whose columns are there.
fn checked(plots: Vec<Plot>, table: &Table) -> Result<Vec<Plot>, Bad> {
    let is_there = |name: &str| table.columns.iter().any(|column| column.name == name);
    let missing = plots.iter().flat_map(Plot::columns).find(|name| !is_there(name));
    missing.map_or(Ok(()), |name| Err(Bad::damaged(format!("a plot of {name:?}, which is no column"))))?;
    Ok(plots)
}

fn values(row: &Map<String, Json>, keys: &[String]) -> Result<Vec<Value>, Bad> {
    let value = |key: &String| {
        let json = row.get(key).ok_or_else(|| Bad::damaged(format!("a row without {key}")))?;
        Value::deserialize(json).map_err(|_| Bad::damaged(format!("{key} is neither number nor text")))
    };
    keys.iter().map(value).collect()
}

/// The columns' names in JSON; of those that would be the same, or what every row has, the later ones are numbered.
fn keys(table: &Table) -> Vec<String> {
    let mut taken = BTreeSet::from(["kind".to_owned(), "table".to_owned()]);
    let unique = |column: &Column| {
        let key = column.key();
        let numbered = (2..).map(|number| format!("{key}_{number}"));
        let key = [key.clone()].into_iter().chain(numbered).find(|key| !taken.contains(key));
        let key = key.unwrap_or_default();
        taken.insert(key.clone());
        key
    };
    table.columns.iter().map(unique).collect()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
