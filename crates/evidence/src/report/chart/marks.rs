//! How series are told apart: by colour, by the shape of their marks, and the papers' by broken lines.

use plotters::style::RGBColor;

/// How a series looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) struct Style {
    /// In [`COLOURS`].
    pub(in crate::report) colour: usize,
    pub(in crate::report) shape: Shape,
    /// A paper's, not measured here.
    pub(in crate::report) is_quoted: bool,
}

/// What stands for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::report) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Style {
    /// Of the series of that number and name.
    pub(super) fn of(number: usize, name: &str) -> Style {
        let is_quoted = name == "paper" || name.starts_with("paper") || name.ends_with("paper");
        let shape = SHAPES[number % SHAPES.len()];
        if is_quoted {
            return Style { colour: QUOTED, shape, is_quoted };
        }
        Style { colour: number % QUOTED, shape, is_quoted }
    }

    pub(super) fn rgb(self) -> RGBColor {
        let (red, green, blue) = COLOURS[self.colour];
        RGBColor(red, green, blue)
    }
}

impl Shape {
    /// Its corners around the middle, as far as `radius` from it; of a circle none.
    pub(in crate::report) fn corners(self, radius: i32) -> Vec<(i32, i32)> {
        let (r, side) = (radius, radius * 6 / 7);
        match self {
            Shape::Circle => vec![],
            Shape::Square => vec![(-side, -side), (side, -side), (side, side), (-side, side)],
            Shape::Triangle => vec![(0, -r), (r, side), (-r, side)],
            Shape::Diamond => vec![(0, -r - 2), (r + 2, 0), (0, r + 2), (-r - 2, 0)],
        }
    }
}

/// Okabe and Ito's palette, which the colour-blind can tell apart, without its yellow, which is too pale on white; the last
/// is what papers say. The page's style replaces each in the dark.
pub(in crate::report) const COLOURS: [(u8, u8, u8); 7] = [
    (0x00, 0x72, 0xB2),
    (0xD5, 0x5E, 0x00),
    (0x00, 0x9E, 0x73),
    (0xCC, 0x79, 0xA7),
    (0xE6, 0x9F, 0x00),
    (0x56, 0xB4, 0xE9),
    (0x66, 0x66, 0x66),
];

const QUOTED: usize = COLOURS.len() - 1;
/// Their number has no factor in common with the colours': no two of the first 12 series look alike.
const SHAPES: [Shape; 4] = [Shape::Circle, Shape::Square, Shape::Triangle, Shape::Diamond];
