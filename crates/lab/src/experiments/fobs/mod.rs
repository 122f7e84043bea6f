//! FOBS (Dickens and Gropp, *An Evaluation of Object-Based Data Transfers on High Performance Networks*): its figures and
//! tables, by `longhaul cp --control greedy` over real sockets and the kernel's TCP.

mod acks;
mod batch;
mod run;
mod select;
mod sizes;
mod table1;
mod table2;

use super::Experiment;

/// In the paper's order.
pub(super) const EXPERIMENTS: &[Experiment] = &[
    acks::FIGURE_1,
    acks::FIGURE_2,
    sizes::EXPERIMENT,
    batch::EXPERIMENT,
    select::EXPERIMENT,
    table1::EXPERIMENT,
    table2::EXPERIMENT,
];
