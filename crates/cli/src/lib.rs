//! The program `longhaul`, and what it shares with `longhaul-lab`: how they read values, print, log and end.
#![forbid(unsafe_code)]

mod agent;
mod args;
pub mod config;
mod control;
mod cp;
mod descriptors;
pub mod failure;
mod forward;
mod gauges;
pub mod help;
pub mod hours;
mod job;
pub mod lab_program;
pub mod log;
pub mod output;
mod planned;
mod probe;
pub mod program;
mod progress;
pub mod rate;
mod retry;
mod run;
mod serve;
pub mod signals;
mod user;
pub mod values;
mod watch;
mod why;

pub use longhaul::trace;
