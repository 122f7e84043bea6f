//! A report as JSON, one object a line, for programs.
//!
//! `kind` says what a line is: `run` (always the first: command, version, seed), `method`, `row` (of the table named,
//! each value under its column's name and unit), `statement`, and `end`.

use longhaul_sim::experiments::{Report, Statement, Table};
use serde_json::{Map, Value as Json, json};

/// What all results say first.
pub fn head(what: &str, seed: u64, scale: &str) -> Json {
    let command: Vec<String> = std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    json!({
        "kind": "run",
        "command": command.join(" "),
        "version": env!("CARGO_PKG_VERSION"),
        "what": what,
        "scale": scale,
        "seed": seed,
    })
}

/// The lines of a report between head and end.
pub fn lines(report: &Report) -> Vec<Json> {
    let method = json!({"kind": "method", "title": report.title, "text": report.method});
    let rows = report.tables.iter().flat_map(rows);
    let statements = report.statements.iter().map(statement);
    [method].into_iter().chain(rows).chain(statements).collect()
}

/// What all results say last.
pub fn end(seconds: f64) -> Json {
    json!({"kind": "end", "seconds": (seconds * 1e3).round() / 1e3})
}

/// The rows of a table.
pub fn rows(table: &Table) -> Vec<Json> {
    let keys: Vec<String> = table.columns.iter().map(|column| column.key()).collect();
    let row = |values: &Vec<longhaul_sim::experiments::Value>| {
        let mut object = Map::new();
        object.insert("kind".into(), "row".into());
        object.insert("table".into(), table.name.clone().into());
        for (key, value) in keys.iter().zip(values) {
            object.insert(key.clone(), json!(value));
        }
        Json::Object(object)
    };
    table.rows.iter().map(row).collect()
}

fn statement(statement: &Statement) -> Json {
    json!({
        "kind": "statement",
        "claim": statement.claim,
        "paper": statement.paper,
        "figures": statement.figures,
        "verdict": statement.verdict,
        "remark": statement.remark,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_sim::experiments::{Claim, Column, Unit, Value};

    #[test]
    fn a_report_is_a_line_for_each_row_and_statement() {
        let columns = vec![Column::text("haul"), Column::new("goodput", Unit::Mbps)];
        let mut table = Table::new("hauls", "Two hauls", columns).detail();
        table.push(vec!["long".into(), 88.5.into()]);
        table.push(vec!["far".into(), Value::Nothing]);
        let statements = vec![Claim::ours("fast").judge(true, "88.5 Mb/s")];
        let report = Report {
            id: "x".into(),
            title: "X".into(),
            method: vec!["One flow.".into()],
            tables: vec![table],
            statements,
        };
        let lines = lines(&report);
        assert_eq!(lines[1], json!({"kind": "row", "table": "hauls", "haul": "long", "goodput_mbps": 88.5}));
        assert_eq!(lines[2]["goodput_mbps"], Json::Null);
        assert_eq!((&lines[3]["verdict"], &lines[3]["paper"]), (&json!("met"), &Json::Null));
        assert_eq!(lines.len(), 4);
        assert_eq!(head("x", 7, "quick")["seed"], 7);
    }
}
