//! The same bytes by longhaul and by a TCP in user space, through a relay on loopback: the race for who may make no
//! network namespaces.

use super::bench::{Bench, Options};
use super::copied::{Copied, CopyError};
use super::copiers::{Load, Longhaul, Payload};
use super::datagrams::failed;
use super::process::Process;
use super::race::Outcome;
use crate::ExperimentError;
use longhaul_lab::datagrams::Ends;
use longhaul_lab::{Counters, Relay, Scenario, mortal};
use longhaul_proto::control::ControllerKind;
use longhaul_sim::flow::FlowSpec;
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

/// A path, and what is to be copied over it.
pub struct RelayedRace<'a> {
    bench: Bench<'a>,
    scenario: Scenario,
    payload: Payload,
    /// Kept: it serves for as long as this lives.
    _server: Process,
    server: SocketAddr,
    token: String,
    last: Cell<Counters>,
}

impl<'a> RelayedRace<'a> {
    /// Make what is to be copied, and start the server.
    pub fn open(
        options: Options<'a>,
        scenario: &Scenario,
        load: Load,
    ) -> Result<RelayedRace<'a>, ExperimentError> {
        let bench = Bench::new(options);
        let payload = Payload::in_memory(&bench, load)?;
        let (process, server, token) = Longhaul::listen_here(&bench, &payload.arrived_folder())?;
        let (scenario, last) = (scenario.clone(), Cell::default());
        Ok(RelayedRace { bench, scenario, payload, _server: process, server, token, last })
    }

    /// What the path did to datagrams in the last run.
    pub fn counters(&self) -> Counters {
        self.last.get()
    }

    /// By `longhaul cp` under these options. Only what it sends as datagrams meets the path as it is.
    pub fn longhaul(&self, args: &[&str], limit: Duration) -> Result<Outcome, ExperimentError> {
        self.payload.clear()?;
        let relay = Relay::start(&self.scenario, self.server)?;
        let near = mortal(self.bench.options.program);
        let mut copy = Longhaul::copy(near, args, &self.payload, relay.address(), &self.token);
        let mut process = Process::start("the copy", &mut copy)?;
        let copied = Copied::of(&mut process, &self.bench, limit)?;
        self.last.set(relay.counters());
        let is_whole = copied.is_ok() && self.payload.is_whole(&self.bench)?;
        Ok(Outcome::of(
            copied.and_then(|copied| if is_whole { Ok(copied) } else { Err(CopyError::NotWhole) }),
        ))
    }

    /// As many bytes by a TCP in user space over UDP, from memory to memory.
    pub fn tcp(&self, control: ControllerKind, limit: Duration) -> Result<Outcome, ExperimentError> {
        let spec = FlowSpec::tcp(control, self.payload.bytes);
        let (ends, relay) = Ends::over_relay(&self.scenario, &spec)?;
        let moved = ends.transfer(limit, || self.bench.check().is_ok()).map_err(failed)?;
        self.last.set(relay.counters());
        self.bench.check()?;
        let limited_by = String::new();
        Ok(match moved.delivered {
            Some(took) => Outcome::Done { seconds: took.as_secs_f64(), waste: None, limited_by },
            None => Outcome::TooSlow { seconds: limit.as_secs_f64(), bytes: moved.received_bytes },
        })
    }
}
