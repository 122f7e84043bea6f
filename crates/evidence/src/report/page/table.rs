//! A table of figures.

use super::super::cells::cell;
use super::figure::marked;
use crate::report::{Column, Table, Unit, Value};
use maud::{Markup, html};

/// `mark` tells it from the same table of another result.
pub(super) fn table(table: &Table, mark: Option<&str>) -> Markup {
    let title = marked(&table.title, mark);
    html! {
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table {
                caption { (title) }
                thead { tr { @for column in &table.columns { (head(column)) } } }
                tbody {
                    @for row in &table.rows {
                        tr { @for (at, (value, column)) in row.iter().zip(&table.columns).enumerate() { (data(at, value, column)) } }
                    }
                }
            }
        }
    }
}

fn head(column: &Column) -> Markup {
    html! {
        th scope="col" class=[class(column)] {
            (column.name)
            @if !column.unit.sign().is_empty() { " " span.unit { (column.unit.sign()) } }
        }
    }
}

fn data(at: usize, value: &Value, column: &Column) -> Markup {
    let text = cell(value, column.unit);
    html! {
        @if at == 0 { th scope="row" class=[class(column)] { (text) } }
        @else { td class=[class(column)] { (text) } }
    }
}

/// Figures to the right.
fn class(column: &Column) -> Option<&'static str> {
    (column.unit != Unit::Text).then_some("figure")
}
