//! The library as programs in C and C++ use it.

mod calls;
mod closing;
mod common;
mod header;
mod programs;
