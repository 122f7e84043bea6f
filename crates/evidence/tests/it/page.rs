//! The page of results in a real browser: at every width, on paper and in the dark every plot is there and whole,
//! and nothing runs over. Without Chromium this is skipped, and says so.

use crate::browser::{self, browser};
use longhaul_evidence::report::{Claim, Column, Plot, Report, Table, Unit, Value};
use longhaul_evidence::report::{Head, Host, Origin, Results, Stored};

#[test]
fn nothing_runs_over_at_any_width() {
    let Some(browser) = browser() else { return };
    for width in [390, 768, 1400] {
        check(&browser, &results().page(), width);
    }
}

#[test]
fn nothing_runs_over_on_paper() {
    let Some(browser) = browser() else { return };
    // The rules for paper, on a screen as wide as an A4 page between its margins at 96 dots an inch.
    let page = results().page();
    assert!(page.contains("@media print"));
    check(&browser, &page.replace("@media print", "@media all"), 680);
}

/// The page, `width` pixels wide, has no fault.
fn check(browser: &str, page: &str, width: u32) {
    browser::check(browser, page, width, PLOTS);
}

/// All kinds of plots, at their worst: long names, many series, few and many figures, gaps; and an experiment that was
/// measured and simulated.
fn results() -> Results {
    Results::of(vec![
        stored("psockets-a", Origin::Lab, vec![lines(), paths()]),
        stored("psockets-a", Origin::Simulator, vec![lines()]),
        stored("streams-auto", Origin::Lab, vec![many(), spread(), shares()]),
    ])
}

const PLOTS: usize = 8;

fn stored(id: &str, origin: Origin, tables: Vec<Table>) -> Stored {
    const CLAIM: Claim = Claim::paper(
        "PSockets §4 a, Figure 2",
        "several sockets with windows of 64 KB carry together what one cannot, by far",
    );
    let host = Host {
        kernel: "Linux 6.18.0-with-a-rather-long-name-of-somebody's-own x86_64".into(),
        cpu: "A Processor With a Long Name And Numbers 7B13 @ 2.45GHz".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        date: "2026-11-22T05:44:46Z".into(),
        build: Some("0123456789abcdef".into()),
    };
    let head = Head {
        command: format!("longhaul lab run {id} --quick --out a/folder/with/a/long/path/{}", "x".repeat(60)),
        version: "0.1.0".into(),
        what: id.into(),
        origin,
        scale: "quick".into(),
        seed: 1,
        only: None,
        host: Some(host),
    };
    let statements = vec![
        CLAIM.judge(true, "one socket 30.8 Mb/s, the best number 96.2 Mb/s"),
        CLAIM.judge(false, "no").otherwise("a host with other things to do, as hosts have"),
        Claim::ours("more than that").leave_open("iperf3 is not installed"),
    ];
    let report = Report {
        id: id.into(),
        title: "Goodput by number of sockets, windows of 64 KB (Figure 2)".into(),
        method: vec!["100 Mb/s, round trip 20 ms, queue of one bandwidth-delay product.".into()],
        tables,
        statements,
    };
    Stored { head, report, seconds: 27.4 }
}

/// Curves over powers of two, one with gaps.
fn lines() -> Table {
    let mut columns = vec![Column::new("sockets", Unit::Number)];
    columns.extend(["equal partitions", "longhaul's", "paper"].map(|name| Column::new(name, Unit::Mbps)));
    let names = ["equal partitions", "longhaul's", "paper"];
    let mut table = Table::new("goodput", "Goodput by number of sockets", columns)
        .plot(Plot::lines("sockets", &names).log_x())
        .plot(Plot::lines("sockets", &names[..1]).title("The same, linear, by itself"));
    for power in 0..6 {
        let mbps = f64::from(30 * (power + 1)).min(96.3);
        let paper = if power == 2 { 76.0.into() } else { Value::Nothing };
        table.push(vec![f64::from(1 << power).into(), mbps.into(), (mbps * 1.01).into(), paper]);
    }
    table
}

/// Bars with long names.
fn paths() -> Table {
    let names = ["object", "stripe", "auto"];
    let mut columns = vec![Column::text("path")];
    columns.extend(names.map(|name| Column::new(name, Unit::Seconds)));
    let mut table =
        Table::new("seconds", "Seconds for the same file", columns).plot(Plot::bars("path", &names));
    for (path, object) in [
        ("100 Mb/s, 65 ms, loss 1 %", 12.345),
        ("100 Mb/s, 40 ms, UDP blocked after 4 s and then for as long as the copy takes", f64::NAN),
        ("20 Mb/s, 150 ms, jitter 2 ms", 90_000.0),
    ] {
        table.push(vec![path.into(), object.into(), 13.2.into(), 12.9.into()]);
    }
    table
}

/// More series than colours, in bytes, over decades.
fn many() -> Table {
    let columns = vec![
        Column::text("a sender with a long name"),
        Column::new("size", Unit::Bytes),
        Column::new("response time", Unit::Seconds),
    ];
    let plot = Plot::lines("size", &["response time"]).by("a sender with a long name").log_x().log_y();
    let mut table = Table::new("sizes", "Response time by size", columns).plot(plot);
    for sender in 0..10 {
        for power in 0..20 {
            let seconds = 1e-3 * f64::from(1 + sender) * 1.7f64.powi(power);
            let size = 1000u64 << power;
            table.push(vec![format!("sender number {sender}").into(), size.into(), seconds.into()]);
        }
    }
    table
}

/// A cloud of points near to each other.
fn spread() -> Table {
    let columns = vec![Column::new("utilisation", Unit::Share), Column::new("Jain's index", Unit::Number)];
    let mut table = Table::new("spread", "Fairness against utilisation", columns)
        .plot(Plot::points("utilisation", &["Jain's index"]));
    for step in 0..60 {
        let share = 0.9 + 0.0015 * f64::from(step);
        table.push(vec![share.into(), (0.6 + 0.3 * share).into()]);
    }
    table
}

/// Bars with short names over decades, in a table wider than any phone.
fn shares() -> Table {
    let mut columns = vec![Column::text("controller")];
    columns.extend((1..15).map(|flows| Column::new(format!("{flows} flows lost"), Unit::Share)));
    let mut table = Table::new("loss", "Loss by flows", columns)
        .plot(Plot::bars("controller", &["1 flows lost", "14 flows lost"]).log_y());
    for (name, loss) in [("cubic", 1e-6), ("newreno", 2e-4), ("htcp", 0.013)] {
        let losses = (1..15).map(|flows| Value::from(loss * f64::from(flows)));
        table.push([name.into()].into_iter().chain(losses).collect());
    }
    table
}
