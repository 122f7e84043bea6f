//! The same over emulated paths: hosts with a device for each route, and a kernel that chooses one for each connection by a hash of
//! its addresses and ports, as routers with routes of equal cost do.

use super::super::{Contender, START_GAP};
use super::{COUNTS, Cell, Job, Measured, Plan, Setting};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::flows;
use crate::lab::side_by_side::{Halt, Outcome, side_by_side};
use crate::meeting;
use longhaul_lab::variants::Variant;
use longhaul_lab::{Lab, Side, TcpSettings};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How long, in seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    settle_s: f64,
    measure_s: f64,
}

/// Measure.
pub(super) fn run(bench: &Bench<'_>) -> Result<Measured, ExperimentError> {
    let counts: &[u64] = bench.pick(&COUNTS[..], &[1, 10], &[2]);
    let routes: &[usize] = bench.pick(&[1, 2, 4], &[1, 3], &[2]);
    let settings = bench.pick(3, 1, 1);
    let (settle_s, measure_s, seeds) = bench.pick((15.0, 20.0, 2), (4.0, 5.0, 1), (0.5, 1.0, 1));
    let wanted: &[&'static str] = bench.pick(&["newreno", "cubic"], &["newreno", "cubic"], &["newreno"]);
    let variants = wanted
        .iter()
        .map(|name| Ok((*name, Variant::require(name)?)))
        .collect::<Result<Vec<_>, ExperimentError>>()?;
    let kernel =
        |(name, variant): &(&'static str, Variant)| Contender::Tcp { name, kernel: variant.name().into() };
    let first = bench.options.seed;
    let plan = Plan {
        settings: Setting::all(&[None], &[1.0])[..settings].to_vec(),
        contenders: variants.iter().map(kernel).collect(),
        everywhere: variants.len(),
        routes,
        counts,
        seeds: first..first + seeds,
    };
    let jobs = plan.jobs();
    bench.expect_runs(jobs.len());
    let times = Times { settle_s, measure_s };
    let cells = side_by_side(bench, AT_A_TIME, &jobs, |job, halt| measure(job, times, halt))?;
    let method = format!(
        "The kernel's TCP, without others' flows; connections begin {} ms after one another. Measured for {measure_s} s from \
         {settle_s} s after the last has begun; {seeds} run(s). Each host has a device for each route, and its kernel chooses \
         one by a hash of addresses and ports; acknowledgements come back over any of them. Loss: packets dropped over packets \
         sent at all routes.",
        START_GAP.as_millis(),
    );
    Ok(Measured { grids: plan.grids(&cells), failures: vec![], method: vec![method] })
}

fn measure(job: &Job<'_>, times: Times, halt: Halt<'_>) -> Result<Outcome<Cell>, ExperimentError> {
    let Job { setting, contender, routes, count, seed } = *job;
    let Contender::Tcp { kernel, .. } = contender else {
        unreachable!("only the kernel's TCPs are asked for")
    };
    let paths = setting.paths(routes, seed);
    let first = Lab::start(&paths[0])?;
    let others = (1..routes).map(|number| first.further_path(&paths[number], number as u8));
    let others = others.collect::<Result<Vec<_>, _>>()?;
    let labs: Vec<&Lab> = [&first].into_iter().chain(&others).collect();
    for end in [Side::Left, Side::Right] {
        first.set_tcp(end, &TcpSettings { sack: Some(setting.condition.sack), ..TcpSettings::default() })?;
    }
    hash(&labs)?;
    let flows = first.flows(kernel, vec![contender.flows(count, &setting.condition)], seed)?;
    let settle = START_GAP * count as u32 + Duration::from_secs_f64(times.settle_s);
    halt.sleep(settle)?;
    flows::check(&flows)?;
    labs.iter().for_each(|lab| lab.reset_counters());
    let (start, before) = (Instant::now(), flows.received());
    halt.sleep(Duration::from_secs_f64(times.measure_s))?;
    let (seconds, after) = (start.elapsed().as_secs_f64(), flows.received());
    flows::check(&flows)?;
    let earlier = before.iter().copied().chain(std::iter::repeat(0));
    let mut goodputs: Vec<f64> =
        after.iter().zip(earlier).map(|(after, before)| (after - before) as f64 * 8e-6 / seconds).collect();
    goodputs.resize(count as usize, 0.0);
    let links: Vec<_> = labs.iter().map(|lab| lab.counters().left_to_right).collect();
    let is_used: Vec<bool> = links.iter().map(|link| link.packets_in > 0).collect();
    let cell = Cell::of(&goodputs, &is_used, &paths, meeting::loss(&links));
    Ok(Outcome { of: cell, is_late: labs.iter().any(|lab| lab.cpu_limited()) })
}

/// Have the left host choose a route for each connection by a hash, and the right one answer over these devices.
fn hash(labs: &[&Lab]) -> Result<(), ExperimentError> {
    let first = labs[0];
    for end in [Side::Left, Side::Right] {
        first.set_sysctl(end, "net.ipv4.fib_multipath_hash_policy", BY_PORTS)?;
        for device in ["all"].into_iter().chain(labs.iter().map(|lab| lab.device(end))) {
            // What comes from the other host may come over any of them.
            first.set_sysctl(end, &format!("net.ipv4.conf.{device}.rp_filter"), "0")?;
        }
    }
    let to = format!("{}/32", first.address(Side::Right));
    ip(first, Side::Left, &["address", "add", OF_NO_DEVICE, "dev", "lo"], &[])?;
    ip(first, Side::Left, &["route", "add", &to, "src", OF_NO_DEVICE], labs)?;
    ip(first, Side::Right, &["route", "add", OF_NO_DEVICE], labs)
}

/// Run `ip` at one end, with a next hop over the device of each of these.
fn ip(lab: &Lab, end: Side, args: &[&str], hops: &[&Lab]) -> Result<(), ExperimentError> {
    let mut ip = lab.command(end, "ip");
    ip.args(args);
    for hop in hops {
        ip.args(["nexthop", "dev", hop.device(end)]);
    }
    let failed = |reason: String| ExperimentError::Program { program: "ip".into(), reason };
    let output = ip.stdin(Stdio::null()).output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(format!(
            "ip {} does not work here: {}",
            args.join(" "),
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// The left host's address on these connections. Linux from 6.16 on prefers the device that has a connection's address to what
/// the hash says, so none of them has it.
const OF_NO_DEVICE: &str = "10.74.0.1";
/// By protocol, addresses and ports, as the kernel's documentation has it.
const BY_PORTS: &str = "1";
/// Of up to four paths of 10 Mb/s each: as many paths as the comparison without routes has at a time.
const AT_A_TIME: usize = 4;
