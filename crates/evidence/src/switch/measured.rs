//! The transfers as copies by the program, beside flows of the kernel's TCP.

use super::{Case, Extent, Finish, MODE_OBJECT, MODE_TCP, STOP_FACTOR, STRIPES, TICK, Transfer, Way, path};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copied::Copied;
use crate::lab::copies::Copies;
use crate::lab::flows;
use crate::sim::payload_rate;
use longhaul_lab::variants::Variant;
use longhaul_lab::{Lab, Side};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::units::Time;
use longhaul_sim::flow::{ENDLESS, FlowSpec};
use longhaul_sim::traffic::{Arrivals, Traffic};
use std::time::{Duration, Instant};

impl Way {
    fn args(self) -> Vec<String> {
        let streams = STRIPES.to_string();
        let args: &[&str] = match self {
            Way::Object => &["--transport", "object"],
            Way::Tcp => &["--transport", "stripe", "--streams", &streams],
            Way::Switch => &["--control", "switch", "--streams", &streams],
        };
        args.iter().map(|&arg| arg.to_owned()).collect()
    }
}

/// All of them, path by path.
pub(super) fn run(
    bench: &Bench<'_>,
    transfers: &[Transfer],
    extent: &Extent,
) -> Result<Vec<Finish>, ExperimentError> {
    bench.expect_runs(transfers.len());
    let cubic = Variant::require(ControllerKind::Cubic.name())?;
    let mut finishes = vec![];
    for of_rate in transfers.chunk_by(|a, b| a.case.rate_mbit == b.case.rate_mbit) {
        let scenario = path(of_rate[0].case.rate_mbit);
        let lab = bench.lab(&scenario)?;
        let copies = Copies::start(bench, &lab, payload_rate(&scenario).bytes_in(extent.length))?;
        let limit = extent.length * STOP_FACTOR;
        for transfer in of_rate {
            let args = transfer.way.args();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let rivals = || others(bench, &lab, copies.port(), cubic.name(), transfer, extent);
            let copied = copies.run_beside(bench, &lab, &args, limit, rivals)?;
            finishes.push(copied.map_or_else(|_| Finish::never(limit), Finish::of));
        }
    }
    Ok(finishes)
}

/// Once data arrives, let the others come and go.
fn others(
    bench: &Bench<'_>,
    lab: &Lab,
    port: u16,
    control: &str,
    transfer: &Transfer,
    extent: &Extent,
) -> Result<(), ExperimentError> {
    let Case { rivals, until, .. } = transfer.case;
    lab.watch_ports(Side::Right, &[port]);
    let began = Instant::now();
    while lab.bytes_to(Side::Right, port) < DATA_BYTES && began.elapsed() < DATA_TIME_MAX {
        bench.wait(TICK / 10)?;
    }
    bench.wait(extent.from)?;
    let arrivals = Arrivals::Together { at: Time::ZERO, count: rivals };
    let traffic = Traffic::new(FlowSpec::tcp(ControllerKind::Cubic, ENDLESS), arrivals);
    let flows = lab.flows(control, vec![traffic], transfer.seed)?;
    bench.wait(until - extent.from)?;
    flows::check(&flows)
}

impl Finish {
    fn of(copied: Copied) -> Finish {
        let ticks = (copied.seconds / TICK.as_secs_f64()) as usize;
        let mode_at = |tick: usize| {
            let at = (tick + 1) as f64 * TICK.as_secs_f64();
            let last = copied.switches.iter().rfind(|switch| switch.seconds <= at);
            if last.is_some_and(|switch| switch.to != "object") { MODE_TCP } else { MODE_OBJECT }
        };
        let modes = (0..ticks).map(|tick| mode_at(tick).to_owned()).collect();
        Finish { seconds: copied.seconds, is_complete: true, modes }
    }

    fn never(limit: Duration) -> Finish {
        Finish { seconds: limit.as_secs_f64(), is_complete: false, modes: vec![] }
    }
}

/// More than handshake and path check bring.
const DATA_BYTES: u64 = 200_000;
/// A copy that brings nothing for so long fails by itself.
const DATA_TIME_MAX: Duration = Duration::from_secs(10);
