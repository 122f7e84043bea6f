//! longhaul's striped streams for C and C++: the calls of sockets, each with `lh_` before its name.
//!
//! The header is made from this crate, so these comments are written for readers of C. No call unwinds into its caller:
//! a panic, which would be a bug of ours, becomes `EIO`.
//!
//! What C promises is meant for all of them: a pointer is null or points to what the call's comment says, as long as the
//! call lasts, and a length is no more than there is. Null is refused with `EINVAL` where it means nothing.

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
