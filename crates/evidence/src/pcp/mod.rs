//! PCP (Anderson, Collins, Krishnamurthy and Zahorjan, *PCP: Efficient Endpoint Congestion Control*, NSDI 2006).
//! Over wide-area paths: PCP and TCP-SACK, the same endpoints in the simulator and over real sockets, there beside
//! the kernel's own TCP. On a shared link: in the simulator.

mod dumbbell;
mod lossy;
mod path;
mod population;
mod router;
mod row;
mod sims;
mod verdicts;
mod wide_area;
mod without;

use crate::experiment::Experiment;
use longhaul_proto::control::ControllerKind;
use longhaul_proto::tcp;
use longhaul_sim::flow::TcpFlow;

/// The paper's user-level TCP-SACK: NewReno's rule, delayed acknowledgements, one segment to begin with (§4.1). It does
/// not tell its retransmission timer, so it has that of the standard of its time, RFC 2988.
fn tcp_sack() -> TcpFlow {
    TcpFlow {
        classic: true,
        config: tcp::Config::default().rfc_2988(),
        ..TcpFlow::new(ControllerKind::NewReno)
    }
}

/// The same for a report.
const TCP_SACK: &str = "TCP-SACK: NewReno's rule, delayed acknowledgements, one segment to begin with, as the paper's; \
                        retransmission timer of RFC 2988 (3 s at first, then a second at least), the standard of 2006";

/// Over wide-area paths.
pub(crate) const WIDE_AREA: &[Experiment] = &[wide_area::FIGURE_2, lossy::FIGURE_3];
/// On a shared link, in the paper's order.
pub(crate) const SIMULATIONS: &[Experiment] = sims::EXPERIMENTS;
/// What its parts are worth.
pub(crate) const PARTS: &[Experiment] = &[without::EXPERIMENT];
