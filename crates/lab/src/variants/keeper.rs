//! Registered as long as a process wants it, and not longer, however that process ends.
//!
//! Every process that uses a program holds a shared lock on the program's *users* file, which names the sources
//! that it was made from, and has a keeper: a shell that waits for the end of its input, which is the end of the
//! process or of the [`Keeper`]. It then unregisters the program if it gets the users file for itself, that is, if
//! it was the last one's. Whatever changes what is registered happens under the *main lock*.

use super::available;
use super::build;
use super::programs::Program;
use super::tools::{self, BPFTOOL, FLOCK};
use crate::error::LabError;
use crate::variant_error::VariantError;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A program's registration, or a share in it. Dropping the last one removes it.
#[derive(Debug)]
pub(super) struct Keeper {
    name: &'static str,
    process: Child,
    /// None until registered.
    users: Option<File>,
}

impl Keeper {
    /// Register a program, or share the registration of others.
    pub(super) fn engage(program: &Program) -> Result<Keeper, LabError> {
        let folder = build::folder()?;
        // First of all: from here on nothing stays registered, whatever happens.
        let mut keeper = Keeper::start(program.name, &folder)?;
        let main_lock = take_main_lock(&folder)?;
        let path = users_file(&folder, program.name);
        let users = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let users = users.map_err(LabError::at("opening a lock file"))?;
        if lock(&users, FlockOperation::NonBlockingLockExclusive)? && is_registered(program.name) {
            // Left behind by a process whose keeper was killed.
            unregister(program.name)?;
        }
        if !is_registered(program.name) {
            register(program, &folder)?;
        } else if fs::read_to_string(&path).ok() != Some(build::key(program)) {
            return Err(VariantError::InUse { name: program.name.into() }.into());
        }
        lock(&users, FlockOperation::LockShared)?;
        keeper.users = Some(users);
        drop(main_lock);
        Ok(keeper)
    }

    fn start(name: &'static str, folder: &Path) -> Result<Keeper, LabError> {
        let (flock, bpftool) = (FLOCK.path()?, BPFTOOL.path()?);
        let mut shell = Command::new("sh");
        shell.args(["-c", WAIT_AND_REMOVE, "longhaul-keeper"]).args([&flock, &bpftool]);
        shell.args([folder.join(MAIN_LOCK), users_file(folder, name)]).arg(name);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // Apart from the group that Ctrl-C goes to.
        shell.process_group(0).current_dir("/");
        let process = shell.spawn().map_err(LabError::at("starting sh"))?;
        Ok(Keeper { name, process, users: None })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Unlocked rather than closed: a child that another thread has just forked may hold it open until it runs its program.
        if let Some(users) = self.users.take()
            && let Err(error) = flock(&users, FlockOperation::Unlock)
        {
            tracing::warn!(name = self.name, %error, "cannot unlock a file");
        }
        drop(self.process.stdin.take());
        if let Err(error) = self.process.wait() {
            tracing::warn!(name = self.name, %error, "cannot wait until the congestion control is removed");
        }
    }
}

/// Remove a registration that no process uses; whether there was one.
pub(super) fn remove_unused(name: &str) -> Result<bool, LabError> {
    let folder = build::folder()?;
    let _main_lock = take_main_lock(&folder)?;
    match File::open(users_file(&folder, name)) {
        Ok(users) if !lock(&users, FlockOperation::NonBlockingLockExclusive)? => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(LabError::at("opening a lock file")(error)),
    }
    unregister(name)?;
    Ok(true)
}

/// Under the main lock, as all that follows.
fn register(program: &Program, folder: &Path) -> Result<(), LabError> {
    let object = build::object(program, folder)?;
    let mut bpftool = Command::new(BPFTOOL.path()?);
    tools::run("registering", program.name, bpftool.args(["struct_ops", "register"]).arg(object))?;
    let named = fs::write(users_file(folder, program.name), build::key(program));
    named.map_err(LabError::at("writing a lock file"))
}

/// bpftool complains of earlier registrations too, which stay listed while a connection uses them: what counts is that
/// the kernel no longer offers the name.
fn unregister(name: &str) -> Result<(), LabError> {
    let mut bpftool = Command::new(BPFTOOL.path()?);
    let result = tools::run("removing", name, bpftool.args(["struct_ops", "unregister", "name", name]));
    if is_registered(name) { Ok(result.map(drop)?) } else { Ok(()) }
}

fn is_registered(name: &str) -> bool {
    available().iter().any(|one| one == name)
}

fn take_main_lock(folder: &Path) -> Result<File, LabError> {
    let main_lock = File::create(folder.join(MAIN_LOCK)).map_err(LabError::at("opening a lock file"))?;
    lock(&main_lock, FlockOperation::LockExclusive)?;
    Ok(main_lock)
}

/// False if it would have to be waited for.
fn lock(file: &File, operation: FlockOperation) -> Result<bool, LabError> {
    loop {
        match flock(file, operation) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(LabError::at("locking a file")(error)),
        }
    }
}

fn users_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.users"))
}

const MAIN_LOCK: &str = "door";

/// Arguments: flock, bpftool, the main lock, the users file, the name. The keeper outlives a terminal and its Ctrl-C.
const WAIT_AND_REMOVE: &str = "trap '' INT TERM HUP QUIT; cat >/dev/null; \
    exec \"$1\" \"$3\" \"$1\" --nonblock \"$4\" \"$2\" struct_ops unregister name \"$5\"";
