//! Opens the further connections of a copy or a stream, each on a thread of its own for as long as that takes.

use longhaul_proto::units::Time;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// See the [module](self).
pub struct Opener {
    /// Name of its threads.
    name: &'static str,
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
    /// Its threads have this name.
    pub fn new(name: &'static str) -> Opener {
        Opener { name, progress: Arc::default(), retry_at: Time::ZERO, retry_wait: RETRY_MIN }
    }

    /// How many are being opened.
    pub fn opening(&self) -> usize {
        self.lock().opening
    }

    /// So many are missing, not counting those that are being opened. Has `open` open them, which hands over what it
    /// opened; after failures not at once. `wake` is called after each attempt.
    pub fn open(
        &mut self,
        missing: usize,
        now: Time,
        open: impl Fn() -> io::Result<()> + Clone + Send + 'static,
        wake: impl Fn() + Clone + Send + 'static,
    ) {
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
            self.open_one(open.clone(), wake.clone());
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

    fn open_one(&self, open: impl Fn() -> io::Result<()> + Send + 'static, wake: impl Fn() + Send + 'static) {
        self.lock().opening += 1;
        let progress = self.progress.clone();
        let body = move || {
            let outcome = open();
            progress.lock().unwrap_or_else(PoisonError::into_inner).note(outcome);
            wake();
        };
        if let Err(error) = std::thread::Builder::new().name(self.name.into()).spawn(body) {
            self.lock().note(Err(io::Error::new(error.kind(), format!("cannot start a thread: {error}"))));
        }
    }
}

impl Progress {
    /// An attempt is over.
    fn note(&mut self, outcome: io::Result<()>) {
        self.opening -= 1;
        match outcome {
            Ok(()) => self.failed = 0,
            Err(error) => {
                self.failed += 1;
                self.error = error.to_string();
            }
        }
    }
}

const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, Sender, unbounded};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn attempts() -> (Sender<()>, Receiver<()>) {
        unbounded()
    }

    #[test]
    fn after_a_failure_the_next_attempt_comes_later_and_later() {
        let (said, heard) = attempts();
        let mut opener = Opener::new("test");
        let fails = || Err(io::Error::other("no"));
        let mut open = |at_ms| {
            let said = said.clone();
            opener.open(2, Time::from_millis(at_ms), fails, move || said.send(()).unwrap());
        };
        open(1000);
        open(1099);
        open(1100);
        open(1299);
        open(1300);
        let seen = (0..6).map(|_| heard.recv_timeout(PATIENCE)).filter(Result::is_ok).count();
        assert_eq!((seen, heard.try_recv().is_err()), (6, true), "at 1000, 1100 and 1300 ms two each");
        assert_eq!(opener.failure().as_deref(), Some("no"));
    }

    #[test]
    fn a_success_makes_earlier_failures_forgotten() {
        let (said, heard) = attempts();
        let mut opener = Opener::new("test");
        for (at, ok) in [(1000, false), (2000, true)] {
            let said = said.clone();
            let open = move || if ok { Ok(()) } else { Err(io::Error::other("no")) };
            opener.open(1, Time::from_millis(at), open, move || said.send(()).unwrap());
            heard.recv_timeout(PATIENCE).unwrap();
            assert_eq!(opener.failure().is_some(), !ok);
        }
        assert_eq!(opener.opening(), 0);
    }
}
