//! Where a copy takes place: two hosts, and what is to be copied between them.

use super::payload::Payload;
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::process::Process;
pub(super) use longhaul_lab::Wire;
use longhaul_lab::{Lab, Side};
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// Two hosts, what is to be copied between them, and what is known of the path.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) bench: &'a Bench<'a>,
    pub(crate) lab: &'a Lab,
    pub(crate) payload: &'a Payload,
    /// The end that it goes to, from the left one; the left one too over loopback.
    pub(crate) to: Side,
    /// What a program is told that has to be told the rate; `None` over loopback.
    pub(crate) mbit: Option<f64>,
    pub(crate) rtt_ms: f64,
}

impl Setting<'_> {
    /// A command at the end that sends.
    pub(super) fn near(&self, program: impl AsRef<OsStr>) -> Command {
        self.lab.command(Side::Left, program)
    }

    /// A command at the end that receives.
    pub(super) fn far(&self, program: impl AsRef<OsStr>) -> Command {
        self.lab.command(self.to, program)
    }

    /// Where the near end finds the far one.
    pub(super) fn address(&self) -> Ipv4Addr {
        match self.to {
            Side::Left => Ipv4Addr::LOCALHOST,
            Side::Right => self.lab.address(Side::Right),
        }
    }

    /// The near end's own address.
    pub(super) fn near_address(&self) -> Ipv4Addr {
        match self.to {
            Side::Left => Ipv4Addr::LOCALHOST,
            Side::Right => self.lab.address(Side::Left),
        }
    }

    /// Start a server at the far end, and wait until it listens at `port`.
    pub(super) fn serve(
        &self,
        name: &str,
        command: &mut Command,
        wire: Wire,
        port: u16,
    ) -> Result<Process, ExperimentError> {
        self.serve_at(self.to, name, command, wire, port)
    }

    /// The same at the near end, for a program that fetches.
    pub(super) fn serve_near(
        &self,
        name: &str,
        command: &mut Command,
        wire: Wire,
        port: u16,
    ) -> Result<Process, ExperimentError> {
        self.serve_at(Side::Left, name, command, wire, port)
    }

    fn serve_at(
        &self,
        end: Side,
        name: &str,
        command: &mut Command,
        wire: Wire,
        port: u16,
    ) -> Result<Process, ExperimentError> {
        let mut server = Process::start(name, command)?;
        let deadline = Instant::now() + START_TIME_MAX;
        loop {
            if self.lab.listens(end, wire, Some(port))? {
                return Ok(server);
            }
            if server.has_ended()? {
                let ended = server.end(self.bench, START_TIME_MAX)?;
                return Err(server.failed(ended.last_words().into()));
            }
            self.bench.check()?;
            if Instant::now() >= deadline {
                return Err(
                    server.failed(format!("does not listen at port {port} within {START_TIME_MAX:?}"))
                );
            }
            thread::sleep(START_POLL);
        }
    }
}

const START_TIME_MAX: Duration = Duration::from_secs(20);
const START_POLL: Duration = Duration::from_millis(5);
