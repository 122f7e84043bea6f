//! How a push begins: the other host is reached and the files are listed, both at a time.

use super::reach::{Contact, Remote, contact};
use super::session::HEARTBEAT;
use crate::api::{CopyOptions, Observer, Phase, Progress};
use crate::error::Error;
use crate::files::{Exclude, Listed, Lister, PartLimits, Root, ScanOptions, SourceSpec};
use crossbeam_channel::RecvTimeoutError;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The first part of what is to be sent, and what lists the others.
pub type Listing = (Listed, Lister);

/// What comes of the two things that a push begins with.
enum First {
    Met(Result<(Box<Contact>, Instant), Error>),
    Listed(Result<Listing, Error>),
}

/// Reach the other host, and list the files: they take their time side by side. Where one of the two is in vain, so is the
/// other.
pub fn reach_and_list(
    remote: &Remote,
    sources: &[PathBuf],
    options: &CopyOptions,
    observer: &mut dyn Observer,
    stop: &Arc<AtomicBool>,
) -> Result<((Contact, Instant), Listing), Error> {
    let over = Arc::new(AtomicBool::new(false));
    let (tell, told) = crossbeam_channel::unbounded();
    let (mut met, mut listed) = (None, None);
    observer.progress(&Progress::default());
    let outcome = std::thread::scope(|scope| {
        let (tell_too, listing_over, stops) = (tell.clone(), over.clone(), [stop.clone(), over.clone()]);
        let threads = ["connect", "list"].map(|name| std::thread::Builder::new().name(name.into()));
        let [connect, listing] = threads;
        let connecting = connect.spawn_scoped(scope, move || {
            let met = contact(remote, options, &stops).map(|contact| (Box::new(contact), Instant::now()));
            // Nobody waits for it any more if the listing was in vain.
            let _ = tell_too.send(First::Met(met));
        });
        connecting.map_err(Error::Threads)?;
        let listed_here = move || drop(tell.send(First::Listed(list(sources, options, &listing_over))));
        listing.spawn_scoped(scope, listed_here).map_err(|error| {
            over.store(true, Ordering::Relaxed);
            Error::Threads(error)
        })?;
        while met.is_none() || listed.is_none() {
            let broken = match told.recv_timeout(HEARTBEAT) {
                Ok(First::Met(outcome)) => outcome.map(|found| met = Some(found)).err(),
                Ok(First::Listed(outcome)) => outcome.map(|found| listed = Some(found)).err(),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Error::Panicked),
            };
            let broken = broken.or_else(|| stop.load(Ordering::Relaxed).then_some(Error::Interrupted));
            if let Some(broken) = broken {
                over.store(true, Ordering::Relaxed);
                return Err(broken);
            }
            // Ssh may be asking for a password as long as that is not done.
            let phase = if met.is_none() { Phase::Connecting } else { Phase::Comparing };
            observer.progress(&Progress { phase, ..Progress::default() });
        }
        Ok(())
    });
    let ((contact, at), listing) = outcome.and_then(|()| met.zip(listed).ok_or(Error::Panicked))?;
    Ok(((*contact, at), listing))
}

/// List the first part of what is to be sent.
fn list(sources: &[PathBuf], options: &CopyOptions, over: &AtomicBool) -> Result<Listing, Error> {
    let specs: Vec<SourceSpec> = sources.iter().map(|path| SourceSpec { path: path.clone() }).collect();
    let scan_options = ScanOptions {
        exclude: Exclude::new(&options.files.exclude)?,
        files_from: options.files_from.clone(),
        ..ScanOptions::default()
    };
    list_first(Root::ambient(), specs, scan_options, over)
}

/// List the first part, unless `over` is set meanwhile, and go on with the others.
pub fn list_first(
    root: Root,
    sources: Vec<SourceSpec>,
    options: ScanOptions,
    over: &AtomicBool,
) -> Result<Listing, Error> {
    let lister = Lister::start(root, sources, options, PartLimits::default())?;
    let first = lister.wait(over)?;
    first.scan.emptiness().map_or(Ok((first, lister)), |reason| Err(Error::Empty(reason)))
}
