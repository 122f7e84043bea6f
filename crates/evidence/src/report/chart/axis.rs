//! Where an axis begins and ends, and what stands at it.

use crate::report::Unit;
use longhaul_cli::output::bytes_text;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// An axis, linear or of logarithms to the base ten.
#[derive(Debug, PartialEq)]
pub(super) struct Axis {
    is_log: bool,
    unit: Unit,
    /// Of what [`Axis::at`] gives.
    pub(super) range: Range<f64>,
    /// Likewise.
    pub(super) ticks: Vec<f64>,
    /// Digits behind the point of its labels.
    digits: usize,
}

impl Axis {
    /// For these values; a linear one has zero on it if `from_zero`, or if it is near.
    pub(super) fn over(values: impl Iterator<Item = f64>, is_log: bool, from_zero: bool, unit: Unit) -> Axis {
        let at = |value: f64| if is_log { value.log10() } else { value };
        let values: Vec<f64> = values.map(at).collect();
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if is_log {
            Axis::logarithmic(low, high, values, unit)
        } else {
            Axis::linear(low, high, from_zero, unit)
        }
    }

    /// Its places.
    pub(super) fn places(&self) -> Places {
        Places { range: self.range.clone(), ticks: self.ticks.clone() }
    }

    /// Where a value is on it.
    pub(super) fn at(&self, value: f64) -> f64 {
        if self.is_log { value.log10() } else { value }
    }

    /// What stands at a place on it.
    pub(super) fn label(&self, at: f64) -> String {
        let value = if self.is_log { 10f64.powf(at) } else { at };
        match self.unit {
            Unit::Bytes => bytes_text(value.round().max(0.0) as u64).replace(".0 ", " "),
            _ if self.is_log => significant(value),
            _ => format!("{value:.*}", self.digits),
        }
    }

    /// Take away labels that would run into others: an axis of `len` units, labels as wide as `width` says.
    pub(super) fn thin(&mut self, len: u32, width: impl Fn(&str) -> u32) {
        let span = self.range.end - self.range.start;
        let mut taken_to = f64::NEG_INFINITY;
        let place = |tick: f64| (tick - self.range.start) / span * f64::from(len);
        let fits = |&tick: &f64| {
            let half = f64::from(width(&self.label(tick))) / 2.0;
            let fits = place(tick) - half > taken_to;
            if fits {
                taken_to = place(tick) + half + LABEL_GAP;
            }
            fits
        };
        self.ticks = self.ticks.iter().copied().filter(fits).collect();
    }

    fn linear(low: f64, high: f64, from_zero: bool, unit: Unit) -> Axis {
        let low = if from_zero || (low > 0.0 && low < NEAR_ZERO * high) { low.min(0.0) } else { low };
        let high = if from_zero { high.max(0.0) } else { high };
        let span = if high > low { high - low } else { high.abs().max(1.0) };
        let step = nice_step(span);
        let start = (low / step).floor() * step;
        let end = (high / step).ceil().max((low / step).floor() + 1.0) * step;
        let count = ((end - start) / step).round() as i64;
        let ticks = (0..=count).map(|number| start + number as f64 * step).collect();
        let digits = (-step.log10().floor()).max(0.0) as usize;
        Axis { is_log: false, unit, range: start..end, ticks, digits }
    }

    /// Its ticks are the values themselves while they are few, else powers of ten.
    fn logarithmic(low: f64, high: f64, mut values: Vec<f64>, unit: Unit) -> Axis {
        let pad = ((high - low) * LOG_PAD).max(LOG_PAD_MIN);
        values.sort_by(f64::total_cmp);
        values.dedup_by(|a, b| (*a - *b).abs() < 1e-9);
        let decades: Vec<f64> = (low.ceil() as i32..=high.floor() as i32).map(f64::from).collect();
        let ticks = if values.len() <= VALUES_MAX || decades.len() < 2 { values } else { decades };
        Axis { is_log: true, unit, range: low - pad..high + pad, ticks, digits: 0 }
    }

    /// From one round number to another, for heights and lengths.
    pub(super) fn rounded(mut self) -> Axis {
        if self.is_log {
            let (low, high) = (self.range.start, self.range.end);
            let factors: &[f64] = if high - low > DECADES_MAX { &[1.0] } else { &[1.0, 2.0, 5.0] };
            let powers = low.floor() as i32..=high.ceil() as i32;
            let marks =
                powers.flat_map(|power| factors.iter().map(move |factor| factor.log10() + f64::from(power)));
            let marks: Vec<f64> = marks.collect();
            let first = marks.iter().rposition(|mark| *mark <= low).unwrap_or_default();
            let last = marks.iter().position(|mark| *mark >= high).unwrap_or(marks.len() - 1);
            self.ticks = marks[first..=last].to_vec();
            self.range = marks[first]..marks[last];
        }
        self
    }
}

/// The places of an axis, for plotters, whose own axes choose their ticks themselves.
pub(super) struct Places {
    range: Range<f64>,
    ticks: Vec<f64>,
}

impl Ranged for Places {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, place: &f64, limit: (i32, i32)) -> i32 {
        let share = (place - self.range.start) / (self.range.end - self.range.start);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { vec![] } else { self.ticks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// 1, 2 or 5 times a power of ten, for four to eight steps.
fn nice_step(span: f64) -> f64 {
    let rough = span / STEPS;
    let power = 10f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough * 0.99);
    factor.unwrap_or(10.0) * power
}

/// With up to three digits, and no more zeros than it takes.
fn significant(value: f64) -> String {
    let digits = (2 - value.abs().max(f64::MIN_POSITIVE).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

const STEPS: f64 = 6.0;
/// A linear axis that begins below this share of its end begins at zero.
const NEAR_ZERO: f64 = 0.4;
/// Over more powers of ten only these are named.
const DECADES_MAX: f64 = 2.5;
const LOG_PAD: f64 = 0.03;
const LOG_PAD_MIN: f64 = 0.02;
/// More values than these crowd an axis.
const VALUES_MAX: usize = 14;
/// Between two labels.
const LABEL_GAP: f64 = 14.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis) -> Vec<String> {
        axis.ticks.iter().map(|tick| axis.label(*tick)).collect()
    }

    #[test]
    fn linear_axes_have_round_numbers_and_hold_all_values() {
        let axis = Axis::over([3.0, 97.3].into_iter(), false, true, Unit::Mbps);
        assert_eq!(labels(&axis), ["0", "20", "40", "60", "80", "100"]);
        let axis = Axis::over([0.62, 0.991].into_iter(), false, false, Unit::Number);
        assert_eq!(labels(&axis), ["0.6", "0.7", "0.8", "0.9", "1.0"]);
        assert!(axis.range.start <= 0.62 && axis.range.end >= 0.991);
    }

    #[test]
    fn all_values_alike_still_make_an_axis() {
        for value in [0.0, 5.0, -3.0, 1e9] {
            let axis = Axis::over([value].into_iter(), false, true, Unit::Number);
            assert!(axis.range.start < axis.range.end && axis.ticks.len() >= 2, "{value}: {axis:?}");
        }
        let axis = Axis::over([4.0].into_iter(), true, false, Unit::Number);
        assert!(axis.range.start < axis.range.end && labels(&axis) == ["4"], "{axis:?}");
    }

    #[test]
    fn logarithmic_axes_name_the_values_where_they_are_few() {
        let axis = Axis::over([1.0, 2.0, 4.0, 8.0, 32.0].into_iter(), true, false, Unit::Number);
        assert_eq!(labels(&axis), ["1", "2", "4", "8", "32"]);
        let many = (1..=100).map(|number| f64::from(number) * 0.1);
        assert_eq!(labels(&Axis::over(many, true, false, Unit::Seconds)), ["0.1", "1", "10"]);
        let sizes = Axis::over([1e3, 2e6].into_iter(), true, false, Unit::Bytes);
        assert_eq!(labels(&sizes), ["1 kB", "2 MB"]);
    }

    #[test]
    fn logarithmic_heights_go_from_one_round_number_to_another() {
        let rounded =
            |values: [f64; 2]| labels(&Axis::over(values.into_iter(), true, true, Unit::Seconds).rounded());
        assert_eq!(rounded([0.07, 0.6]), ["0.05", "0.1", "0.2", "0.5", "1"]);
        assert_eq!(rounded([0.002, 70.0]), ["0.001", "0.01", "0.1", "1", "10", "100"]);
        assert_eq!(rounded([3.0, 3.0]), ["2", "5"]);
    }

    #[test]
    fn labels_that_would_run_into_each_other_are_left_out() {
        let mut axis = Axis::over([1.0, 2.0, 3.0, 4.0, 100.0].into_iter(), true, false, Unit::Number);
        axis.thin(200, |text| 16 * text.len() as u32);
        assert_eq!(labels(&axis), ["1", "3", "100"]);
    }
}
