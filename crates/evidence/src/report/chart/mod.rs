//! Plots of tables, drawn as SVG.

mod axis;
mod bars;
mod lines;
mod marks;
mod series;
mod timeline;

pub(super) use marks::{COLOURS, Shape, Style};
pub(crate) use timeline::{Band, TimedCurves, Timeline};

use crate::report::{Plot, PlotKind, Table, Unit};
use plotters::prelude::*;
use series::{Bars, Curves};

/// A plot, drawn.
pub(crate) struct Drawing {
    /// Elements of an SVG picture.
    pub(super) body: String,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Its series; empty where there is but one.
    pub(super) legend: Vec<(String, Style)>,
    /// Whether series are bars, which have colours and no other marks.
    pub(super) has_bars: bool,
    /// What is to be seen, in words.
    pub(super) description: String,
}

/// Draw a table as this plot of it says; `None` where it has no figures to draw.
pub(super) fn draw(table: &Table, plot: &Plot) -> Option<Drawing> {
    match plot.kind {
        PlotKind::Lines | PlotKind::Points => lines::draw(&Curves::of(table, plot)?, plot),
        PlotKind::Bars => bars::draw(&Bars::of(table, plot)?, plot),
    }
}

/// Values that a table's bars have no place for: another of the same group and series would stand in it. For tests of tables.
#[cfg(test)]
pub(crate) fn values_without_a_bar(table: &Table) -> Vec<(String, String)> {
    let bars = table.plots.iter().filter(|plot| plot.kind == PlotKind::Bars);
    bars.flat_map(|plot| series::clashes(table, plot)).collect()
}

/// Draw into a picture of this size; the elements, without the picture's own.
fn picture(
    width: u32,
    height: u32,
    paint: impl FnOnce(&Area<'_>) -> Result<(), DrawingAreaErrorKind<std::io::Error>>,
) -> Option<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
        paint(&area).ok()?;
        area.present().ok()?;
    }
    let (_, body) = svg.split_once("<svg")?.1.split_once('>')?;
    Some(body.trim_end().strip_suffix("</svg>")?.trim().to_owned())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// A column's name and unit, at an axis.
fn axis_name(name: &str, unit: Unit) -> String {
    match unit.sign() {
        "" => name.to_owned(),
        sign if name.is_empty() => sign.to_owned(),
        sign => format!("{name}, {sign}"),
    }
}

/// A number in the unit in which it is shown.
fn shown(number: f64, unit: Unit) -> f64 {
    if unit == Unit::Share { number * 100.0 } else { number }
}

/// As wide as this text probably is, in the picture's units.
fn width_of(text: &str) -> u32 {
    text.chars().count() as u32 * LETTER_WIDTH
}

/// `text`, or as much of its beginning as fits.
fn fitting(text: &str, width: u32) -> String {
    let letters = (width / LETTER_WIDTH) as usize;
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(letters.saturating_sub(1)).collect();
    short.truncate(short.trim_end().len());
    short + "…"
}

fn text_style<'a>(colour: &'a RGBColor) -> TextStyle<'a> {
    ("sans-serif", FONT_SIZE).into_font().color(colour)
}

/// Twice as many units as pixels at full size: coordinates are whole numbers.
const WIDTH: u32 = 960;
/// plotters writes it divided by 1.24.
const FONT_SIZE: u32 = 33;
/// Of the widest fonts in use (about 0.6 of their height), so that nothing is cut.
const LETTER_WIDTH: u32 = 16;
/// The text's colour; the page's style replaces it.
const INK: RGBColor = RGBColor(0x33, 0x33, 0x33);
/// Likewise of lines behind the data.
const GRID: RGBColor = RGBColor(0xDD, 0xDD, 0xDD);

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
