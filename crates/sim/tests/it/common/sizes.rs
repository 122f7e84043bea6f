//! An object transfer whose path passes datagrams up to a length that changes: the sender finds out and follows.

use super::driver::{Done, network};
use fastrand::Rng;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::object::{
    Companions, Receiver, ReceiverConfig, ReceiverEvent, ReceiverStats, Sender, SenderConfig, SenderEvent,
    SenderStats, Shape,
};
use longhaul_proto::path::PathCheck;
use longhaul_proto::plpmtud::{Look, Plpmtud};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{Body, DATA_OVERHEAD, SEAL_OVERHEAD};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{Limits, Options, Side, Sim};
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Bytes of the datagrams that may be tried, smallest first.
pub const CLASSES: [u16; 3] = [600, 1200, 1452];

/// A transfer and its path.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: Scenario,
    pub object_len: u64,
    pub controller: ControllerKind,
    /// The size to begin with.
    pub class: u8,
    /// From when on which sizes pass, by the index of the largest; before, all do.
    pub changes: Vec<(Time, u8)>,
    /// The sending host knows of them.
    pub is_told: bool,
    pub outage_ms: Option<Range<u64>>,
    /// What the receiver has before the transfer begins.
    pub have: Vec<Range<u64>>,
    /// When the receiver finds which bytes wrong that it had got, if it has got them by then.
    pub spoiled: Vec<(Time, Range<u64>)>,
}

/// What came of it.
pub struct Ended {
    pub done: Done<SenderStats, ReceiverStats>,
    pub cuts: Vec<Cut>,
    pub case: Case,
}

/// The object was cut anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    pub at: Time,
    /// For which size.
    pub class: u8,
    /// Bytes that were known to be there.
    pub acked: u64,
}

type SizeSim = Sim<Near, Far>;

impl Case {
    /// A clean path of 20 Mb/s and 40 ms on which all sizes pass.
    pub fn plain() -> Case {
        Case {
            scenario: Scenario { mtu: 9000, ..Scenario::new(20.0, 40.0) },
            object_len: 2_000_000,
            controller: ControllerKind::default(),
            class: 2,
            changes: vec![],
            is_told: false,
            outage_ms: None,
            have: vec![],
            spoiled: vec![],
        }
    }

    pub fn rtt(&self) -> Duration {
        Duration::from_secs_f64((self.scenario.rtt_ms + self.scenario.jitter_ms) / 1e3)
    }

    pub fn object(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.object_len as usize];
        Rng::with_seed(self.scenario.seed).fill(&mut bytes);
        bytes
    }

    fn have(&self) -> Ranges {
        self.have.iter().filter(|range| !range.is_empty()).cloned().collect()
    }

    fn shape(&self, class: u8) -> Shape {
        let packet_len = u32::from(CLASSES[usize::from(class)]) - DATA_OVERHEAD as u32;
        Shape { object_len: self.object_len, packet_len }
    }

    /// Bytes of the longest datagram that passes.
    fn longest(&self, now: Time) -> usize {
        let class = self.changes.iter().rev().find(|(at, _)| *at <= now).map(|(_, class)| *class);
        CLASSES[usize::from(class.unwrap_or(CLASSES.len() as u8 - 1))].into()
    }

    fn control(&self, class: u8) -> ControlConfig {
        let rate = Some(Rate::from_mbps(self.scenario.bottleneck_mbit * 0.9));
        ControlConfig { rate, ..ControlConfig::new(CLASSES[usize::from(class)].into(), self.rtt()) }
    }

    fn near(&self) -> Near {
        let config = SenderConfig {
            shape: self.shape(self.class),
            class: self.class,
            selector: self.controller.companions().selector,
            rate_cap: None,
            rtt: self.rtt(),
            have: self.have(),
            ecn: Ecn::NotEct,
            seed: self.scenario.seed,
        };
        let sender = Sender::new(config, self.object(), self.controller.build(self.control(self.class)));
        Near {
            case: self.clone(),
            sender,
            check: check(true),
            search: Plpmtud::new(self.class, CLASSES.len(), Time::ZERO),
            is_refused: false,
            sent: 0,
            cuts: vec![],
        }
    }

    fn far(&self) -> Far {
        let Companions { ack, .. } = self.controller.companions();
        let config = ReceiverConfig {
            shape: self.shape(self.class),
            class: self.class,
            ack: ack.policy(self.rtt()),
            have: self.have(),
            max_body: usize::from(CLASSES[0]) - SEAL_OVERHEAD,
        };
        let (object, mut bytes) = (self.object(), vec![0; self.object_len as usize]);
        for range in &self.have {
            let range = range.start as usize..range.end as usize;
            bytes[range.clone()].copy_from_slice(&object[range]);
        }
        let receiver = Receiver::new(config, bytes);
        Far { case: self.clone(), receiver, have: self.have(), check: check(false), sent: 0 }
    }

    /// Run until both sides know that the receiver has everything.
    pub fn run(&self) -> Ended {
        let mut sim: SizeSim = network(&self.scenario, Options::default(), None, self.outage_ms.as_ref());
        let id = sim.add_flow(self.near(), self.far(), Time::ZERO);
        let mut spoiled = self.spoiled.clone();
        let mut words = VecDeque::new();
        let end = sim.run(LIMITS, |sim| {
            let now = sim.now();
            while let Some((_, range)) = spoiled.pop_if(|(at, _)| *at <= now) {
                let (epoch, ranges) = sim.endpoints_mut(id).1.find_wrong(range);
                words.push_back((now + self.rtt(), epoch, ranges));
                sim.wake_at(id, Side::Right, now);
                sim.wake_at(id, Side::Left, now + self.rtt());
            }
            while let Some((_, epoch, ranges)) = words.pop_front_if(|(at, ..)| *at <= now) {
                sim.endpoints_mut(id).0.sender.resend(epoch, &ranges);
                sim.wake_at(id, Side::Left, now);
            }
            let (near, far) = (sim.left(id), sim.right(id));
            near.is_done() && far.is_done() && words.is_empty()
        });
        let outcome = sim.outcome(end);
        let (near, mut far) = sim.remove_flow(id);
        let done = Done {
            outcome,
            sender: near.sender.stats(),
            receiver: far.receiver.stats(),
            sender_complete: near.is_done(),
            receiver_complete: far.is_done(),
            is_equal: *far.receiver.sink_mut() == self.object(),
            refused: 0,
        };
        Ended { done, cuts: near.cuts, case: self.clone() }
    }

    /// Run, and insist on success.
    pub fn succeed(&self) -> Ended {
        let ended = self.run();
        ended.done.insist(self);
        ended
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{self:#?}\nas a scenario:\n{}", self.scenario)
    }
}

fn check(train: bool) -> PathCheck {
    let mut check = PathCheck::new(CLASSES.to_vec(), train, 7);
    // What it asks before the first data is not part of this.
    let mut scratch = vec![0; 2000];
    while check.poll_transmit(Time::ZERO, &mut scratch).is_some() {}
    check
}

/// The side that sends. Probes and data have numbers of their own, which stand behind each body.
pub struct Near {
    case: Case,
    sender: Sender<Vec<u8>>,
    check: PathCheck,
    search: Plpmtud,
    is_refused: bool,
    sent: u64,
    cuts: Vec<Cut>,
}

impl Near {
    fn is_done(&self) -> bool {
        self.sender.acked() == self.sender.shape().packets()
    }

    fn look(&mut self, now: Time) {
        let look = Look {
            now,
            rtt: self.sender.rtt().smoothed(),
            is_in_vain: self.sender.is_in_vain(),
            is_refused: std::mem::take(&mut self.is_refused),
            proven: self.sender.proven(),
        };
        if self.is_done() {
            return;
        }

        if let Some(class) = self.search.look(&look, &mut self.check) {
            self.cuts.push(Cut { at: now, class, acked: self.sender.acked_bytes() });
            let control = self.case.control(class);
            let controller = self.case.controller.build(control);
            self.sender.cut(class, self.case.shape(class), &Ranges::new(), controller);
        }
    }
}

impl Endpoint for Near {
    type Event = SenderEvent;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        let (arrival, body) = split(arrival, body);
        if body.len() + SEAL_OVERHEAD > self.case.longest(now) {
            return;
        }
        match Body::decode(body) {
            Some(Body::Reply { .. }) => self.check.handle_datagram(now, arrival, body),
            _ => self.sender.handle_datagram(now, arrival, body),
        }
        self.look(now);
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.sender.poll_timeout().is_some_and(|at| now >= at) {
            self.sender.handle_timeout(now);
        }
        self.look(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let longest = if self.case.is_told { self.case.longest(now) } else { usize::MAX };
        loop {
            let transmit =
                self.check.poll_transmit(now, buf).or_else(|| self.sender.poll_transmit(now, buf))?;
            if transmit.len + SEAL_OVERHEAD <= longest {
                return Some(join(&mut self.sent, transmit, buf));
            }
            self.is_refused |= matches!(Body::decode(&buf[..transmit.len]), Some(Body::Data { .. }));
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        [self.sender.poll_timeout(), self.search.poll_timeout()].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<SenderEvent> {
        self.sender.poll_event()
    }
}

/// The side that receives.
pub struct Far {
    case: Case,
    receiver: Receiver<Vec<u8>>,
    have: Ranges,
    check: PathCheck,
    sent: u64,
}

impl Far {
    fn is_done(&self) -> bool {
        self.receiver.received() == self.receiver.shape().packets()
    }

    /// These bytes are not what was sent: what is to be told to the sender.
    fn find_wrong(&mut self, range: Range<u64>) -> (u16, Ranges) {
        let (start, end) = (range.start as usize, range.end as usize);
        self.receiver.sink_mut()[start..end].fill(0);
        self.have.remove(range.clone());
        let ranges: Ranges = [range].into_iter().collect();
        (self.receiver.take_back(&ranges), ranges)
    }
}

impl Endpoint for Far {
    type Event = ReceiverEvent;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        let (arrival, body) = split(arrival, body);
        if body.len() + SEAL_OVERHEAD > self.case.longest(now) {
            return;
        }
        if let Some(Body::Probe { .. }) = Body::decode(body) {
            return self.check.handle_datagram(now, arrival, body);
        }
        let (case, have) = (&self.case, &self.have);
        self.receiver.handle_recut(now, arrival, body, |class| Some((case.shape(class), have.clone())));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.receiver.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let transmit =
            self.check.poll_transmit(now, buf).or_else(|| self.receiver.poll_transmit(now, buf))?;
        Some(join(&mut self.sent, transmit, buf))
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.receiver.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<ReceiverEvent> {
        self.receiver.poll_event()
    }
}

fn join(sent: &mut u64, transmit: Transmit, buf: &mut [u8]) -> Transmit {
    let len = transmit.len + NUMBER_LEN;
    buf[transmit.len..len].copy_from_slice(&transmit.number.to_be_bytes());
    *sent += 1;
    Transmit { number: *sent - 1, len }
}

fn split(arrival: Arrival, body: &[u8]) -> (Arrival, &[u8]) {
    let (body, number) = body.split_last_chunk::<NUMBER_LEN>().expect("all bodies end with their number");
    (Arrival { number: u64::from_be_bytes(*number), ..arrival }, body)
}

const NUMBER_LEN: usize = 8;
/// What none of these transfers needs.
const LIMITS: Limits = Limits { time: Time::from_millis(3_600_000), events: 8_000_000 };
