//! A wide-area path on one machine, for programs that are to be measured: two hosts, each a network namespace, and
//! between them an emulated path that a [`Scenario`] describes. Real programs and the kernel's own TCP run over it.
//!
//! ```text
//! left host ─ card ─▶ bottleneck + drop-tail queue ─▶ loss, jitter … ─▶ rtt/2 ─▶ right host
//!           ◀─ rtt/2 ◀─ loss, jitter … ◀─ bottleneck + drop-tail queue ◀─ card ─
//! ```
//!
//! The emulator is a user-space program on TUN devices, because kernels without `netem` are common. It computes in
//! virtual time when each packet leaves the bottleneck, so that a timer that fires late makes a packet late but leaves
//! the rate as it is. It counts how late it was: see [`Counters::cpu_limited`]. What it cannot hide is the time that the
//! machine takes to hand a packet over: about 0.1 ms each way on a small virtual machine. Where packets of the MTU last
//! less than 25 µs at the highest rate that the path comes to have, it moves them in groups of 50 µs, as a network card
//! does that coalesces interrupts.
//!
//! What a scenario says of time ([steps](Scenario::steps), [traffic](Scenario::traffic)) begins with the lab, and anew with
//! [`Lab::restart_clock`]. [`Lab::start_pairs`] puts several pairs of hosts on one path. [`Lab::crew`] starts programs that
//! the kernel ends with the lab, whatever becomes of it; [`Lab::capture`] records the packets of a host.
//!
//! [`Lab::set_tcp`] sets up the kernel's TCP on a host, [`variants`] loads congestion controls that the kernel lacks.
//!
//! ```no_run
//! use longhaul_lab::{End, Lab, Scenario};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! longhaul_lab::ensure_privileges()?; // first thing in main
//! let lab = Lab::start(&Scenario::new(100.0, 65.0))?;
//! lab.command(End::Left, "ping").arg("-c3").arg(lab.address(End::Right).to_string()).status()?;
//! println!("{:?}", lab.counters());
//! # Ok(())
//! # }
//! ```

mod capture;
mod counters;
mod crew;
mod error;
pub mod experiments;
mod host;
mod impair;
mod lab;
mod lane;
mod listening;
mod netlink;
mod place;
pub mod plain;
mod ports;
mod privileges;
mod queue;
pub mod report;
mod settings;
mod slots;
mod steps;
mod supers;
pub mod tcp;
pub mod temporary;
mod traffic;
mod tun;
pub mod variants;
mod worker;

pub use capture::{Capture, Captured, SNAP_BYTES};
pub use counters::{Counters, DirectionCounters, Lateness, Passed};
pub use crew::{Crew, Member, enter_network, take_terminal};
pub use error::LabError;
pub use impair::{Fate, Flip, Impairments};
pub use lab::Lab;
pub use listening::Wire;
pub use longhaul_sim::scenario::Scenario;
pub use place::{End, Place};
pub use privileges::ensure_privileges;
pub use queue::WaitingBytes;
pub use settings::{Setting, TcpSettings};
pub use traffic::TrafficCounters;
