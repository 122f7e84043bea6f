//! Running experiments, whoever runs them, and keeping what comes of them.

use crate::program::args::LabRunArgs;
use crate::program::values::describe;
use crate::program::{listing, log, output, programs, signals};
use crate::report::{Head, Host, Origin, Report, Stored};
use crate::{Experiment, ExperimentError, KeptRuns, Scale, kept, lab, sim};
use longhaul_cli::failure::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// What all experiments of a command share.
pub struct Session<'a> {
    /// What the user asked for.
    pub args: &'a LabRunArgs,
    stop: Arc<AtomicBool>,
    /// Why there can be no lab here, if so: the simulator does without.
    no_lab: Option<String>,
}

/// Told how many runs are done, and of how many.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

impl<'a> Session<'a> {
    /// Be ready to run experiments.
    pub fn start(args: &'a LabRunArgs) -> Result<Session<'a>, Failure> {
        // Before any thread starts: an ordinary user changes into a user namespace here.
        let no_lab = longhaul_lab::ensure_privileges().err().map(|error| error.to_string());
        log::start("error")?;
        let stop = signals::stop_flag()?;
        fs::create_dir_all(&args.out).map_err(|error| cannot_store(&args.out, &error))?;
        Ok(Session { args, stop, no_lab })
    }

    /// Whether the user wants no more of it.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How much is measured.
    pub fn scale(&self) -> Scale {
        match (self.args.quick, self.args.smoke) {
            (_, true) => Scale::Smoke,
            (true, false) => Scale::Quick,
            (false, false) => Scale::Full,
        }
    }

    /// Run an experiment, over an emulated path or in the simulator.
    pub fn perform(
        &self,
        experiment: &'static Experiment,
        origin: Origin,
        progress: Progress<'_>,
    ) -> Result<Stored, Failure> {
        let begun = Instant::now();
        let head = self.head(experiment, origin);
        let kept = self.kept(experiment, &head);
        let report = match origin {
            Origin::Lab => self.measure(experiment, kept.as_deref(), progress)?,
            Origin::Simulator => self.simulate(experiment, kept.clone(), progress)?,
        };
        // They are in the report now; one that stays is not taken for another program's.
        drop(kept.map(|kept| kept.remove()));
        // As it is stored, to the millisecond.
        let seconds = begun.elapsed().as_millis() as f64 / 1e3;
        Ok(Stored { head, report, seconds })
    }

    /// Keep a result, in place of an earlier one that is no larger.
    pub fn store(&self, experiment: &Experiment, stored: &Stored) -> Result<PathBuf, Failure> {
        let (folder, stem) = (&self.args.out, experiment.file_stem(stored.head.origin));
        stored.store(folder, &stem).map_err(|error| cannot_store(&Stored::path(folder, &stem), &error))
    }

    /// Where the runs are kept that are done, those of an earlier time among them that did not end.
    /// Nowhere, if nothing can be stored: that is told when there is a result.
    fn kept(&self, experiment: &Experiment, head: &Head) -> Option<Arc<KeptRuns>> {
        let whose = head.identity()?;
        let path = kept::path(&self.args.out, &experiment.file_stem(head.origin));
        if self.args.again {
            let _ = fs::remove_file(&path);
        }
        let kept = KeptRuns::open(path, &whose).ok()?;
        if kept.found() > 0 {
            output::say(&format!("{}: {} runs taken over that were done", experiment.id, kept.found()));
        }
        Some(Arc::new(kept))
    }

    fn measure(
        &self,
        experiment: &Experiment,
        kept: Option<&KeptRuns>,
        progress: Progress<'_>,
    ) -> Result<Report, Failure> {
        if let Some(reason) = &self.no_lab {
            return Err(Failure::Failed(reason.clone()));
        }
        let result = experiment.measure(&lab::Options {
            scale: self.scale(),
            seed: self.args.seed,
            program: &programs::longhaul()?,
            lab_program: &programs::this()?,
            only: self.args.only.as_deref(),
            stop: &self.stop,
            progress: &progress,
            kept,
        });
        result.map_err(|error| match error {
            ExperimentError::Interrupted => Failure::Interrupted,
            error @ ExperimentError::NoSuchPart { .. } => {
                Failure::Usage(format!("{}: {error}", experiment.id))
            }
            other => Failure::Failed(format!("{}: {other}", experiment.id)),
        })
    }

    /// In a thread of its own, which is left behind where the user wants no more of it: simulations know no signals.
    fn simulate(
        &self,
        experiment: &'static Experiment,
        kept: Option<Arc<KeptRuns>>,
        progress: Progress<'_>,
    ) -> Result<Report, Failure> {
        let (scale, seed) = (self.scale(), self.args.seed);
        let (teller, told) = mpsc::channel();
        thread::spawn(move || {
            let progress = |done, total| drop(teller.send(Message::Progress(done, total)));
            let threads = longhaul_sim::parallel::all_cores();
            let kept = kept.as_deref();
            let options = sim::Options { scale, seed, threads, contestants: &[], progress: &progress, kept };
            let report = experiment.simulate(&options);
            drop(teller.send(Message::Done(report)));
        });
        loop {
            match told.recv_timeout(LOOK_EVERY) {
                Ok(Message::Progress(done, total)) => progress(done, total),
                Ok(Message::Done(report)) => return Ok(report),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let text =
                        format!("{}: the simulation broke off; that is a bug of this program", experiment.id);
                    return Err(Failure::Failed(text));
                }
            }
            if self.is_stopped() {
                return Err(Failure::Interrupted);
            }
        }
    }

    /// What a result of this experiment opens with.
    pub fn head(&self, experiment: &Experiment, origin: Origin) -> Head {
        Head {
            command: self.command(experiment, origin),
            version: env!("CARGO_PKG_VERSION").into(),
            what: experiment.id.into(),
            origin,
            scale: self.scale().name().into(),
            seed: self.args.seed,
            only: self.args.only.clone(),
            host: Some(Host::this()),
        }
    }

    /// What gives such a result again.
    fn command(&self, experiment: &Experiment, origin: Origin) -> String {
        let (command, id) = (listing::command_line(), experiment.id);
        let mut words = command.split(' ');
        if origin != experiment.origins()[0] && !self.args.simulated {
            let quick = if self.args.quick { " --quick" } else { "" };
            return format!("{} sim {id}{quick} --seed {}", words.next().unwrap_or_default(), self.args.seed);
        }
        let words = words.map(|word| if word == super::ALL { id } else { word });
        words.filter(|word| *word != "--again").collect::<Vec<_>>().join(" ")
    }
}

enum Message {
    Progress(usize, usize),
    Done(Report),
}

fn cannot_store(path: &Path, error: &io::Error) -> Failure {
    let reason = describe(error);
    Failure::Failed(format!("cannot store results in {}: {reason}; choose another --out", path.display()))
}

/// Whether the user wants no more of it.
const LOOK_EVERY: Duration = Duration::from_millis(100);
