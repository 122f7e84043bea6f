//! Curves, and clouds of points.

use super::axis::{Axis, Places};
use super::marks::{Shape, Style};
use super::series::Curves;
use super::{Area, Drawing, GRID, INK, WIDTH, axis_name, fitting, picture, text_style, width_of};
use crate::report::{Plot, PlotKind};
use plotters::chart::ChartContext;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

pub(super) fn draw(curves: &Curves, plot: &Plot) -> Option<Drawing> {
    let points = || curves.series.iter().flat_map(|(_, points)| points);
    let mut x = Axis::over(points().map(|point| point.0), plot.is_log_x, false, curves.x_unit);
    let y = Axis::over(points().map(|point| point.1), plot.is_log_y, true, curves.y_unit).rounded();
    let labels = y.ticks.iter().map(|tick| width_of(&y.label(*tick)));
    let left = labels.max().unwrap_or_default() + TICK_SPACE;
    let right = x.ticks.last().map_or(0, |tick| width_of(&x.label(*tick)) / 2) + EDGE;
    x.thin(WIDTH - left - right, width_of);
    let is_joined = plot.kind == PlotKind::Lines;
    let body = picture(WIDTH, HEIGHT, |area| {
        names(area, curves, left)?;
        let mut chart = ChartBuilder::on(area)
            .margin_top(TOP)
            .margin_right(right)
            .x_label_area_size(BOTTOM)
            .y_label_area_size(left)
            .build_cartesian_2d(x.places(), y.places())?;
        mesh(&mut chart, &x, &y)?;
        for (number, (name, points)) in curves.series.iter().enumerate() {
            let points: Vec<(f64, f64)> = points.iter().map(|&(at, value)| (x.at(at), y.at(value))).collect();
            series(&mut chart, &points, Style::of(number, name), is_joined)?;
        }
        Ok(())
    })?;
    let named = curves.series.iter().enumerate().map(|(number, (name, _))| (name, Style::of(number, name)));
    let legend: Vec<_> = named.map(|(name, style)| (name.clone(), style)).collect();
    let legend = if is_plain(curves) { vec![] } else { legend };
    Some(Drawing {
        body,
        width: WIDTH,
        height: HEIGHT,
        legend,
        has_bars: false,
        description: description(curves, &x),
    })
}

/// The lines behind the data, and what stands at the axes.
pub(super) fn mesh(chart: &mut Chart<'_, '_>, x: &Axis, y: &Axis) -> Painted {
    chart
        .configure_mesh()
        .set_tick_mark_size(LabelAreaPosition::Bottom, TICK)
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID.stroke_width(2))
        .axis_style(INK.stroke_width(2))
        .label_style(text_style(&INK))
        .x_label_formatter(&|at| x.label(*at))
        .y_label_formatter(&|at| y.label(*at))
        .draw()
}

/// Whether the vertical axis already says what the only series is.
fn is_plain(curves: &Curves) -> bool {
    matches!(&curves.series[..], [(name, _)] if *name == curves.y_name)
}

fn names(area: &Area<'_>, curves: &Curves, left: u32) -> Painted {
    let at = |x: u32, y: u32| (x as i32, y as i32);
    let above = fitting(&axis_name(&curves.y_name, curves.y_unit), WIDTH - EDGE);
    area.draw(&Text::new(above, at(6, 10), text_style(&INK)))?;
    let below = fitting(&axis_name(&curves.x_name, curves.x_unit), WIDTH - left - EDGE);
    let middle = text_style(&INK).pos(Pos::new(HPos::Center, VPos::Top));
    area.draw(&Text::new(below, at((WIDTH + left) / 2, HEIGHT - 40), middle))
}

pub(super) fn series(
    chart: &mut Chart<'_, '_>,
    points: &[(f64, f64)],
    style: Style,
    is_joined: bool,
) -> Painted {
    let colour = style.rgb();
    if is_joined {
        let line = colour.stroke_width(LINE_WIDTH);
        if style.is_quoted {
            chart.draw_series(DashedLineSeries::new(points.to_vec(), 14, 10, line))?;
        } else {
            chart.draw_series(LineSeries::new(points.to_vec(), line))?;
        }
    }
    if is_joined && points.len() > MARKS_MAX {
        return Ok(());
    }
    let fill = colour.filled();
    if style.shape == Shape::Circle {
        chart.draw_series(points.iter().map(|&point| Circle::new(point, MARK_RADIUS, fill)))?;
    } else {
        let corners = style.shape.corners(MARK_RADIUS);
        chart.draw_series(
            points.iter().map(|&point| EmptyElement::at(point) + Polygon::new(corners.clone(), fill)),
        )?;
    }
    Ok(())
}

fn description(curves: &Curves, x: &Axis) -> String {
    let names: Vec<&str> = curves.series.iter().map(|(name, _)| name.as_str()).collect();
    let label = |tick: Option<&f64>| tick.map_or(String::new(), |tick| x.label(*tick));
    let over = axis_name(&curves.x_name, curves.x_unit);
    let what = axis_name(&curves.y_name, curves.y_unit);
    let (first, last) = (label(x.ticks.first()), label(x.ticks.last()));
    format!(
        "{what} over {over} from {first} to {last}; series: {}. The table has the figures.",
        names.join(", ")
    )
}

pub(super) type Painted = Result<(), DrawingAreaErrorKind<std::io::Error>>;
pub(super) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Places, Places>>;

const HEIGHT: u32 = 600;
/// For the name of the vertical axis.
pub(super) const TOP: u32 = 62;
/// For labels and the name of the horizontal axis.
const BOTTOM: u32 = 106;
/// Long enough for the first label below not to touch the lowest one at the side.
pub(super) const TICK: u32 = 14;
/// Between labels and the vertical axis.
pub(super) const TICK_SPACE: u32 = 24;
pub(super) const EDGE: u32 = 14;
const LINE_WIDTH: u32 = 4;
const MARK_RADIUS: i32 = 8;
/// With more of them they hide each other.
const MARKS_MAX: usize = 40;
