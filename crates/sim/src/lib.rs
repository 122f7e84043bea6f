//! A deterministic discrete-event network for the protocols of longhaul.
//!
//! Two endpoints of any protocol run over a path that a [`Scenario`](scenario::Scenario) describes, on virtual time:
//! equal seeds give equal runs, byte for byte, and hours pass in seconds. [`run_pair`] runs one flow, [`Sim`] any
//! number of flows over one bottleneck.
//!
//! ```text
//! endpoint → device (back-pressure) → bottleneck (queue, rate) → impairments → propagation → endpoint
//!   node.rs   node.rs                  queue.rs, link.rs          impair.rs     link.rs
//! ```
//!
//! - [`scenario`]: one path description, read by the simulator and by the emulated WAN alike.
//! - [`path`]: builds both directions of a path from a scenario.
//! - [`link`], [`queue`], [`impair`]: what a packet meets.
//! - [`engine`]: the event queue. [`trace`]: the record of all that happened. [`counters`]: its sums.
//!
//! Not simulated: rates that change, traffic of other kinds than endpoints make, devices that drop, processing time in
//! hosts. Hosts without it act in lockstep, and which of two equal flows finds a full queue may then be a matter of
//! phase: let flows begin apart, and average over seeds.
#![forbid(unsafe_code)]

pub mod counters;
pub mod engine;
pub mod experiments;
mod fabric;
pub mod flow;
pub mod impair;
pub mod link;
pub mod metrics;
mod node;
mod outcome;
mod packet;
pub mod parallel;
pub mod path;
pub mod queue;
mod route;
pub mod scenario;
mod sim;
pub mod trace;
pub mod traffic;
pub mod workload;

pub use outcome::{Direction, End, Limits, Outcome, Run};
pub use route::{HopId, Placement, Route};
pub use sim::{FlowEvent, FlowId, Options, Side, Sim, run_pair};
