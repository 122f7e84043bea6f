//! How a push begins: the other host is reached and the files are listed, both at a time.

use super::connect::{Connection, Remote, connect};
use super::session::HEARTBEAT;
use crate::api::{CopyOptions, Observer, Phase, Progress};
use crate::error::Error;
use crate::files::{Exclude, Listed, Lister, PartLimits, Root, ScanOptions, SourceSpec};
use crate::net::wake::Waker;
use crossbeam_channel::{Receiver, Sender, TryRecvError};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The first part of what is to be sent, and what lists the others.
pub type Listing = (Listed, Lister);

/// How far the other host is reached.
pub enum Reached {
    /// Since then.
    Connected(Box<Connection>, Instant),
    /// The TCP connection is under way; UDP need not wait for it.
    Connecting(Connecting),
}

/// A daemon whose TCP connection is under way.
pub struct Connecting {
    /// Where that leads to.
    pub address: SocketAddr,
    /// Rung when there is news of it.
    pub waker: Waker,
    tried_at: Instant,
    connected: Option<(Box<Connection>, Instant)>,
    news: Receiver<News>,
}

/// What comes of reaching the other host.
enum News {
    /// It is tried there since then.
    Trying(SocketAddr, Instant),
    Connected(Result<(Box<Connection>, Instant), Error>),
}

impl Connecting {
    /// One that has come to nothing.
    #[cfg(test)]
    pub fn in_vain(address: SocketAddr, why: Error) -> Connecting {
        let (tell, news) = crossbeam_channel::unbounded();
        tell.send(News::Connected(Err(why))).expect("somebody listens");
        Connecting {
            address,
            waker: Waker::new().expect("a waker"),
            tried_at: Instant::now(),
            connected: None,
            news,
        }
    }

    /// Since when it is there, and how long it took, if so.
    pub fn poll(&mut self) -> Result<Option<(Instant, Duration)>, Error> {
        while let Ok(news) = self.news.try_recv() {
            match news {
                News::Trying(_, at) => self.tried_at = at,
                News::Connected(connected) => self.connected = Some(connected?),
            }
        }
        Ok(self.connected.as_ref().map(|(_, at)| (*at, at.duration_since(self.tried_at))))
    }

    /// The connection, once it is there.
    pub fn take(&mut self) -> Option<Connection> {
        self.connected.take().map(|(connection, _)| *connection)
    }

    /// Wait for its connection. `None`: it is not to be had.
    pub fn into_socket(self) -> Option<TcpStream> {
        let connected = self.connected.map(Ok).or_else(|| {
            self.news.iter().find_map(|news| match news {
                News::Connected(connected) => Some(connected),
                News::Trying(..) => None,
            })
        });
        match connected? {
            Ok((connection, _)) => connection.into_socket(),
            Err(error) => {
                tracing::warn!("no TCP connection for the control stream: {error}");
                None
            }
        }
    }
}

/// Reach the other host, and list the files: they take their time side by side. Where one of the two is in vain, so is the
/// other. What `may_overtake` the connection does not wait for it.
pub fn reach_and_list(
    remote: &Remote,
    list: impl FnOnce(&AtomicBool) -> Result<Listing, Error> + Send,
    options: &CopyOptions,
    observer: &mut dyn Observer,
    stop: &Arc<AtomicBool>,
    may_overtake: impl Fn(&Listed) -> bool,
) -> Result<(Reached, Listing), Error> {
    let over = Arc::new(AtomicBool::new(false));
    let waker = Waker::new()?;
    observer.progress(&Progress::default());
    let news = reach(remote, options, vec![stop.clone(), over.clone()], &waker)?;
    let (tell, listing) = crossbeam_channel::bounded(1);
    let (mut address, mut connected, mut listed) = (None, None, None);
    let outcome = std::thread::scope(|scope| {
        let (listing_over, list_waker) = (over.clone(), waker.clone());
        let listed_here = move || {
            let _ = tell.send(list(&listing_over));
            list_waker.wake();
        };
        let thread = std::thread::Builder::new().name("list".into()).spawn_scoped(scope, listed_here);
        thread.map_err(|error| {
            over.store(true, Ordering::Relaxed);
            Error::Threads(error)
        })?;
        loop {
            let mut broken = None;
            loop {
                match news.try_recv() {
                    Ok(News::Trying(tried, at)) => address = Some((tried, at)),
                    Ok(News::Connected(outcome)) => {
                        broken = outcome.map(|found| connected = Some(found)).err()
                    }
                    Err(TryRecvError::Disconnected) if connected.is_none() && broken.is_none() => {
                        broken = Some(Error::Panicked);
                    }
                    Err(_) => break,
                }
            }
            if let Ok(outcome) = listing.try_recv() {
                broken = broken.or(Result::map(outcome, |found| listed = Some(found)).err());
            }
            let broken = broken.or_else(|| stop.load(Ordering::Relaxed).then_some(Error::Interrupted));
            if let Some(broken) = broken {
                over.store(true, Ordering::Relaxed);
                return Err(broken);
            }
            let overtakes = |listed: &Listing| address.is_some() && may_overtake(&listed.0);
            if listed.as_ref().is_some_and(|listed| connected.is_some() || overtakes(listed)) {
                return Ok(());
            }
            // Ssh may be asking for a password as long as that is not done.
            let phase = if connected.is_none() { Phase::Connecting } else { Phase::Comparing };
            observer.progress(&Progress { phase, ..Progress::default() });
            waker.wait_many(vec![], HEARTBEAT)?;
        }
    });
    if outcome.is_err() && matches!(remote, Remote::Ssh { .. }) {
        // An ssh that asks for a password is ended before this program is.
        while news.recv().is_ok() {}
    }
    outcome?;
    let listing = listed.ok_or(Error::Panicked)?;
    let reached = match (connected, address) {
        (Some((connection, at)), _) => Reached::Connected(connection, at),
        (None, Some((address, tried_at))) => {
            Reached::Connecting(Connecting { address, waker, tried_at, connected: None, news })
        }
        (None, None) => return Err(Error::Panicked),
    };
    Ok((reached, listing))
}

/// Reach the other host on a thread of its own.
fn reach(
    remote: &Remote,
    options: &CopyOptions,
    stops: Vec<Arc<AtomicBool>>,
    waker: &Waker,
) -> Result<Receiver<News>, Error> {
    let (tell, news) = crossbeam_channel::unbounded();
    let (remote, options, waker) = (remote.clone(), options.clone(), waker.clone());
    let work = move || {
        let told = |tell: &Sender<News>, news| {
            // Nobody waits for it any more if the listing was in vain.
            let _ = tell.send(news);
            waker.wake();
        };
        let connected =
            connect(&remote, &options, &stops, |address| told(&tell, News::Trying(address, Instant::now())));
        told(&tell, News::Connected(connected.map(|connection| (Box::new(connection), Instant::now()))));
    };
    std::thread::Builder::new().name("connect".into()).spawn(work).map_err(Error::Threads)?;
    Ok(news)
}

/// List the first part of what is to be sent.
pub fn list(sources: &[PathBuf], options: &CopyOptions, over: &AtomicBool) -> Result<Listing, Error> {
    let specs: Vec<SourceSpec> = sources.iter().map(|path| SourceSpec { path: path.clone() }).collect();
    let scan_options = ScanOptions {
        exclude: Exclude::new(&options.files.exclude)?,
        files_from: options.files_from.clone(),
        preserve: options.files.preserve,
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
    first_of(Lister::start(root, sources, options, PartLimits::default())?, over)
}

/// Wait for the first part of a listing, unless `over` is set meanwhile.
pub fn first_of(lister: Lister, over: &AtomicBool) -> Result<Listing, Error> {
    let first = lister.wait(over)?;
    first.scan.emptiness().map_or(Ok((first, lister)), |reason| Err(Error::Empty(reason)))
}
