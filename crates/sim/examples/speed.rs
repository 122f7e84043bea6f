//! How many events a second the simulator handles: `cargo run --release -p longhaul-sim --example speed`.
//!
//! A raw flow of full packets with an answer to every second one, and object transfers, over long fat paths.

use longhaul_proto::control::ControllerKind;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::{Rate, Time};
use longhaul_sim::flow::{ENDLESS, FlowSpec, ObjectFlow, Protocol};
use longhaul_sim::path::PathConfig;
use longhaul_sim::queue::QueueDiscipline;
use longhaul_sim::scenario::Scenario;
use longhaul_sim::trace::TraceMode;
use longhaul_sim::traffic::{Arrivals, Traffic};
use longhaul_sim::workload::Workload;
use longhaul_sim::{Limits, Options, Outcome, Sim};
use std::time::{Duration, Instant};

fn main() {
    println!(
        "{:<44} {:>10} {:>8} {:>9} {:>9} {:>9}",
        "what", "packets", "seconds", "packets/s", "events/s", "simulated"
    );
    for trace in [TraceMode::Off, TraceMode::Hash] {
        for flows in [1, 100] {
            raw(flows, trace);
        }
    }
    for (mbit, rtt_ms, loss) in [(100.0, 65.0, 0.0), (1000.0, 65.0, 0.01), (10_000.0, 100.0, 0.0)] {
        let rate = Some(Rate::from_mbps(mbit * 0.97));
        let fixed = Protocol::Object(ObjectFlow { rate, ..ObjectFlow::new(ControllerKind::Fixed) });
        flows(&Scenario { loss, ..Scenario::new(mbit, rtt_ms) }, &[fixed], 1);
    }
    let path = Scenario::new(1000.0, 65.0);
    let adaptive = Protocol::Object(ObjectFlow::new(ControllerKind::Adaptive));
    let tcp: Protocol = "tcp:cubic".parse().expect("there is one");
    flows(&path, &[adaptive.clone()], 1);
    flows(&path, &[tcp.clone()], 1);
    flows(&path, &[adaptive.clone(), tcp.clone()], 1);
    for queue_discipline in QueueDiscipline::ALL {
        flows(&Scenario { queue_discipline, ..path.clone() }, &[adaptive.clone(), tcp.clone()], 100);
    }
    flows(&Scenario::new(10_000.0, 65.0), &[adaptive, tcp], 5000);
}

fn raw(flows: u64, trace: TraceMode) {
    let scenario = Scenario { nic_mbit: Some(10_000.0), ..Scenario::new(10_000.0, 100.0) };
    let options = Options { trace, ..Options::default() };
    let mut sim = Sim::with_path(PathConfig::new(&scenario), options);
    for n in 0..flows {
        let gap = Duration::from_nanos(1250 * flows);
        sim.add_flow(
            Stream { gap, count: 2_000_000 / flows, ..Stream::default() },
            Stream::default(),
            Time(n * 1250),
        );
    }
    measure(&format!("{flows} raw flow(s), trace {trace:?}"), sim);
}

/// So many endless flows of each protocol, until some 10⁶ packets have been sent.
fn flows(scenario: &Scenario, protocols: &[Protocol], count: u64) {
    let traffic = protocols.iter().map(|protocol| {
        let together = Arrivals::Staggered { from: Time::ZERO, gap: Duration::from_micros(100), count };
        Traffic::new(FlowSpec::new(protocol.clone(), ENDLESS), together)
    });
    let seconds = 1e6 * 12e3 / (scenario.bottleneck_mbit * 1e6);
    let until = Time::ZERO + Duration::from_secs_f64(seconds.max(1.0));
    let workload = Workload::over(scenario, traffic.collect(), until).expect("the scenario is valid");
    let start = Instant::now();
    let outcome = workload.run().outcome;
    let names: Vec<String> = protocols.iter().map(Protocol::to_string).collect();
    let loss = if scenario.loss > 0.0 { format!(", loss {}", scenario.loss) } else { String::new() };
    let queue = scenario.queue_discipline;
    let what = format!("{count} × {}, {} Mb/s {queue}{loss}", names.join(" + "), scenario.bottleneck_mbit);
    print(&what, &outcome, start.elapsed());
}

fn measure<L: Endpoint, R: Endpoint>(what: &str, mut sim: Sim<L, R>) {
    let start = Instant::now();
    let end = sim.run(Limits::default(), |_| false);
    let span = start.elapsed();
    print(what, &sim.outcome(end), span);
}

fn print(what: &str, outcome: &Outcome, span: Duration) {
    let seconds = span.as_secs_f64();
    let packets = outcome.forward.counters.sent + outcome.reverse.counters.sent;
    println!(
        "{what:<44} {packets:>10} {seconds:>8.3} {:>7.2} M {:>7.2} M {:>7.1} s",
        packets as f64 / seconds / 1e6,
        outcome.events as f64 / seconds / 1e6,
        outcome.time.as_secs_f64()
    );
}

/// Sends full packets evenly, and answers every second that comes in.
#[derive(Debug, Default)]
struct Stream {
    gap: Duration,
    count: u64,
    sent: u64,
    due: Time,
    received: u64,
    owed: u64,
}

impl Endpoint for Stream {
    type Event = ();

    fn handle_datagram(&mut self, _: Time, _: Arrival, _: &[u8]) {
        self.received += 1;
        self.owed += u64::from(self.count == 0 && self.received.is_multiple_of(2));
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, _: &mut [u8]) -> Option<Transmit> {
        let len = if self.owed > 0 {
            self.owed -= 1;
            60
        } else if self.sent < self.count && now >= self.due {
            self.due = now + self.gap;
            1441
        } else {
            return None;
        };
        self.sent += 1;
        Some(Transmit { number: self.sent, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.sent < self.count).then_some(self.due)
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}
