//! What a session's user is told while data moves, beside its progress.

use super::session::Session;
use crate::api::{Breakdown, PathSummary, StreamSummary};
use crate::trace::{Event, Record};
use longhaul_proto::session::message::{FILES_DONE_SINCE, Message};
use longhaul_proto::units::Time;
use std::time::Duration;

impl Session<'_> {
    /// Tell this side's user, twice a second, how the data divides over paths and TCP streams.
    pub fn tell_breakdown(&mut self, now: Time) {
        if now.since(self.breakdown_told) < TELL_EVERY || !self.observer.wants_breakdown() {
            return;
        }
        self.breakdown_told = now;
        let streams = self.link.streams().figures().map(|stream| StreamSummary {
            from: stream.ends[0],
            to: stream.ends[1],
            bytes: stream.bytes,
            rtt_ms: stream.rtt.as_secs_f64() * 1e3,
        });
        let breakdown = Breakdown {
            streams: streams.collect(),
            paths: self.path_status.iter().map(PathSummary::from).collect(),
        };
        self.observer.breakdown(&breakdown);
    }

    /// A line of the trace, if there is one.
    pub fn trace(&mut self, path: usize, event: Event) {
        if self.observer.wants_trace() {
            self.observer.trace(Record::new(self.began.elapsed(), path, event));
        }
    }

    /// The side that receives has so many regular files in place: tell the sender if that is news.
    pub fn tell_files_done(&mut self, files: u64) {
        if self.files_done.replace(files) != Some(files) && self.control.version() >= FILES_DONE_SINCE {
            self.control.send(Message::FilesDone(files));
        }
    }
}

const TELL_EVERY: Duration = Duration::from_millis(500);
