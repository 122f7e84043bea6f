//! Whole copies without a network: scan, read, plan, store, land.

mod campaign;
mod deltas;
mod escapes;
mod harness;
mod reading;
mod resuming;
mod rules;
mod trips;
