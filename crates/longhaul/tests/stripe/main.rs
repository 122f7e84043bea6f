//! Striped streams over loopback.

mod common;
mod streams;
