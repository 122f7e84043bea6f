//! Does something again and again, on a thread of its own.

use crate::failure::Failure;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Ends when it is dropped, which waits for what is being done.
pub struct Ticker {
    /// Until then.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// From now on; the first time after `every`.
    pub fn start(
        name: &str,
        every: Duration,
        mut act: impl FnMut() + Send + 'static,
    ) -> Result<Ticker, Failure> {
        let (stop, stopped) = channel();
        let mut due = Instant::now() + every;
        let run = move || {
            while stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
                == Err(RecvTimeoutError::Timeout)
            {
                act();
                // What was missed meanwhile is not made up for.
                due = (due + every).max(Instant::now());
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run);
        let thread = thread.map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Ticker { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        // A panic there has been told.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ticks_until_it_is_dropped() {
        let (tell, ticks) = channel();
        let tick = move || {
            let _ = tell.send(());
        };
        let ticker = Ticker::start("tick", Duration::from_millis(1), tick).unwrap();
        assert_eq!((ticks.recv(), ticks.recv()), (Ok(()), Ok(())));
        drop(ticker);
        while ticks.try_recv().is_ok() {}
        assert!(ticks.recv().is_err(), "nobody is left to tell more");
    }
}
