//! What is written is read back the same, and what is damaged or foreign is named.

use super::*;
use crate::report::{Claim, Host, Origin, Unit, Verdict};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::json;

fn head() -> Head {
    Head {
        command: "longhaul lab run x --quick".into(),
        version: "0.1.0".into(),
        what: "x".into(),
        origin: Origin::Lab,
        scale: "quick".into(),
        seed: u64::MAX,
        only: None,
        host: Some(Host {
            kernel: "Linux 6.18.0 x86_64".into(),
            cpu: "A Processor".into(),
            cpus: 2,
            memory_bytes: 8 << 30,
            date: "2026-11-22T05:44:46Z".into(),
            build: Some("0123456789abcdef".into()),
        }),
    }
}

fn small() -> Stored {
    let columns = vec![Column::text("haul"), Column::new("goodput", Unit::Mbps)];
    let mut table = Table::new("hauls", "Two hauls", columns).plot(Plot::bars("haul", &["goodput"])).detail();
    table.push(vec!["long".into(), 88.5.into()]);
    table.push(vec!["far".into(), Value::Nothing]);
    let report = Report {
        id: "x".into(),
        title: "X".into(),
        method: vec!["One flow.".into()],
        tables: vec![table],
        statements: vec![Claim::ours("fast").judge(true, "88.5 Mb/s")],
    };
    Stored { head: head(), report, seconds: 1.5 }
}

fn text(lines: &[Json]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_report_is_a_line_for_each_table_row_and_statement() {
    let lines = small().lines();
    assert_eq!((&lines[0]["kind"], &lines[0]["seed"]), (&json!("run"), &json!(u64::MAX)));
    assert_eq!(
        (&lines[2]["kind"], &lines[2]["columns"][1]["key"]),
        (&json!("table"), &json!("goodput_mbps"))
    );
    assert_eq!(lines[3], json!({"kind": "row", "table": "hauls", "haul": "long", "goodput_mbps": 88.5}));
    assert_eq!(lines[4]["goodput_mbps"], Json::Null);
    assert_eq!((&lines[5]["verdict"], &lines[5]["paper"]), (&json!("met"), &Json::Null));
    assert_eq!((lines[6]["kind"].as_str(), lines.len()), (Some("end"), 7));
}

#[test]
fn columns_of_one_name_stay_apart() {
    let columns = vec![Column::text("table"), Column::text("a"), Column::text("A"), Column::text("a?")];
    assert_eq!(keys(&Table::new("t", "T", columns)), ["table_2", "a", "a_2", "a_3"]);
}

#[test]
fn cut_short_damaged_and_foreign_results_are_told_apart() {
    let lines = small().lines();
    let bad = |text: &str| read(text).map(|_| ()).unwrap_err();
    let cut = bad(&text(&lines[..5]));
    assert_eq!((cut.number, cut.reason.as_str(), cut.is_foreign), (5, "the end is missing", false));
    let half = text(&lines);
    let torn = bad(&half[..half.len() - 9]);
    assert_eq!((torn.number, torn.reason.as_str(), torn.is_foreign), (7, "no JSON", false));
    assert_eq!(bad("").reason, "the file is empty");
    assert_eq!(bad(&text(&lines[1..])).reason, "no head of a result");
    let doubled = [&lines[..], &lines[6..]].concat();
    assert_eq!(bad(&text(&doubled)).reason, "a line behind the end");
    // As it was before tables had lines of their own, and before heads said who came to a result.
    let bare: Vec<Json> = lines.iter().filter(|line| line["kind"] != "table").cloned().collect();
    let old = bad(&text(&bare));
    assert_eq!((old.number, old.is_foreign), (3, true));
    let mut headless = lines.clone();
    headless[0].as_object_mut().unwrap().remove("origin");
    let old = bad(&text(&headless));
    assert!(old.number == 1 && old.is_foreign && old.reason.contains("origin"), "{old:?}");
}

#[test]
fn rows_and_plots_that_do_not_fit_their_table_are_refused() {
    let mut lines = small().lines();
    lines[3].as_object_mut().unwrap().remove("haul");
    assert_eq!(read(&text(&lines)).unwrap_err().reason, "a row without haul");
    let mut lines = small().lines();
    lines[3]["haul"] = json!([1]);
    assert_eq!(read(&text(&lines)).unwrap_err().reason, "haul is neither number nor text");
    let mut lines = small().lines();
    lines[2]["plots"][0]["x"] = json!("nowhere");
    assert!(read(&text(&lines)).unwrap_err().reason.contains("nowhere"));
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,12}", ".{0,12}", Just("kind".to_owned()), Just("table".to_owned())]
}

fn unit() -> impl Strategy<Value = Unit> {
    prop::sample::select(vec![
        Unit::Text,
        Unit::Number,
        Unit::Share,
        Unit::Seconds,
        Unit::Millis,
        Unit::Mbps,
        Unit::Bytes,
        Unit::Bdp,
        Unit::Times,
    ])
}

fn value() -> impl Strategy<Value = Value> {
    let number = prop_oneof![prop::num::f64::NORMAL | prop::num::f64::ZERO, (0..1000u32).prop_map(f64::from)];
    prop_oneof![Just(Value::Nothing), number.prop_map(Value::Number), words().prop_map(Value::Text)]
}

fn table() -> impl Strategy<Value = Table> {
    let columns = vec((words(), unit()), 1..5);
    let made = (words(), words(), columns, any::<bool>(), 0..3usize, any::<(bool, bool)>());
    let made = made.prop_flat_map(|made| {
        let rows = vec(vec(value(), made.2.len()), 0..5);
        (Just(made), rows)
    });
    made.prop_map(|((name, title, columns, is_detail, plots, (by, log)), rows)| {
        let first = columns[0].0.clone();
        let last = columns[columns.len() - 1].0.clone();
        let columns = columns.into_iter().map(|(name, unit)| Column::new(name, unit)).collect();
        let mut table = Table::new(name, title.clone(), columns);
        for number in 0..plots {
            let plot = [Plot::lines, Plot::points, Plot::bars][number](&first, &[&last, &first]);
            let plot = if by { plot.by(&last).title(title.clone()) } else { plot };
            table = table.plot(if log { plot.log_x().log_y() } else { plot });
        }
        table.is_detail = is_detail;
        rows.into_iter().for_each(|row| table.push(row));
        table
    })
}

fn statement() -> impl Strategy<Value = Statement> {
    let verdicts =
        vec![Verdict::Reproduced, Verdict::NotReproduced, Verdict::Met, Verdict::NotMet, Verdict::Open];
    let parts = (words(), option::of(words()), words(), prop::sample::select(verdicts), option::of(words()));
    parts.prop_map(|(claim, paper, figures, verdict, remark)| Statement {
        claim,
        paper,
        figures,
        verdict,
        remark,
    })
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        title in words(),
        method in vec(words(), 0..3),
        tables in vec(table(), 0..4),
        statements in vec(statement(), 0..4),
        only in option::of(words()),
        has_host in any::<bool>(),
        millis in 0..10_000_000u32,
    ) {
        let mut head = Head { only, ..head() };
        head.host = head.host.filter(|_| has_host);
        let report = Report { id: "x".into(), title, method, tables, statements };
        let stored = Stored { head, report, seconds: f64::from(millis) / 1e3 };
        prop_assert_eq!(read(&text(&stored.lines())), Ok(stored));
    }
}
