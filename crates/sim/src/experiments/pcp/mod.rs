//! The experiments of PCP (Anderson, Collins, Krishnamurthy and Zahorjan, *PCP: Efficient Endpoint Congestion Control*,
//! NSDI 2006).

mod dumbbell;
mod fluid;
mod lossy;
pub mod population;
mod sims;
mod verdicts;
mod wide_area;

pub use lossy::{CLAIMS as FIGURE_3_CLAIMS, path as lossy_path};
pub use wide_area::CLAIMS as FIGURE_2_CLAIMS;

use super::Experiment;
use crate::flow::TcpFlow;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::tcp;

/// The paper's user-level TCP-SACK: NewReno's rule, delayed acknowledgements, one segment to begin with (§4.1). It does
/// not tell its retransmission timer, so it has that of the standard of its time, RFC 2988.
pub fn tcp_sack() -> TcpFlow {
    TcpFlow {
        classic: true,
        config: tcp::Config::default().rfc_2988(),
        ..TcpFlow::new(ControllerKind::NewReno)
    }
}

/// The same for a report.
pub const TCP_SACK: &str = "TCP-SACK: NewReno's rule, delayed acknowledgements, one segment to begin with, as the paper's; \
                        retransmission timer of RFC 2988 (3 s at first, then a second at least), the standard of 2006";

/// Over wide-area paths.
pub(super) const WIDE_AREA: &[Experiment] = &[wide_area::FIGURE_2, lossy::FIGURE_3];
/// On a shared link, in the paper's order.
pub(super) const SIMULATIONS: &[Experiment] = sims::EXPERIMENTS;
