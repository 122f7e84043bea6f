//! Lists the sources part by part on a thread of its own, a little ahead of whoever sends them.

use super::errors::FileError;
use super::reader::Wake;
use super::root::Root;
use super::scan::{PartLimits, ScanOptions, SourceSpec, scan_in_parts};
use super::scanned::Scan;
use super::tap::{Stretch, Tap};
use crate::listing::{self, ListingError};
use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError, bounded};
use longhaul_proto::session::manifest::Manifest;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A part of what there is to copy, and its listing for the other side.
#[derive(Debug)]
pub struct Listed {
    /// The part.
    pub scan: Arc<Scan>,
    /// Its manifest and errors, compressed.
    pub listing: Vec<u8>,
    /// Its data, where it comes from a pipe.
    pub stretch: Option<Stretch>,
}

/// Gives one part after the other. Listing ends when this is dropped.
#[derive(Debug)]
pub struct Lister(Origin);

#[derive(Debug)]
enum Origin {
    /// Files and folders, listed by a thread.
    Files { parts: Receiver<Result<Listed, ListingError>>, stop: Arc<AtomicBool> },
    /// What comes of a pipe.
    Pipe(Tap),
}

impl Lister {
    /// Begin to list.
    pub fn start(
        root: Root,
        sources: Vec<SourceSpec>,
        options: ScanOptions,
        limits: PartLimits,
    ) -> Result<Lister, FileError> {
        let stop = options.stop.clone();
        Lister::of(stop, move |emit| scan_in_parts(&root, &sources, &options, limits, emit))
    }

    /// Begin to list as `work` does; `stop` is set when nobody wants any more of it.
    pub(crate) fn of(
        stop: Arc<AtomicBool>,
        work: impl FnOnce(&mut dyn FnMut(Scan) -> bool) + Send + 'static,
    ) -> Result<Lister, FileError> {
        // One part waits here while the next is being listed.
        let (tell, parts) = bounded(1);
        let list = move || {
            work(&mut |scan| {
                let listing = match scan.is_crowded {
                    false => listing::encode(&scan.manifest, &scan.errors),
                    true => Err(ListingError::Busy),
                };
                let is_sound = listing.is_ok();
                let listed = listing.map(|listing| Listed { scan: Arc::new(scan), listing, stretch: None });
                tell.send(listed).is_ok() && is_sound
            });
        };
        let thread = std::thread::Builder::new().name("longhaul-list".into());
        thread.spawn(list).map_err(FileError::step("no thread can be started"))?;
        Ok(Lister(Origin::Files { parts, stop }))
    }

    /// What comes of a pipe, a stretch at a time.
    pub fn of_pipe(tap: Tap) -> Lister {
        Lister(Origin::Pipe(tap))
    }

    /// `wake` is called when more has come of a pipe.
    pub fn tell(&self, wake: &Wake) {
        if let Origin::Pipe(tap) = &self.0 {
            tap.tell(wake.clone());
        }
    }

    /// Wait for the next part, unless `over` is set meanwhile.
    pub fn wait(&self, over: &AtomicBool) -> Result<Listed, ListingError> {
        let parts = match &self.0 {
            Origin::Files { parts, .. } => parts,
            Origin::Pipe(tap) => return listed(tap.wait(over)),
        };
        loop {
            match parts.recv_timeout(LOOK_EVERY) {
                Ok(part) => return part,
                Err(RecvTimeoutError::Timeout) if !over.load(Ordering::Relaxed) => {}
                Err(_) => return Err(ListingError::BrokenOff),
            }
        }
    }

    /// The next part, if it is there.
    pub fn poll(&self) -> Option<Result<Listed, ListingError>> {
        let parts = match &self.0 {
            Origin::Files { parts, .. } => parts,
            Origin::Pipe(tap) => return tap.poll().map(listed),
        };
        match parts.try_recv() {
            Ok(part) => Some(part),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(ListingError::BrokenOff)),
        }
    }
}

impl Drop for Lister {
    fn drop(&mut self) {
        if let Origin::Files { stop, .. } = &self.0 {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

fn listed(taken: Result<(Stretch, Manifest), FileError>) -> Result<Listed, ListingError> {
    let (stretch, manifest) = taken.map_err(|error| ListingError::Unreadable(error.into()))?;
    let listing = listing::encode(&manifest, &[])?;
    let scan = Arc::new(Scan::of_pipe(manifest));
    Ok(Listed { scan, listing, stretch: Some(stretch) })
}

/// How long it may take to notice that nobody waits any more.
const LOOK_EVERY: Duration = Duration::from_millis(100);
