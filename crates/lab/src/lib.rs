//! A wide-area path on one machine, for programs that are to be measured: two hosts, each a network namespace, and
//! between them an emulated path that a [`Scenario`] describes. Real programs and the kernel's own TCP run over it.
//!
//! ```text
//! left host ─ card ─▶ bottleneck with its queue ─▶ loss, jitter … ─▶ rtt/2 ─▶ right host
//!           ◀─ rtt/2 ◀─ loss, jitter … ◀─ bottleneck with its queue ◀─ card ─
//! ```
//!
//! The emulator is a user-space program on TUN devices, because kernels without `netem` are common. What becomes of
//! a packet, and when, is decided by the simulator's [`Link`](longhaul_sim::link::Link), so that a path is the same here and
//! there: rate, queue, impairments and steps. It computes in virtual time when each packet leaves the bottleneck,
//! so that a timer that fires late makes a packet late but leaves the rate as it is. It counts how late it was: see
//! [`Counters::cpu_limited`]. What it cannot hide is the time that the machine takes to hand a packet over: about
//! 0.1 ms each way on a small virtual machine. Where packets of the MTU last less than 25 µs at the highest rate
//! that the path comes to have, it moves them in groups of 50 µs, as a network card does that coalesces interrupts.
//!
//! What a scenario says of time ([steps](Scenario::steps), [traffic](Scenario::traffic)) begins with the lab, and
//! anew with [`Lab::restart_clock`]. [`Lab::start_pairs`] puts several pairs of hosts on one path. [`Lab::process_group`]
//! starts programs that the kernel ends with the lab, whatever becomes of it; [`Lab::capture`] records the packets
//! of a host.
//!
//! [`Lab::set_tcp`] sets up the kernel's TCP on a host, [`variants`] loads congestion controls that the kernel
//! lacks.
//!
//! ```no_run
//! use longhaul_lab::{Side, Lab, Scenario};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! longhaul_lab::ensure_privileges()?; // first thing in main
//! let lab = Lab::start(&Scenario::new(100.0, 65.0))?;
//! lab.command(Side::Left, "ping").arg("-c3").arg(lab.address(Side::Right).to_string()).status()?;
//! println!("{:?}", lab.counters());
//! # Ok(())
//! # }
//! ```
//!
//! A `Direction` (`lab/src/direction.rs`) of the path tells a `Link` what comes and the time of a real clock, and
//! moves packets when the link says so. Rate, queue disciplines, impairments and steps are written once, in
//! `sim/src/link.rs` and `sim/src/queue`. `scenarios/` is the table of paths; `Scenario::named` takes one from there.
//!
//! With `super_packets` in a scenario the hosts' devices take what TCP and UDP hand to a card that segments by
//! itself: up to 64 KiB with one read and one write. The path still decides packet by packet (`lab/src/gso.rs`,
//! `lab/src/direction/passage.rs`): where the queue or chance takes some out, or another flow is served in between, the
//! rest goes on as two or more, with lengths, numbers and checksums put right. A property test holds this against
//! the same packets one at a time, with every queue discipline. What moves or changes single packets is refused
//! beside it.
//!
//! Who may make no namespaces can put a [`Relay`] on loopback before a server: the same directions carry its datagrams.
//!
//! Programs that a user brings run in a *process group* (`lab/src/process_group.rs`): a process
//! namespace whose first process is killed when the lab ends, or by the kernel when the lab's process ends in
//! whatever way. That takes the others with it, those in the background included, and no list of children has to be
//! kept.

mod capture;
mod card;
mod counters;
pub mod datagrams;
mod direction;
mod error;
mod gso;
mod headers;
mod host;
mod lab;
mod listening;
mod netlink;
mod place;
mod ports;
mod privileges;
mod process_group;
mod relay;
mod settings;
mod slots;
mod socket;
pub mod tcp;
mod traffic;
mod tun;
mod variant_error;
pub mod variants;
mod worker;

pub use capture::{Capture, Captured, SNAP_BYTES};
pub use counters::{Counters, DirectionCounters, Lateness, Passed};
pub use error::LabError;
pub use host::mortal;
pub use lab::Lab;
pub use listening::Wire;
pub use longhaul_sim::queue::Occupancy;
pub use longhaul_sim::scenario::Scenario;
pub use place::{Place, Side};
pub use privileges::ensure_privileges;
pub use process_group::{GroupProcess, ProcessGroup, enter_network, take_terminal};
pub use relay::Relay;
pub use settings::{Setting, TcpSettings};
pub use traffic::{Flows, TrafficCounters};
