//! A deterministic discrete-event network for the protocols of longhaul.
//!
//! Endpoints of any protocol run over paths that a [`Scenario`](scenario::Scenario) describes, on virtual time:
//! equal seeds give equal runs, byte for byte, and hours pass in seconds. [`run_pair`] runs one flow, [`Sim`] any
//! number; a [`Workload`](workload::Workload) runs flows that come and go and measures them.
//!
//! ```text
//! endpoint → device (back-pressure) → hop: policer, queue, rate → impairments → propagation → next hop … → endpoint
//!   node.rs   node.rs             policer.rs, queue/, link.rs    impair.rs     link.rs        fabric.rs
//! ```
//!
//! - [`scenario`]: one path description, read by the simulator and by the emulated WAN alike.
//! - [`path`]: builds both directions of a path from a scenario. [`Route`]: which hops a flow passes.
//! - [`link`], [`queue`], [`impair`]: what a packet meets.
//! - [`flow`]: an object transfer or a TCP under any controller. [`traffic`]: flows that come and go by a rule.
//! - [`workload`]: a whole measurement. [`metrics`]: what came of it. [`parallel`]: many runs on all cores.
//! - [`engine`]: the event queue. [`trace`]: the record of all that happened. [`counters`]: what became of each
//!   direction's datagrams.
//!
//! Not simulated: devices that drop; processing time in hosts, except in the FOBS experiments. Hosts without it
//! act in lockstep, and which of two equal flows finds a full queue may then be a matter of phase: let flows begin
//! apart, and average over seeds.
//!
//! There are routes over one or several hops (dumbbell, parking lot, a
//! path for each pair), drop-tail, fair queueing and CoDel, steps in time, random or bursty loss, jitter,
//! reordering; traffic that comes by a rule (Poisson, Pareto, on/off, chained, all at once); figures of a run
//! (goodput, response times, utilisation, loss, waste, queue, Jain's index, time to converge). A single drop-tail
//! hop needs one event a packet because its fate is known when it is offered; other queues decide when a packet
//! leaves. Seeds run on all cores, and results do not depend on how many there are.
#![forbid(unsafe_code)]

pub mod counters;
pub mod engine;
mod fabric;
pub mod flow;
mod ids;
pub mod impair;
pub mod link;
pub mod metrics;
mod node;
mod options;
mod outcome;
mod packet;
pub mod parallel;
pub mod path;
pub mod policer;
mod protocol;
mod quantities;
pub mod queue;
mod route;
pub mod scenario;
mod sim;
pub mod trace;
pub mod traffic;
pub mod workload;

pub use ids::{FlowEvent, FlowId, Side};
pub use options::Options;
pub use outcome::{Direction, End, Limits, Outcome, Run};
pub use route::{HopId, Placement, Route};
pub use sim::{Sim, run_pair};
