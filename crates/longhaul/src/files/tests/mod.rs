//! Whole copies without a network: scan, read, plan, store, land.

mod escapes;
mod harness;
mod resuming;
mod rules;
mod trips;
