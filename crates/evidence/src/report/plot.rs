//! How the figures of a table are to be drawn; who draws them reads them from the table.

use serde::{Deserialize, Serialize};

/// A drawing of some columns of the table that it belongs to.
///
/// ```
/// # use longhaul_evidence::report::{Column, Plot, Table, Unit};
/// let columns = vec![Column::text("variant"), Column::new("flows", Unit::Number), Column::new("goodput", Unit::Mbps)];
/// let table = Table::new("flows", "More flows", columns);
/// let table = table.plot(Plot::lines("flows", &["goodput"]).by("variant").log_x());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plot {
    /// What its marks are.
    pub kind: PlotKind,
    /// Its headline; the table's where absent.
    pub title: Option<String>,
    /// The column along the horizontal axis.
    pub x: String,
    /// The columns drawn, each a series under its name; all of one unit.
    pub y: Vec<String>,
    /// A column of words: each of its values makes series of its own.
    pub by: Option<String>,
    /// Whether the horizontal axis is logarithmic.
    pub is_log_x: bool,
    /// Whether the vertical axis is logarithmic.
    pub is_log_y: bool,
}

/// What the marks of a plot are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlotKind {
    /// A mark for each row, joined in the order of the rows. `x` is a column of numbers.
    Lines,
    /// Marks that are not joined. `x` is a column of numbers.
    Points,
    /// Bars side by side, a group for each value of `x`, a column of words or of few numbers.
    Bars,
}

impl Plot {
    /// A line for each column in `y` over the column `x`.
    pub fn lines(x: &str, y: &[&str]) -> Plot {
        Plot::new(PlotKind::Lines, x, y)
    }

    /// Marks for each column in `y` over the column `x`.
    pub fn points(x: &str, y: &[&str]) -> Plot {
        Plot::new(PlotKind::Points, x, y)
    }

    /// For each value of the column `x` a group of bars, one for each column in `y`.
    pub fn bars(x: &str, y: &[&str]) -> Plot {
        Plot::new(PlotKind::Bars, x, y)
    }

    /// A series for each value of this column.
    pub fn by(self, column: &str) -> Plot {
        Plot { by: Some(column.into()), ..self }
    }

    /// Under a headline of its own.
    pub fn title(self, title: impl Into<String>) -> Plot {
        Plot { title: Some(title.into()), ..self }
    }

    /// With a logarithmic horizontal axis.
    pub fn log_x(self) -> Plot {
        Plot { is_log_x: true, ..self }
    }

    /// With a logarithmic vertical axis.
    pub fn log_y(self) -> Plot {
        Plot { is_log_y: true, ..self }
    }

    /// The columns that it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        [&self.x].into_iter().chain(&self.y).chain(&self.by).map(String::as_str)
    }

    fn new(kind: PlotKind, x: &str, y: &[&str]) -> Plot {
        let y = y.iter().map(|&column| column.into()).collect();
        Plot { kind, title: None, x: x.into(), y, by: None, is_log_x: false, is_log_y: false }
    }
}
