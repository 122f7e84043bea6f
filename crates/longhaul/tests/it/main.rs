//! The library as a program uses that embeds it.

mod copy;
mod memory;
