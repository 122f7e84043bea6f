//! Copies a part, and takes the last step.

use super::folder::Run;
use super::state::{Share, Stage, Telling};
use crate::api::{CopyOptions, Location, Observer, Summary};
use crate::error::PlanError;
use crate::error::{Error, RequestError};
use crate::files::{Lister, Scan};
use crate::live::LiveControl;
use crate::schedule::Schedule;
use crate::transfer::client::{Offered, begun, check_later_push, check_push, push, split};
use crate::transfer::start::{Listing, first_of};
use longhaul_proto::session::message::{CopyId, Operation, PlanStep};
use longhaul_proto::session::reason::Cause;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

impl Run {
    /// Copy a part to one of `dests`, which are ways to the same place: each part begins with another of them, and where one
    /// cannot be reached, or breaks off, the next one is tried. A rate is that of all parts together.
    pub fn copy_part(
        self: &Arc<Self>,
        part: u32,
        dests: &[Location],
        options: &CopyOptions,
        observer: &mut dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Summary, Error> {
        let _ours = self.take(part)?;
        let mut options = begun(options);
        // That is the last step's.
        options.files.delete = false;
        let all =
            options.live.get_or_insert_with(|| Arc::new(LiveControl::new(Schedule::always(options.rate))));
        let share = Share { all: all.clone(), ours: Arc::new(AtomicU64::new(u64::MAX)) };
        share.divide(|| 1);
        options.shared_rate = Some(share.ours.clone());
        let mut telling = Telling::new(self, part, share, observer);
        let outcome = self.try_each(part, dests, &options, &mut telling, &stop);
        match &outcome {
            Ok(summary) => telling.summarised(summary)?,
            Err(Error::Interrupted) => telling.ended(Stage::Stopped, None)?,
            Err(error) => telling.ended(Stage::Failed, Some(error.to_string()))?,
        }
        outcome
    }

    fn try_each(
        self: &Arc<Self>,
        part: u32,
        dests: &[Location],
        options: &CopyOptions,
        telling: &mut Telling<'_>,
        stop: &Arc<AtomicBool>,
    ) -> Result<Summary, Error> {
        let step = self.part_step(part)?;
        let mut in_vain = 0;
        for dest in dests.iter().cycle().skip(part as usize % dests.len().max(1)) {
            telling.goes_to(dest.to_string())?;
            let (run, said) = (self.clone(), step.clone());
            let list = move |emit: &mut dyn FnMut(Scan) -> bool| run.list_part(part, &said, emit);
            let outcome = self.push(dest, (&step, list), options, telling, stop.clone());
            in_vain = if telling.has_moved { 0 } else { in_vain + 1 };
            match outcome {
                Err(error) if dests.len() > 1 && in_vain < dests.len() && is_the_hosts(&error) => {
                    telling.warning(&format!("{error}; going on with another host of the destination"));
                }
                outcome => return outcome,
            }
        }
        Err(RequestError::NoSource.into())
    }

    /// Put in place what the parts have brought, finish folders and remove what the source has not, if that is asked for. Nothing
    /// is sent. May be done again.
    pub fn finish(
        self: &Arc<Self>,
        dests: &[Location],
        options: &CopyOptions,
        observer: &mut dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Summary, Error> {
        let options = begun(options);
        let step = self.last_step();
        let mut last = Err(RequestError::NoSource.into());
        for dest in dests {
            let run = self.clone();
            let list = move |emit: &mut dyn FnMut(Scan) -> bool| run.list_all(emit);
            last = self.push(dest, (&step, list), &options, observer, stop.clone());
            match &last {
                Err(error) if is_the_hosts(error) => observer.warning(&error.to_string()),
                _ => break,
            }
        }
        last
    }

    fn push(
        &self,
        dest: &Location,
        (step, list): (
            &PlanStep,
            impl FnOnce(&mut dyn FnMut(Scan) -> bool) -> Result<(), PlanError> + Send + 'static,
        ),
        options: &CopyOptions,
        observer: &mut dyn Observer,
        stop: Arc<AtomicBool>,
    ) -> Result<Summary, Error> {
        let (remote, far) = split(dest).map_err(|_| RequestError::BothLocal)?;
        check_push(&remote, options)?;
        let offered =
            Offered { operation: Operation::Planned { dest: far, step: step.clone() }, copy: self.copy_id() };
        let listing = move |over: &AtomicBool| list_by(list, over);
        let stopped = stop.clone();
        push(&remote, offered, listing, options, observer, stop)
            .map_err(|error| error.unless_stopped(&stopped))
    }

    /// The same on whichever host: who copies a part again takes it over.
    fn copy_id(&self) -> CopyId {
        let mut hasher = blake3::Hasher::new_derive_key("longhaul 2026-11-26 copy id of a plan");
        hasher.update(&self.id());
        let mut id = CopyId::default();
        hasher.finalize_xof().fill(&mut id);
        id
    }

    /// Which parts are to be copied (again), in order: those of which nobody says that they are done, and those of the paths given
    /// of which all are said to be.
    pub fn missing_parts(&self, paths: &[&[u8]]) -> Result<Vec<u32>, PlanError> {
        let known = self.status()?.known;
        let done: HashSet<u32> =
            known.iter().filter(|state| state.stage == Stage::Done).map(|state| state.part).collect();
        let mut missing: BTreeSet<u32> = (0..self.plan.parts).filter(|part| !done.contains(part)).collect();
        let wanted: HashSet<&[u8]> = paths.iter().copied().collect();
        for chunk in 0..self.chunks().len() as u32 {
            let (listed, _) = self.read(chunk)?;
            let fresh = (0..).zip(&listed.entries).skip(self.chunks()[chunk as usize].continued as usize);
            for (entry, _) in fresh.filter(|(_, entry)| wanted.contains(entry.path.as_slice())) {
                let parts = self.parts_of(chunk, entry);
                if parts.clone().all(|part| done.contains(&part)) {
                    missing.extend(parts);
                }
            }
        }
        Ok(missing.into_iter().collect())
    }
}

/// Whether the parts of a plan can be copied there so.
pub fn check(dests: &[Location], options: &CopyOptions) -> Result<(), Error> {
    for dest in dests {
        let (remote, _) = split(dest).map_err(|_| RequestError::BothLocal)?;
        check_later_push(&remote, options)?;
    }
    Ok(())
}

/// List as `list` does, on a thread of its own.
fn list_by(
    list: impl FnOnce(&mut dyn FnMut(Scan) -> bool) -> Result<(), PlanError> + Send + 'static,
    over: &AtomicBool,
) -> Result<Listing, Error> {
    let (tell, broken) = crossbeam_channel::bounded(1);
    let work = move |emit: &mut dyn FnMut(Scan) -> bool| {
        if let Err(error) = list(emit) {
            // Whoever waits for the list is told that it broke off, and asks why.
            let _ = tell.send(error);
        }
    };
    let lister = Lister::of(Arc::default(), work)?;
    first_of(lister, over).map_err(|error| broken.try_recv().map_or(error, Error::from))
}

/// Whether another host of the destination may do better.
fn is_the_hosts(error: &Error) -> bool {
    // A daemon that is told to end says that it is interrupted.
    matches!(error, Error::Peer(reason) if reason.cause == Cause::Interrupted)
        || matches!(error.cause(), Cause::Unreachable | Cause::Silent | Cause::PeerLeft)
}
