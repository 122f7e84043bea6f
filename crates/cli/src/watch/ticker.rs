//! Does something again and again, on a thread of its own.

use crate::failure::Failure;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SendError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Ends when it is dropped, which waits for what is being done.
pub struct Ticker {
    /// Until then.
    stop: Option<Sender<Last>>,
    /// Cut off when the thread ends, in whatever way.
    ended: Receiver<()>,
}

/// What is done in the end.
type Last = Box<dyn FnOnce() + Send>;

impl Ticker {
    /// From now on; the first time after `every`.
    pub fn start(
        name: &str,
        every: Duration,
        mut act: impl FnMut() + Send + 'static,
    ) -> Result<Ticker, Failure> {
        let (stop, stopped) = channel::<Last>();
        let (ending, ended) = channel();
        let mut due = Instant::now() + every;
        let run = move || {
            let _ending = ending;
            loop {
                match stopped.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => act(),
                    Err(RecvTimeoutError::Disconnected) => return,
                    Ok(last) => return last(),
                }
                // What was missed meanwhile is not made up for.
                due = (due + every).max(Instant::now());
            }
        };
        let thread = thread::Builder::new().name(name.into()).spawn(run);
        thread.map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Ticker { stop: Some(stop), ended })
    }

    /// Do this for the last time. Waits until it is done, or until its time is up while nobody wants to wait any more.
    pub fn end(mut self, last: impl FnOnce() + Send + 'static, is_unwanted: impl Fn() -> bool) {
        let sent = self.stop.take().map(|stop| stop.send(Box::new(last)));
        if let Some(Err(SendError(last))) = sent {
            // A panic there has been told.
            return last();
        }
        if !await_end(&self.ended, is_unwanted) {
            // What it waits for may never come.
            self.ended = channel().1;
        }
    }
}

/// Wait for a thread, whose channel this is, or until its time is up while nobody wants to wait any more. Whether it has ended.
pub fn await_end(ended: &Receiver<()>, is_unwanted: impl Fn() -> bool) -> bool {
    let mut left = PATIENCE;
    while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if is_unwanted() {
            left = left.saturating_sub(LOOK_EVERY);
        }
        if left.is_zero() {
            return false;
        }
    }
    true
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.ended.recv();
    }
}

/// For what is done last, once nobody wants to wait for it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Whoever waits looks so often whether anybody wants to.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);

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

    #[test]
    fn the_last_comes_after_all_others() {
        let (tell, ticks) = channel();
        let (tick, last) = (tell.clone(), tell);
        let act = move || {
            let _ = tick.send("tick");
        };
        let ticker = Ticker::start("tick", Duration::from_millis(1), act).unwrap();
        assert_eq!(ticks.recv(), Ok("tick"));
        let end = move || {
            let _ = last.send("last");
        };
        ticker.end(end, || true);
        assert_eq!(ticks.iter().last(), Some("last"));
    }

    #[test]
    fn who_does_not_want_to_wait_leaves_what_never_ends() {
        let (_open, never) = channel::<()>();
        let (begun, has_begun) = channel();
        let act = move || {
            let _ = begun.send(());
            let _ = never.recv();
        };
        let ticker = Ticker::start("stuck", Duration::from_millis(1), act).unwrap();
        has_begun.recv().unwrap();
        ticker.end(|| {}, || true);
    }
}
