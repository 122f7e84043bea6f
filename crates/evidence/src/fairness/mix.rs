//! Who shares the path, and what each has of it.

use crate::meeting::{Guest, Shares};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ObjectFlow, Protocol};
use longhaul_sim::metrics::{Summary, jain};

/// Who shares the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlowMix {
    pub(super) ours: Ours,
    /// How many of ours.
    pub(super) count: u32,
    /// Every other one of ours has a longer way.
    pub(super) has_far: bool,
    /// The congestion control of the others, and how many connections.
    pub(super) rivals: Option<(ControllerKind, u32)>,
}

/// What sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ours {
    pub(super) control: ControllerKind,
    pub(super) way: Way,
}

/// How.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As it comes.
    Default,
    /// Over UDP for good: a copy may take to parallel TCP connections.
    Udp,
    /// Yielding to all else.
    Background,
}

impl Ours {
    pub(super) const DEFAULT: Ours = Ours { control: ControllerKind::Adaptive, way: Way::Default };

    /// One that begins then.
    pub(super) fn guest(self, at: Time) -> Guest {
        let background = self.way == Way::Background;
        Guest::new(Protocol::Object(ObjectFlow { background, ..ObjectFlow::new(self.control) }), at)
    }

    /// In tables.
    pub(super) fn name(self) -> String {
        format!("{}{}", self.control.name(), self.way.name())
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Default => "",
            Way::Udp => " over UDP",
            Way::Background => " in the background",
        }
    }
}

impl FlowMix {
    pub(super) const fn of(ours: Ours, count: u32) -> FlowMix {
        FlowMix { ours, count, has_far: false, rivals: None }
    }

    pub(super) const fn beside(self, control: ControllerKind, connections: u32) -> FlowMix {
        FlowMix { rivals: Some((control, connections)), ..self }
    }

    /// What a mix of copies is called.
    pub(super) fn name(self) -> String {
        let way = self.ours.way.name();
        let copies = match self.count {
            0 => None,
            1 => Some(format!("1 copy{way}")),
            count => Some(format!("{count} copies{way}")),
        };
        let rivals = self.rivals.map(|_| self.rivals_name());
        copies.into_iter().chain(rivals).collect::<Vec<_>>().join(" beside ")
    }

    /// The others.
    pub(super) fn rivals_name(self) -> String {
        self.rivals
            .map_or(String::new(), |(control, connections)| format!("{connections} {}", control.name()))
    }

    /// Ours among themselves.
    pub(super) fn is_alike(self) -> bool {
        self.rivals.is_none() && self.count > 1
    }
}

/// A mix, and what came of each time it took place.
pub(super) struct MixOutcomes {
    pub(super) mix: FlowMix,
    pub(super) shares: Vec<Shares>,
}

impl MixOutcomes {
    /// Of all of ours together.
    pub(super) fn ours(&self) -> Summary {
        self.over(|shares| shares.ours.iter().sum())
    }

    /// Of each of ours.
    pub(super) fn each(&self) -> Summary {
        Summary::of(self.shares.iter().flat_map(|shares| shares.ours.iter().copied()))
    }

    pub(super) fn rivals(&self) -> Summary {
        self.over_rivals(1.0)
    }

    /// What the others have of this share.
    pub(super) fn over_rivals(&self, share: f64) -> Summary {
        self.over(|shares| shares.rivals / share)
    }

    pub(super) fn jain(&self) -> Summary {
        self.over(|shares| jain(&shares.ours))
    }

    pub(super) fn queue_bdp(&self) -> f64 {
        self.over(|shares| shares.queue_bdp).mean
    }

    fn over(&self, figure: impl Fn(&Shares) -> f64) -> Summary {
        Summary::of(self.shares.iter().map(figure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_is_there() {
        let copy = FlowMix::of(Ours::DEFAULT, 1);
        assert_eq!(FlowMix::of(Ours::DEFAULT, 3).name(), "3 copies");
        assert_eq!(copy.beside(ControllerKind::Bbr, 4).name(), "1 copy beside 4 bbr");
        let ours = Ours { way: Way::Background, ..Ours::DEFAULT };
        assert_eq!(
            FlowMix::of(ours, 1).beside(ControllerKind::Cubic, 1).name(),
            "1 copy in the background beside 1 cubic"
        );
        assert_eq!(FlowMix::of(Ours::DEFAULT, 0).beside(ControllerKind::Cubic, 1).name(), "1 cubic");
    }
}
