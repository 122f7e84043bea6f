//! Striped streams over loopback.

mod breakdowns;
mod common;
mod relay;
mod strangers;
mod streams;
