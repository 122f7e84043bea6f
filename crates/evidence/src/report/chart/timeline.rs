//! Pictures that have one axis of time in common: curves, and bands of what was the case when.

use super::axis::{Axis, Places};
use super::lines::{Chart, EDGE, Painted, TICK, TICK_SPACE, TOP, mesh, series};
use super::marks::Style;
use super::{Area, Drawing, INK, WIDTH, axis_name, picture, text_style, width_of};
use crate::report::Unit;
use plotters::prelude::*;

/// Curves over time. A value that is no number is a gap.
pub(crate) struct TimedCurves {
    /// What the vertical axis shows, and the headline.
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    /// Name, and values by seconds.
    pub(crate) series: Vec<(String, Vec<(f64, f64)>)>,
}

/// What was the case when.
pub(crate) struct Band {
    /// The headline.
    pub(crate) name: String,
    /// From and to, in seconds, and the number of its name.
    pub(crate) spans: Vec<(f64, f64, usize)>,
    /// Each that there is.
    pub(crate) names: Vec<String>,
}

/// The axis of time of several pictures.
pub(crate) struct Timeline<'a> {
    x: Axis,
    left: u32,
    right: u32,
    /// Moments that all pictures show, in seconds.
    marks: &'a [f64],
}

impl<'a> Timeline<'a> {
    /// For these curves, from the beginning to `end`.
    pub(crate) fn new(end: f64, curves: &[TimedCurves], marks: &'a [f64]) -> Timeline<'a> {
        let mut x = Axis::over([0.0, end].into_iter(), false, true, Unit::Seconds);
        let labels = curves.iter().flat_map(|one| {
            let y = one.axis();
            y.ticks.iter().map(|tick| width_of(&y.label(*tick))).collect::<Vec<_>>()
        });
        let left = labels.max().unwrap_or_default().min(WIDTH / 3) + TICK_SPACE;
        let right = x.ticks.last().map_or(0, |tick| width_of(&x.label(*tick)) / 2) + EDGE;
        x.thin(WIDTH - left - right, width_of);
        Timeline { x, left, right, marks }
    }

    /// `None` where there is nothing to draw.
    pub(crate) fn curves(&self, curves: &TimedCurves) -> Option<Drawing> {
        curves.values().next()?;
        let y = curves.axis();
        let body = picture(WIDTH, CURVES_HEIGHT, |area| {
            // What it is stands in the headline.
            area.draw(&Text::new(curves.unit.sign(), (6, 10), text_style(&INK)))?;
            let mut chart = self.chart(area, y.places(), TOP)?;
            mesh(&mut chart, &self.x, &y)?;
            self.mark(&mut chart, y.range.start, y.range.end)?;
            for (number, (name, points)) in curves.series.iter().enumerate() {
                for piece in points.split(|(_, value)| !value.is_finite()).filter(|piece| !piece.is_empty()) {
                    series(&mut chart, &thinned(piece, &self.x), Style::of(number, name), true)?;
                }
            }
            Ok(())
        })?;
        let names = curves.series.iter().map(|(name, _)| name.as_str());
        let description = self.description(&axis_name(curves.name, curves.unit), names.clone());
        Some(self.drawing(body, CURVES_HEIGHT, names, false, description))
    }

    /// `None` where there is nothing to draw.
    pub(crate) fn band(&self, band: &Band) -> Option<Drawing> {
        if band.spans.is_empty() {
            return None;
        }
        let y = Axis::over([0.0, 1.0].into_iter(), false, true, Unit::Number);
        let body = picture(WIDTH, BAND_HEIGHT, |area| {
            let mut chart = self.chart(area, y.places(), EDGE)?;
            chart
                .configure_mesh()
                .disable_mesh()
                .disable_y_axis()
                .set_tick_mark_size(LabelAreaPosition::Bottom, TICK)
                .axis_style(INK.stroke_width(2))
                .label_style(text_style(&INK))
                .x_label_formatter(&|at| self.x.label(*at))
                .draw()?;
            chart.draw_series(band.spans.iter().map(|&(from, to, name)| {
                let colour = Style::of(name, &band.names[name]).rgb();
                Rectangle::new([(from, 0.0), (to, 1.0)], colour.filled())
            }))?;
            self.mark(&mut chart, 0.0, 1.0)
        })?;
        let names = band.names.iter().map(String::as_str);
        let description = self.description(&band.name, names.clone());
        Some(self.drawing(body, BAND_HEIGHT, names, true, description))
    }

    fn chart<'b, 'c>(
        &self,
        area: &'c Area<'b>,
        y: Places,
        top: u32,
    ) -> Result<Chart<'c, 'b>, DrawingAreaErrorKind<std::io::Error>> {
        ChartBuilder::on(area)
            .margin_top(top)
            .margin_right(self.right)
            .x_label_area_size(BOTTOM)
            .y_label_area_size(self.left)
            .build_cartesian_2d(self.x.places(), y)
    }

    /// The moments that all pictures show.
    fn mark(&self, chart: &mut Chart<'_, '_>, low: f64, high: f64) -> Painted {
        for &at in self.marks {
            let line = DashedLineSeries::new([(at, low), (at, high)], 6, 6, INK.stroke_width(2));
            chart.draw_series(line)?;
        }
        Ok(())
    }

    fn drawing<'b>(
        &self,
        body: String,
        height: u32,
        names: impl Iterator<Item = &'b str>,
        has_bars: bool,
        description: String,
    ) -> Drawing {
        let legend = names.enumerate().map(|(number, name)| (name.to_owned(), Style::of(number, name)));
        Drawing { body, width: WIDTH, height, legend: legend.collect(), has_bars, description }
    }

    fn description<'b>(&self, what: &str, names: impl Iterator<Item = &'b str>) -> String {
        let end = self.x.label(self.x.range.end);
        format!("{what} over time, to {end} s; series: {}.", names.collect::<Vec<_>>().join(", "))
    }
}

impl TimedCurves {
    fn values(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|(_, points)| points);
        points.map(|point| point.1).filter(|value| value.is_finite())
    }

    fn axis(&self) -> Axis {
        Axis::over(self.values().chain([0.0]), false, true, self.unit)
    }
}

/// No more points than can be told apart: of those in a column of the picture the first, the lowest, the highest and the last.
fn thinned(points: &[(f64, f64)], x: &Axis) -> Vec<(f64, f64)> {
    if points.len() <= COLUMNS {
        return points.to_vec();
    }
    let span = x.range.end - x.range.start;
    let column = |point: &(f64, f64)| ((point.0 - x.range.start) / span * COLUMNS as f64) as usize;
    let mut kept = vec![];
    for group in points.chunk_by(|a, b| column(a) == column(b)) {
        let by_value = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let ends =
            [group.first(), group.last(), group.iter().min_by(by_value), group.iter().max_by(by_value)];
        let mut ends: Vec<(f64, f64)> = ends.into_iter().flatten().copied().collect();
        ends.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.dedup();
        kept.extend(ends);
    }
    kept
}

const CURVES_HEIGHT: u32 = 400;
const BAND_HEIGHT: u32 = 190;
/// For labels of the axis of time.
const BOTTOM: u32 = 66;
/// As many as a wide screen shows.
const COLUMNS: usize = WIDTH as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_trace_keeps_its_peaks_and_takes_little_room() {
        let points: Vec<(f64, f64)> = (0..100_000)
            .map(|at| (f64::from(at) / 1e3, if at == 77_777 { 9.0 } else { f64::from(at % 3) }))
            .collect();
        let x = Axis::over([0.0, 100.0].into_iter(), false, true, Unit::Seconds);
        let kept = thinned(&points, &x);
        assert!(kept.len() <= 4 * (COLUMNS + 1), "{}", kept.len());
        assert!(kept.contains(&points[77_777]) && kept.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[99_999]));
    }

    #[test]
    fn pictures_over_one_time_have_it_at_the_same_place() {
        let series = |value: f64| vec![("sent".to_string(), vec![(0.0, 0.0), (1.0, f64::NAN), (3.0, value)])];
        let all = [
            TimedCurves { name: "Rate", unit: Unit::Mbps, series: series(97.0) },
            TimedCurves { name: "Round trip", unit: Unit::Millis, series: series(123_456.0) },
        ];
        let timeline = Timeline::new(3.4, &all, &[1.5]);
        let drawn = all.each_ref().map(|one| timeline.curves(one).unwrap());
        let band = Band { name: "Limit".into(), spans: vec![(0.0, 3.0, 0)], names: vec!["path".into()] };
        let band = timeline.band(&band).unwrap();
        // The place of the last tick's label.
        let place = |body: &str| {
            let (before, _) = body.split_once("\n4\n").unwrap_or_else(|| panic!("{body}"));
            before.rsplit_once("<text x=\"").unwrap().1.split('"').next().unwrap().to_owned()
        };
        let places = [place(&drawn[0].body), place(&drawn[1].body), place(&band.body)];
        assert!(places.iter().all(|one| *one == places[0]), "{places:?}");
        assert!(timeline.curves(&TimedCurves { name: "", unit: Unit::Mbps, series: vec![] }).is_none());
    }
}
