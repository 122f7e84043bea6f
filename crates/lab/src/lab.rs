//! The lab itself: two hosts and the path between them.

use crate::counters::{Counters, DirectionCounters};
use crate::error::LabError;
use crate::host::{Host, HostDrops};
use crate::lane::Lane;
use crate::worker::{self, Switches, Track, now_ns};
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// An end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// Where senders usually are: `loss` befalls what it sends.
    Left,
    /// The far end: `loss_reverse` befalls what it sends.
    Right,
}

impl End {
    fn other(self) -> End {
        match self {
            End::Left => End::Right,
            End::Right => End::Left,
        }
    }
}

/// A running lab. Dropping it ends its threads and removes devices and namespaces; a process that still runs in a
/// namespace keeps the namespace, without the path.
pub struct Lab {
    hosts: [Host; 2],
    tracks: [Arc<Track>; 2],
    switches: Arc<Switches>,
    workers: Vec<JoinHandle<()>>,
    /// What the hosts had dropped at the last reset.
    drops_before: Mutex<[HostDrops; 2]>,
}

impl Lab {
    /// Build the hosts and open the path between them.
    pub fn start(scenario: &Scenario) -> Result<Lab, LabError> {
        scenario.validate().map_err(|bad| LabError::Scenario(bad.to_string()))?;
        refuse_what_is_only_simulated(scenario)?;
        let hosts = [Host::create(scenario, 1)?, Host::create(scenario, 2)?];
        let switches = Arc::new(Switches::new().map_err(LabError::at("making an event descriptor"))?);
        let track = |from: End, to: End| {
            Arc::new(Track {
                lane: Mutex::new(Lane::new(scenario, from, now_ns())),
                from: hosts[from as usize].tun.clone(),
                to: hosts[to as usize].tun.clone(),
            })
        };
        let tracks = [track(End::Left, End::Right), track(End::Right, End::Left)];
        let drops_before = Mutex::default();
        let mut lab = Lab { hosts, tracks, switches, workers: Vec::new(), drops_before };
        let nap_ns = nap_ns(scenario);
        for (track, name) in lab.tracks.iter().zip(["lab-to-right", "lab-to-left"]) {
            let (track, switches) = (track.clone(), lab.switches.clone());
            let worker = thread::Builder::new().name(name.into());
            let worker = worker.spawn(move || worker::run(&track, &switches, nap_ns));
            lab.workers.push(worker.map_err(LabError::at("starting a thread"))?);
        }
        tracing::debug!(?scenario, "lab started");
        Ok(lab)
    }

    /// A command that runs on that host. It is killed when the thread that started it ends.
    pub fn command(&self, end: End, program: impl AsRef<OsStr>) -> Command {
        self.hosts[end as usize].command(program.as_ref())
    }

    /// Run `f` on that host, on a thread of its own: sockets that it makes belong to the host and may be used anywhere
    /// afterwards. A panic in `f` goes on here.
    pub fn enter<T: Send>(&self, end: End, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.hosts[end as usize].enter(f).map_err(LabError::at("entering a network namespace"))
    }

    /// That host's IPv4 address on the path.
    pub fn address(&self, end: End) -> Ipv4Addr {
        self.hosts[end as usize].v4
    }

    /// That host's IPv6 address on the path. Unreachable where the MTU is below IPv6's least, 1280.
    pub fn address_v6(&self, end: End) -> Ipv6Addr {
        self.hosts[end as usize].v6
    }

    /// What happened since the start or the last reset.
    pub fn counters(&self) -> Counters {
        let now = now_ns();
        let before = *self.drops_before.lock().unwrap_or_else(PoisonError::into_inner);
        let direction = |end: End| {
            let drops = self.host_drops(end);
            DirectionCounters {
                dropped_by_emulator: drops.device.saturating_sub(before[end as usize].device),
                dropped_by_card: drops.card.saturating_sub(before[end as usize].card),
                ..self.lane(end, |lane| lane.counters(now))
            }
        };
        Counters { left_to_right: direction(End::Left), right_to_left: direction(End::Right) }
    }

    /// Bytes that came to that port of that host since the last reset, TCP and UDP alike: those of whole IP packets, which
    /// tells programs apart that share the path.
    pub fn bytes_to(&self, host: End, port: u16) -> u64 {
        self.lane(host.other(), |lane| lane.bytes_to(port))
    }

    /// Count from zero from now on. What is on its way is counted when it is delivered.
    pub fn reset_counters(&self) {
        let drops = [self.host_drops(End::Left), self.host_drops(End::Right)];
        *self.drops_before.lock().unwrap_or_else(PoisonError::into_inner) = drops;
        let now = now_ns();
        for end in [End::Left, End::Right] {
            self.lane(end, |lane| lane.reset_counters(now));
        }
    }

    /// An outage, while `on`: what is sent and what would arrive is lost, both ways.
    pub fn cut(&self, on: bool) {
        self.switches.cut.store(on, Ordering::Relaxed);
    }

    /// A firewall, while `on`: UDP does not enter the path, both ways.
    pub fn block_udp(&self, on: bool) {
        self.switches.block_udp.store(on, Ordering::Relaxed);
    }

    /// A policer, while there is a rate: UDP above it is dropped, both ways, beyond bursts of so many bytes.
    pub fn police_udp(&self, mbit: Option<f64>, burst_bytes: u64) {
        for end in [End::Left, End::Right] {
            self.lane(end, |lane| lane.police_udp(now_ns(), mbit, burst_bytes));
        }
    }

    /// Set a kernel setting of that host alone, such as `net.ipv4.tcp_congestion_control`.
    pub fn set_sysctl(&self, end: End, name: &str, value: &str) -> Result<(), LabError> {
        self.hosts[end as usize].set_sysctl(name, value)
    }

    /// A kernel setting of that host, with single spaces.
    pub fn sysctl(&self, end: End, name: &str) -> Result<String, LabError> {
        self.hosts[end as usize].sysctl(name)
    }

    /// Whether the emulator, not the path, shaped what happened since the last reset.
    pub fn cpu_limited(&self) -> bool {
        self.counters().cpu_limited()
    }

    fn lane<T>(&self, from: End, f: impl FnOnce(&mut Lane) -> T) -> T {
        f(&mut self.tracks[from as usize].lane.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn host_drops(&self, end: End) -> HostDrops {
        self.hosts[end as usize].drops().unwrap_or_else(|error| {
            tracing::warn!(%error, ?end, "cannot read a host's own drops; they count as none");
            HostDrops::default()
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.switches.stop();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a thread of the lab had panicked");
            }
        }
    }
}

/// Some of what a scenario can say is for the simulator alone: better no lab than another path than the one asked for.
fn refuse_what_is_only_simulated(scenario: &Scenario) -> Result<(), LabError> {
    let queue = scenario.queue_discipline;
    let asked = [
        (!scenario.steps.is_empty(), "steps".to_owned()),
        (!scenario.traffic.is_empty(), "traffic".to_owned()),
        (queue != QueueDiscipline::DropTail, format!("queue_discipline = \"{queue}\"")),
    ];
    match asked.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, what)) => Err(LabError::Scenario(format!(
            "the lab cannot emulate {what}; take it out of the scenario, or run it in the simulator: longhaul sim"
        ))),
    }
}

/// Where packets follow each other faster than a thread can be woken for each, they are moved in small groups, as a
/// network card with interrupt coalescing does.
fn nap_ns(scenario: &Scenario) -> u64 {
    let packet_us = f64::from(scenario.mtu) * 8.0 / scenario.bottleneck_mbit;
    if packet_us < SINGLE_PACKET_US { NAP_NS } else { 0 }
}

/// 480 Mb/s at an MTU of 1500 bytes.
const SINGLE_PACKET_US: f64 = 25.0;
/// As common network cards do by default.
const NAP_NS: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_only_simulated_is_refused_before_anything_is_made() {
        let plain = "bottleneck_mbit = 10\nrtt_ms = 10\n";
        for (addition, what) in [
            ("queue_discipline = 'codel'", "queue_discipline = \"codel\""),
            ("[[steps]]\nat_s = 1\nloss = 0.5", "steps"),
            ("[[traffic]]\ncontrol = 'greedy'", "traffic"),
        ] {
            let scenario = Scenario::parse(&format!("{plain}{addition}")).unwrap();
            let problem = Lab::start(&scenario).map(drop).unwrap_err().to_string();
            assert!(problem.starts_with(&format!("the lab cannot emulate {what}; take it out")), "{problem}");
        }
        assert!(refuse_what_is_only_simulated(&Scenario::parse(plain).unwrap()).is_ok());
    }
}
