//! FOBS over real sockets: `longhaul cp` under its rules.

use super::run::{Done, EMPTY_BYTES, Fobs, Runs, Session};
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copied::Copied;
use crate::lab::copiers::Payload;
use crate::lab::copies::Copies;
use longhaul_lab::{Lab, Scenario};
use std::rc::Rc;
use std::time::Duration;

/// A path, a file at its left end and a server at its right one.
pub(super) struct Ground<'a> {
    bench: &'a Bench<'a>,
    pub(super) lab: Lab,
    copies: Copies,
    /// Of a file of next to nothing.
    empty: Copies,
    limit: Duration,
    rtt_ms: f64,
}

impl<'a> Ground<'a> {
    /// Make it, with a file of so many bytes.
    pub(super) fn open(
        bench: &'a Bench<'a>,
        scenario: &Scenario,
        bytes: u64,
    ) -> Result<Ground<'a>, ExperimentError> {
        let lab = bench.lab(scenario)?;
        let copies = Copies::start(bench, &lab, bytes)?;
        let narrowest_mbit = scenario.nic_mbit.unwrap_or(f64::INFINITY).min(scenario.bottleneck_mbit);
        let at_full_rate_s = bytes as f64 * 8e-6 / narrowest_mbit;
        let limit = Duration::from_secs_f64(at_full_rate_s * PATIENCE) + GRACE;
        let empty = Copies::of(bench, &lab, Rc::new(Payload::file(bench, EMPTY_BYTES)?), EMPTY_PORT)?;
        Ok(Ground { bench, lab, copies, empty, limit, rtt_ms: scenario.rtt_ms })
    }

    /// Both ends get a millisecond of a processor in so many.
    pub(super) fn slowed(self, period_ms: u32) -> Result<Ground<'a>, ExperimentError> {
        let (copies, empty) = (self.copies.slowed(period_ms)?, self.empty.slowed(period_ms)?);
        Ok(Ground { copies, empty, ..self })
    }

    /// Copy the file as FOBS would.
    pub(super) fn fobs(&self, fobs: Fobs, into: &mut Runs) -> Result<(), ExperimentError> {
        self.copy(&fobs.args(), into)
    }

    /// Copy the file as `longhaul cp` does unless told otherwise.
    pub(super) fn default(&self, into: &mut Runs) -> Result<(), ExperimentError> {
        self.copy(&[], into)
    }

    fn copy(&self, args: &[String], into: &mut Runs) -> Result<(), ExperimentError> {
        self.run(&self.copies, args, into)
    }

    /// See how long FOBS takes for a file of next to nothing.
    pub(super) fn session(&self, into: &mut Session) -> Result<(), ExperimentError> {
        into.rtt_s = self.rtt_ms / 1e3;
        self.run(&self.empty, &Fobs::default().args(), &mut into.runs)
    }

    fn run(&self, copies: &Copies, args: &[String], into: &mut Runs) -> Result<(), ExperimentError> {
        let borrowed: Vec<&str> = args.iter().map(String::as_str).collect();
        match copies.run(self.bench, &self.lab, &borrowed, self.limit)? {
            Ok(Copied { seconds, goodput_mbps, waste, .. }) => {
                into.done.push(Done { seconds, goodput_mbps, waste });
            }
            Err(why) => into.failures.push(format!("longhaul cp {}: {why}", args.join(" "))),
        }
        Ok(())
    }
}

/// The program's own port is the other server's.
const EMPTY_PORT: u16 = 7701;
/// A copy that needs so many times the time of the path's rate is of no interest.
const PATIENCE: f64 = 6.0;
const GRACE: Duration = Duration::from_secs(15);
