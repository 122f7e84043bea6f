//! Which host.

pub use longhaul_sim::Side;

/// A host: a side of the path, and where several pairs of hosts share it, which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// On which side. `loss` befalls what the left one sends, `loss_reverse` what the right one sends.
    pub side: Side,
    /// In which pair; 0 is the first.
    pub pair: usize,
}

impl Place {
    /// This side's host of that pair.
    pub fn of(side: Side, pair: usize) -> Place {
        Place { side, pair }
    }
}

/// Of the first pair, which is the only one unless a lab was started with more.
impl From<Side> for Place {
    fn from(side: Side) -> Place {
        Place::of(side, 0)
    }
}
