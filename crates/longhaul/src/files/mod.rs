//! Everything that touches disks: listing and reading at the sender, comparing, receiving, verifying and landing at
//! the receiver.
//!
//! ```text
//! sender                                   receiver
//!   scan  → Scan (manifest, origins)         plan → Plan (have, skipped, failures)
//!   Reader: Source                           FileSink: Sink
//! ```
//!
//! Both sides cut the object into [`blocks`] of at most 1 MiB that hold whole hash groups: one full group of a large
//! file, or many small files together. Disks are touched by threads of their own, a block at a time; what runs on the
//! network thread copies bytes between packets and blocks in memory and never waits.

mod blocks;
mod compare;
mod errors;
mod exclude;
mod extents;
mod fill;
mod folders;
mod hash;
mod journal;
mod keeper;
mod ledger;
mod log;
mod names;
mod plan;
mod prepare;
mod reader;
mod resume;
mod root;
mod runs;
mod scan;
mod shared;
mod sink;
mod target;
#[cfg(test)]
mod tests;
mod writer;

pub use exclude::Exclude;
pub use plan::{Base, Plan, plan};
pub use reader::{Reader, Wake};
pub use root::Root;
pub use scan::{Scan, ScanOptions, SourceSpec, scan};
pub use sink::{Backlog, FileSink, SinkEvent};
