//! What measures has the machine to itself, and begins first, by its name: each test that waits for that takes the place of
//! another one.

mod between;
mod choice;
mod forward;
mod limits;
mod mtu;
mod probe;
mod stripes;
