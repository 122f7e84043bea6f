//! A wide-area path with others' traffic on it, and transfers over it, one after another.

use super::population::WidePath;
use super::tcp_sack;
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::datagrams::{Moved, transfer};
use crate::lab::flows;
use crate::lab::side_by_side::Halt;
use longhaul_lab::{Flows, Lab, LabError, tcp};
use longhaul_proto::control::{ControllerKind, Remembered};
use longhaul_sim::flow::{FlowSpec, KnownPath, Protocol, TcpFlow};
use std::time::Duration;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SenderKind {
    Pcp,
    /// The paper's user-level TCP.
    Tcp,
    /// The kernel's own.
    Kernel,
    /// The same rule in the simulator, with ten segments to begin with.
    Cubic,
    Adaptive,
}

impl SenderKind {
    pub(super) const MEASURED: [SenderKind; 4] =
        [SenderKind::Pcp, SenderKind::Tcp, SenderKind::Kernel, SenderKind::Adaptive];
    pub(super) const SIMULATED: [SenderKind; 4] =
        [SenderKind::Pcp, SenderKind::Tcp, SenderKind::Cubic, SenderKind::Adaptive];

    pub(super) fn name(self) -> &'static str {
        match self {
            SenderKind::Pcp => "PCP",
            SenderKind::Tcp => "TCP-SACK",
            SenderKind::Kernel => "kernel TCP, CUBIC",
            SenderKind::Cubic => "CUBIC",
            SenderKind::Adaptive => "longhaul, adaptive",
        }
    }

    pub(super) fn flow(self, bytes: u64) -> Option<FlowSpec> {
        match self {
            SenderKind::Pcp => Some(FlowSpec::object(ControllerKind::Pcp, bytes)),
            SenderKind::Tcp => Some(FlowSpec::new(Protocol::Tcp(tcp_sack()), bytes)),
            SenderKind::Adaptive => Some(FlowSpec::object(ControllerKind::Adaptive, bytes)),
            SenderKind::Cubic => {
                Some(FlowSpec::new(Protocol::Tcp(TcpFlow::new(ControllerKind::Cubic)), bytes))
            }
            SenderKind::Kernel => None,
        }
    }
}

/// What one sender has learnt of the path by its transfers so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct History {
    sender: SenderKind,
    learnt: Option<Remembered>,
    transfers: u64,
}

impl History {
    pub(super) fn new(sender: SenderKind) -> History {
        History { sender, learnt: None, transfers: 0 }
    }
}

/// A path as it is while it is measured.
pub(super) struct BusyPath {
    // Ends before the lab does.
    others: Flows,
    pub(super) lab: Lab,
    known: KnownPath,
    limit: Duration,
}

/// How long things may take on a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// What others' traffic gets to settle before the first transfer.
    pub(super) settle: Duration,
    /// A transfer that takes longer is given up.
    pub(super) limit: Duration,
}

impl Times {
    /// In full settling as long as in the simulator.
    pub(super) fn new(bench: &Bench<'_>, limit_s: u64) -> Times {
        Times {
            settle: Duration::from_millis(bench.pick(2000, 1000, 200)),
            limit: Duration::from_secs(limit_s),
        }
    }
}

impl BusyPath {
    /// With others' traffic for long enough to have settled.
    pub(super) fn start(path: &WidePath, times: Times, halt: Halt<'_>) -> Result<BusyPath, ExperimentError> {
        let lab = Lab::start(&path.scenario)?;
        let others = lab.flows("reno", vec![path.cross_traffic()], path.scenario.seed)?;
        halt.sleep(times.settle)?;
        lab.reset_counters();
        let known = KnownPath::of(&path.scenario);
        Ok(BusyPath { others, lab, known, limit: times.limit })
    }

    /// Move so many bytes; seconds from the beginning of the set-up until the receiver had everything.
    pub(super) fn transfer(
        &self,
        history: &mut History,
        bytes: u64,
        halt: Halt<'_>,
    ) -> Result<Moved, ExperimentError> {
        flows::check(&self.others)?;
        halt.check()?;
        let Some(spec) = history.sender.flow(bytes) else { return self.by_kernel(bytes, halt) };
        history.transfers += 1;
        let mut spec = FlowSpec { seed: history.transfers, ..spec };
        if let Protocol::Object(flow) = &mut spec.protocol {
            flow.remembered = history.learnt;
        }
        let moved = transfer(self.lab.ends(&spec, self.known)?, self.limit, halt)?;
        // What it remembers of the path is PCP's; the others begin anew.
        if history.sender == SenderKind::Pcp {
            history.learnt = moved.learnt.or(history.learnt);
        }
        Ok(moved)
    }

    fn by_kernel(&self, bytes: u64, halt: Halt<'_>) -> Result<Moved, ExperimentError> {
        let wanted = || halt.check().is_ok();
        let run = tcp::transfer_while(&self.lab, bytes, KERNEL_CONTROL, self.limit, &wanted);
        halt.check()?;
        let seconds = match run {
            Ok(run) => run.delivered_seconds,
            Err(LabError::TooSlow { .. }) => self.limit.as_secs_f64(),
            Err(other) => return Err(other.into()),
        };
        Ok(Moved { seconds, learnt: None, is_late: false })
    }
}

/// What the figures of both experiments are of, for a report.
pub(super) const METHOD: &str = "PCP, TCP-SACK and longhaul's default control run over real UDP sockets, in clear; an object \
                                 transfer's set-up is one round trip, as TCP's. The kernel's TCP is CUBIC, others' \
                                 traffic the kernel's NewReno. Time: until the receiver has everything. PCP remembers \
                                 the transfers before over the same path.";

/// Named, so that results do not depend on what a host's administrator prefers.
const KERNEL_CONTROL: &str = "cubic";
