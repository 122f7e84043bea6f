//! One object transfer over a simulated path, with disks that make both sides wait.

use super::driver::{self, drive, network, wake};
use fastrand::Rng;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::object::Companions;
use longhaul_proto::object::{
    AckKind, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, Shape,
};
use longhaul_proto::object::{ReceiverEvent, ReceiverStats, SenderEvent, SenderStats};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowId, Limits, Options, Sim};
use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// A transfer and the path it takes.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: Scenario,
    pub object_len: u64,
    pub packet_len: u32,
    pub selector: SelectorKind,
    pub controller: ControllerKind,
    pub ack: AckKind,
    /// How long reordered packets are held back at most, instead of the few packet times of the scenario.
    pub hold_ms: Option<u64>,
    pub outage_ms: Option<Range<u64>>,
    /// What the receiver has before the transfer begins.
    pub have: Vec<Range<u64>>,
    pub ecn: Ecn,
    /// Share of reads that find the source not ready.
    pub source_misses: f64,
    /// Share of writes that find the sink full.
    pub sink_full: f64,
    pub options: Options,
}

/// What came of it.
pub type Done = driver::Done<SenderStats, ReceiverStats>;

pub type ObjectSim = Sim<Sender<Disk>, Receiver<Store>>;

impl Case {
    /// 200 packets over a clean path of 100 Mb/s and 20 ms.
    pub fn plain() -> Case {
        Case {
            scenario: Scenario { nic_mbit: Some(100.0), ..Scenario::new(100.0, 20.0) },
            object_len: 200 * 1400,
            packet_len: 1400,
            selector: SelectorKind::default(),
            controller: ControllerKind::default(),
            ack: AckKind::Every(DEFAULT_EVERY),
            hold_ms: None,
            outage_ms: None,
            have: vec![],
            ecn: Ecn::NotEct,
            source_misses: 0.0,
            sink_full: 0.0,
            options: Options::default(),
        }
    }

    /// The same with what goes with a controller.
    pub fn of(controller: ControllerKind) -> Case {
        let Companions { selector, ack } = controller.companions();
        Case { controller, selector, ack, ..Case::plain() }
    }

    /// The object: every byte follows from its place and the seed.
    pub fn object(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.object_len as usize];
        Rng::with_seed(self.scenario.seed).fill(&mut bytes);
        bytes
    }

    /// The path and both ends of the transfer.
    pub fn build(&self) -> (ObjectSim, FlowId) {
        let mut sim = network(&self.scenario, self.options, self.hold_ms, self.outage_ms.as_ref());
        let id = sim.add_flow(self.sender(), self.receiver(), Time::ZERO);
        (sim, id)
    }

    fn shape(&self) -> Shape {
        Shape { object_len: self.object_len, packet_len: self.packet_len }
    }

    fn rtt(&self) -> Duration {
        Duration::from_secs_f64((self.scenario.rtt_ms + self.scenario.jitter_ms) / 1e3)
    }

    fn have(&self) -> Ranges {
        let mut have = Ranges::new();
        self.have.iter().filter(|range| !range.is_empty()).for_each(|range| have.insert(range.clone()));
        have
    }

    fn sender(&self) -> Sender<Disk> {
        let config = SenderConfig {
            shape: self.shape(),
            class: 0,
            selector: self.selector,
            rate_cap: None,
            rtt: self.rtt(),
            have: self.have(),
            ecn: self.ecn,
            seed: self.scenario.seed,
        };
        let control = ControlConfig {
            rate: Some(Rate::from_mbps(self.scenario.bottleneck_mbit)),
            ..ControlConfig::new(u64::from(self.packet_len) + 38, self.rtt())
        };
        Sender::new(config, Disk::new(self), self.controller.build(control))
    }

    fn receiver(&self) -> Receiver<Store> {
        let config = ReceiverConfig {
            shape: self.shape(),
            class: 0,
            ack: self.ack.policy(self.rtt()),
            have: self.have(),
            max_body: self.packet_len as usize + 7,
        };
        Receiver::new(config, Store::new(self))
    }

    /// Run until both sides know that the receiver has everything.
    pub fn run(&self) -> Done {
        self.run_with(|_, _| {})
    }

    /// The same; `each` may interfere after every event.
    pub fn run_with(&self, mut each: impl FnMut(&mut ObjectSim, FlowId)) -> Done {
        let (mut sim, id) = self.build();
        let complete = (SenderEvent::Complete, ReceiverEvent::Complete);
        let (outcome, sender_complete, receiver_complete) = drive(&mut sim, LIMITS, complete, |sim| {
            serve_disk(sim, id);
            each(sim, id);
        });
        let (sender, mut receiver) = sim.remove_flow(id);
        Done {
            outcome,
            sender: sender.stats(),
            receiver: receiver.stats(),
            sender_complete,
            receiver_complete,
            is_equal: receiver.sink_mut().bytes == self.object(),
            refused: receiver.sink_mut().refused,
        }
    }

    /// Run, and insist on success.
    pub fn succeed(&self) -> Done {
        let done = self.run();
        self.insist(&done);
        done
    }

    /// Both sides are done and the bytes are equal, or the whole case is shown.
    pub fn insist(&self, done: &Done) {
        done.insist(self);
    }
}

/// Let the disk become ready a little after it was found wanting.
pub fn serve_disk(sim: &mut ObjectSim, id: FlowId) {
    if sim.endpoints_mut(id).0.source_mut().is_wanted.take() {
        wake(sim, id);
    }
}

/// All that is needed to run it again.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{self:#?}\nas a scenario:\n{}", self.scenario)
    }
}

/// The object on a disk that is not always ready.
#[derive(Debug)]
pub struct Disk {
    bytes: Vec<u8>,
    /// Never to be read: the receiver has it.
    have: Vec<Range<u64>>,
    misses: f64,
    rng: Rng,
    /// It was not ready, and is to be waited for.
    is_wanted: Rc<Cell<bool>>,
    /// Not ready at all while set.
    pub is_stalled: bool,
}

impl Disk {
    fn new(case: &Case) -> Disk {
        Disk {
            bytes: case.object(),
            have: case.have.clone(),
            misses: case.source_misses,
            rng: Rng::with_seed(case.scenario.seed ^ 1),
            is_wanted: Rc::default(),
            is_stalled: false,
        }
    }
}

impl Source for Disk {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let range = offset..offset + buf.len() as u64;
        let is_there = self.have.iter().any(|have| have.start <= range.start && range.end <= have.end);
        assert!(!is_there, "{range:?} is read and the receiver has it");
        if self.is_stalled || self.rng.f64() < self.misses {
            self.is_wanted.set(true);
            return Err(NotReady);
        }
        self.bytes.read_at(offset, buf)
    }
}

/// Memory that takes each byte once, and is full now and then.
#[derive(Debug)]
pub struct Store {
    pub bytes: Vec<u8>,
    is_written: Vec<bool>,
    full: f64,
    rng: Rng,
    /// Takes nothing while set.
    pub is_stalled: bool,
    refused: u64,
}

impl Store {
    fn new(case: &Case) -> Store {
        let object = case.object();
        let mut store = Store {
            bytes: vec![0; object.len()],
            is_written: vec![false; object.len()],
            full: case.sink_full,
            rng: Rng::with_seed(case.scenario.seed ^ 2),
            is_stalled: false,
            refused: 0,
        };
        for range in &case.have {
            let range = range.start as usize..range.end as usize;
            store.bytes[range.clone()].copy_from_slice(&object[range]);
        }
        store
    }

    /// These bytes turn out to be there.
    pub fn put(&mut self, range: Range<u64>, object: &[u8]) {
        let range = range.start as usize..range.end as usize;
        self.bytes[range.clone()].copy_from_slice(&object[range]);
    }

    /// These bytes turn out wrong and may be written again.
    pub fn spoil(&mut self, range: Range<u64>) {
        let range = range.start as usize..range.end as usize;
        self.bytes[range.clone()].fill(0);
        self.is_written[range].fill(false);
    }
}

impl Sink for Store {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        if self.is_stalled || self.rng.f64() < self.full {
            self.refused += 1;
            return Err(Full);
        }
        let range = offset as usize..offset as usize + data.len();
        assert!(!self.is_written[range.clone()].contains(&true), "{range:?} is written twice");
        self.is_written[range].fill(true);
        self.bytes.write_at(offset, data)
    }
}

/// What no small transfer needs: an hour, and 4 million events.
const LIMITS: Limits = Limits { time: Time::from_millis(3_600_000), events: 4_000_000 };
