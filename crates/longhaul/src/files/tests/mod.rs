//! Whole copies without a network: scan, read, plan, store, land.

mod campaign;
mod deltas;
mod escapes;
mod harness;
mod parts;
mod power;
mod reading;
mod recorder;
mod resuming;
mod rules;
mod trips;
