//! Whole copies without a network: scan, read, plan, store, land.

pub(super) mod calls;
mod campaign;
mod deltas;
mod disk;
mod errors;
mod escapes;
mod harness;
mod held;
mod keeping;
mod momentary;
mod parts;
mod power;
mod reading;
mod recorder;
mod resuming;
mod rules;
mod trips;
mod twins;
