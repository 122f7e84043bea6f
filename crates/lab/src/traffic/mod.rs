//! Flows that share the path (`traffic` in a scenario), by the kernel's own TCP, as paced UDP or by the simulator's
//! endpoints over UDP, between a pair of hosts of their own; and [`Flows`] of the kernel's TCP that an experiment
//! asks for. They come when the simulator's would: from the same seed follow the same moments and lengths.

mod driver;
mod flow;
mod plan;

pub(crate) use plan::{Source, plan};

use crate::error::LabError;
use crate::host::Host;
use crate::worker::clock;
use driver::{FlowDriver, HostPair};
use longhaul_sim::flow::KnownPath;
use longhaul_sim::traffic::Traffic;
use plan::Carrier;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::write;
use std::fmt::Display;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What became of the scenario's traffic since its time began; bytes since the last reset of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCounters {
    /// Flows that have begun.
    pub flows_begun: u64,
    /// Flows that have sent all that they had.
    pub flows_done: u64,
    /// Flows that broke, or for which there was no room.
    pub flows_failed: u64,
    /// Bytes, as whole IP packets, that came to the right host.
    pub bytes_to_right: u64,
    /// Bytes, as whole IP packets, that came to the left host.
    pub bytes_to_left: u64,
}

/// Flows of the kernel's own TCP ([`Lab::flows`](crate::Lab::flows)). Dropping it cuts them off.
pub struct Flows(TrafficGenerator);

impl Flows {
    pub(crate) fn start(
        hosts: &[Host; 2],
        control: &str,
        traffic: Vec<Traffic>,
        seed: u64,
    ) -> Result<Flows, LabError> {
        // A host that makes hundreds of connections a second soon has no port that has not just been used.
        hosts[0].set_sysctl("net.ipv4.tcp_tw_reuse", "1")?;
        let carrier = || Carrier::Tcp { control: control.into(), _variant: None };
        let source = |traffic| Source { carrier: carrier(), is_reverse: false, traffic };
        let sources = traffic.into_iter().map(source).collect();
        let unused = KnownPath { rtt: Duration::ZERO, mtu: 0 };
        Ok(Flows(TrafficGenerator::start(seed, unused, sources, hosts)?))
    }

    /// What each has brought so far, bytes, in the order in which they came.
    pub fn received(&self) -> Vec<u64> {
        self.0.running.as_ref().map(|running| running.tally.received().clone()).unwrap_or_default()
    }

    /// Why the first of those that failed did.
    pub fn failure(&self) -> Option<String> {
        self.0.running.as_ref().and_then(|running| running.tally.failure())
    }

    /// What has become of them; no bytes.
    pub fn counters(&self) -> TrafficCounters {
        self.0.counters()
    }
}

/// Lets the flows begin and end on a thread of its own. Dropping it cuts them off.
pub(crate) struct TrafficGenerator {
    seed: u64,
    /// What flows over UDP are told.
    path: KnownPath,
    sources: Arc<Vec<Source>>,
    pair: HostPair,
    running: Option<Running>,
}

struct Running {
    tally: Arc<Tally>,
    stop: Arc<OwnedFd>,
    thread: JoinHandle<()>,
}

/// What the thread counts.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) begun: AtomicU64,
    pub(crate) done: AtomicU64,
    failed: AtomicU64,
    first_failure: OnceLock<String>,
    received: Mutex<Vec<u64>>,
}

impl Tally {
    /// A flow could not begin, or broke; the first of them says why.
    pub(crate) fn fail(&self, reason: &dyn Display) {
        self.first_failure.get_or_init(|| {
            tracing::warn!(%reason, "a flow of the scenario's traffic failed");
            reason.to_string()
        });
        // After the reason: who sees that one failed is to find it.
        count(&self.failed);
    }

    fn failure(&self) -> Option<String> {
        self.first_failure.get().cloned()
    }

    /// Bytes that each TCP connection has brought, in the order in which they came.
    pub(crate) fn received(&self) -> MutexGuard<'_, Vec<u64>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TrafficGenerator {
    /// The scenario's time begins.
    pub(crate) fn start(
        seed: u64,
        path: KnownPath,
        sources: Vec<Source>,
        hosts: &[Host; 2],
    ) -> Result<TrafficGenerator, LabError> {
        let pair = hosts.each_ref().map(Host::handle);
        let mut generator = TrafficGenerator { seed, path, sources: Arc::new(sources), pair, running: None };
        generator.restart()?;
        Ok(generator)
    }

    /// Cut everything off and begin again.
    pub(crate) fn restart(&mut self) -> Result<(), LabError> {
        self.end();
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let stop = Arc::new(stop.map_err(LabError::at("making an event descriptor"))?);
        let tally = Arc::new(Tally::default());
        let zero = clock().0;
        let driver = FlowDriver::new(self.seed, self.path, &self.sources, &self.pair, tally.clone(), zero)?;
        let wake = stop.clone();
        let thread = thread::Builder::new().name("lab-traffic".into());
        let thread = thread.spawn(move || driver.run(&wake)).map_err(LabError::at("starting a thread"))?;
        self.running = Some(Running { tally, stop, thread });
        Ok(())
    }

    /// All but the bytes, which the directions count.
    pub(crate) fn counters(&self) -> TrafficCounters {
        let Some(running) = &self.running else { return TrafficCounters::default() };
        let tally = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TrafficCounters {
            flows_begun: tally(&running.tally.begun),
            flows_done: tally(&running.tally.done),
            flows_failed: tally(&running.tally.failed),
            ..TrafficCounters::default()
        }
    }

    fn end(&mut self) {
        let Some(running) = self.running.take() else { return };
        // Cannot fail: the counter is far from its limit.
        let _ = write(&running.stop, &1u64.to_ne_bytes());
        if running.thread.join().is_err() {
            tracing::error!("the thread of a lab's traffic had panicked");
        }
    }
}

impl Drop for TrafficGenerator {
    fn drop(&mut self) {
        self.end();
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_fail_are_counted_and_the_first_says_why() {
        let tally = Tally::default();
        assert_eq!(tally.failure(), None);
        tally.fail(&"no port is free");
        tally.fail(&"no descriptor is free");
        assert_eq!(tally.failed.load(Ordering::Relaxed), 2);
        assert_eq!(tally.failure().as_deref(), Some("no port is free"));
    }
}
