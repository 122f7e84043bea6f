//! Opens lanes from the client's side, each on a thread of its own for as long as that takes.

use super::join::{LaneKey, PATIENCE, join, lane_options};
use super::lane::LaneSocket;
use crate::net::wake::Waker;
use crossbeam_channel::Sender;
use longhaul_proto::units::Time;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What a client needs to know to open lanes.
#[derive(Clone)]
pub struct OpenerConfig {
    /// Where the other side listens; tried in order until one answers.
    pub addresses: Vec<SocketAddr>,
    /// What lanes prove to know.
    pub key: LaneKey,
    /// Name of the kernel's congestion control, if not the usual one.
    pub congestion: Option<String>,
}

/// See the [module](self).
pub struct Opener {
    config: OpenerConfig,
    door: Sender<LaneSocket>,
    waker: Waker,
    progress: Arc<Mutex<Progress>>,
    retry_at: Time,
    retry_wait: Duration,
}

#[derive(Default)]
struct Progress {
    opening: usize,
    /// Attempts that failed in a row, and what the last of them said.
    failed: usize,
    error: String,
}

impl Opener {
    /// Leaves what it opens at `door`, and wakes the session's thread.
    pub fn new(config: OpenerConfig, door: Sender<LaneSocket>, waker: Waker) -> Opener {
        let progress = Arc::default();
        Opener { config, door, waker, progress, retry_at: Time::ZERO, retry_wait: RETRY_MIN }
    }

    /// There are `have` lanes and there should be `wanted`. Opens what is missing; after failures not at once.
    pub fn ensure(&mut self, have: usize, wanted: usize, now: Time) {
        let missing = wanted.saturating_sub(have + self.lock().opening);
        if missing == 0 {
            if now.since(self.retry_at) > RETRY_MAX {
                self.retry_wait = RETRY_MIN;
            }
            return;
        }
        if now < self.retry_at {
            return;
        }
        self.retry_at = now + self.retry_wait;
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
        for _ in 0..missing {
            self.open_one();
        }
    }

    /// Why there are none, once some attempts have failed.
    pub fn failure(&self) -> Option<String> {
        let progress = self.lock();
        (progress.failed > 0 && progress.opening == 0).then(|| progress.error.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_one(&self) {
        self.lock().opening += 1;
        let (config, door, waker, progress) =
            (self.config.clone(), self.door.clone(), self.waker.clone(), self.progress.clone());
        let body = move || {
            let outcome = connect(&config);
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            progress.opening -= 1;
            match outcome {
                Ok(socket) => {
                    progress.failed = 0;
                    // A session that is over, or has lanes enough, closes it.
                    let _ = door.try_send(socket);
                }
                Err(error) => {
                    progress.failed += 1;
                    progress.error = error.to_string();
                }
            }
            drop(progress);
            waker.wake();
        };
        if let Err(error) = std::thread::Builder::new().name("lane-join".into()).spawn(body) {
            let mut progress = self.lock();
            (progress.opening, progress.failed) = (progress.opening - 1, progress.failed + 1);
            progress.error = format!("cannot start a thread: {error}");
        }
    }
}

fn connect(config: &OpenerConfig) -> io::Result<LaneSocket> {
    let options = lane_options(config.congestion.as_deref());
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the other side has no address");
    for address in &config.addresses {
        let deadline = Instant::now() + PATIENCE;
        let joined = options.dial(*address, deadline).and_then(|socket| {
            join(&socket, &config.key, deadline)?;
            Ok(socket)
        });
        match joined {
            Ok(socket) => return Ok(LaneSocket::Tcp(socket)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
