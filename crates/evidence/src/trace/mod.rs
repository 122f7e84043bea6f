//! A trace of a copy (`longhaul cp --trace`): read, shown as a page, and replayed in the simulator.

mod bands;
mod beside;
mod curves;
mod page;
mod read;
mod replay;
mod story;

pub use read::{Trace, TraceError};
pub use replay::{Likeness, ReplayError, Replayed};

impl Trace {
    /// A page by itself, with plots, in HTML. `name` is the trace's.
    pub fn page(&self, name: &str) -> String {
        page::page(self, name)
    }

    /// A page that lays the copy beside one like it in the simulator.
    pub fn page_beside(&self, name: &str, likeness: &Likeness, replayed: &Replayed) -> String {
        beside::page(self, name, likeness, replayed)
    }
}
