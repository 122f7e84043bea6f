//! The real program.

mod addresses;
mod alone;
mod audit;
mod bad_input;
mod campaign;
mod common;
mod copy;
mod crowd;
mod daemon;
mod lab_program;
mod lanes;
mod listing;
mod memory;
mod outage;
mod overture;
mod parts;
mod rejoin;
mod releases;
mod replays;
mod resume;
mod signals;
mod ssh;
mod strangers;
mod transport;
mod unit;
mod usage;
