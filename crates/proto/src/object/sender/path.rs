//! What a sender knows of one path, and how it comes to send over several.
//!
//! The object, its bitmaps and the selector are one; each path takes the next packet when it is ready. All else is a path's
//! own: numbers of datagrams, round trip, controller, pacer, what is on its way and what was lost. What a path loses goes
//! back to the object, and whichever path is ready first sends it. A path on which nothing comes back sends only copies of
//! what the others send, so that none of them waits for it; it is found to be there again by these.

use super::super::flight::Flight;
use super::super::sending::{Blocked, Channel, SenderStats, Totals};
use super::marking::Marking;
use super::{REORDER_MIN, Sender};
use crate::control::{Controller, Snapshot};
use crate::ecn::Ecn;
use crate::endpoint::{Endpoint, Source};
use crate::pacer::Pacer;
use crate::rtt::Rtt;
use crate::units::{DatagramNumber, Rate, Time};
use core::time::Duration;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct PathState {
    pub controller: Box<dyn Controller>,
    pub pacer: Pacer,
    pub rtt: Rtt,
    /// How datagrams travel at present.
    pub channel: Channel,
    pub marking: Marking,
    pub flight: Flight,
    /// Datagrams with lower numbers belong to an earlier cut of the object.
    pub cut_from: DatagramNumber,
    /// Datagrams of before there was a sender, while nothing has been acknowledged: the window is not for them.
    pub sent_before: u64,
    /// Datagrams given up since an acknowledgement last named data that came in.
    pub vanished: u64,
    /// When the newest datagram that one named had left.
    pub proven: Time,
    /// Datagrams left to send of the controller's train.
    pub train_left: u32,
    /// When the last datagram of data left.
    pub last_sent: Time,
    /// A loss from here on opens a new congestion episode.
    pub episode_from: DatagramNumber,
    /// When the largest acknowledged datagram left.
    pub largest_sent: Time,
    pub reorder_window: Duration,
    pub app_limited: bool,
    /// Going down from here to repeat what is on its way at the end of the object.
    pub hedge_from: DatagramNumber,
    pub blocked: Blocked,
    /// What concerns this path.
    pub stats: SenderStats,
    /// Of these, what went by TCP streams: the controller does not hear of it.
    pub base: Totals,
    /// What the controller was last told: it never goes back.
    pub told: Totals,
}

impl PathState {
    /// One over which nothing has gone yet.
    pub fn new(rtt: Duration, ecn: Ecn, controller: Box<dyn Controller>) -> PathState {
        PathState {
            controller,
            pacer: Pacer::new(),
            rtt: Rtt::new(rtt),
            channel: Channel::Datagrams,
            marking: Marking::new(ecn),
            flight: Flight::default(),
            cut_from: 0,
            sent_before: 0,
            vanished: 0,
            proven: Time::ZERO,
            train_left: 0,
            last_sent: Time::ZERO,
            episode_from: 0,
            largest_sent: Time::ZERO,
            reorder_window: (rtt / 8).max(REORDER_MIN),
            app_limited: false,
            hedge_from: 0,
            blocked: Blocked::Pacing,
            stats: SenderStats::default(),
            base: Totals::default(),
            told: Totals::default(),
        }
    }

    fn is_silent(&self) -> bool {
        self.stats.timeouts_in_a_row > 0
    }
}

/// How a path of a sender does.
#[derive(Clone, Copy, Debug)]
pub struct PathFigures {
    /// Its counters.
    pub stats: SenderStats,
    /// Its round trip.
    pub rtt: Rtt,
    /// Nothing comes back over it.
    pub is_silent: bool,
    /// What its controller takes it for.
    pub controller: Snapshot,
    /// What it is paced at, the user's cap considered.
    pub pacing_rate: Option<Rate>,
    /// Datagrams whose fate is not known.
    pub packets_in_flight: u64,
}

impl<S: Source> Sender<S> {
    /// Another path, whose round trip was measured beforehand. Returns its number; the first has 0.
    pub fn add_path(&mut self, rtt: Duration, controller: Box<dyn Controller>) -> usize {
        let controller = self.brief(controller);
        self.others.push(PathState::new(rtt, self.config.ecn, controller));
        self.others.len()
    }

    /// How many paths there are.
    pub fn paths(&self) -> usize {
        1 + self.others.len()
    }

    /// Do something over another path than the first: whatever concerns a path concerns that one meanwhile.
    pub fn on_path<T>(&mut self, path: usize, act: impl FnOnce(&mut Sender<S>) -> T) -> T {
        self.exchange(path);
        let outcome = act(self);
        self.exchange(path);
        outcome
    }

    fn exchange(&mut self, path: usize) {
        if path > 0 {
            std::mem::swap(&mut self.path, &mut self.others[path - 1]);
        }
    }

    pub(super) fn all_paths(&mut self) -> impl Iterator<Item = &mut PathState> {
        std::iter::once(&mut self.path).chain(&mut self.others)
    }

    /// How one path does.
    pub fn path_figures(&mut self, path: usize) -> PathFigures {
        self.on_path(path, |sender| {
            let (path, cap) = (&sender.path, sender.rate_cap());
            let controller = path.controller.snapshot();
            PathFigures {
                stats: path.stats,
                rtt: path.rtt,
                is_silent: path.is_silent(),
                pacing_rate: [controller.pacing_rate, cap].into_iter().flatten().min(),
                controller,
                packets_in_flight: path.flight.in_datagrams() + path.flight.in_streams(),
            }
        })
    }

    /// The first path, or the first of the others over which something comes back if nothing does over that.
    pub(super) fn main_path(&self) -> &PathState {
        if self.path.is_silent() {
            self.others.iter().find(|other| !other.is_silent()).unwrap_or(&self.path)
        } else {
            &self.path
        }
    }

    /// Whether packets are sent in rounds, with questions between them: these know one path.
    pub fn works_in_rounds(&self) -> bool {
        self.selector.round_is_over().is_some()
    }

    /// When to call `handle_timeout` of any path.
    pub fn next_timeout(&mut self) -> Option<Time> {
        (0..self.paths()).filter_map(|path| self.on_path(path, |sender| sender.poll_timeout())).min()
    }

    /// Call it for those that are due.
    pub fn handle_timeouts(&mut self, now: Time) {
        for path in 0..self.paths() {
            self.on_path(path, |sender| {
                if sender.poll_timeout().is_some_and(|at| now >= at) {
                    sender.handle_timeout(now);
                }
            });
        }
    }

    /// Counters of all paths together.
    pub fn stats(&self) -> SenderStats {
        let others = self.others.iter().map(|path| path.stats);
        let all = others.fold(self.path.stats, SenderStats::and);
        SenderStats { packets_required: self.packets_required, ..all }
    }

    /// Nothing comes back over this path, and something does over another: others need not wait for what it is given.
    pub(super) fn is_silent_among_others(&self) -> bool {
        self.path.is_silent() && self.others.iter().any(|other| !other.is_silent())
    }

    /// What the user lets this path send at: of his rate its share, where all that the paths would send is more.
    pub(super) fn rate_cap(&self) -> Option<Rate> {
        let cap = self.config.rate_cap?;
        if self.others.is_empty() {
            return Some(cap);
        }
        // What nothing comes back over sends next to nothing.
        let wish = |path: &PathState| match path.is_silent() {
            true => 0.0,
            false => path.controller.pacing_rate().map_or(cap, |rate| rate.min(cap)).0 as f64,
        };
        let own = wish(&self.path);
        let others: f64 = self.others.iter().map(wish).sum();
        let (cap_bps, all) = (cap.0 as f64, own + others);
        // Left over by the others, or a share of it.
        let share = if all <= cap_bps { 1.0 - others / cap_bps } else { own / all };
        Some(cap.scale(share.max(SHARE_MIN)))
    }
}

/// Of the user's rate, for a path that has hardly any: it is to be heard of.
const SHARE_MIN: f64 = 0.001;
/// Datagrams on their way over a silent path while others carry the data.
pub(super) const SILENT_FLIGHT: u64 = 2;
