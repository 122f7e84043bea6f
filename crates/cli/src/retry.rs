//! A copy that is tried again: the far side is away, or the path broke. What had arrived is taken over each time.

use longhaul::{Cause, Error, Summary};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often a copy is tried again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Retries {
    /// Not at all.
    #[default]
    Never,
    /// So many times.
    Times(u32),
    /// Until it succeeds, or fails for a reason that time does not mend.
    Forever,
}

/// Read what `--retry` is given.
pub fn parse_retries(text: &str) -> Result<Retries, String> {
    match (text, text.parse()) {
        ("forever", _) => Ok(Retries::Forever),
        (_, Ok(0)) => Ok(Retries::Never),
        (_, Ok(times)) => Ok(Retries::Times(times)),
        _ => Err("give a number of times, or forever".into()),
    }
}

impl Retries {
    /// Copy until it is done, or trying again is no use, or `stop` is set. Why it is tried again is told.
    pub fn run<T: Told>(
        self,
        stop: &AtomicBool,
        told: &mut T,
        mut copy: impl FnMut(&mut T) -> Result<Summary, Error>,
    ) -> Result<Summary, Error> {
        // `None`: any number.
        let mut left = match self {
            Retries::Never => Some(0),
            Retries::Times(times) => Some(times),
            Retries::Forever => None,
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let began = Instant::now();
            let outcome = copy(told);
            let Some(line) = passing(&outcome) else { return outcome };
            match &mut left {
                Some(0) => return outcome,
                Some(times) => *times -= 1,
                None => {}
            }
            // One that went on for a while had found the far side again.
            if began.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            told.trying_again(&format!("{line}; trying again in {} s", pause.as_secs()));
            if !wait(pause, stop) {
                return Err(Error::Interrupted);
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Who is told of failures that time may mend.
pub trait Told {
    /// Why, and when.
    fn trying_again(&mut self, line: &str);
}

/// Why a copy failed, if time may mend it.
fn passing(outcome: &Result<Summary, Error>) -> Option<String> {
    match outcome {
        Err(Error::Interrupted) => None,
        Err(error) => is_passing(error.cause()).then(|| error.to_string()),
        // A session that broke may hold its files for a while yet.
        Ok(summary) => {
            let mut failures = summary.failures.iter();
            let first = failures.clone().next()?;
            failures.all(|failure| is_passing(failure.reason.cause)).then(|| first.reason.to_string())
        }
    }
}

/// Whether the cause lies at the far side or on the way, and may pass.
fn is_passing(cause: Cause) -> bool {
    // The other side says that it is interrupted when it is told to end.
    matches!(cause, Cause::Unreachable | Cause::Silent | Cause::PeerLeft | Cause::InUse | Cause::Interrupted)
}

/// `false` if `stop` was set meanwhile.
fn wait(pause: Duration, stop: &AtomicBool) -> bool {
    let until = Instant::now() + pause;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        sleep(LOOK_EVERY);
    }
    !stop.load(Ordering::Relaxed)
}

const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// A far side that is back is noticed within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How soon Ctrl-C is noticed.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    impl Told for () {
        fn trying_again(&mut self, _line: &str) {}
    }

    #[test]
    fn numbers_and_forever_are_understood() {
        assert_eq!(parse_retries("forever"), Ok(Retries::Forever));
        assert_eq!((parse_retries("0"), parse_retries("3")), (Ok(Retries::Never), Ok(Retries::Times(3))));
        for bad in ["", "often", "-1", "99999999999"] {
            assert!(parse_retries(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_what_time_mends_is_tried_again() {
        let stop = AtomicBool::default();
        let mut tries = 0;
        let mut count = |retries: Retries, error: fn() -> Error| {
            tries = 0;
            let outcome = retries.run(&stop, &mut (), |_| {
                tries += 1;
                Err(error())
            });
            assert!(outcome.is_err());
            tries
        };
        assert_eq!(count(Retries::Never, || Error::PeerLeft), 1);
        assert_eq!(count(Retries::Times(1), || Error::PeerLeft), 2);
        assert_eq!(count(Retries::Forever, || Error::OfferTooLong), 1);
        assert_eq!(count(Retries::Forever, || Error::Interrupted), 1);
    }

    #[test]
    fn a_wish_to_stop_ends_the_waiting() {
        let stop = AtomicBool::default();
        let outcome = Retries::Forever.run(&stop, &mut (), |_| {
            stop.store(true, Ordering::Relaxed);
            Err(Error::PeerLeft)
        });
        assert!(matches!(outcome, Err(Error::Interrupted)));
    }
}
