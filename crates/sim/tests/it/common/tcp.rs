//! One stream by user-level TCP over a simulated path, with disks that make both sides wait.

use super::driver::{self, drive, network, wake};
use fastrand::Rng;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::tcp::{Config, Receiver, ReceiverEvent, ReceiverStats, Sender, SenderEvent, SenderStats};
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{FlowId, Limits, Options, Sim};
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// A transfer and the path it takes.
#[derive(Clone, Debug)]
pub struct Case {
    pub scenario: Scenario,
    pub stream_len: u64,
    pub sender: Config,
    pub receiver: Config,
    pub controller: ControllerKind,
    /// How long reordered packets are held back at most, instead of the few packet times of the scenario.
    pub hold_ms: Option<u64>,
    pub outage_ms: Option<Range<u64>>,
    /// Share of reads that find the source not ready.
    pub source_misses: f64,
    /// Share of writes that find the sink full.
    pub sink_full: f64,
    pub options: Options,
}

/// What came of it.
pub type Done = driver::Done<SenderStats, ReceiverStats>;

pub type TcpSim = Sim<Sender<Disk>, Receiver<Store>>;

impl Case {
    /// 300 segments over a clean path of 100 Mb/s and 20 ms.
    pub fn plain() -> Case {
        Case {
            scenario: Scenario::new(100.0, 20.0),
            stream_len: 300 * 1448,
            sender: Config::default(),
            receiver: Config::default(),
            controller: ControllerKind::NewReno,
            hold_ms: None,
            outage_ms: None,
            source_misses: 0.0,
            sink_full: 0.0,
            // No seal refuses what came before.
            options: Options { deliver_replays: true, ..Options::default() },
        }
    }

    /// The same change to both sides.
    pub fn with_config(mut self, change: impl Fn(&mut Config)) -> Case {
        change(&mut self.sender);
        change(&mut self.receiver);
        self
    }

    /// The path and both ends of the transfer.
    pub fn build(&self) -> (TcpSim, FlowId) {
        let mut sim = network(&self.scenario, self.options, self.hold_ms, self.outage_ms.as_ref());
        let rtt = Duration::from_secs_f64(self.scenario.rtt_ms / 1e3);
        let control = ControlConfig {
            rate: Some(Rate::from_mbps(self.scenario.bottleneck_mbit)),
            paced: false,
            ..ControlConfig::new(self.sender.datagram_len(), rtt)
        };
        let rng = |stream| Rng::with_seed(self.scenario.seed ^ stream);
        let disk = Disk { misses: self.source_misses, rng: rng(1), is_wanted: false, is_stalled: false };
        let store = Store {
            taken: 0,
            is_equal: true,
            full: self.sink_full,
            rng: rng(2),
            is_stalled: false,
            refused: 0,
        };
        let sender = Sender::new(self.sender, self.stream_len, disk, self.controller.build(control));
        let id = sim.add_flow(sender, Receiver::new(self.receiver, store), Time::ZERO);
        (sim, id)
    }

    /// Run until both sides know that the receiver has everything.
    pub fn run(&self) -> Done {
        self.run_with(|_, _| {})
    }

    /// The same; `each` may interfere after every event.
    pub fn run_with(&self, mut each: impl FnMut(&mut TcpSim, FlowId)) -> Done {
        let (mut sim, id) = self.build();
        let complete = (SenderEvent::Complete, ReceiverEvent::Complete);
        let (outcome, sender_complete, receiver_complete) = drive(&mut sim, LIMITS, complete, |sim| {
            serve_disk(sim, id);
            each(sim, id);
        });
        let (sender, mut receiver) = sim.remove_flow(id);
        let store = receiver.sink_mut();
        let (is_equal, refused) = (store.is_equal && store.taken == self.stream_len, store.refused);
        Done {
            outcome,
            sender: sender.stats(),
            receiver: receiver.stats(),
            sender_complete,
            receiver_complete,
            is_equal,
            refused,
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
        assert_eq!(done.sender.bytes_acked, self.stream_len, "{self}");
    }

    /// Payload that passed in a second, 10⁶ bit/s.
    pub fn mbps(&self, done: &Done) -> f64 {
        self.stream_len as f64 * 8e-6 / done.outcome.time.as_secs_f64()
    }
}

/// Let the disk become ready a little after it was found wanting.
pub fn serve_disk(sim: &mut TcpSim, id: FlowId) {
    if std::mem::take(&mut sim.endpoints_mut(id).0.source_mut().is_wanted) {
        wake(sim, id);
    }
}

/// All that is needed to run it again.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{self:#?}\nas a scenario:\n{}", self.scenario)
    }
}

/// The stream's byte at a place.
fn byte_at(place: u64) -> u8 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The stream on a disk that is not always ready.
#[derive(Debug)]
pub struct Disk {
    misses: f64,
    rng: Rng,
    /// It was not ready, and is to be waited for.
    is_wanted: bool,
    /// Not ready at all while set.
    pub is_stalled: bool,
}

impl Source for Disk {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        if self.is_stalled || self.misses > 0.0 && self.rng.f64() < self.misses {
            self.is_wanted = true;
            return Err(NotReady);
        }
        (offset..).zip(buf).for_each(|(place, byte)| *byte = byte_at(place));
        Ok(())
    }
}

/// Compares what it is given, byte after byte in order, and is full now and then.
#[derive(Debug)]
pub struct Store {
    pub taken: u64,
    is_equal: bool,
    full: f64,
    rng: Rng,
    /// Takes nothing while set.
    pub is_stalled: bool,
    refused: u64,
}

impl Sink for Store {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        assert_eq!(offset, self.taken, "bytes come in order");
        if self.is_stalled || self.full > 0.0 && self.rng.f64() < self.full {
            self.refused += 1;
            return Err(Full);
        }
        self.is_equal &= (offset..).zip(data).all(|(place, byte)| *byte == byte_at(place));
        self.taken += data.len() as u64;
        Ok(())
    }
}

/// A day of virtual time: timeouts double up to a minute each, on the worst of paths again and again.
const LIMITS: Limits = Limits { time: Time::from_millis(86_400_000), events: 20_000_000 };
