//! Results: kept as JSON lines, read back, and shown as a page with plots or as a table for documentation.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use longhaul_lab::report::Results;
//! let results = Results::read("lab-results".as_ref())?;
//! std::fs::write("lab-report.html", results.page())?;
//! # Ok(())
//! # }
//! ```

mod cells;
mod chart;
mod head;
mod lines;
mod markdown;
mod page;
mod results;
mod stored;

#[cfg(test)]
pub(crate) use chart::values_without_a_bar;

pub use cells::{bytes_text, cell};
pub use head::{Head, Host, Origin};
pub use lines::{end_line, head_line, report_lines};
pub use results::Results;
pub use stored::{ResultError, Stored};
