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
    let run = Run::open(folder)?;
    if *request == Request::Status {
        return serde_json::to_value(run.status()?).map_err(|error| Failure::Failed(error.to_string()));
    }
    run.change_wish(|wish| match request {
        Request::Rate { rate } => wish.ask_for_rate(rate),
        Request::Pause => wish.ask_for_pause(true),
        Request::Resume => wish.ask_for_pause(false),
        Request::Status => {}
    })?;
    Ok(serde_json::Value::Null)
}

/// Have a part, whose rates follow the board, do what is wished of all, until what is returned is dropped.
pub fn follow(run: &Arc<Run>, board: &Arc<Board>, needs_rate: bool) -> Result<Ticker, Failure> {
    let (run, board) = (run.clone(), board.clone());
    let (mut heeded, mut has_told) = (Wish::default(), false);
    let mut look = move || match run.wish() {
        Ok(wish) => {
            for request in changes(&heeded, &wish) {
                if let Err(error) = heed(&request, &board, needs_rate) {
                    output::warn(&error);
                }
            }
            (heeded, has_told) = (wish, false);
        }
        // It may be readable the next time.
        Err(error) if !std::mem::replace(&mut has_told, true) => {
            output::warn(&format!("what longhaul ctl asks of all parts is not heeded: {error}"));
        }
        Err(_) => {}
    };
    // Before anything is sent.
    look();
    Ticker::start("wishes", LOOK_EVERY, look)
}

/// What is asked of a part that did as was wished before. What it was told by itself stays until that is asked for anew.
fn changes(before: &Wish, now: &Wish) -> Vec<Request> {
    let has_new_rate = now.rate_asked_ns != before.rate_asked_ns;
    let rate = now.rate.clone().filter(|_| has_new_rate).map(|rate| Request::Rate { rate });
    let pause = if now.paused { Request::Pause } else { Request::Resume };
    rate.into_iter().chain((now.pause_asked_ns != before.pause_asked_ns).then_some(pause)).collect()
}

/// As often as it is told how far a part is.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_asked_for_what_is_wished_anew_alone() {
        let wish = |(rate, rate_asked_ns): (Option<&str>, u64), (paused, pause_asked_ns)| Wish {
            rate: rate.map(Into::into),
            paused,
            rate_asked_ns,
            pause_asked_ns,
        };
        let mut asked = Wish::default();
        asked.ask_for_rate("1gbit");
        let before = asked.clone();
        asked.ask_for_rate("1gbit");
        assert_eq!(changes(&before, &asked).len(), 1);
        let rate = Request::Rate { rate: "1gbit".into() };
        let (none, first) = (Wish::default(), wish((Some("1gbit"), 1), (true, 1)));
        assert_eq!(changes(&none, &none), []);
        assert_eq!(changes(&none, &first), [rate.clone(), Request::Pause]);
        assert_eq!(changes(&first, &wish((Some("1gbit"), 1), (false, 2))), [Request::Resume]);
        // It may have been told something else by itself.
        assert_eq!(changes(&first, &wish((Some("1gbit"), 2), (true, 1))), [rate]);
        assert_eq!(changes(&first, &wish((Some("1gbit"), 1), (true, 2))), [Request::Pause]);
    }
}
