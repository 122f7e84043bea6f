//! A plot with its headline, legend and where it comes from.

use super::super::chart::{self, COLOURS, Drawing, Shape, Style};
use crate::report::{Plot, Table};
use maud::{Markup, PreEscaped, html};

/// `mark` tells it from the same plot of another result.
pub(super) fn figure(table: &Table, plot: &Plot, id: &str, mark: Option<&str>, origin: &Markup) -> Markup {
    let Some(drawing) = chart::draw(table, plot) else { return html! {} };
    let title = marked(plot.title.as_ref().unwrap_or(&table.title), mark);
    let id = mark.map_or(id.to_owned(), |mark| format!("{id}-{mark}"));
    drawn(&drawing, &title, &id, origin)
}

/// A picture with its headline and legend, and what stands below it.
pub(crate) fn drawn(drawing: &Drawing, title: &str, id: &str, caption: &Markup) -> Markup {
    let (title_id, text_id) = (format!("{id}-title"), format!("{id}-text"));
    html! {
        figure #(id) {
            h4 { (title) }
            @if !drawing.legend.is_empty() {
                ul.legend { @for (name, style) in &drawing.legend { li { (swatch(*style, drawing.has_bars)) (name) } } }
            }
            svg.plot viewBox={ "0 0 " (drawing.width) " " (drawing.height) } role="img"
                aria-labelledby={ (title_id) " " (text_id) } {
                title #(title_id) { (title) }
                desc #(text_id) { (drawing.description) }
                (PreEscaped(&drawing.body))
            }
            figcaption { (caption) }
        }
    }
}

/// A headline of several results.
pub(super) fn marked(title: &str, mark: Option<&str>) -> String {
    mark.map_or(title.to_owned(), |mark| format!("{title}, {mark}"))
}

/// How a series looks, for its name in the legend.
fn swatch(style: Style, is_bar: bool) -> Markup {
    let (red, green, blue) = COLOURS[style.colour];
    let colour = format!("#{red:02X}{green:02X}{blue:02X}");
    html! {
        svg.swatch viewBox="0 0 36 16" width="36" height="16" aria-hidden="true" {
            @if is_bar { rect x="10" y="2" width="16" height="12" fill=(colour) {} }
            @else { (mark(style, &colour)) }
        }
    }
}

/// A piece of a curve with its mark.
fn mark(style: Style, colour: &str) -> Markup {
    let corners = style.shape.corners(6).into_iter().map(|(x, y)| format!("{},{}", x + 18, y + 8));
    let points = corners.collect::<Vec<_>>().join(" ");
    let dashes = style.is_quoted.then_some("5 4");
    html! {
        line x1="0" y1="8" x2="36" y2="8" stroke=(colour) stroke-width="2.5" stroke-dasharray=[dashes] {}
        @if style.shape == Shape::Circle { circle cx="18" cy="8" r="6" fill=(colour) {} }
        @else { polygon points=(points) fill=(colour) {} }
    }
}
