//! What is known of a copy at a moment: one thread writes it down, any may look.

use crate::output::program_start;
use longhaul::{
    Breakdown, Carrier, CopyOptions, Limit, LimitSpans, LiveControl, Pace, PathSummary, Progress, Rate,
    StreamSummary,
};
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// See the [module](self).
#[derive(Default)]
pub struct Board {
    known: Mutex<Known>,
    live: Arc<LiveControl>,
}

#[derive(Default)]
struct Known {
    progress: Progress,
    told_at: Option<Instant>,
    breakdown: Breakdown,
}

impl Board {
    /// Whoever looks on may have a say: the rates of these options from now on follow [`Board::live`].
    pub fn adopt(&self, options: &mut CopyOptions) {
        let given = options.live.replace(self.live.clone());
        given.into_iter().for_each(|given| self.live.set_rates(given.rates()));
    }

    /// How fast it may go.
    pub fn live(&self) -> &LiveControl {
        &self.live
    }

    /// How far it is.
    pub fn note(&self, progress: &Progress) {
        let mut known = self.lock();
        (known.progress, known.told_at) = (*progress, Some(Instant::now()));
    }

    /// How its data divides.
    pub fn note_breakdown(&self, breakdown: &Breakdown) {
        self.lock().breakdown = breakdown.clone();
    }

    /// What was told last. Of what is silent nothing moves.
    pub fn progress(&self) -> Progress {
        let known = self.lock();
        let is_fresh = known.told_at.is_some_and(|at| at.elapsed() < FRESH_FOR);
        let goodput = if is_fresh { known.progress.goodput } else { Default::default() };
        Progress { goodput, ..known.progress }
    }

    /// The same, for programs.
    pub fn figures(&self) -> Figures {
        let Breakdown { paths, streams } = self.lock().breakdown.clone();
        Figures::new(&self.progress(), self.live.pace(), paths, streams)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How far a copy is, as the JSON tells it.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Since the program began.
    pub elapsed_seconds: f64,
    /// What it is doing.
    pub phase: &'static str,
    /// Data bytes that the receiver has.
    pub bytes_done: u64,
    /// In all, as far as they are listed; unknown of a pipe.
    pub bytes_total: Option<u64>,
    /// Of those done, bytes of files that were there.
    pub skipped_bytes: u64,
    /// Of those done, bytes taken over.
    pub resumed_bytes: u64,
    /// Regular files in place.
    pub files_done: Option<u64>,
    /// In all, as far as they are listed.
    pub files_total: u64,
    /// New data over the last second or so.
    pub rate_mbps: f64,
    /// Until all is there, at this rate.
    pub seconds_left: Option<f64>,
    /// Smoothed round trip.
    pub rtt_ms: Option<f64>,
    /// Share of datagrams lost lately.
    pub loss: f64,
    /// It is held up until its user has it go on.
    pub paused: bool,
    /// What its user lets it go at, by now.
    pub rate_limit_mbps: Option<f64>,
    /// What holds it back now.
    pub limited_by: Limit,
    /// For how long each limit has held.
    pub limits_ms: LimitSpans,
    /// What carries the data.
    pub transport: Carrier,
    /// Each of several paths.
    pub paths: Vec<PathSummary>,
    /// Each TCP stream.
    pub streams: Vec<StreamSummary>,
}

impl Figures {
    fn new(progress: &Progress, pace: Pace, paths: Vec<PathSummary>, streams: Vec<StreamSummary>) -> Figures {
        Figures {
            elapsed_seconds: program_start().elapsed().as_secs_f64(),
            phase: progress.phase.name(),
            bytes_done: progress.bytes_done,
            bytes_total: Some(progress.bytes_total).filter(|total| *total > 0),
            skipped_bytes: progress.skipped_bytes,
            resumed_bytes: progress.resumed_bytes,
            files_done: progress.files_done,
            files_total: progress.files_total,
            rate_mbps: progress.goodput.as_mbps(),
            seconds_left: time_left(progress).map(|left| left.as_secs_f64()),
            rtt_ms: Some(progress.rtt.as_secs_f64() * 1e3).filter(|ms| *ms > 0.0),
            loss: progress.loss,
            paused: pace.paused,
            rate_limit_mbps: pace.rate.map(Rate::as_mbps),
            limited_by: progress.limited_by,
            limits_ms: progress.limits,
            transport: progress.carrier,
            paths,
            streams,
        }
    }
}

/// How long the rest takes at the present rate; `None` while nothing moves.
pub fn time_left(progress: &Progress) -> Option<Duration> {
    let left = progress.bytes_total.saturating_sub(progress.bytes_done);
    (left > 0 && progress.goodput.0 > 0).then(|| progress.goodput.time_for(left))
}

/// It is told ten times a second.
const FRESH_FOR: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::Phase;

    #[test]
    fn what_is_not_known_is_null() {
        let board = Board::default();
        let value = serde_json::to_value(board.figures()).unwrap();
        for unknown in ["bytes_total", "files_done", "seconds_left", "rtt_ms", "rate_limit_mbps"] {
            assert!(value[unknown].is_null(), "{unknown}: {value}");
        }
        assert_eq!(value["phase"], "connecting");
    }

    #[test]
    fn figures_are_those_told_last() {
        let board = Board::default();
        board.note(&Progress {
            phase: Phase::Moving,
            bytes_done: 20_000_000,
            bytes_total: 40_000_000,
            goodput: Rate::from_mbps(80.0),
            rtt: Duration::from_millis(65),
            files_done: Some(3),
            limited_by: Limit::Loss,
            ..Progress::default()
        });
        let value = serde_json::to_value(board.figures()).unwrap();
        assert_eq!((&value["rate_mbps"], &value["seconds_left"]), (&80.0.into(), &2.0.into()));
        assert_eq!((&value["rtt_ms"], &value["files_done"]), (&65.0.into(), &3.into()));
        assert_eq!((&value["limited_by"], &value["transport"]), (&"loss".into(), &"object".into()));
    }
}
