//! iperf3, the papers' yardstick, as its own programs at the ends of a path.

use super::bench::Bench;
use super::process::Process;
use super::striped::CONGESTION_CONTROL;
use crate::ExperimentError;
use longhaul_lab::{Lab, Side};
use serde_json::Value;
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::time::Duration;

/// TCP connections of iperf3's to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iperf {
    /// How many, at once.
    pub(crate) connections: u32,
    /// The kernel's name of their congestion control.
    pub(crate) congestion: &'static str,
    /// Size of its socket's buffers; the kernel's own sizing where absent.
    pub(crate) window_bytes: Option<u64>,
    /// What it hands to the kernel with each call; its own choice where absent.
    pub(crate) write_bytes: Option<u64>,
    /// Seconds that do not count, and seconds that do.
    pub(crate) skip_s: u32,
    pub(crate) measure_s: u32,
}

impl Default for Iperf {
    fn default() -> Iperf {
        Iperf {
            connections: 1,
            congestion: CONGESTION_CONTROL,
            window_bytes: None,
            write_bytes: None,
            skip_s: 0,
            measure_s: 0,
        }
    }
}

/// Whether there is an iperf3 to run.
pub(crate) fn is_installed() -> bool {
    let asked = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    asked.is_ok_and(|status| status.success())
}

/// What to say where it is missing.
pub(crate) const MISSING: &str =
    "iperf3 is not installed, so there is nothing to compare with; get it with: apt-get install iperf3";

impl Iperf {
    /// Mb/s that the receiver sees, from left to right; or all on the left host, if `is_loopback`.
    pub(crate) fn run(
        &self,
        bench: &Bench<'_>,
        lab: &Lab,
        is_loopback: bool,
    ) -> Result<f64, ExperimentError> {
        bench.run(lab, || {
            let (host, address) = if is_loopback {
                (Side::Left, Ipv4Addr::LOCALHOST)
            } else {
                (Side::Right, lab.address(Side::Right))
            };
            let (server, client) = (lab.command(host, PROGRAM), lab.command(Side::Left, PROGRAM));
            self.between(bench, server, client, &address.to_string())
        })
    }

    fn between(
        &self,
        bench: &Bench<'_>,
        mut server: Command,
        mut client: Command,
        address: &str,
    ) -> Result<f64, ExperimentError> {
        server.args(["--server", "--one-off", "--forceflush", "--bind", address]);
        let mut server = Process::start("iperf3 --server", &mut server)?;
        // A rule and a line that says that it listens.
        while !server.line(bench, START_TIME_MAX)?.contains("listening") {}
        client.args(["--client", address, "--json", "--congestion", self.congestion]);
        client.args(["--parallel", &self.connections.to_string()]);
        client.args(["--omit", &self.skip_s.to_string(), "--time", &self.measure_s.to_string()]);
        if let Some(bytes) = self.window_bytes {
            client.args(["--window", &bytes.to_string()]);
        }
        if let Some(bytes) = self.write_bytes {
            client.args(["--length", &bytes.to_string()]);
        }
        let mut client = Process::start("iperf3 --client", &mut client)?;
        let limit = Duration::from_secs(u64::from(self.skip_s + self.measure_s)) + GRACE;
        let text = client.text(bench, limit)?;
        let report: Value = serde_json::from_str(&text).unwrap_or_default();
        match report["end"]["sum_received"]["bits_per_second"].as_f64() {
            Some(rate) => Ok(rate / 1e6),
            None => Err(client.failed(report["error"].as_str().unwrap_or("it gave no reason").into())),
        }
    }
}

const PROGRAM: &str = "iperf3";
const START_TIME_MAX: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(20);
