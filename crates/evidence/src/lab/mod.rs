//! What experiments over emulated paths work with: real programs and the kernel's own TCP.

pub(crate) mod bench;
pub(crate) mod copied;
pub(crate) mod copiers;
pub(crate) mod copies;
pub(crate) mod datagrams;
pub(crate) mod figures;
pub(crate) mod flows;
pub(crate) mod iperf;
pub(crate) mod paths;
pub mod plain;
pub(crate) mod process;
pub(crate) mod processor;
pub mod race;
pub mod relayed;
pub(crate) mod side_by_side;
pub(crate) mod striped;
pub mod temporary;

pub(crate) use bench::Bench;
pub use bench::Options;
