//! Results: kept as JSON lines, read back, and shown as a page with plots or as a table for documentation.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_evidence::report::Results;
//! let results = Results::read("lab-results".as_ref())?;
//! std::fs::write("lab-report.html", results.page())?;
//! # Ok(())
//! # }
//! ```

mod agreement;
mod cells;
mod chart;
mod head;
mod interval;
mod lines;
mod markdown;
mod model;
mod page;
mod plane;
mod plot;
mod results;
mod stored;
mod table;
pub mod text;
mod totals;

#[cfg(test)]
pub(crate) use chart::values_without_a_bar;
pub(crate) use chart::{Band, TimedCurves, Timeline};
pub(crate) use page::{document, drawn};

pub use cells::cell;
pub use head::{Head, Host, Origin};
pub use interval::{Finding, Interval};
pub use lines::Stored;
pub use model::{Claim, Findings, Report, Source, Statement, Verdict};
pub use plane::Plane;
pub use plot::{Plot, PlotKind};
pub(crate) use results::Listed;
pub use results::Results;
pub use stored::ResultError;
pub use table::{Column, Rows, Table, Unit, Value};
