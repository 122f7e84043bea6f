//! The program `longhaul-store`: a bucket of an object store as a folder, for a daemon that stands beside it.
//!
//! The receiver of a copy knows files: it writes a part file at many places, syncs it, notes that in a journal, and gives the file its
//! name when all of it is verified. Here that becomes an upload in parts: a part leaves as soon as it is whole ([`draft`]), and the name
//! completes the upload. Who looks at the bucket sees the old object or the new one. What the copy keeps beside its part files lies in
//! a folder of ours ([`drafts`]) and never reaches the store.
//!
//! It is a program of its own, mounted by the kernel's FUSE, so that the program that travels over ssh carries nothing of it, and so
//! that the daemon, which strangers talk to, makes no connection to the store.

#![allow(rustdoc::private_intra_doc_links)]

mod args;
mod cut;
mod digest;
mod draft;
mod drafts;
mod folder;
mod kernel;
mod nodes;
mod note;
mod object;
mod place;
mod reading;
mod store;
mod view;

use args::{Cli, Command, MountArgs};
use clap::{CommandFactory, Parser};
use drafts::Drafts;
use folder::Folder;
use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use kernel::Kernel;
use longhaul_cli::failure::Failure;
use longhaul_cli::output::Exit;
use longhaul_cli::values::describe;
use longhaul_cli::{help, log, output, signals};
use place::{Access, Place};
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use store::Store;

/// Run the program `longhaul-store`.
pub fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(cli) => run(&cli.command),
        Err(error) => {
            let _ = error.print();
            if error.use_stderr() { Exit::Usage } else { Exit::Done }
        }
    };
    exit.into()
}

fn run(command: &Command) -> Exit {
    let outcome = match command {
        Command::Mount(args) => mount(args),
        Command::Completions(args) => Ok(help::completions(args, Cli::command())),
        Command::Man(args) => help::manual(args, Cli::command(), &[]),
    };
    outcome.unwrap_or_else(|failure| {
        output::error(&failure.to_string());
        Exit::from(&failure)
    })
}

fn mount(args: &MountArgs) -> Result<Exit, Failure> {
    let usage = |error: place::PlaceError| Failure::Usage(error.to_string());
    let place = Place::parse(&args.place).map_err(usage)?;
    let access = Access::from_env(&place).map_err(usage)?;
    log::start("info")?;
    let failed = |what: &str, error: &io::Error| Failure::Failed(format!("{what}: {}", describe(error)));
    let state = match &args.state {
        Some(folder) => folder.clone(),
        None => usual_state(&place, &access)?,
    };
    let store = Arc::new(Store::new(access));
    store.check(&place.prefix).map_err(|error| failed(&args.place, &error))?;
    let drafts = Drafts::new(store.clone(), place.prefix.clone(), &state).map_err(|error| {
        if error.kind() == io::ErrorKind::ResourceBusy {
            let what = "another longhaul-store has this folder; give each a --state of its own";
            return Failure::Failed(format!("{}: {what}", state.display()));
        }
        failed(&state.display().to_string(), &error)
    })?;
    let folder = Folder::new(store, &place.prefix, drafts).map_err(|error| failed("threads", &error))?;
    let mut session = begin(Kernel::new(folder), &args.place, &args.folder)
        .map_err(|error| failed(&args.folder.display().to_string(), &error))?;
    // Whoever stops a daemon with a signal to all of its processes stops this one when that has ended.
    let stop = signals::stop_flag()?;
    let begun = if args.with_parent {
        thread::Builder::new().name("parent".into()).spawn(end_with_parent)
    } else {
        let unmounter = session.unmount_callable();
        thread::Builder::new().name("end".into()).spawn(move || end_by_signal(unmounter, &stop))
    };
    begun.map_err(|error| failed("threads", &error))?;
    output::result(&format!("{} is at {}", args.place, args.folder.display()));
    session.run().map_err(|error| failed(&args.folder.display().to_string(), &error))?;
    Ok(Exit::Done)
}

/// Where files lie while they are being written: one folder for each bucket and folder in it.
fn usual_state(place: &Place, access: &Access) -> Result<PathBuf, Failure> {
    let state = longhaul::state_folder()
        .ok_or_else(|| Failure::Usage("there is no $HOME to keep files in; give --state DIR".into()))?;
    let url = format!("{}{}", access.bucket.base_url(), place.prefix);
    let hash = blake3::hash(url.as_bytes()).to_hex();
    Ok(state.join("store").join(format!("{}-{}", place.bucket, &hash[..16])))
}

fn begin(kernel: Kernel, name: &str, at: &Path) -> io::Result<Session<Kernel>> {
    let mut config = Config::default();
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    if let Some(number) = at.to_str().and_then(|at| at.strip_prefix("/dev/fd/")) {
        let number = number.parse().map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: whoever called this program has opened the descriptor for it, and nothing else here knows its number.
        let device = unsafe { OwnedFd::from_raw_fd(number) };
        return Session::from_fd(kernel, device, SessionACL::Owner, config);
    }
    config.mount_options = vec![
        MountOption::FSName(name.into()),
        MountOption::Subtype("longhaul".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    Session::new(kernel, at, &config)
}

/// Nobody can use the mount when whoever made it is gone.
fn end_with_parent() {
    let _ = io::stdin().read_to_end(&mut vec![]);
    exit(0);
}

/// What is on its way is gone on with at the next start.
fn end_by_signal(mut unmounter: SessionUnmounter, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(SIGNALS_EVERY);
    }
    let _ = unmounter.unmount();
    exit(0);
}

/// How long a signal may wait.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
/// Each answers one question of the kernel's at a time, and mostly waits for the store.
const THREADS: usize = 24;
