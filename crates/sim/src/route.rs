//! Where a flow runs: which hops, over what access.

use longhaul_proto::units::{Rate, Time};
use std::sync::Arc;
use std::time::Duration;

/// Names a hop of a simulation: a bottleneck with its queue, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HopId(pub(crate) u32);

impl HopId {
    /// The one that every simulation begins with.
    pub const FIRST: HopId = HopId(0);

    /// The one of this [index](HopId::index).
    pub const fn new(index: u32) -> HopId {
        HopId(index)
    }

    /// 0 for the first, 1 for the one that was added next, and so on.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The hops that a flow's packets pass from left to right; those of the other direction pass them from last to first.
///
/// Flows with equal routes make a dumbbell. Hops in a row that flows enter and leave at different places make a parking
/// lot. A hop for each flow gives each a path of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route(Arc<[HopId]>);

impl Route {
    /// Over one hop.
    pub fn over(hop: HopId) -> Route {
        Route(Arc::new([hop]))
    }

    /// Over several.
    ///
    /// # Panics
    /// If there is none.
    pub fn along(hops: impl IntoIterator<Item = HopId>) -> Route {
        let hops: Arc<[HopId]> = hops.into_iter().collect();
        assert!(!hops.is_empty(), "a route needs a hop");
        Route(hops)
    }

    /// The hops from left to right.
    pub fn hops(&self) -> &[HopId] {
        &self.0
    }
}

impl Default for Route {
    fn default() -> Route {
        Route::over(HopId::FIRST)
    }
}

/// Where and when a flow runs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// When both ends begin.
    pub start: Time,
    /// The hops it shares with others.
    pub route: Route,
    /// How much longer the way is than that of the hops alone, in each direction.
    pub access_delay: Duration,
    /// Rate of both hosts' devices; absent: that of the path of the first hop.
    pub access_rate: Option<Rate>,
}

impl Placement {
    /// Over the first hop, beginning at `start`.
    pub fn at(start: Time) -> Placement {
        Placement { start, ..Placement::default() }
    }
}
