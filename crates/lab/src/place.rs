//! Which host.

/// An end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Where senders usually are: `loss` befalls what it sends.
    Left,
    /// The far end: `loss_reverse` befalls what it sends.
    Right,
}

/// A host: an end of the path, and where several pairs of hosts share it, which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// On which side.
    pub end: End,
    /// In which pair; 0 is the first.
    pub pair: usize,
}

impl End {
    /// This end's host of that pair.
    pub fn of(self, pair: usize) -> Place {
        Place { end: self, pair }
    }

    /// The other end.
    pub fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }
}

/// Of the first pair, which is the only one unless a lab was started with more.
impl From<End> for Place {
    fn from(end: End) -> Place {
        end.of(0)
    }
}
