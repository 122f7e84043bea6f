//! FOBS (Dickens and Gropp, *An Evaluation of Object-Based Data Transfers on High Performance Networks*): its
//! figures and tables. Over emulated paths by `longhaul cp --control greedy` over real sockets and the kernel's
//! TCP; in the simulator between hosts of the paper's time.

mod acks;
mod batch;
mod host;
mod measured;
mod plan;
mod rivals;
mod run;
mod select;
mod simulated;
mod sizes;
mod table1;
mod table2;

use crate::experiment::Experiment;

/// Why what is sent in vain is more over real sockets than in the simulator.
const LATER_END: &str = "over real sockets both hauls send 0.5 % more in vain, which the card carries in 16 ms whatever the round trip: \
                         today's ends take that long from the last packet until the sender stops, the simulator's take no time for it";

/// In the paper's order.
pub(crate) const EXPERIMENTS: &[Experiment] = &[
    acks::FIGURE_1,
    acks::FIGURE_2,
    sizes::EXPERIMENT,
    batch::EXPERIMENT,
    select::EXPERIMENT,
    table1::EXPERIMENT,
    table2::EXPERIMENT,
];
