//! The same bytes over one path by longhaul, by the kernel's TCP and by uftp, one after another: what the demo and
//! the bench show.

use super::bench::{Bench, Options};
use super::copied::{Copied, CopyError};
use super::copiers::{BBR_NAME, Copier, PORT, Payload, Route, Uftp, copy_once};
use super::copies::Copies;
use crate::ExperimentError;
use longhaul_lab::{Counters, Lab, LabError, Scenario, tcp};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

pub use super::copiers::Load;

/// A path, and what is to be copied over it.
pub struct Race<'a> {
    bench: Bench<'a>,
    scenario: Scenario,
    lab: Lab,
    payload: Rc<Payload>,
    copies: Copies,
}

/// What came of a run.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// All is there, as it was sent.
    Done {
        /// How long it took.
        seconds: f64,
        /// Of a copy: (sent − required) / required.
        waste: Option<f64>,
        /// Of a copy: what held it back most of the time.
        limited_by: String,
    },
    /// It was stopped.
    TooSlow {
        /// After this time.
        seconds: f64,
        /// What had arrived by then.
        bytes: u64,
    },
    /// It failed, and why.
    Failed(String),
}

impl Outcome {
    /// Of a copy.
    pub(super) fn of(copied: Result<Copied, CopyError>) -> Outcome {
        match copied {
            Ok(Copied { seconds, waste, limited_by, .. }) => {
                Outcome::Done { seconds, waste: Some(waste), limited_by: limited_by.unwrap_or_default() }
            }
            Err(why) => Outcome::Failed(why.to_string()),
        }
    }
}

impl<'a> Race<'a> {
    /// Open the path, and make what is to be copied: in memory if there is room, so that disks do not matter.
    pub fn open(options: Options<'a>, scenario: &Scenario, load: Load) -> Result<Race<'a>, ExperimentError> {
        let bench = Bench::new(options);
        let payload = Rc::new(Payload::in_memory(&bench, load)?);
        let lab = bench.lab(scenario)?;
        let copies = Copies::of(&bench, &lab, payload.clone(), PORT)?;
        Ok(Race { bench, scenario: scenario.clone(), lab, payload, copies })
    }

    /// Each copy but the first may know the server.
    pub fn remembering(self) -> Race<'a> {
        Race { copies: self.copies.remembering(), ..self }
    }

    /// Bytes that are copied.
    pub fn bytes(&self) -> u64 {
        self.payload.bytes
    }

    /// What the path did in the last run.
    pub fn counters(&self) -> Counters {
        self.lab.counters()
    }

    /// By `longhaul cp` under these options. The path's counters leave out the first `skip`.
    pub fn longhaul(
        &self,
        args: &[&str],
        limit: Duration,
        skip: Duration,
    ) -> Result<Outcome, ExperimentError> {
        let copied = thread::scope(|scope| {
            if !skip.is_zero() {
                let lab = &self.lab;
                scope.spawn(move || {
                    thread::sleep(skip);
                    lab.reset_counters();
                });
            }
            self.copies.run(&self.bench, &self.lab, args, limit)
        })?;
        Ok(Outcome::of(copied))
    }

    /// As many bytes by the kernel's TCP, from memory to memory.
    pub fn kernel(&self, control: &str, limit: Duration) -> Result<Outcome, ExperimentError> {
        self.lab.reset_counters();
        let stop = self.bench.options.stop;
        let wanted = || !stop.load(std::sync::atomic::Ordering::Relaxed);
        let run = tcp::transfer_while(&self.lab, self.payload.bytes, control, limit, &wanted);
        self.bench.check()?;
        Ok(match run {
            Ok(run) => Outcome::Done { seconds: run.seconds, waste: None, limited_by: String::new() },
            Err(LabError::TooSlow { seconds, bytes_received: bytes }) => Outcome::TooSlow { seconds, bytes },
            Err(LabError::NoCongestionControl { .. }) => Outcome::Failed("not in this kernel".into()),
            Err(error) => Outcome::Failed(error.to_string()),
        })
    }

    /// By uftp, which is told the rate, over a path of its own.
    pub fn uftp(&self, limit: Duration) -> Result<Outcome, ExperimentError> {
        if let Err(why) = Uftp.find() {
            return Ok(Outcome::Failed(why.to_string()));
        }
        let route = Route { scenario: &self.scenario, is_loopback: false, congestion: BBR_NAME, round: 0 };
        Ok(match copy_once(&self.bench, &Uftp, route, &self.payload, limit)? {
            Ok(cost) => Outcome::Done { seconds: cost.seconds, waste: None, limited_by: String::new() },
            Err(undone) => Outcome::Failed(undone.why().to_owned()),
        })
    }
}
