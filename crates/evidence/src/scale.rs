//! How much of an experiment is done.

/// How much of an experiment is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scale {
    /// What the paper did, as far as it says.
    #[default]
    Full,
    /// The same with fewer repetitions or points: within a minute on two cores.
    Quick,
    /// Just enough to see that the experiment works; its figures mean nothing.
    Smoke,
}

impl Scale {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Scale::Full => "full",
            Scale::Quick => "quick",
            Scale::Smoke => "smoke",
        }
    }

    /// The value for this scale.
    pub fn pick<T>(self, full: T, quick: T, smoke: T) -> T {
        match self {
            Scale::Full => full,
            Scale::Quick => quick,
            Scale::Smoke => smoke,
        }
    }
}
