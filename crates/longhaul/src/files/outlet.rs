//! Where the bytes of a pipe go in the end: to this process's standard output, or into a file that has no name before it is
//! complete.

use super::attributes::mode;
use super::calls::{FileExt, fchmod, fsync};
use super::complete::Complete;
use super::disk::{ask, await_sync, begin_sync};
use super::errors::FileError;
use super::plan::{Base, Plan, Planner};
use super::tap::await_ready;
use super::target::{Journals, Target};
use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Kind, Layout, Manifest};
use longhaul_proto::session::message::{Delta, FileOptions, Fsync};
use longhaul_proto::session::reason::Reason;
use rustix::event::PollFlags;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Where it goes.
pub enum Outlet {
    /// To whoever reads this process's standard output.
    StandardOutput,
    /// Into a file.
    File(Base, FileOptions),
}

/// The same, once it is known that nothing is in the way. Nothing has been changed yet.
pub enum Ready {
    /// To whoever reads this process's standard output.
    StandardOutput(File),
    /// Into a file of these permissions.
    File(Box<Plan>, PathBuf, Entry),
}

impl Outlet {
    /// Look at what is there. `entry` has the permissions.
    pub fn look(self, entry: &Entry, stop: &AtomicBool) -> Result<Ready, Reason> {
        let Outlet::File(base, options) = self else {
            let file = io::stdout().as_fd().try_clone_to_owned();
            let file = File::from(file.map_err(FileError::step(STANDARD_OUTPUT))?);
            // Where it is a pipe: fewer changes between its two ends.
            let _ = rustix::pipe::fcntl_setpipe_size(&file, GROUP_LEN as usize);
            return Ok(Ready::StandardOutput(file));
        };
        let dest = base.dest.clone();
        let kind = Kind::File { size: 0, extents: None, version: None };
        let entry = Entry { kind, ..entry.clone() };
        // Nothing of what is there is of use.
        let options = FileOptions { resume: false, checksum: false, delta: Delta::Never, ..options };
        let plan = Planner::new(base, options)?.plan(&Manifest::of(vec![entry.clone()]), stop)?;
        if !plan.renames() {
            return Err(FileError::PipeIntoFolder.at(&dest).into());
        }
        match plan.failures.first() {
            Some(failure) => {
                let line = format!("{}: {}", dest.display(), failure.reason);
                Err(Reason::new(failure.reason.cause, line))
            }
            None => Ok(Ready::File(Box::new(plan), dest, entry)),
        }
    }
}

/// What is being written.
pub(super) enum Opened {
    StandardOutput(File),
    File(Box<Growing>),
}

impl Ready {
    /// Whether writing comes to an end by itself, however little is read of it.
    pub(super) fn is_file(&self) -> bool {
        matches!(self, Ready::File(..))
    }

    pub(super) fn open(self) -> Result<Opened, FileError> {
        match self {
            Ready::StandardOutput(file) => Ok(Opened::StandardOutput(file)),
            Ready::File(plan, dest, entry) => {
                let opened = Growing::begin(&plan, dest.clone(), entry);
                opened.map(|file| Opened::File(Box::new(file))).map_err(|error| error.at(&dest))
            }
        }
    }
}

impl Opened {
    /// Write what comes next, which is verified.
    pub(super) fn write(&mut self, data: &[u8]) -> Result<(), FileError> {
        match self {
            Opened::StandardOutput(file) => write_all(file, data).map_err(FileError::step(STANDARD_OUTPUT)),
            Opened::File(file) => file.write(data).map_err(|error| file.cannot(error)),
        }
    }

    /// All is written. True if it is on the disk, as was asked for.
    pub(super) fn finish(self) -> Result<bool, FileError> {
        match self {
            // Over a network a file may be stored only once it is closed.
            Opened::StandardOutput(file) => {
                let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
                let asked = if is_file { ask(&file) } else { Ok(()) };
                asked.map(|()| false).map_err(FileError::step(STANDARD_OUTPUT))
            }
            Opened::File(mut file) => file.finish().map_err(|error| file.cannot(error)),
        }
    }
}

fn write_all(mut file: &File, mut data: &[u8]) -> io::Result<()> {
    while !data.is_empty() {
        match file.write(data) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => data = &data[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => await_ready(file, PollFlags::OUT)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A file that has no name yet. What there is of it goes with this.
pub(super) struct Growing {
    target: Target,
    complete: Complete,
    dest: PathBuf,
    len: u64,
    fsync: Fsync,
    is_in_place: bool,
}

impl Growing {
    fn begin(plan: &Plan, dest: PathBuf, entry: Entry) -> Result<Growing, FileError> {
        let place = plan.occupy()?.unwrap_or_default();
        let manifest = Arc::new(Manifest::of(vec![entry]));
        let layout = Arc::new(Layout::new(&manifest));
        let target = Target::new(manifest, layout, place, HashMap::new());
        let complete = target.begin(0).map_err(FileError::step("cannot be stored"))?;
        Ok(Growing { target, complete, dest, len: 0, fsync: plan.fsync, is_in_place: false })
    }

    fn cannot(&self, error: io::Error) -> FileError {
        FileError::step("cannot be stored")(error).at(&self.dest)
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        let file = self.complete.file();
        file.write_all_at(data, self.len)?;
        if self.fsync != Fsync::Never {
            // Little is left to wait for in the end, and a slow disk is felt while data comes.
            begin_sync(file, self.len, data.len() as u64)?;
            if let Some(before) = self.len.checked_sub(UNDER_WAY_LEN) {
                await_sync(file, before, GROUP_LEN)?;
            }
        }
        self.len += data.len() as u64;
        Ok(())
    }

    fn finish(&mut self) -> io::Result<bool> {
        let (target, complete) = (&self.target, &self.complete);
        fchmod(complete.file(), mode(target.entry(0)))?;
        match self.fsync {
            Fsync::Always => complete.sync()?,
            Fsync::Auto if self.len > GROUP_LEN => complete.sync()?,
            Fsync::Auto | Fsync::Never => complete.ask()?,
        }
        target.put_in_place(complete)?;
        self.is_in_place = true;
        // What stays of an earlier run takes room and does no harm.
        let _ = target.remove_leftover(0, &mut Journals::new());
        if self.fsync == Fsync::Always {
            target.sync_folder(0)?;
            target.open_above().try_for_each(|above| Ok::<_, io::Error>(fsync(above?)?))?;
        }
        Ok(self.fsync == Fsync::Always)
    }
}

impl Drop for Growing {
    fn drop(&mut self) {
        if !self.is_in_place {
            self.target.discard(&self.complete);
        }
    }
}

const STANDARD_OUTPUT: &str = "standard output cannot be written to";
/// Bytes that are on their way to the disk at a time: enough for any disk to be busy.
const UNDER_WAY_LEN: u64 = 64 << 20;
