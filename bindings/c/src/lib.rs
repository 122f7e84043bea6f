//! longhaul's striped streams for C and C++: the calls of sockets, each with `lh_` before its name.
//!
//! The header is made from this crate, so these comments are written for readers of C. No call unwinds into its
//! caller: a panic, which would be a bug of ours, becomes `EIO`.
//!
//! What C promises is meant for all of them: a pointer is null or points to what the call's comment says, as long
//! as the call lasts, and a length is no more than there is. Null is refused with `EINVAL` where it means nothing.
//!
//! **C.** The calls are those of BSD sockets with `lh_` before them, over integers, so that a program is moved by
//! one `#include` whose macros rename the calls. A handle's number is that of an eventfd which does nothing but
//! keep it: no number can mean a handle and a descriptor at once, and each call hands what is no handle to the
//! system's call of the same name. No call holds a lock while it waits. A panic, which would be a bug of ours, is
//! caught at the border and becomes `EIO`. Statistics are told with the length of the struct that the program was
//! built with, so that fields can be added. The header is made by cbindgen and kept beside the sources; `make
//! test` compares.

#![allow(clippy::missing_safety_doc, reason = "the comments become those of the header; see above")]

mod address;
mod calls;
mod errors;
mod handles;
mod options;
mod setup;
mod stats;

pub use calls::*;
pub use errors::lh_strerror;
pub use options::*;
pub use setup::*;
pub use stats::{LhStats, lh_stats};
