//! Queues in front of a link: what waits, who is served next, what is dropped, and what is marked instead (RFC 3168).
//!
//! A [`DropTail`] queue knows when a packet will leave at the moment it comes, so that nothing needs to happen in
//! between. The others choose when the link is free: they [`Keep`] packets.

mod codel;
mod drop_tail;
mod dual_pi2;
mod fair;
mod gauge;

pub use codel::CoDel;
pub use drop_tail::DropTail;
pub use dual_pi2::DualPi2;
pub use fair::FairQueue;
pub(crate) use gauge::Gauge;
pub use gauge::Occupancy;

use longhaul_proto::ecn::Ecn;
use longhaul_proto::suggest::unknown;
use longhaul_proto::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who is served next, and what is dropped or marked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum QueueDiscipline {
    /// First in, first out; what does not fit is dropped.
    #[default]
    DropTail,
    /// Each flow in turn (deficit round robin); what does not fit is taken from the longest flow.
    Fair,
    /// First in, first out; drops ever more often while packets wait too long (CoDel, RFC 8289).
    CoDel,
    /// The same, and what can be marked is marked instead (RFC 8289 §4.2).
    CoDelEcn,
    /// First in, first out; what can be marked is marked if it waits longer than the scenario's `mark_ms`; what does not
    /// fit is dropped.
    Step,
    /// Two queues behind one link, a short one for L4S (DualPI2, RFC 9332).
    DualPi2,
}

impl QueueDiscipline {
    /// Every discipline.
    pub const ALL: [QueueDiscipline; 6] = [
        QueueDiscipline::DropTail,
        QueueDiscipline::Fair,
        QueueDiscipline::CoDel,
        QueueDiscipline::CoDelEcn,
        QueueDiscipline::Step,
        QueueDiscipline::DualPi2,
    ];

    /// Those that choose among what waits when the link is free.
    pub fn chooses(self) -> bool {
        !matches!(self, QueueDiscipline::DropTail | QueueDiscipline::Step)
    }

    /// The name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            QueueDiscipline::DropTail => "drop-tail",
            QueueDiscipline::Fair => "fq",
            QueueDiscipline::CoDel => "codel",
            QueueDiscipline::CoDelEcn => "codel-ecn",
            QueueDiscipline::Step => "step",
            QueueDiscipline::DualPi2 => "dualpi2",
        }
    }
}

impl fmt::Display for QueueDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for QueueDiscipline {
    type Err = UnknownDiscipline;

    fn from_str(name: &str) -> Result<QueueDiscipline, UnknownDiscipline> {
        let found = QueueDiscipline::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownDiscipline { name: name.into() })
    }
}

/// A name that no queue discipline has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownDiscipline {
    /// What was asked for.
    pub name: String,
}

impl std::error::Error for UnknownDiscipline {}

impl fmt::Display for UnknownDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = QueueDiscipline::ALL.iter().map(|one| one.name());
        write!(f, "{}", unknown("queue discipline", &self.name, known))
    }
}

impl TryFrom<String> for QueueDiscipline {
    type Error = UnknownDiscipline;

    fn try_from(name: String) -> Result<QueueDiscipline, UnknownDiscipline> {
        name.parse()
    }
}

impl From<QueueDiscipline> for &'static str {
    fn from(discipline: QueueDiscipline) -> &'static str {
        discipline.name()
    }
}

/// A packet in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Which packet; means nothing to the queue.
    pub packet: u32,
    /// Packets with the same number belong to one flow.
    pub flow: u32,
    /// Its size.
    pub bytes: u32,
    /// What its IP header says.
    pub ecn: Ecn,
    /// The queue marks it.
    pub is_marked: bool,
    /// Since when it waits.
    pub since: Time,
}

/// A packet that a queue, or a policer before it, dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Which.
    pub waiting: Waiting,
    /// Why.
    pub reason: DropReason,
}

/// Why it was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DropReason {
    /// There was no room.
    Full,
    /// There was, but packets had waited too long.
    Managed,
    /// A policer did not let it into the queue.
    Policed,
}

/// A queue that keeps packets and chooses among them when the link is free.
pub trait Keep: fmt::Debug + Send {
    /// Take a packet in; what goes overboard for it (maybe itself) is added to `dropped`.
    fn push(&mut self, packet: Waiting, dropped: &mut Vec<Dropped>);
    /// The packet to transmit now; what is dropped on the way to it is added to `dropped`.
    fn pop(&mut self, now: Time, dropped: &mut Vec<Dropped>) -> Option<Waiting>;
    /// Packets waiting.
    fn len(&self) -> usize;
    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Bytes waiting.
    fn waiting_bytes(&self) -> u64;
}
