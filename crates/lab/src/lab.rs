//! The lab itself: pairs of hosts and the path between them.

use crate::card::Card;
use crate::counters::{Counters, DirectionCounters, Passed};
use crate::datagrams::Ends;
use crate::direction::Direction;
use crate::error::LabError;
use crate::host::{Host, HostDrops};
use crate::listening::{self, Wire};
use crate::place::{Place, Side};
use crate::traffic::{self, Flows, TrafficCounters, TrafficGenerator};
use crate::worker::{self, Switches, Track, clock};
use longhaul_proto::units::Rate;
use longhaul_sim::flow::{FlowSpec, KnownPath};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::traffic::Traffic;
use std::ffi::OsStr;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running lab. Dropping it ends its threads and removes devices and namespaces; a process that still runs in a
/// namespace keeps the namespace, without the path.
///
/// The scenario's time begins when the lab is started, and anew with [`restart_clock`](Lab::restart_clock).
pub struct Lab {
    pairs: Vec<[Host; 2]>,
    /// Of the pairs, the last is that of the scenario's traffic.
    traffic: Option<Mutex<TrafficGenerator>>,
    tracks: [Arc<Track>; 2],
    switches: Arc<Switches>,
    workers: Vec<JoinHandle<()>>,
    /// What the hosts had dropped at the last reset.
    drops_before: Mutex<[HostDrops; 2]>,
}

impl Lab {
    /// Build two hosts and open the path between them. If the scenario has traffic, it begins, between two more.
    pub fn start(scenario: &Scenario) -> Result<Lab, LabError> {
        Lab::start_pairs(scenario, &[0.0])
    }

    /// Build as many pairs of hosts as `extra_rtt_ms` has values, all on one path: what the hosts of one side send waits
    /// in the same queue. The round trip of each pair is so much longer than the scenario says.
    pub fn start_pairs(scenario: &Scenario, extra_rtt_ms: &[f64]) -> Result<Lab, LabError> {
        scenario.validate().map_err(|bad| LabError::Scenario(bad.to_string()))?;
        check_pairs(extra_rtt_ms)?;
        let sources = traffic::plan(scenario)?;
        let one_way = |rtt_ms: &f64| Duration::from_secs_f64(rtt_ms / 2e3);
        let mut extra: Vec<Duration> = extra_rtt_ms.iter().map(one_way).collect();
        extra.extend((!sources.is_empty()).then_some(Duration::ZERO));
        let pairs = (0..extra.len()).map(|pair| {
            let pair = pair as u8; // few: see PAIRS_MAX
            Ok([Host::create(scenario, pair, 1)?, Host::create(scenario, pair, 2)?])
        });
        let pairs = pairs.collect::<Result<Vec<_>, LabError>>()?;
        Lab::open(scenario, pairs, &extra, sources)
    }

    /// Open a further path between the first two hosts, with devices and addresses of its own: a lab of its own, which may end
    /// before or after the first. `number` counts them: 1, 2, …
    pub fn further_path(&self, scenario: &Scenario, number: u8) -> Result<Lab, LabError> {
        scenario.validate().map_err(|bad| LabError::Scenario(bad.to_string()))?;
        let further = |end: Side| self.host(end).at_path(scenario, number, 1 + end as u8);
        let pair = [further(Side::Left)?, further(Side::Right)?];
        Lab::open(scenario, vec![pair], &[Duration::ZERO], vec![])
    }

    /// Let packets move between these hosts.
    fn open(
        scenario: &Scenario,
        pairs: Vec<[Host; 2]>,
        extra: &[Duration],
        sources: Vec<traffic::Source>,
    ) -> Result<Lab, LabError> {
        let switches = Arc::new(Switches::new().map_err(LabError::at("making an event descriptor"))?);
        let track = |from: Side| {
            let tuns =
                |end: Side| pairs.iter().map(|pair| Card::Tun(pair[end as usize].tun.clone())).collect();
            let direction = Mutex::new(Direction::new(scenario, from, extra, clock()));
            Arc::new(Track { direction, from: tuns(from), to: tuns(from.other()) })
        };
        let tracks = [track(Side::Left), track(Side::Right)];
        let drops_before = Mutex::default();
        let mut lab = Lab { pairs, traffic: None, tracks, switches, workers: Vec::new(), drops_before };
        worker::start(&lab.tracks, &lab.switches, scenario, &mut lab.workers)?;
        if !sources.is_empty()
            && let Some(hosts) = lab.pairs.last()
        {
            let generator = TrafficGenerator::start(scenario.seed, KnownPath::of(scenario), sources, hosts)?;
            lab.traffic = Some(Mutex::new(generator));
        }
        tracing::debug!(?scenario, "lab started");
        Ok(lab)
    }

    /// How many pairs of hosts there are, without that of the scenario's traffic.
    pub fn pairs(&self) -> usize {
        self.pairs.len() - usize::from(self.traffic.is_some())
    }

    /// A command that runs on that host. It is killed when the thread that started it ends.
    ///
    /// Here as with all functions that take a host: an [`Side`] is that of the first pair, and there is a panic where there
    /// is no such pair.
    pub fn command(&self, on: impl Into<Place>, program: impl AsRef<OsStr>) -> Command {
        self.host(on).command(program.as_ref())
    }

    /// Run `f` on that host, on a thread of its own: sockets that it makes belong to the host and may be used anywhere
    /// afterwards. A panic in `f` goes on here.
    pub fn enter<T: Send>(&self, on: impl Into<Place>, f: impl FnOnce() -> T + Send) -> Result<T, LabError> {
        self.host(on).enter(f).map_err(LabError::at("entering a network namespace"))
    }

    /// Whether a program on that host waits for anybody: at that port, or at any.
    pub fn listens(&self, on: impl Into<Place>, wire: Wire, port: Option<u16>) -> Result<bool, LabError> {
        self.enter(on, || listening::listens(wire, port))
    }

    /// The name of that host's network interface at the path.
    pub fn device(&self, of: impl Into<Place>) -> &str {
        &self.host(of).device
    }

    /// That host's IPv4 address on the path.
    pub fn address(&self, of: impl Into<Place>) -> Ipv4Addr {
        self.host(of).v4
    }

    /// That host's IPv6 address on the path. Unreachable where the MTU is below IPv6's least, 1280.
    pub fn address_v6(&self, of: impl Into<Place>) -> Ipv6Addr {
        self.host(of).v6
    }

    /// What happened since the start or the last reset, to the packets of all hosts, those of the scenario's traffic
    /// included.
    pub fn counters(&self) -> Counters {
        let now = clock();
        let before = *self.drops_before.lock().unwrap_or_else(PoisonError::into_inner);
        let direction = |end: Side| {
            let drops = self.host_drops(end);
            DirectionCounters {
                dropped_by_emulator: drops.device.saturating_sub(before[end as usize].device),
                dropped_by_card: drops.card.saturating_sub(before[end as usize].card),
                ..self.direction(end, |direction| direction.counters(now))
            }
        };
        Counters { left_to_right: direction(Side::Left), right_to_left: direction(Side::Right) }
    }

    /// From now on count what comes to these ports of that host, TCP and UDP alike; no others are counted any more.
    pub fn watch_ports(&self, host: Side, ports: &[u16]) {
        self.direction(host.other(), |direction| direction.watch_ports(ports));
    }

    /// Bytes that came to that port of that host since it was watched or the last reset: those of whole IP packets, which
    /// tells programs apart that share the path.
    pub fn bytes_to(&self, host: Side, port: u16) -> u64 {
        self.direction(host.other(), |direction| direction.bytes_to(port))
    }

    /// What that host's packets came to since the start or the last reset.
    pub fn passed(&self, from: impl Into<Place>) -> Passed {
        let from = from.into();
        self.direction(from.side, |direction| direction.passed(from.pair))
    }

    /// Let `traffic` come from left to right between the first two hosts, under this congestion control of the kernel's: at
    /// the moments and with the lengths that the simulator draws from the same seed, whatever protocol it has there. The
    /// smallest window of its TCPs' receivers there is that of all of them here.
    pub fn flows(&self, control: &str, traffic: Vec<Traffic>, seed: u64) -> Result<Flows, LabError> {
        Flows::start(&self.pairs[0], control, traffic, seed)
    }

    /// A flow of the simulator's own from left to right between the first two hosts, over UDP sockets, about to begin.
    pub fn ends(&self, spec: &FlowSpec, path: KnownPath) -> Result<Ends, LabError> {
        let [left, right] = &self.pairs[0];
        Ends::new([&left.handle(), &right.handle()], spec, path)
    }

    /// Count from zero from now on. What is on its way is counted when it is delivered. The scenario's time goes on: see
    /// [`restart_clock`](Lab::restart_clock).
    pub fn reset_counters(&self) {
        let drops = [self.host_drops(Side::Left), self.host_drops(Side::Right)];
        *self.drops_before.lock().unwrap_or_else(PoisonError::into_inner) = drops;
        let now = clock();
        for end in [Side::Left, Side::Right] {
            self.direction(end, |direction| direction.reset_counters(now));
        }
    }

    /// Let the scenario's time begin anew: its steps are all to come, and its traffic is cut off and begins again. An
    /// experiment does so at the beginning of a run. Without steps and traffic nothing changes.
    pub fn restart_clock(&self) -> Result<(), LabError> {
        let now = clock();
        for end in [Side::Left, Side::Right] {
            self.direction(end, |direction| direction.restart_clock(now));
        }
        match &self.traffic {
            Some(traffic) => traffic.lock().unwrap_or_else(PoisonError::into_inner).restart(),
            None => Ok(()),
        }
    }

    /// What became of the scenario's traffic since its time began, if it has any.
    pub fn traffic(&self) -> Option<TrafficCounters> {
        let traffic = self.traffic.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        let pair = self.pairs();
        let bytes = [Side::Left, Side::Right].map(|end| self.passed(Place::of(end, pair)).bytes_delivered);
        Some(TrafficCounters { bytes_to_right: bytes[0], bytes_to_left: bytes[1], ..traffic.counters() })
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
        let rate = mbit.map(Rate::from_mbps);
        for end in [Side::Left, Side::Right] {
            self.direction(end, |direction| direction.police_udp(clock(), rate, burst_bytes));
        }
    }

    /// A black hole, while there is a length: longer packets vanish, both ways, and nobody is told.
    pub fn limit_length(&self, longest: Option<u32>) {
        for end in [Side::Left, Side::Right] {
            self.direction(end, |direction| direction.limit_length(longest));
        }
    }

    /// From now on that host refuses to send packets longer than that. What comes to it is taken as before.
    pub fn set_mtu(&self, on: impl Into<Place>, mtu: u32) -> Result<(), LabError> {
        self.host(on).set_mtu(mtu)
    }

    /// Set a kernel setting of that host alone, such as `net.ipv4.tcp_congestion_control`.
    pub fn set_sysctl(&self, on: impl Into<Place>, name: &str, value: &str) -> Result<(), LabError> {
        self.host(on).set_sysctl(name, value)
    }

    /// A kernel setting of that host, with single spaces.
    pub fn sysctl(&self, on: impl Into<Place>, name: &str) -> Result<String, LabError> {
        self.host(on).sysctl(name)
    }

    /// Whether the emulator, not the path, shaped what happened since the last reset.
    pub fn cpu_limited(&self) -> bool {
        self.counters().cpu_limited()
    }

    pub(crate) fn host(&self, place: impl Into<Place>) -> &Host {
        let place = place.into();
        &self.pairs[place.pair][place.side as usize]
    }

    fn direction<T>(&self, from: Side, f: impl FnOnce(&mut Direction) -> T) -> T {
        f(&mut self.tracks[from as usize].direction.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn host_drops(&self, end: Side) -> HostDrops {
        let drops = self.pairs.iter().map(|pair| {
            pair[end as usize].drops().unwrap_or_else(|error| {
                tracing::warn!(%error, ?end, "cannot read a host's own drops; they count as none");
                HostDrops::default()
            })
        });
        drops.fold(HostDrops::default(), |sum, one| HostDrops {
            device: sum.device + one.device,
            card: sum.card + one.card,
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.traffic = None;
        self.switches.stop();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a thread of the lab had panicked");
            }
        }
    }
}

fn check_pairs(extra_rtt_ms: &[f64]) -> Result<(), LabError> {
    if !(1..=PAIRS_MAX).contains(&extra_rtt_ms.len()) {
        let found = extra_rtt_ms.len();
        return Err(LabError::Scenario(format!("a path has 1 to {PAIRS_MAX} pairs of hosts, not {found}")));
    }
    match extra_rtt_ms.iter().find(|ms| !(0.0..=EXTRA_RTT_MAX_MS).contains(*ms)) {
        Some(ms) => Err(LabError::Scenario(format!(
            "a pair's round trip can be 0 to {EXTRA_RTT_MAX_MS} ms longer than the scenario's, not {ms}"
        ))),
        None => Ok(()),
    }
}

/// Each has two namespaces and devices, and a byte of its addresses.
const PAIRS_MAX: usize = 64;
/// Longer than to the Moon and back five times.
const EXTRA_RTT_MAX_MS: f64 = 10_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_that_come_with_the_project_can_be_emulated() {
        for name in Scenario::names() {
            let scenario = Scenario::named(name).unwrap();
            assert_eq!(traffic::plan(&scenario).unwrap().len(), scenario.traffic.len(), "{name}");
        }
    }

    #[test]
    fn impossible_pairs_are_refused() {
        let scenario = Scenario::new(10.0, 10.0);
        for (extra_rtt_ms, says) in [
            (vec![], "1 to 64 pairs of hosts, not 0"),
            (vec![0.0; 65], "not 65"),
            (vec![0.0, -1.0], "not -1"),
            (vec![f64::NAN], "not NaN"),
        ] {
            let problem = Lab::start_pairs(&scenario, &extra_rtt_ms).map(drop).unwrap_err().to_string();
            assert!(problem.ends_with(says), "{problem}");
        }
    }
}
