//! A copy in parts is steered by a file in its folder, at which all who are at work look.

use super::Request;
use super::server::heed;
use crate::failure::Failure;
use crate::output;
use crate::watch::{Board, Ticker};
use longhaul::planned::{Run, Wish};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Have all parts of the copy in this folder do so, and tell how far it is.
pub(super) fn wish(folder: &Path, request: &Request) -> Result<serde_json::Value, Failure> {
    let failed = |error: longhaul::PlanError| Failure::from(longhaul::Error::from(error));
    let run = Run::open(folder).map_err(failed)?;
    let mut wish = run.wish().map_err(failed)?;
    match request {
        Request::Rate { rate } => wish.rate = Some(rate.clone()),
        Request::Pause => wish.paused = true,
        Request::Resume => wish.paused = false,
        Request::Status => {
            let status = run.status().map_err(failed)?;
            return serde_json::to_value(status).map_err(|error| Failure::Failed(error.to_string()));
        }
    }
    run.set_wish(&wish).map_err(failed)?;
    Ok(serde_json::Value::Null)
}

/// Have a part, whose rates follow the board, do what is wished of all, until what is returned is dropped.
pub fn follow(run: &Arc<Run>, board: &Arc<Board>, needs_rate: bool) -> Result<Ticker, Failure> {
    let (run, board) = (run.clone(), board.clone());
    let mut heeded = Wish::default();
    let mut look = move || {
        // What cannot be read now may be readable the next time.
        if let Ok(wish) = run.wish().inspect_err(|error| tracing::debug!("{error}"))
            && wish != heeded
        {
            for request in changes(&heeded, &wish) {
                if let Err(error) = heed(&request, &board, needs_rate) {
                    output::warn(&error);
                }
            }
            heeded = wish;
        }
    };
    // Before anything is sent.
    look();
    Ticker::start("wishes", LOOK_EVERY, look)
}

/// What is asked of a part that did as was wished before. What it was told by itself stays as long as nothing else is wished.
fn changes(before: &Wish, now: &Wish) -> Vec<Request> {
    let rate = now.rate.clone().filter(|_| now.rate != before.rate).map(|rate| Request::Rate { rate });
    let pause = match now.paused {
        true => Request::Pause,
        false => Request::Resume,
    };
    rate.into_iter().chain((now.paused != before.paused).then_some(pause)).collect()
}

/// As often as it is told how far a part is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_asked_for_what_is_wished_anew_alone() {
        let wish = |rate: Option<&str>, paused| Wish { rate: rate.map(Into::into), paused };
        let rate = |text: &str| Request::Rate { rate: text.into() };
        let none = wish(None, false);
        assert_eq!(changes(&none, &wish(Some("1gbit"), true)), [rate("1gbit"), Request::Pause]);
        assert_eq!(changes(&wish(Some("1gbit"), true), &wish(Some("1gbit"), false)), [Request::Resume]);
        assert_eq!(changes(&wish(Some("1gbit"), false), &wish(Some("none"), false)), [rate("none")]);
        assert_eq!(changes(&none, &none), []);
    }
}
