//! The real program.

mod addresses;
mod audit;
mod bad_input;
mod campaign;
mod common;
mod copy;
mod crowd;
mod daemon;
mod lab_program;
mod lanes;
mod limits;
mod listing;
mod outage;
mod overture;
mod parts;
mod probe;
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
