//! What the page and the table for documentation hold.

use super::super::{Head, Host, Listed, Origin, Results, Stored};
use crate::report::{Claim, Column, Plot, Report, Table, Unit};

const PAPER: Claim = Claim::paper("A paper <1>", "at least 5 | 6 & more");

fn stored(id: &str) -> Stored {
    let columns = vec![Column::text("haul"), Column::new("goodput", Unit::Mbps)];
    let mut table = Table::new("t", "Both <hauls>", columns).plot(Plot::bars("haul", &["goodput"]));
    table.push(vec!["<b>long</b>".into(), 88.5.into()]);
    let hidden = Table::new("cells", "Every cell", vec![Column::text("cell")]).detail();
    let report = Report {
        id: id.into(),
        title: "Two <hauls>".into(),
        method: vec!["One flow.".into()],
        tables: vec![table, hidden],
        statements: vec![
            PAPER.judge(false, "4.0 < 5").otherwise("a slow host"),
            Claim::ours("fast").judge(true, "yes"),
        ],
    };
    let head = Head {
        command: format!("longhaul lab run {id} --quick"),
        version: "0.1.0".into(),
        what: id.into(),
        origin: Origin::Lab,
        scale: "quick".into(),
        seed: 7,
        only: None,
        host: None,
    };
    Stored { head, report, seconds: 12.0 }
}

fn results() -> Results {
    let listed = [("First", "a"), ("First", "missing"), ("Second", "b")];
    let listed =
        listed.map(|(group, id)| Listed { group, id, title: "listed", differs: Some("other hosts") });
    Results::among(listed.into_iter(), vec![stored("other"), stored("b"), stored("a")])
}

#[test]
fn the_page_has_every_result_in_the_order_of_the_list_and_names_what_is_missing() {
    let page = results().page();
    let places: Vec<usize> =
        ["<h2>First", "id=\"a\"", "<h2>Second", "id=\"b\"", "<h2>Others", "id=\"other\""]
            .map(|part| page.find(part).unwrap_or_else(|| panic!("{part}")))
            .into();
    assert!(places.is_sorted(), "{places:?}");
    assert!(page.contains("Without a result: <code>missing</code>"));
    assert_eq!(page.matches("<figure").count(), 3);
    assert_eq!(page.matches("<figcaption><p class=\"origin\"><code>longhaul lab run").count(), 3);
    assert!(page.contains("href=\"#a-claim-1\"") && page.contains("id=\"a-claim-1\""));
    assert!(page.contains("Why: a slow host") && page.contains("in 12.0 s"));
    assert!(!page.contains("Every cell"));
}

#[test]
fn the_page_says_of_a_part_that_it_is_one() {
    let mut part = stored("a");
    part.head.only = Some("65 ms".into());
    assert!(Results::of(vec![part]).page().contains("measured, quick, only 65 ms, in 12.0 s"));
    assert!(results().page().contains("measured, quick, in 12.0 s"));
}

#[test]
fn the_page_needs_nothing_else_and_escapes_what_it_shows() {
    let page = results().page();
    for part in ["<script", "http:", "https:", "src=", "@import", "url(", "<b>long", "Two <hauls>"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("Two &lt;hauls&gt;") && page.contains("&lt;b&gt;long"));
}

#[test]
fn equal_results_make_equal_pages() {
    assert_eq!(results().page(), results().page());
    assert_eq!(results().markdown(), results().markdown());
}

#[test]
fn the_style_knows_every_colour_that_plots_use() {
    for (red, green, blue) in super::super::chart::COLOURS {
        for part in ["stroke", "fill"] {
            let rule = format!("[{part}=\"#{red:02X}{green:02X}{blue:02X}\"]");
            assert!(super::STYLE.contains(&rule), "{rule}");
        }
    }
}

#[test]
fn the_table_for_documentation_has_a_row_for_each_claim() {
    let text = results().markdown();
    let row = "| `a` (measured, quick, seed 7) | at least 5 \\| 6 &amp; more (A paper &lt;1&gt;) | 4.0 &lt; 5; a slow host | \
               not reproduced |";
    assert!(text.lines().any(|line| line == row), "{text}");
    assert!(text.lines().any(|line| line == "|  | fast | yes | met |"), "{text}");
    assert!(text.contains("\n## First\n") && text.contains("Without a result: `missing`."));
    // Of three groups each has this one claim of a paper's.
    assert!(text.lines().any(|line| line == "| all | 3 | 0 | 0 | 3 | 0 | 0 |"), "{text}");
}

#[test]
fn a_claim_counts_once_by_where_it_came_off_better_and_as_measured() {
    let mut simulated = stored("a");
    simulated.head.origin = Origin::Simulator;
    simulated.report.statements[0] = PAPER.judge(true, "5.1");
    let listed = Listed { group: "First", id: "a", title: "listed", differs: None };
    let both = Results::among([listed].into_iter(), vec![stored("a"), simulated.clone()]).markdown();
    assert!(both.contains("| First | 1 | 1 | 0 | 0 | 0 | 0 |"), "{both}");
    simulated.head.origin = Origin::Lab;
    let measured = Results::among([listed].into_iter(), vec![simulated]).markdown();
    assert!(measured.contains("| First | 1 | 1 | 0 | 0 | 0 | 1 |"), "{measured}");
}

#[test]
fn the_table_for_documentation_says_where_all_claims_hold_together() {
    let mut part = stored("a");
    part.report
        .method
        .push("Under none of the 2 conditions do all of the paper's claims hold together.".into());
    let text = Results::of(vec![part]).markdown();
    assert!(text.contains("\n\n* `a`, measured: Under none of the 2 conditions"), "{text}");
    assert!(!results().markdown().contains("* `a`, measured"));
}

#[test]
fn a_result_is_taken_over_only_if_it_is_of_the_same_measurement() {
    let host = |build: Option<&str>, kernel: &str| Host {
        kernel: kernel.into(),
        cpu: "A Processor".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        date: "2026-11-22T05:44:46Z".into(),
        build: build.map(Into::into),
    };
    let mut there = stored("a");
    there.head.host = Some(host(Some("1"), "Linux 6.18"));
    let wanted = || Head { command: "another".into(), ..there.head.clone() };
    assert!(there.is_of(&wanted()));
    for other in [
        Head { version: "0.1.1".into(), ..wanted() },
        Head { scale: "full".into(), ..wanted() },
        Head { seed: 8, ..wanted() },
        Head { origin: Origin::Simulator, ..wanted() },
        Head { host: Some(host(Some("2"), "Linux 6.18")), ..wanted() },
        Head { host: Some(host(Some("1"), "Linux 6.19")), ..wanted() },
    ] {
        assert!(!there.is_of(&other), "{other:?}");
    }
    let mut part = there.clone();
    part.head.only = Some("65 ms".into());
    assert!(!part.is_of(&wanted()));
    let mut simulated = there.clone();
    simulated.head.origin = Origin::Simulator;
    let elsewhere = Head { host: Some(host(Some("1"), "Linux 6.19")), ..simulated.head.clone() };
    assert!(simulated.is_of(&elsewhere), "it is the same on any host");
    let mut unknown = there.clone();
    unknown.head.host = Some(host(None, "Linux 6.18"));
    assert!(!unknown.is_of(&unknown.head.clone()), "nobody knows by which build");
}

#[test]
fn a_smaller_result_leaves_a_larger_one_alone() {
    let folder = tempfile::tempdir().unwrap();
    let of = |scale: &str, only: Option<&str>, rows: usize| {
        let mut one = stored("versus");
        (one.head.scale, one.head.only) = (scale.into(), only.map(Into::into));
        let row = one.report.tables[0].rows[0].clone();
        one.report.tables[0].rows = vec![row; rows];
        one
    };
    let store = |one: &Stored| {
        let path = one.store(folder.path(), "versus").unwrap();
        assert_eq!(&Stored::read(&path).unwrap(), one);
        path.file_name().unwrap().to_string_lossy().into_owned()
    };
    let shown = || {
        let results = Results::read(folder.path()).unwrap();
        assert!(results.bad().is_empty() && results.present().count() == 1);
        let stored = results.results().next().unwrap();
        (stored.head.scale.clone(), stored.report.tables[0].rows.len())
    };
    assert_eq!(store(&of("quick", None, 3)), "versus.jsonl");
    assert_eq!(store(&of("quick", Some("65 ms"), 1)), "versus.quick-part.jsonl");
    assert_eq!(
        store(&of("quick", Some("Mb/s"), 14)),
        "versus.jsonl",
        "a part with more paths than are usual"
    );
    assert_eq!(store(&of("full", None, 42)), "versus.jsonl");
    assert_eq!(store(&of("quick", None, 3)), "versus.quick.jsonl");
    assert_eq!(store(&of("full", Some("65 ms"), 3)), "versus.full-part.jsonl");
    assert_eq!(store(&of("full", None, 41)), "versus.jsonl", "measured again");
    assert_eq!(shown(), ("full".into(), 41));
    std::fs::remove_file(folder.path().join("versus.jsonl")).unwrap();
    assert_eq!(shown(), ("full".into(), 3));
    let damaged = folder.path().join("versus.quick.jsonl");
    std::fs::write(&damaged, "{}\n").unwrap();
    let error = Stored::read(&damaged).unwrap_err().to_string();
    assert!(error.ends_with("longhaul lab run versus"), "{error}");
}

#[test]
fn what_was_measured_and_what_was_simulated_stand_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let of = |origin: Origin, figures: &str| {
        let mut one = stored("fobs-fig1");
        one.head.origin = origin;
        one.report.statements[0] = PAPER.judge(origin == Origin::Lab, figures);
        if origin == Origin::Simulator {
            one.report.tables[0].rows[0][1] = 70.8.into();
        }
        one
    };
    let (measured, simulated) =
        (of(Origin::Lab, "5.1 in the lab"), of(Origin::Simulator, "4.9 on virtual time"));
    measured.store(folder.path(), "fobs-fig1").unwrap();
    let path = simulated.store(folder.path(), "fobs-fig1.simulated").unwrap();
    let results = Results::read(folder.path()).unwrap();
    assert_eq!((results.present().count(), results.bad().len()), (1, 0));
    assert!(results.results().eq([&measured, &simulated]));
    let page = results.page();
    let claim = page.split("id=\"fobs-fig1-claim-1\"").nth(1).unwrap().split("</li>").next().unwrap();
    assert!(
        claim.contains("measured: 5.1 in the lab") && claim.contains("simulated: 4.9 on virtual"),
        "{claim}"
    );
    assert!(page.contains("Both &lt;hauls&gt;, measured") && page.contains("Both &lt;hauls&gt;, simulated"));
    assert_eq!(page.matches("id=\"fobs-fig1\"").count(), 1);
    let text = results.markdown();
    let figures = [" 5.1 in the lab | reproduced |", " |  | 4.9 on virtual time | not reproduced |"];
    let lines: Vec<usize> =
        figures.map(|end| text.lines().position(|line| line.ends_with(end)).unwrap()).into();
    assert_eq!(lines[1], lines[0] + 1, "{text}");
    let far = "| fobs-fig1 | Both &lt;hauls&gt;: goodput | 1 | 0 | 1.25 | no |";
    assert!(text.lines().any(|line| line == far) && text.contains("\n* `fobs-fig1`: "), "{text}");
    assert!(page.contains("id=\"agreement\"") && page.contains("Why some are farther apart"));
    std::fs::write(&path, "{}\n").unwrap();
    let error = Results::read(folder.path()).unwrap().bad()[0].to_string();
    assert!(error.contains("simulate it again: longhaul sim fobs-fig1 --json >"), "{error}");
}

#[test]
fn results_survive_the_disk_and_bad_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let stored = stored("a");
    let path = stored.store(folder.path(), "a").unwrap();
    assert_eq!(Stored::read(&path).unwrap(), stored);
    assert_eq!(Results::read(folder.path()).unwrap().present().collect::<Vec<_>>(), ["a"]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::write(folder.path().join("b.jsonl"), "{}\n").unwrap();
    let results = Results::read(folder.path()).unwrap();
    assert_eq!((results.present().collect::<Vec<_>>(), results.bad().len()), (vec!["a"], 1));
    let error = results.bad()[0].to_string();
    assert!(error.contains("b.jsonl, line 1: ") && error.ends_with("longhaul lab run b"), "{error}");
}

#[test]
fn a_copy_under_another_name_is_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = stored("a").store(folder.path(), "a").unwrap();
    std::fs::copy(&path, folder.path().join("a-before.jsonl")).unwrap();
    let results = Results::read(folder.path()).unwrap();
    assert_eq!(results.present().collect::<Vec<_>>(), ["a"]);
    let errors: Vec<String> = results.bad().iter().map(ToString::to_string).collect();
    assert!(
        errors.len() == 1 && errors[0].contains("a-before.jsonl: it is a result of a under"),
        "{errors:?}"
    );
    assert!(errors[0].ends_with("call it a.jsonl, or move it away"), "{errors:?}");
}
