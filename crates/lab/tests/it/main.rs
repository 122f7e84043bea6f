//! The emulator against what a scenario asks for, against the kernel's TCP, and against the simulator.

mod calibration;
mod validation;
mod variants;
mod watched;
