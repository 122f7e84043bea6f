//! `longhaul probe`.

use crate::args::ProbeArgs;
use crate::failure::Failure;
use crate::output::{self, Exit, seconds_text, share_text};
use crate::progress::{Display, Verbosity};
use crate::values::host_of;
use crate::why::limit_text;
use crate::{forward, log, signals};
use longhaul::{CopyOptions, ProbeReport, Transport};

/// Probe, tell, and say how it ended.
pub fn run(args: &ProbeArgs) -> Exit {
    let mut display = Display::new(
        Verbosity { progress: args.progress, quiet: args.quiet, why: args.why },
        Default::default(),
    );
    let outcome = log::start("off").and_then(|()| {
        let at = host_of(&args.host).map_err(Failure::Usage)?;
        let began = Some(output::program_start());
        let options = CopyOptions { began, ..options(args)? };
        Ok(longhaul::probe(&at, &options, args.seconds, &mut display, signals::stop_flag()?)?)
    });
    display.finish();
    let (report, exit) = match outcome {
        Ok(report) => {
            if !args.json {
                output::result(&table(&report));
            }
            (report, Exit::Done)
        }
        Err(failure) => {
            let error = failure.to_string();
            output::error(&error);
            (failed_report(&args.host, &error), Exit::from(&failure))
        }
    };
    if args.json {
        output::json(&report, false);
    }
    exit
}

/// What `--json` prints of a probe that failed.
pub fn failed_report(host: &str, error: &str) -> ProbeReport {
    ProbeReport {
        host: host.into(),
        seconds: output::program_start().elapsed().as_secs_f64(),
        error: Some(error.into()),
        ..ProbeReport::default()
    }
}

fn options(args: &ProbeArgs) -> Result<CopyOptions, Failure> {
    if args.transport == Transport::Ssh {
        return Err(Failure::Usage("--transport ssh cannot be probed; use object or stripe".into()));
    }
    Ok(CopyOptions { transport: args.transport, rate: args.rate, ..forward::options(&args.reach)? })
}

/// What was found, a line each.
fn table(report: &ProbeReport) -> String {
    let mbps = |rate: f64| format!("{rate:.1} Mb/s");
    let object = match (report.object_mbps, report.loss) {
        (Some(rate), Some(loss)) => format!("{}, loss {}", mbps(rate), share_text(loss)),
        _ => "-".into(),
    };
    let stripe = match (report.stripe_mbps, report.streams) {
        (Some(rate), Some(1)) => format!("{} with one", mbps(rate)),
        (Some(rate), Some(streams)) => format!("{}, best with {streams}", mbps(rate)),
        (Some(rate), None) => mbps(rate),
        _ => "-".into(),
    };
    let udp = match report.udp {
        Some(true) => "passes",
        Some(false) => "does not pass",
        None => "-",
    };
    let mtu = report.path_mtu.map_or("-".into(), |mtu| format!("{mtu} bytes"));
    let round_trip = match (report.rtt_ms_min, report.rtt_ms_mean) {
        (Some(min), Some(mean)) => format!("{min:.1} ms, {mean:.1} ms under load"),
        _ => "-".into(),
    };
    let available = report.available_mbps.map_or("-".into(), mbps);
    let limit = limit_text(report.limited_by).unwrap_or("nothing found");
    let rows = [
        ("round trip", round_trip),
        ("UDP", udp.into()),
        ("path MTU", mtu),
        ("available", format!("{available}, limited by {limit}")),
        ("packets over UDP", object),
        ("TCP streams", stripe),
        ("cp would take", format!("{}: {}", report.transport, report.reason)),
        ("took", seconds_text(report.seconds)),
    ];
    let lines = rows.iter().map(|(what, found)| format!("  {what:<18}{found}"));
    [report.host.clone()].into_iter().chain(lines).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_is_missing() {
        let report = ProbeReport {
            host: "far".into(),
            udp: Some(false),
            stripe_mbps: Some(71.25),
            streams: Some(8),
            transport: "stripe".into(),
            reason: "UDP does not pass".into(),
            ..ProbeReport::default()
        };
        let text = table(&report);
        for part in ["UDP               does not pass", "path MTU          -", "71.2 Mb/s, best with 8"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
