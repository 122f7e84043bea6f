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
mod slowed;
mod table1;
mod table2;

use crate::experiment::Experiment;

/// Why what is sent in vain is more over real sockets than in the simulator.
const LATER_END: &str = "over real sockets both hauls send 0.5 % more in vain, about as many bytes on the short one (214 kB) as on \
                         the long one (193 kB), so the round trip is not its cause; most likely it is the time that today's ends take \
                         from the last packet until the sender stops, which the simulator's take none for: the card carries as \
                         much in 16 ms";

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
