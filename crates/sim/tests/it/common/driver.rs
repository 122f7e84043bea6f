//! What drives a transfer over a simulated path, whatever its protocol.

use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::units::Time;
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{End, FlowEvent, FlowId, Limits, Options, Outcome, Side, Sim};
use std::fmt::{Debug, Display};
use std::ops::Range;
use std::time::Duration;

/// What came of a transfer.
#[derive(Debug)]
pub struct Done<S, R> {
    pub outcome: Outcome,
    pub sender: S,
    pub receiver: R,
    pub sender_complete: bool,
    pub receiver_complete: bool,
    /// The receiver holds what was sent.
    pub is_equal: bool,
    /// Times that the sink was full.
    pub refused: u64,
}

impl<S: Debug, R: Debug> Done<S, R> {
    /// Both sides are done and the bytes are equal, or the whole case is shown.
    pub fn insist(&self, case: &impl Display) {
        let ok = self.sender_complete && self.receiver_complete && self.is_equal;
        assert!(ok && self.outcome.end == End::Stopped, "failed: {self:#?}\n{case}");
    }
}

/// A scenario's path. Reordered packets are held back for at most `hold_ms` instead of a few packet times.
pub fn network<L: Endpoint, R: Endpoint>(
    scenario: &Scenario,
    options: Options,
    hold_ms: Option<u64>,
    outage_ms: Option<&Range<u64>>,
) -> Sim<L, R> {
    let mut path = PathConfig::new(scenario);
    if let Some(ms) = hold_ms {
        let hold = Duration::ZERO..=Duration::from_millis(ms);
        path.forward.impairments.hold = hold.clone();
        path.reverse.impairments.hold = hold;
    }
    let mut sim = Sim::with_path(path, options);
    if let Some(outage) = outage_ms {
        sim.schedule_outage(Time::from_millis(outage.start), Time::from_millis(outage.end));
    }
    sim
}

/// Run until each side has told that it is complete: what the sender then says, and what the receiver. `each` may interfere
/// after every event. Returns which of them did.
pub fn drive<L: Endpoint, R: Endpoint>(
    sim: &mut Sim<L, R>,
    limits: Limits,
    complete: (L::Event, R::Event),
    mut each: impl FnMut(&mut Sim<L, R>),
) -> (Outcome, bool, bool)
where
    L::Event: PartialEq,
    R::Event: PartialEq,
{
    let (mut sender, mut receiver) = (false, false);
    let end = sim.run(limits, |sim| {
        for event in sim.events() {
            match event {
                FlowEvent::Left(_, event) => sender |= *event == complete.0,
                FlowEvent::Right(_, event) => receiver |= *event == complete.1,
            }
        }
        each(sim);
        sender && receiver
    });
    (sim.outcome(end), sender, receiver)
}

/// Wake the sender when the disk that it waits for will be ready.
pub fn wake<L: Endpoint, R: Endpoint>(sim: &mut Sim<L, R>, id: FlowId) {
    sim.wake_at(id, Side::Left, sim.now() + DISK_TIME);
}

/// Until the disk is ready again.
const DISK_TIME: Duration = Duration::from_micros(300);
