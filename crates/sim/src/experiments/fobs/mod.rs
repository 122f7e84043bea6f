//! The experiments of the FOBS paper (Dickens and Gropp, *An Evaluation of Object-Based Data Transfers on High
//! Performance Networks*).

mod acks;
mod batch;
mod rivals;
mod run;
mod select;
mod sizes;

use super::Experiment;

/// In the paper's order.
pub(super) const EXPERIMENTS: &[Experiment] = &[
    acks::FIGURE_1,
    acks::FIGURE_2,
    sizes::FIGURE_3,
    batch::BATCH,
    select::SELECT,
    rivals::TABLE_1,
    rivals::TABLE_2,
];
