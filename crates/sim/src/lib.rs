//! A deterministic discrete-event network for the protocols of longhaul.
//!
//! Endpoints of any protocol run over paths that a [`Scenario`](scenario::Scenario) describes, on virtual time: equal
//! seeds give equal runs, byte for byte, and hours pass in seconds. [`run_pair`] runs one flow, [`Sim`] any number of
//! flows, a [`Workload`](workload::Workload) flows that come and go, and measures them.
//!
//! ```text
//! endpoint → device (back-pressure) → hop: queue, rate → impairments → propagation → next hop … → endpoint
//!   node.rs   node.rs                 queue/, link.rs    impair.rs     link.rs        fabric.rs
//! ```
//!
//! - [`scenario`]: one path description, read by the simulator and by the emulated WAN alike.
//! - [`path`]: builds both directions of a path from a scenario. [`Route`]: which hops a flow passes.
//! - [`link`], [`queue`], [`impair`]: what a packet meets.
//! - [`flow`]: an object transfer or a TCP under any controller. [`traffic`]: flows that come and go by a rule.
//! - [`workload`], [`metrics`]: what came of it. [`parallel`]: many runs on all cores.
//! - [`experiments`]: the figures of the papers, and ours.
//! - [`engine`]: the event queue. [`trace`]: the record of all that happened. [`counters`]: its sums.
//!
//! Not simulated: devices that drop, and, but for the FOBS experiments, processing time in hosts. Hosts without it act
//! in lockstep, and which of two equal flows finds a full queue may then be a matter of phase: let flows begin apart,
//! and average over seeds.
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
