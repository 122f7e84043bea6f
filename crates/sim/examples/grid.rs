//! The default controller over a grid of paths: one line a path, then what the grid amounts to.
//!
//! `grid [rate=10,100,1000,10000] [rtt=1,10,100,300] [loss=0,0.001,0.01,0.05] [queue=0.1,0.5,1,2] [jitter=0]
//! [reorder=0] [ahead=0] [burst=1] [control=adaptive] [seconds=20] [threads=2] [seed=1]
//! [trace=SECONDS]`: rates in Mb/s, round trips
//! and jitter in ms, loss as a share, queues in bandwidth-delay products, the receiver's clock ahead by seconds.

#[path = "../tests/it/common/bulk.rs"]
mod bulk;

use bulk::{Bulk, Figures};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::parallel;
use longhaul_sim::scenario::Scenario;
use std::collections::BTreeMap;
use std::time::Duration;

fn main() {
    let args = Args::read();
    let cells = args.cells();
    let run_and_tell = |cell: &Bulk| {
        let figures = run(cell, args.numbers("trace", "0")[0]);
        println!("{}", line(cell, &figures));
        figures
    };
    let threads = args.numbers("threads", "2")[0] as usize;
    let results = parallel::run_all(&cells, threads, run_and_tell, |_| ());
    let done: Vec<(&Bulk, Figures)> = cells.iter().zip(results).collect();
    summarise(&done);
}

/// Run it, with a line about the sender every `trace_s` seconds if that is not 0.
fn run(cell: &Bulk, trace_s: f64) -> Figures {
    let (mut told, mut acked) = (Time::ZERO, 0);
    cell.run_with(|sim, id| {
        let span = sim.now().since(told).as_secs_f64();
        if trace_s > 0.0 && span >= trace_s {
            let sender = sim.left(id);
            let mbps = (sender.acked() - acked) as f64 * f64::from(bulk::PACKET_LEN) * 8e-6 / span;
            println!("{} {:?}", bulk::line_of(sim.now(), &sender.snapshot(), mbps), sender.blocked());
            (told, acked) = (sim.now(), sender.acked());
        }
    })
}

fn line(cell: &Bulk, figures: &Figures) -> String {
    let path = &cell.scenario;
    format!(
        "{:6} Mb/s {:4} ms loss {:5.3} queue {:4.2} jitter {} : goodput {:5.1} % waste {:6.2} % (over loss {:+6.2}) \
         queue {:5.1} % BDP {:7.2} ms {}",
        path.bottleneck_mbit,
        path.rtt_ms,
        path.loss,
        path.queue_bdp.unwrap_or(1.0),
        path.jitter_ms,
        100.0 * figures.share,
        100.0 * figures.waste,
        100.0 * waste_over(cell, figures),
        100.0 * figures.queue_bdp,
        figures.queue_ms,
        faults(cell, figures),
    )
}

/// Waste beyond what the loss alone makes necessary: p/(1−p).
fn waste_over(cell: &Bulk, figures: &Figures) -> f64 {
    figures.waste - cell.scenario.loss / (1.0 - cell.scenario.loss)
}

/// The bars that a path misses.
fn faults(cell: &Bulk, figures: &Figures) -> String {
    let bars = [
        (figures.share < 0.8, "SLOW"),
        (waste_over(cell, figures) > 0.02, "WASTE"),
        (figures.queue_bdp > 0.3 && figures.queue_ms > 1.0, "QUEUE"),
    ];
    bars.iter().filter(|(missed, _)| *missed).map(|(_, name)| *name).collect::<Vec<_>>().join(" ")
}

fn summarise(done: &[(&Bulk, Figures)]) {
    let mut sorted: Vec<_> = done.iter().collect();
    sorted.sort_by(|a, b| a.1.share.total_cmp(&b.1.share));
    let Some(middle) = sorted.get(sorted.len() / 2) else { return };
    println!("\n{} paths: median {:.1} %; the slowest:", done.len(), 100.0 * middle.1.share);
    sorted.iter().take(8).for_each(|(cell, figures)| println!("  {}", line(cell, figures)));
    sorted.sort_by(|a, b| waste_over(b.0, &b.1).total_cmp(&waste_over(a.0, &a.1)));
    println!("most waste:");
    sorted.iter().take(5).for_each(|(cell, figures)| println!("  {}", line(cell, figures)));
    sorted.sort_by(|a, b| b.1.queue_bdp.total_cmp(&a.1.queue_bdp));
    println!("longest queues:");
    let long = sorted.iter().filter(|(_, figures)| figures.queue_ms > 1.0);
    long.take(5).for_each(|(cell, figures)| println!("  {}", line(cell, figures)));
    let mut missed = BTreeMap::new();
    for (cell, figures) in done {
        for fault in faults(cell, figures).split_whitespace() {
            *missed.entry(fault.to_owned()).or_insert(0) += 1;
        }
    }
    println!("bars missed: {missed:?}");
}

struct Args(BTreeMap<String, String>);

impl Args {
    fn read() -> Args {
        let pairs = std::env::args().skip(1).map(|arg| {
            let (name, value) = arg.split_once('=').expect("arguments are name=value");
            (name.to_owned(), value.to_owned())
        });
        Args(pairs.collect())
    }

    fn text<'a>(&'a self, name: &str, default: &'a str) -> &'a str {
        self.0.get(name).map_or(default, String::as_str)
    }

    fn numbers(&self, name: &str, default: &str) -> Vec<f64> {
        self.text(name, default).split(',').map(|n| n.parse().expect("a number")).collect()
    }

    fn cells(&self) -> Vec<Bulk> {
        let kind: ControllerKind = self.text("control", "adaptive").parse().expect("a controller");
        let mut cells = vec![];
        for rate in self.numbers("rate", "10,100,1000,10000") {
            for rtt in self.numbers("rtt", "1,10,100,300") {
                for loss in self.numbers("loss", "0,0.001,0.01,0.05") {
                    for queue in self.numbers("queue", "0.1,0.5,1,2") {
                        for jitter in self.numbers("jitter", "0") {
                            let scenario = Scenario {
                                loss,
                                queue_bdp: Some(queue),
                                jitter_ms: jitter,
                                reorder: self.numbers("reorder", "0")[0],
                                burst: Some(self.numbers("burst", "1")[0]).filter(|burst| *burst > 1.0),
                                seed: self.numbers("seed", "1")[0] as u64,
                                ..Scenario::new(rate, rtt)
                            };
                            let ahead = Duration::from_secs_f64(self.numbers("ahead", "0")[0]);
                            let seconds = self.numbers("seconds", "20")[0];
                            cells.push(Bulk { kind, clock_ahead: ahead, ..Bulk::new(scenario, seconds) });
                        }
                    }
                }
            }
        }
        cells
    }
}
