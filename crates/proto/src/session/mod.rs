//! What the two programs say to each other around an object transfer.
//!
//! The messages travel over an ordered, reliable, encrypted *control stream*. A push runs like this (a pull differs
//! in who sends the [`Manifest`](manifest::Manifest) and who answers):
//!
//! ```text
//! client (has the files)                      server
//!   Offer{push, manifest…}        ──────▶       compares with what it has
//!                                 ◀──────       Accept{udp, secret} · Start{have}
//!   object packets over UDP       ══════▶
//!   Hash{group}…                  ──────▶       verifies, lands files
//!                                 ◀──────       Resend{range} (rare) … Finished{report}
//!   Bye                           ──────▶
//! ```

pub mod attributes;
pub mod choice;
pub mod limit;
pub mod manifest;
pub mod message;
pub mod opening;
pub mod progress;
pub mod reason;
pub mod transport;
pub mod truncated;
pub mod versions;
