//! What plots hold, and that nothing lies outside of them.

use super::*;
use crate::report::{Column, Value};

fn sample() -> Table {
    let columns = vec![
        Column::text("variant"),
        Column::new("flows", Unit::Number),
        Column::new("goodput", Unit::Mbps),
        Column::new("paper", Unit::Mbps),
    ];
    let mut table = Table::new("flows", "More flows", columns);
    for (variant, flows, mbps) in
        [("cubic", 1, 6.0), ("cubic", 5, 8.5), ("cubic", 30, 9.6), ("htcp", 1, 5.0), ("htcp", 30, 9.7)]
    {
        let paper = if flows == 1 { Value::Nothing } else { 9.0.into() };
        table.push(vec![variant.into(), (flows as u32).into(), mbps.into(), paper]);
    }
    table
}

fn drawn(plot: &Plot) -> Drawing {
    draw(&sample(), plot).expect("there is something to draw")
}

fn count(drawing: &Drawing, part: &str) -> usize {
    drawing.body.matches(part).count()
}

#[test]
fn a_second_value_for_a_bar_is_noticed() {
    let with = |plot: Plot| values_without_a_bar(&sample().plot(plot));
    assert_eq!(with(Plot::bars("variant", &["goodput"]).by("flows")), []);
    let lost =
        [("cubic", 2), ("htcp", 1)].map(|(name, times)| vec![(name.to_owned(), "goodput".to_owned()); times]);
    assert_eq!(with(Plot::bars("variant", &["goodput"])), lost.concat());
}

#[test]
fn a_series_is_a_line_with_marks_and_a_name() {
    let drawing = drawn(&Plot::lines("flows", &["goodput"]).by("variant").log_x());
    let names: Vec<&str> = drawing.legend.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["cubic", "htcp"]);
    assert_ne!(drawing.legend[0].1, drawing.legend[1].1);
    // Circles for the first series, squares for the second.
    assert_eq!((count(&drawing, "<circle"), count(&drawing, "<polygon")), (3, 2));
    assert!(count(&drawing, "#0072B2") > 3 && count(&drawing, "#D55E00") > 2);
    for label in ["goodput, Mb/s", "flows", "1", "5", "30"] {
        assert!(drawing.body.contains(&format!("\n{label}\n")), "{label}: {}", drawing.body);
    }
    assert!(drawing.description.contains("cubic, htcp"), "{}", drawing.description);
}

#[test]
fn what_a_paper_says_is_grey_and_stands_only_where_it_says_something() {
    let drawing = drawn(&Plot::points("flows", &["goodput", "paper"]));
    assert!(drawing.legend[1].1.is_quoted && !drawing.legend[0].1.is_quoted);
    assert_eq!((count(&drawing, "<circle"), count(&drawing, "<polygon")), (5, 3));
    assert_eq!(count(&drawing, "fill=\"#666666\""), 3);
}

#[test]
fn bars_stand_in_groups_with_their_figures() {
    let drawing = drawn(&Plot::bars("variant", &["goodput", "paper"]));
    // The last row of each group counts: 9.6 and 9.0, 9.7 and 9.0.
    assert_eq!(count(&drawing, "<rect"), 4);
    for text in ["cubic", "htcp", "9.60", "9.70", "9"] {
        assert!(drawing.body.contains(&format!("\n{text}\n")), "{text}: {}", drawing.body);
    }
    let one = drawn(&Plot::bars("variant", &["goodput"]));
    assert!(one.legend.is_empty() && one.height < drawing.height);
}

#[test]
fn groups_of_bars_keep_the_order_of_the_rows_where_figures_are_missing() {
    let mut table = sample();
    table.rows.clear();
    table.push(vec!["first".into(), 1u32.into(), Value::Nothing, 2.0.into()]);
    table.push(vec!["second".into(), 1u32.into(), 3.0.into(), Value::Nothing]);
    table.push(vec!["empty".into(), 1u32.into(), Value::Nothing, Value::Nothing]);
    let drawing = draw(&table, &Plot::bars("variant", &["goodput", "paper"])).expect("two bars");
    let place = |name: &str| drawing.body.find(&format!("\n{name}\n"));
    assert!(place("first").is_some() && place("first") < place("second") && place("empty").is_none());
}

#[test]
fn nothing_to_draw_is_no_plot() {
    let mut table = sample();
    table.rows.clear();
    assert!(draw(&table, &Plot::lines("flows", &["goodput"])).is_none());
    assert!(draw(&sample(), &Plot::lines("variant", &["goodput"])).is_none());
    // Zero has no logarithm.
    table.push(vec!["x".into(), 0u32.into(), 0.0.into(), Value::Nothing]);
    assert!(draw(&table, &Plot::lines("flows", &["goodput"]).log_x()).is_none());
    assert!(draw(&table, &Plot::bars("variant", &["goodput"]).log_y()).is_none());
    assert!(draw(&table, &Plot::bars("variant", &["goodput"])).is_some());
}

#[test]
fn text_of_tables_cannot_become_elements() {
    let columns = vec![Column::text("<x>"), Column::new("<y>", Unit::Mbps)];
    let mut table = Table::new("t", "T", columns).plot(Plot::bars("<x>", &["<y>"]));
    table.push(vec!["</text><script>".into(), 1.0.into()]);
    let drawing = draw(&table, &table.plots[0]).expect("there is something to draw");
    assert!(!drawing.body.contains("<script") && drawing.body.contains("&lt;script&gt;"));
}

#[test]
fn long_words_are_cut() {
    assert_eq!(fitting("short", 200), "short");
    assert_eq!(fitting("a long line of words", 16 * 8), "a long…");
}
