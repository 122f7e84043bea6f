//! How flows share a path: what each gets, Jain's index among those of the same kind, the mean queue.
//!
//! `share FLOWS [rate=100] [rtt=50] [queue=1] [loss=0] [jitter=0] [policer=MBIT] [from=30] [to=60] [trace=SECONDS] [seed=1]`,
//! where FLOWS is a list of `KIND[xCOUNT][@START[-STOP]][+EXTRA_MS][/STAGGER]`: `adaptivex4/2` are four that start
//! 2 s apart, `background` is the default controller told to yield, `cubic@5+15` starts at 5 s with 30 ms more of
//! round trip, `tcp:cubic` is a TCP.

#[path = "../tests/it/common/bulk.rs"]
mod bulk;

use bulk::{Member, Shared};
use longhaul_sim::scenario::{Scenario, Step};
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: f64| {
        let value = args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='));
        value.map_or(default, |text| text.parse().expect("a number"))
    };
    let flows = args.first().expect("which flows");
    let groups: Vec<Vec<Member>> = flows.split(',').map(group).collect();
    let policer_mbit = Some(number("policer", 0.0)).filter(|mbit| *mbit > 0.0);
    let scenario = Scenario {
        loss: number("loss", 0.0),
        jitter_ms: number("jitter", 0.0),
        queue_bdp: Some(number("queue", 1.0)),
        seed: number("seed", 1.0) as u64,
        policer_mbit,
        policer_burst_ms: policer_mbit.map(|_| 100.0),
        steps: if number("newrtt", 0.0) > 0.0 {
            vec![Step { at_s: number("at", 5.0), rtt_ms: Some(number("newrtt", 0.0)), ..Step::default() }]
        } else {
            vec![]
        },
        ..Scenario::new(number("rate", 100.0), number("rtt", 50.0))
    };
    let trace = Some(number("trace", 0.0)).filter(|every| *every > 0.0).map(Duration::from_secs_f64);
    let shared =
        Shared { trace, ..Shared::new(scenario, groups.concat(), number("from", 30.0), number("to", 60.0)) };
    let shares = shared.run();
    print!("{}:", args.join(" "));
    let mut at = 0;
    for group in &groups {
        let range = at..at + group.len();
        at = range.end;
        let each: Vec<String> =
            shares.each[range.clone()].iter().map(|share| format!("{:.1}", 100.0 * share)).collect();
        print!("  [{}] % Jain {:.3}", each.join(" "), shares.jain(range));
    }
    println!(
        "  sum {:.1} %  queue {:.1} % BDP  lost {:.1} %",
        100.0 * shares.sum(),
        100.0 * shares.queue_bdp,
        100.0 * shares.loss
    );
}

fn group(text: &str) -> Vec<Member> {
    let (text, stagger) = split(text, '/');
    let (text, extra_ms) = split(text, '+');
    let (text, times) = text.split_once('@').map_or((text, None), |(text, times)| (text, Some(times)));
    let (start, stop) = times.map_or((0.0, None), |times| match times.split_once('-') {
        Some((start, stop)) => (parse(start), Some(parse(stop))),
        None => (parse(times), None),
    });
    let (name, count) = text.split_once('x').map_or((text, 1.0), |(name, count)| (name, parse(count)));
    let member = |start_s| match name {
        "background" => Member::background(start_s),
        _ => Member::new(name, start_s),
    };
    (0..count as u32)
        .map(|i| Member {
            extra: Duration::from_secs_f64(extra_ms / 1e3),
            stop: stop.map_or(Duration::MAX, Duration::from_secs_f64),
            ..member(start + stagger * f64::from(i))
        })
        .collect()
}

fn split(text: &str, mark: char) -> (&str, f64) {
    text.split_once(mark).map_or((text, 0.0), |(text, number)| (text, parse(number)))
}

fn parse(text: &str) -> f64 {
    text.parse().expect("a number")
}
