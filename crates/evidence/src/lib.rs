//! What shows that longhaul does what it says: the experiments of the papers, and our own, and what came of them.
//!
//! - [`Experiment`]: what is asked and claimed, and who can run it; [`all`] of them.
//! - [`sim`]: what experiments in the simulator work with, on virtual time.
//! - [`lab`]: what experiments over emulated paths work with: real programs and the kernel's own TCP.
//! - [`report`]: claims, tables and verdicts, and how they are stored and shown.
//! - [`trace`]: what a copy wrote down of itself, read, shown as a page, and replayed in the simulator.
//!
//! `longhaul sim` runs experiments in the simulator, `longhaul lab` over emulated paths, with real programs and the kernel's TCP. What
//! both can run is defined once (`Experiment::either`). `evidence/src/registry.rs` lists all, docs/simulator.md and docs/lab.md say what
//! they ask: one for each figure of the papers, and our own. Each returns a `Report` of tables and statements: what the paper claims,
//! what came of it here, and a verdict that is computed from the figures, with the reason where the two differ.
//!
//! Programs that copy are behind one trait (`evidence/src/lab/copiers`), longhaul too: each copy has a path and servers of its own,
//! is timed from outside and compared with what was sent. Plain TCP is `longhaul-lab` again (`lab-plain`, `evidence/src/lab/plain.rs`).
//! Where it is the protocols that are measured and not the program, the simulator's endpoints run over UDP sockets of the hosts
//! (`Lab::ends`), and many of the kernel's TCPs come as the simulator's traffic does (`Lab::flows`); several paths can then be
//! measured at a time. The two ends of a striped stream are threads of `longhaul-lab`, with sockets of their own host. Throughput is
//! counted as bytes that arrive, not as bytes that can be read: those come in leaps where a lane loses packets.
//!
//! Results are kept as JSON lines that can be read back whole (`evidence/src/report`: tables carry their columns,
//! units and plots), so that one page is made of results of many days and hosts (`longhaul lab report`), and an
//! interrupted `run all` goes on. Experiments say how a table is to be drawn (`Plot`), and know nothing of
//! pictures. The page holds no script and asks for no other file; colours are those of Okabe and Ito, and the
//! page's style replaces them in the dark. Legends are text of the page beside a plot, not inside it: they wrap on
//! a phone and hide no data.
//!
//! `plotters` draws the plots. It is the most used of the crates that give SVG with real text from Rust alone, and
//! its coordinates and elements are ours to combine (horizontal bars, axes with ticks of our choice). `charming`
//! needs a JavaScript engine for SVG, `poloto` had no release for years, `kuva` is young and decides on layout and
//! colours by itself.

mod against;
mod ecn;
mod error;
mod experiment;
mod fairness;
mod fleet;
mod fobs;
mod grid;
mod kept;
pub mod lab;
mod meeting;
mod multipath;
mod pcp;
pub mod program;
mod psockets;
mod ptcp;
mod registry;
pub mod report;
mod scale;
mod sharing;
pub mod sim;
mod starts;
mod streams;
mod switch;
pub mod trace;
mod transports;

pub use error::ExperimentError;
pub use experiment::Experiment;
pub use kept::KeptRuns;
pub use registry::{GROUPS, Group, all, simulated};
pub use scale::Scale;
