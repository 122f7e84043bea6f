//! Flows that meet on a path: in the simulator, or as copies by the program and the kernel's own TCP over an emulated one.

use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copiers::Payload;
use crate::lab::copies::Copies;
use crate::lab::flows;
use crate::sim::payload_rate;
use longhaul_lab::variants::Variant;
use longhaul_lab::{DirectionCounters, Flows, Lab, Side, TcpSettings};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec, ObjectFlow, Protocol, TcpFlow};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Pair, Traffic};
use longhaul_sim::workload::Workload;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Who meets, and when it is measured.
#[derive(Clone, Debug)]
pub(crate) struct Meeting {
    pub path: Scenario,
    pub ours: Vec<Guest>,
    pub rivals: Vec<Guest>,
    pub from: Time,
    pub until: Time,
    /// What carries the data of copies.
    pub transport: &'static str,
}

/// A flow that never ends. Over an emulated path one of TCP is the kernel's, any other a copy.
#[derive(Clone, Debug)]
pub(crate) struct Guest {
    pub protocol: Protocol,
    pub at: Time,
    /// How much longer its way is, in each direction.
    pub access_delay: Duration,
}

/// What each has of what the path carries, 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Shares {
    /// Each of ours.
    pub ours: Vec<f64>,
    /// The others together.
    pub rivals: f64,
    /// The mean queue.
    pub queue_bdp: f64,
    /// Of what was sent.
    pub lost: f64,
}

impl Guest {
    pub fn new(protocol: Protocol, at: Time) -> Guest {
        Guest { protocol, at, access_delay: Duration::ZERO }
    }

    pub fn object(control: ControllerKind, at: Time) -> Guest {
        Guest::new(Protocol::Object(ObjectFlow::new(control)), at)
    }

    pub fn tcp(control: ControllerKind, at: Time) -> Guest {
        Guest::new(Protocol::Tcp(TcpFlow::new(control)), at)
    }

    fn traffic(&self, bytes: u64) -> Traffic {
        let pairs = vec![Pair { access_delay: self.access_delay, ..Pair::default() }];
        let arrivals = Arrivals::Together { at: self.at, count: 1 };
        Traffic { pairs, ..Traffic::new(FlowSpec::new(self.protocol.clone(), bytes), arrivals) }
    }
}

impl Meeting {
    fn guests(&self) -> impl Iterator<Item = &Guest> {
        self.ours.iter().chain(&self.rivals)
    }

    pub fn simulate(&self) -> Shares {
        let limit = payload_rate(&self.path);
        // Twice what fits into the run, so that nobody is done before its end.
        let bytes = limit.bytes_in(self.until.since(Time::ZERO)) * 2;
        let traffic: Vec<Traffic> = self.guests().map(|guest| guest.traffic(bytes)).collect();
        let all = traffic.len();
        let mut workload = Workload::over(&self.path, traffic, self.until).expect("the path is a sound one");
        workload.measure_from = self.from;
        workload.options.trace = TraceMode::Off;
        let measured = workload.run();
        let share = |index| measured.goodputs(index).iter().sum::<f64>() / limit.0 as f64;
        let queue_bytes = measured.hops[0].forward.queue.mean_bytes;
        self.shares((0..all).map(share).collect(), queue_bytes, measured.loss_ratio())
    }

    fn shares(&self, mut ours: Vec<f64>, queue_bytes: f64, lost: f64) -> Shares {
        let rivals = ours.split_off(self.ours.len()).iter().sum();
        Shares { ours, rivals, queue_bdp: queue_bytes / self.path.bdp_bytes() as f64, lost }
    }

    /// The same, measured for as long and not before the last has begun.
    pub fn after_all_began(self) -> Meeting {
        let last = self.guests().map(|guest| guest.at).max().unwrap_or_default();
        let later = last.since(self.from);
        Meeting { from: self.from + later, until: self.until + later, ..self }
    }

    /// A path for it; each way to it has a pair of hosts.
    pub fn lab(&self) -> Result<Lab, ExperimentError> {
        let extra_ms: Vec<f64> = self.ways().iter().map(|delay| 2e3 * delay.as_secs_f64()).collect();
        Ok(Lab::start_pairs(&self.path, &extra_ms)?)
    }

    /// The shortest first, which is also that of the kernel's TCP.
    fn ways(&self) -> Vec<Duration> {
        let mut ways: Vec<Duration> = self.guests().map(|guest| guest.access_delay).collect();
        ways.push(Duration::ZERO);
        ways.sort_unstable();
        ways.dedup();
        ways
    }

    /// A file of more than any copy of these meetings gets through before it is stopped.
    pub fn payload<'a>(
        bench: &Bench<'_>,
        meetings: impl IntoIterator<Item = &'a Meeting>,
    ) -> Result<Rc<Payload>, ExperimentError> {
        let bytes = meetings.into_iter().map(|one| {
            Rate::from_mbps(one.path.passing_mbit()).bytes_in(one.until.since(Time::ZERO) + START_TIME_MAX)
        });
        Ok(Rc::new(Payload::file(bench, bytes.max().unwrap_or_default())?))
    }

    /// Over such a path, and what the link counted while it was measured. Losses count from the first packet on.
    pub fn measure(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        payload: &Rc<Payload>,
    ) -> Result<(Shares, DirectionCounters), ExperimentError> {
        let (tcp, copied): (Vec<&Guest>, Vec<&Guest>) =
            self.guests().partition(|guest| matches!(guest.protocol, Protocol::Tcp(_)));
        let kernel = tcp.first().map(|guest| kernel_tcp(lab, guest)).transpose()?;
        let ways = self.ways();
        // Those of one way change places with no harm; all servers listen before anybody begins.
        let mut copies = vec![];
        for (guest, port) in copied.into_iter().zip(FIRST_PORT..) {
            let pair = ways.iter().position(|way| *way == guest.access_delay).unwrap_or_default();
            copies.push((guest, Copies::between(bench, lab, pair, payload.clone(), port)?));
        }
        copies.sort_by_key(|(guest, _)| guest.at);
        let ports: Vec<u16> = copies.iter().map(|(_, copies)| copies.port()).collect();
        bench.run(lab, || {
            lab.watch_ports(Side::Right, &ports);
            let traffic = tcp.iter().map(|guest| guest.traffic(ENDLESS)).collect();
            let flows = kernel.as_ref().map(|kernel| lab.flows(kernel.name(), traffic, self.path.seed));
            let (flows, begun) = (flows.transpose()?, Instant::now());
            let wait_until = |at: Time| bench.wait(at.since(Time::ZERO).saturating_sub(begun.elapsed()));
            let mut running = vec![];
            for (guest, copies) in &copies {
                wait_until(guest.at)?;
                running.push(copies.begin(bench, lab, &self.copy_args(guest))?);
            }
            wait_until(self.from)?;
            let early = lab.counters().left_to_right;
            let received = || flows.as_ref().map_or(vec![], Flows::received);
            let (before, from) = (received(), Instant::now());
            lab.reset_counters();
            wait_until(self.until)?;
            let (after, seconds) = (received(), from.elapsed().as_secs_f64());
            let link = lab.counters().left_to_right;
            flows.iter().try_for_each(flows::check)?;
            if !running.iter_mut().all(|copy| copy.is_running()) {
                let reason = "one of them was at its end before it had been measured".into();
                return Err(ExperimentError::Program { program: "copies that share a path".into(), reason });
            }
            let carried = self.path.passing_mbit() * 1e6 / 8.0 * seconds;
            let copied = ports.iter().map(|port| lab.bytes_to(Side::Right, *port) as f64 / carried);
            let shares =
                copied.chain(of_tcp(&before, &after, tcp.len(), self.path.mtu).map(|bytes| bytes / carried));
            let lost = loss(&[early, link]);
            Ok((self.shares(shares.collect(), link.waiting_bytes.mean_bytes, lost), link))
        })
    }

    fn copy_args(&self, guest: &Guest) -> Vec<&'static str> {
        let mut args = vec!["--transport", self.transport];
        if let Protocol::Object(flow) = &guest.protocol {
            let is_default = flow.control == ControllerKind::default();
            args.extend(["--control", flow.control.name()].into_iter().filter(|_| !is_default));
            args.extend(flow.background.then_some("--background"));
        }
        args
    }
}

/// Whose congestion control the kernel has; asks for marks and answers them if it is to.
fn kernel_tcp(lab: &Lab, guest: &Guest) -> Result<Variant, ExperimentError> {
    let Protocol::Tcp(flow) = &guest.protocol else { unreachable!("no other is the kernel's") };
    let settings = TcpSettings { ecn: Some(flow.config.ecn != Ecn::NotEct), ..TcpSettings::default() };
    for end in [Side::Left, Side::Right] {
        lab.set_tcp(end, &settings)?;
    }
    Ok(Variant::require(flow.control.name())?)
}

/// Bytes of whole packets that each of so many flows has brought between two looks.
fn of_tcp(before: &[u64], after: &[u64], flows: usize, mtu: u32) -> impl Iterator<Item = f64> {
    let packets = f64::from(mtu) / f64::from(mtu - HEADERS);
    // A flow that has not come yet has brought nothing.
    let at = |look: &[u64], flow| look.get(flow).copied().unwrap_or_default();
    let bytes: Vec<f64> =
        (0..flows).map(|flow| (at(after, flow) - at(before, flow)) as f64 * packets).collect();
    bytes.into_iter()
}

/// Packets that queue and policer dropped, of all that were sent.
pub(crate) fn loss(counts: &[DirectionCounters]) -> f64 {
    let sum = |count: fn(&DirectionCounters) -> u64| counts.iter().map(count).sum::<u64>();
    sum(|one| one.dropped_queue + one.dropped_policed) as f64 / sum(|one| one.packets_in).max(1) as f64
}

/// IPv4, TCP, timestamps.
const HEADERS: u32 = 52;
/// The program's own is left to others.
const FIRST_PORT: u16 = 7710;
/// Until a program has begun.
const START_TIME_MAX: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_come_while_it_is_measured_have_what_they_brought_in_whole_packets() {
        let bytes: Vec<f64> = of_tcp(&[1448], &[2 * 1448, 1448], 3, 1500).collect();
        assert_eq!(bytes, [1500.0, 1500.0, 0.0]);
    }

    #[test]
    fn it_is_measured_when_the_last_has_begun() {
        let [at, from, until] = [9, 8, 14].map(|s| Time::from_millis(1000 * s));
        let rivals = vec![Guest::tcp(ControllerKind::Cubic, at)];
        let path = Scenario::new(10.0, 40.0);
        let meeting = Meeting { path, ours: vec![], rivals, from, until, transport: "object" };
        let later = meeting.after_all_began();
        assert_eq!([later.from, later.until], [9, 15].map(|s| Time::from_millis(1000 * s)));
        assert_eq!(later.clone().after_all_began().from, later.from);
    }

    #[test]
    fn copies_are_told_what_the_simulator_knows_and_the_far_ones_have_hosts_of_their_own() {
        let at = Time::ZERO;
        let far =
            Guest { access_delay: Duration::from_millis(60), ..Guest::object(ControllerKind::Prague, at) };
        let flow = ObjectFlow { background: true, ..ObjectFlow::new(ControllerKind::Adaptive) };
        let meeting = Meeting {
            path: Scenario::new(10.0, 40.0),
            ours: vec![far, Guest::new(Protocol::Object(flow), at)],
            rivals: vec![Guest::tcp(ControllerKind::Cubic, at)],
            from: at,
            until: at,
            transport: "object",
        };
        let args = |of: usize| meeting.copy_args(&meeting.ours[of]).join(" ");
        assert_eq!(args(0), "--transport object --control prague");
        assert_eq!(args(1), "--transport object --background");
        assert_eq!(meeting.ways(), [Duration::ZERO, Duration::from_millis(60)]);
    }
}
