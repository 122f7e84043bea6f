//! Queues that choose, with real packets in them.

use super::measure;
use super::probe::{Probe, Received, Stream, median};
use crate::watched::{Verdict, check, side_by_side, start};
use longhaul_lab::{DirectionCounters, Scenario, Side, TcpSettings, tcp};
use longhaul_sim::queue::QueueDiscipline;
use std::thread;
use std::time::Duration;

/// A flow of a hundredth of the rate beside one that sends too much: fair queueing keeps it out of the other's queue.
#[test]
fn fair_queueing_isolates_a_small_flow() {
    measure(|| {
        let [fair, tail] =
            side_by_side([QueueDiscipline::Fair, QueueDiscipline::DropTail], small_beside_bulk)?;
        let [small, bulk] = fair;
        check(small.lost == 0 && bulk.lost > 0, || format!("lost {} and {}", small.lost, bulk.lost))?;
        check(small.wait_ms * 10.0 < bulk.wait_ms, || {
            format!("it waited {:.1} ms, the other {:.1} ms", small.wait_ms, bulk.wait_ms)
        })?;
        let [small, bulk] = tail;
        check(small.wait_ms * 2.0 > bulk.wait_ms, || {
            format!("drop-tail isolates: {:.1} ms, the other {:.1} ms", small.wait_ms, bulk.wait_ms)
        })
    });
}

/// A kernel TCP fills a queue of four bandwidth-delay products unless CoDel keeps it short, which costs little of the rate.
#[test]
fn codel_keeps_the_queue_short() {
    measure(|| {
        let queues = [
            (QueueDiscipline::DropTail, false),
            (QueueDiscipline::CoDel, false),
            (QueueDiscipline::CoDel, true),
        ];
        let [tail, plain, with_super_packets] =
            side_by_side(queues, |(queue, super_packets)| tcp_over(queue, super_packets))?;
        for (mbit, codel) in [plain, with_super_packets] {
            let means = [codel, tail.1].map(|way| way.waiting_bytes.mean_bytes);
            check(means[0] * 3.0 < means[1], || format!("{} bytes wait instead of {}", means[0], means[1]))?;
            check(codel.dropped_queue > 0, || format!("{codel:?}"))?;
            check(mbit > 0.7 * BOTTLENECK_MBIT, || format!("{mbit} Mb/s"))?;
        }
        Ok(())
    });
}

/// A kernel TCP with `tcp_ecn=1` is told by marks, with one packet at a time and with many at once, and loses nothing.
#[test]
fn marks_reach_the_kernel_and_take_the_place_of_drops() {
    measure(|| {
        let queues = [QueueDiscipline::CoDelEcn, QueueDiscipline::Step, QueueDiscipline::DualPi2]
            .map(|queue| [(queue, false), (queue, true)]);
        side_by_side(queues, |both| {
            side_by_side(both, |(queue, super_packets)| marked_over(queue, super_packets))
        })
        .map(drop)
    });
}

fn marked_over(queue_discipline: QueueDiscipline, super_packets: bool) -> Verdict {
    let mark_ms = (queue_discipline == QueueDiscipline::Step).then_some(5.0);
    let lab = start(&Scenario { queue_discipline, mark_ms, super_packets, queue_bdp: Some(4.0), ..path() })?;
    let ecn = TcpSettings { ecn: Some(true), ..TcpSettings::default() };
    for side in [Side::Left, Side::Right] {
        lab.set_tcp(side, &ecn).map_err(|error| error.to_string())?;
    }
    let run = tcp::transfer(&lab, 10_000_000, "cubic").map_err(|error| error.to_string())?;
    let way = lab.counters().left_to_right;
    check(way.marked > 0 && way.dropped_queue == 0, || format!("{queue_discipline}: {way:?}"))?;
    // A step ends the kernel's slow start early, and its CUBIC gives up as much for a mark as for a loss.
    check(run.mbps > 0.4 * BOTTLENECK_MBIT, || format!("{queue_discipline}: {} Mb/s", run.mbps))
}

/// What became of a flow.
struct Fared {
    lost: usize,
    /// In the queue, the median.
    wait_ms: f64,
}

fn small_beside_bulk(queue_discipline: QueueDiscipline) -> Result<[Fared; 2], String> {
    let lab = start(&Scenario { queue_discipline, queue_bdp: Some(4.0), ..path() })?;
    let [small, bulk] = [Probe::new(&lab, Side::Left)?, Probe::new(&lab, Side::Left)?];
    let small_stream = Stream { packets: 200, packet_bytes: 200, gap: Duration::from_millis(8) };
    let bulk_stream = Stream::at_rate(1.5 * BOTTLENECK_MBIT, 1500, 1.6);
    let received = thread::scope(|scope| {
        let runs = [(&small, small_stream), (&bulk, bulk_stream)]
            .map(|(probe, stream)| scope.spawn(move || probe.run(stream)));
        runs.map(|run| run.join().unwrap_or_else(|_| Err("panicked".into())))
    });
    let [small, bulk] = received;
    Ok([fared(small_stream, small?), fared(bulk_stream, bulk?)])
}

fn fared(stream: Stream, received: Vec<Received>) -> Fared {
    let delay_ms = median(received.iter().map(Received::delay_ms).collect());
    Fared { lost: stream.packets as usize - received.len(), wait_ms: delay_ms - path().rtt_ms / 2.0 }
}

fn tcp_over(
    queue_discipline: QueueDiscipline,
    super_packets: bool,
) -> Result<(f64, DirectionCounters), String> {
    let lab = start(&Scenario { queue_discipline, super_packets, queue_bdp: Some(4.0), ..path() })?;
    let run = tcp::transfer(&lab, 10_000_000, "cubic").map_err(|error| error.to_string())?;
    Ok((run.mbps, lab.counters().left_to_right))
}

fn path() -> Scenario {
    Scenario::new(BOTTLENECK_MBIT, 40.0)
}

const BOTTLENECK_MBIT: f64 = 20.0;
