//! Bars, lying: what they stand for is often a line of words.

use super::axis::Axis;
use super::marks::Style;
use super::series::Bars;
use super::{Drawing, GRID, INK, WIDTH, axis_name, fitting, picture, text_style, width_of};
use crate::report::{Plot, Unit, Value};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) fn draw(bars: &Bars, plot: &Plot) -> Option<Drawing> {
    let layout = Layout::of(bars);
    let values = bars.groups.iter().flat_map(|(_, values)| values.iter().flatten().copied());
    let mut axis = Axis::over(values.clone(), plot.is_log_y, true, bars.y_unit).rounded();
    let figure_width =
        values.map(|value| width_of(&figure(value, bars.y_unit))).max().unwrap_or_default() + GAP;
    axis.thin(WIDTH - layout.left - figure_width, width_of);
    let height = TOP + layout.height + BOTTOM;
    let start = axis.range.start;
    let body = picture(WIDTH, height, |area| {
        let name = fitting(&axis_name(&bars.y_name, bars.y_unit), WIDTH - GAP);
        let middle = text_style(&INK).pos(Pos::new(HPos::Center, VPos::Top));
        let centre = (WIDTH + layout.left - figure_width) as i32 / 2;
        area.draw(&Text::new(name, (centre, height as i32 - 40), middle))?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_left(layout.left)
            .margin_right(figure_width)
            .x_label_area_size(BOTTOM)
            .build_cartesian_2d(axis.places(), f64::from(layout.height)..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID.stroke_width(2))
            .axis_style(INK.stroke_width(2))
            .label_style(text_style(&INK))
            .x_label_formatter(&|at| axis.label(*at))
            .draw()?;
        for (group, (name, values)) in bars.groups.iter().enumerate() {
            let (label, style) = layout.label(name);
            let top = layout.top_of(group);
            let place = (start, top + layout.label_middle());
            chart.draw_series([EmptyElement::at(place) + Text::new(label, layout.label_shift(), style)])?;
            for (number, value) in values.iter().enumerate() {
                let Some(value) = *value else { continue };
                let from = top + layout.first_bar() + f64::from(BAR) * number as f64;
                let (middle, to) = (from + f64::from(BAR) / 2.0, from + f64::from(BAR - 4));
                let colour = Style::of(number, &bars.series[number]).rgb();
                let zero = if plot.is_log_y { start } else { 0.0 };
                chart.draw_series([Rectangle::new([(zero, from), (axis.at(value), to)], colour.filled())])?;
                let beside = text_style(&INK).pos(Pos::new(HPos::Left, VPos::Center));
                let text = Text::new(figure(value, bars.y_unit), (8, 0), beside);
                chart.draw_series([EmptyElement::at((axis.at(value).max(zero), middle)) + text])?;
            }
        }
        Ok(())
    })?;
    let legend = bars.series.iter().enumerate().map(|(number, name)| (name.clone(), Style::of(number, name)));
    let is_plain = matches!(&bars.series[..], [name] if *name == bars.y_name);
    let legend = if is_plain { vec![] } else { legend.collect() };
    Some(Drawing { body, width: WIDTH, height, legend, has_bars: true, description: description(bars) })
}

/// What stands at the end of a bar.
fn figure(value: f64, unit: Unit) -> String {
    // Shares are in percent already.
    let unit = if unit == Unit::Share { Unit::Number } else { unit };
    super::super::cells::cell(&Value::Number(value), unit)
}

/// Where labels and bars are.
struct Layout {
    /// Room for labels beside the bars; with long labels they stand above their bars and this is little.
    left: u32,
    is_beside: bool,
    /// Of all bars with their labels.
    height: u32,
    group: u32,
}

impl Layout {
    fn of(bars: &Bars) -> Layout {
        let widest = bars.groups.iter().map(|(name, _)| width_of(name)).max().unwrap_or_default();
        let is_beside = widest <= BESIDE_MAX;
        let rows = bars.series.len() as u32;
        let group = rows * BAR + GAP + if is_beside { 0 } else { LABEL };
        let left = if is_beside { widest + GAP } else { GAP };
        Layout { left, is_beside, height: group * bars.groups.len() as u32, group }
    }

    fn top_of(&self, group: usize) -> f64 {
        f64::from(self.group) * group as f64
    }

    /// Below the top of a group.
    fn first_bar(&self) -> f64 {
        f64::from(GAP / 2 + if self.is_beside { 0 } else { LABEL })
    }

    fn label_middle(&self) -> f64 {
        let middle = if self.is_beside { self.group / 2 } else { GAP / 2 + LABEL / 2 };
        f64::from(middle)
    }

    fn label_shift(&self) -> (i32, i32) {
        if self.is_beside { (-12, 0) } else { (2, 0) }
    }

    fn label(&self, name: &str) -> (String, TextStyle<'static>) {
        let side = if self.is_beside { HPos::Right } else { HPos::Left };
        let style = text_style(&INK).pos(Pos::new(side, VPos::Center));
        let room = if self.is_beside { BESIDE_MAX } else { WIDTH - 2 * GAP };
        (fitting(name, room), style)
    }
}

fn description(bars: &Bars) -> String {
    let what = axis_name(&bars.y_name, bars.y_unit);
    let groups: Vec<&str> = bars.groups.iter().map(|(name, _)| name.as_str()).collect();
    let series = bars.series.join(", ");
    format!("{what}, bars for {}; series: {series}. The table has the figures.", groups.join("; "))
}

const TOP: u32 = 12;
/// For labels and the name of the axis.
const BOTTOM: u32 = 92;
/// A bar and the space below it.
const BAR: u32 = 36;
const GAP: u32 = 28;
/// A line of text above bars.
const LABEL: u32 = 36;
/// Labels that are no wider stand beside their bars.
const BESIDE_MAX: u32 = 240;
