//! One object over several paths at a time: each simulated as a flow of its own, whose ends are one sender and one receiver.

use fastrand::Rng;
use longhaul_proto::control::{ControlConfig, ControllerKind};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::object::{
    AckKind, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, Sender, SenderConfig, SenderEvent,
    SenderStats, Shape,
};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::link::{LinkChange, LinkStep};
use longhaul_sim::path::PathConfig;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::{Limits, Options, Placement, Route, Side, Sim};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// An endpoint that has several paths.
trait ManyPaths: Endpoint {
    fn over<T>(&mut self, path: usize, act: impl FnOnce(&mut Self) -> T) -> T;
}

impl ManyPaths for Sender<Vec<u8>> {
    fn over<T>(&mut self, path: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        self.on_path(path, act)
    }
}

impl ManyPaths for Receiver<Vec<u8>> {
    fn over<T>(&mut self, path: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        self.on_path(path, act)
    }
}

/// What a host does over one path. Where another path gives it something to do, it notices soon.
struct Over<E> {
    shared: Rc<RefCell<E>>,
    path: usize,
    polled: Time,
}

impl<E: ManyPaths> Over<E> {
    fn new(shared: &Rc<RefCell<E>>, path: usize) -> Over<E> {
        Over { shared: shared.clone(), path, polled: Time::ZERO }
    }

    fn act<T>(&self, act: impl FnOnce(&mut E) -> T) -> T {
        self.shared.borrow_mut().over(self.path, act)
    }
}

impl<E: ManyPaths> Endpoint for Over<E> {
    type Event = E::Event;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        self.act(|end| end.handle_datagram(now, arrival, body));
    }

    fn handle_timeout(&mut self, now: Time) {
        self.act(|end| {
            if end.poll_timeout().is_some_and(|at| now >= at) {
                end.handle_timeout(now);
            }
        });
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        self.polled = now;
        self.act(|end| end.poll_transmit(now, buf))
    }

    fn poll_timeout(&self) -> Option<Time> {
        let soon = self.polled + Duration::from_millis(1);
        Some(self.act(|end| end.poll_timeout()).map_or(soon, |at| at.min(soon)))
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        self.shared.borrow_mut().poll_event()
    }

    fn ecn(&self) -> Ecn {
        self.act(|end| end.ecn())
    }
}

/// A path, and when nothing passes it.
struct Way {
    scenario: Scenario,
    outages: Vec<std::ops::Range<Duration>>,
}

impl Way {
    fn new(bottleneck_mbit: f64, rtt_ms: f64) -> Way {
        Way { scenario: Scenario::new(bottleneck_mbit, rtt_ms), outages: vec![] }
    }

    fn losing(mut self, loss: f64) -> Way {
        self.scenario.loss = loss;
        self
    }

    fn out(mut self, from_s: f64, to_s: f64) -> Way {
        self.outages.push(Duration::from_secs_f64(from_s)..Duration::from_secs_f64(to_s));
        self
    }

    fn rtt(&self) -> Duration {
        Duration::from_secs_f64(self.scenario.rtt_ms / 1e3)
    }

    fn controller(&self) -> Box<dyn longhaul_proto::control::Controller> {
        ControllerKind::default().build(ControlConfig::new(PACKET_LEN + 38, self.rtt()))
    }
}

struct Moved {
    seconds: f64,
    stats: SenderStats,
}

impl Moved {
    fn waste(&self) -> f64 {
        (self.stats.packets_sent - self.stats.packets_required) as f64 / self.stats.packets_required as f64
    }
}

const PACKET_LEN: u64 = 1400;

/// Move an object over all of these paths at a time; it must come in as it was.
fn transfer(ways: &[Way], object_len: u64, rate_cap: Option<Rate>) -> Moved {
    let mut object = vec![0; object_len as usize];
    Rng::with_seed(object_len).fill(&mut object);
    let shape = Shape { object_len, packet_len: PACKET_LEN as u32 };
    let config = SenderConfig {
        shape,
        class: 0,
        selector: SelectorKind::default(),
        rate_cap,
        rtt: ways[0].rtt(),
        have: Ranges::new(),
        ecn: Ecn::NotEct,
        seed: 1,
    };
    let mut sender = Sender::new(config, object.clone(), ways[0].controller());
    for way in &ways[1..] {
        sender.add_path(way.rtt(), way.controller());
    }
    let config = ReceiverConfig {
        shape,
        class: 0,
        ack: AckKind::Every(DEFAULT_EVERY).policy(ways[0].rtt()),
        have: Ranges::new(),
        max_body: PACKET_LEN as usize,
    };
    let receiver = Receiver::new(config, vec![0; object_len as usize]);
    let (sender, receiver) = (Rc::new(RefCell::new(sender)), Rc::new(RefCell::new(receiver)));
    let mut sim = Sim::with_path(PathConfig::new(&ways[0].scenario), Options::default());
    let mut hops: Vec<_> = sim.hops().collect();
    hops.extend(ways[1..].iter().map(|way| sim.add_hop(&PathConfig::new(&way.scenario))));
    for (path, (way, hop)) in ways.iter().zip(hops).enumerate() {
        for span in &way.outages {
            let change = LinkChange::Outage(span.end - span.start);
            Side::BOTH.into_iter().for_each(|side| {
                sim.schedule(hop, side, LinkStep { at: Time::ZERO + span.start, change });
            });
        }
        let placement = Placement { route: Route::over(hop), ..Placement::at(Time::ZERO) };
        sim.place_flow(Over::new(&sender, path), Over::new(&receiver, path), &placement);
    }
    let limits = Limits { time: Time::ZERO + Duration::from_secs(300), ..Limits::default() };
    sim.run(limits, |sim| {
        sim.events()
            .iter()
            .any(|event| matches!(event, longhaul_sim::FlowEvent::Left(_, SenderEvent::Complete)))
    });
    let seconds = sim.now().since(Time::ZERO).as_secs_f64();
    assert_eq!(sender.borrow().acked(), shape.packets(), "after {seconds} s");
    assert!(*receiver.borrow_mut().sink_mut() == object, "other bytes than were sent");
    let stats = sender.borrow().stats();
    Moved { seconds, stats }
}

/// The seconds that perfect flows over all paths would take, none of which carries anything while it is out.
fn ideal_seconds(ways: &[Way], object_len: u64) -> f64 {
    let step = Duration::from_millis(1);
    let (mut at, mut left) = (Duration::ZERO, object_len as f64 * 8.0 * FRAMED);
    while left > 0.0 {
        let up = ways.iter().filter(|way| way.outages.iter().all(|out| !out.contains(&at)));
        left -= up.map(|way| way.scenario.bottleneck_mbit * 1e3).sum::<f64>();
        at += step;
    }
    at.as_secs_f64()
}

/// Bytes of a packet on the wire, beside those of the object that it carries.
const FRAMED: f64 = (PACKET_LEN + 66) as f64 / PACKET_LEN as f64;

#[test]
fn two_paths_carry_nearly_their_sum() {
    let len = 60_000_000;
    for ways in [
        [Way::new(60.0, 20.0), Way::new(40.0, 80.0)],
        [Way::new(40.0, 80.0), Way::new(60.0, 20.0)],
        [Way::new(60.0, 20.0).losing(0.01), Way::new(40.0, 80.0)],
        [Way::new(60.0, 20.0), Way::new(40.0, 80.0).losing(0.01)],
    ] {
        let moved = transfer(&ways, len, None);
        let share = ideal_seconds(&ways, len) / moved.seconds;
        println!("{:.1} % of the sum, waste {:.4}", 100.0 * share, moved.waste());
        let lost = ways.iter().map(|way| way.scenario.loss).fold(0.0, f64::max);
        // Each path alone wastes nothing but what it loses.
        let waste_max = 0.001 + 2.0 * lost;
        assert!(share > 0.95 && moved.waste() < waste_max, "{share} of the sum, waste {}", moved.waste());
    }
}

#[test]
fn a_path_that_dies_hands_back_what_it_carried_and_joins_in_again() {
    let len = 60_000_000;
    for (case, ways) in [
        ("the first", [Way::new(60.0, 20.0).out(2.0, 4.0), Way::new(40.0, 80.0)]),
        ("the second", [Way::new(60.0, 20.0), Way::new(40.0, 80.0).out(2.0, 4.0)]),
        ("the first for good", [Way::new(60.0, 20.0).out(2.0, 300.0), Way::new(40.0, 80.0)]),
        ("the second from the start", [Way::new(60.0, 20.0), Way::new(40.0, 80.0).out(0.0, 300.0)]),
        ("one after the other", [Way::new(60.0, 20.0).out(1.0, 3.0), Way::new(40.0, 80.0).out(4.0, 6.0)]),
        ("both", [Way::new(60.0, 20.0).out(1.0, 4.0), Way::new(40.0, 80.0).out(2.0, 3.0)]),
    ] {
        let moved = transfer(&ways, len, None);
        let ideal = ideal_seconds(&ways, len);
        println!("{case}: {:.2} s, ideally {ideal:.2}; waste {:.4}", moved.seconds, moved.waste());
        // A path that is back is tried within a second, and takes another to be at speed.
        let outages: usize = ways.iter().map(|way| way.outages.len()).sum();
        let late = 1.5 * outages as f64;
        assert!(moved.seconds < 1.1 * ideal + late, "{case}: {} s, ideally {ideal}", moved.seconds);
        assert!(moved.waste() < 0.03, "{case}: waste {}", moved.waste());
    }
}

#[test]
fn an_object_arrives_whatever_befalls_its_paths() {
    for seed in 0..150 {
        let mut rng = Rng::with_seed(seed);
        let ways: Vec<Way> = (0..rng.usize(1..5))
            .map(|_| {
                let mut way = Way::new(10f64.powf(2.0 * rng.f64()), [0.0, 1.0, 20.0, 200.0][rng.usize(..4)]);
                let bad = |rng: &mut Rng, most: f64| if rng.bool() { 0.0 } else { most * rng.f64() };
                way.scenario.loss = bad(&mut rng, 0.3);
                way.scenario.loss_reverse = bad(&mut rng, 0.5);
                way.scenario.reorder = bad(&mut rng, 0.3);
                way.scenario.duplicate = bad(&mut rng, 0.3);
                way.scenario.jitter_ms = bad(&mut rng, 20.0);
                way.scenario.seed = rng.u64(..);
                if rng.bool() {
                    let from = rng.f64();
                    way = way.out(from, from + 2.0 * rng.f64());
                }
                way
            })
            .collect();
        let cap = rng.bool().then(|| Rate::from_mbps(1.0 + 20.0 * rng.f64()));
        transfer(&ways, rng.u64(1..300_000), cap);
    }
}

#[test]
fn a_rate_bounds_all_paths_together() {
    let len = 20_000_000;
    for cap in [10.0, 50.0, 80.0] {
        let ways = [Way::new(60.0, 20.0), Way::new(40.0, 80.0)];
        let moved = transfer(&ways, len, Some(Rate::from_mbps(cap)));
        let carried = len as f64 * 8e-6 * FRAMED / moved.seconds;
        assert!((0.88 * cap..1.02 * cap).contains(&carried), "{carried} Mb/s under {cap}");
    }
}
