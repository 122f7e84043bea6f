//! The program `longhaul-store`, and the daemon that starts it, against a real object store: versitygw, which keeps what it is given in
//! files. Where that is not installed these tests cannot run.

mod common;
mod copies;
mod daemon;
mod drafts;
