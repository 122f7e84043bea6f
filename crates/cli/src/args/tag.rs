//! Flags that tell networks of science whose traffic a copy is.

use super::SPEED;
use crate::failure::Failure;
use crate::values::open_collector;
use clap::Args;
use longhaul::{Collector, CollectorName, SciTag};

/// Whose traffic a copy is.
#[derive(Args, Debug)]
pub struct TagArgs {
    /// Whose traffic this is: EXPERIMENT.ACTIVITY, by their numbers at scitags.org, such as 2.16
    #[arg(long, value_name = "TAG", help_heading = SPEED)]
    pub scitag: Option<SciTag>,
    /// Tell this collector of each flow, by fireflies (port 10514 unless another is named)
    #[arg(long, value_name = "HOST[:PORT]", requires = "scitag", help_heading = SPEED)]
    pub firefly: Option<CollectorName>,
}

impl TagArgs {
    /// What is told of the flows.
    pub fn collector(&self) -> Result<Option<Collector>, Failure> {
        let open = |name| open_collector(name).map_err(|line| Failure::Usage(format!("--firefly {line}")));
        self.firefly.clone().map(open).transpose()
    }
}
