//! What flows and their ends are called.

/// One of the two ends of every flow: the left ones share the bottleneck towards the right, and back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Where senders usually are.
    Left,
    /// The other end.
    Right,
}

impl Side {
    /// Both.
    pub const BOTH: [Side; 2] = [Side::Left, Side::Right];

    /// The opposite end.
    pub fn other(self) -> Side {
        match self {
            Side::Left => Side::Right,
            Side::Right => Side::Left,
        }
    }

    /// 0 for left, 1 for right: also the index of the direction that starts there.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// Names a flow of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowId {
    pub(crate) slot: u32,
    pub(crate) serial: u32,
}

impl FlowId {
    /// 0 for the first flow added, and so on; also its number in the trace.
    pub fn serial(self) -> u32 {
        self.serial
    }
}

/// What an endpoint of a flow told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlowEvent<L, R> {
    /// The left one.
    Left(FlowId, L),
    /// The right one.
    Right(FlowId, R),
}
