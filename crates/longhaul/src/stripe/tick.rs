//! What has its time rather than its occasion: opening lanes, giving up those that stall, trying how many are best.

use super::handle::after;
use super::handshake;
use super::history::History;
use super::options::Streams;
use super::state::{Core, Failure, State};
use super::tcp_info::TcpInfo;
use crate::net::seal::Side;
use longhaul_proto::stripe::LaneId;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::stripe::hello::Refusal;
use longhaul_proto::stripe::search::{Interval, Search};
use longhaul_proto::stripe::watch::{LaneSample, LaneWatch};
use longhaul_proto::units::Time;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

/// Looks after a stream some times a second.
pub struct Ticker {
    last: Time,
    watches: BTreeMap<LaneId, LaneWatch>,
    /// Bytes acknowledged at the last tick, and when there were last more.
    acked: u64,
    acked_at: Time,
    probed_at: Time,
    /// No new lanes before this: the last attempts failed.
    retry_at: Time,
    retry_wait: Duration,
    tuner: Option<Tuner>,
}

/// Tries how many lanes are best, and how large blocks should be.
struct Tuner {
    search: Search,
    history: Option<History>,
    /// The number that the history has.
    remembered: Option<u32>,
    since: Time,
    /// Bytes that the kernel at the other end had acknowledged at the last look. Our own acknowledgements come for whole
    /// blocks only, too seldom for slow starts.
    acked: BTreeMap<LaneId, u64>,
    /// Segments that the lanes' kernels had sent again by then.
    retransmits: u64,
    /// Time during which a lane had room and there was nothing to send.
    starved: Duration,
}

/// What to do when the state is no longer locked.
#[derive(Default)]
pub struct Due {
    /// Lanes that stall.
    stalled: Vec<LaneId>,
    /// A number of lanes to remember, and where.
    remember: Option<(History, u32)>,
}

impl Ticker {
    /// For a stream that begins now.
    pub fn new(core: &Core, now: Time) -> Ticker {
        let history = History::of_user().filter(|_| core.options.remember);
        let mut state = core.lock();
        let tuner = match core.options.streams {
            Streams::Fixed(_) => {
                want(core, &mut state, core.lanes_max);
                None
            }
            Streams::Auto => {
                let remembered = history.as_ref().and_then(|history| history.lanes_to(core.peer.ip()));
                let search = Search::new(remembered.unwrap_or(1), core.lanes_max);
                want(core, &mut state, search.wanted());
                Some(Tuner {
                    search,
                    history,
                    remembered,
                    since: now,
                    acked: BTreeMap::new(),
                    retransmits: 0,
                    starved: Duration::ZERO,
                })
            }
        };
        Ticker {
            last: Time::ZERO,
            watches: BTreeMap::new(),
            acked: 0,
            acked_at: now,
            probed_at: now,
            retry_at: Time::ZERO,
            retry_wait: RETRY_MIN,
            tuner,
        }
    }

    /// The sending thread slept for want of something to send.
    pub fn starved(&mut self, span: Duration) {
        if let Some(tuner) = &mut self.tuner {
            tuner.starved += span;
        }
    }

    /// Do what is due. What takes longer is left for [`Due::act`].
    pub fn tick(&mut self, core: &Arc<Core>, state: &mut State, now: Time) -> Due {
        let mut due = Due::default();
        if now.since(self.last) < TICK {
            return due;
        }
        self.last = now;
        if state.out.acked() > self.acked || !state.out.is_waiting() {
            (self.acked, self.acked_at) = (state.out.acked(), now);
        }
        if state.out.in_flight() > 0 {
            let samples = self.watch(core, state, now, &mut due);
            if let Some(tuner) = &mut self.tuner {
                due.remember = tuner.tune(core, state, &samples, now);
            }
        } else if let Some(tuner) = &mut self.tuner {
            tuner.rest(now);
        }
        self.ask_again(core, state, now);
        self.give_up(core, state, now);
        if core.side == Side::Client {
            self.open_lanes(core, state, now);
        }
        due
    }

    /// How long the sending thread may sleep.
    pub fn wait(&self, core: &Core, state: &State, now: Time) -> Duration {
        let busy = state.out.is_waiting()
            || state.out.end().is_some()
            || state.alone_since.is_some()
            || core.side == Side::Client && lanes_missing(core, state) > 0;
        if busy { (self.last + TICK).since(now).max(Duration::from_millis(1)) } else { IDLE_WAIT }
    }

    /// Look which lanes stall. Returns what the kernel knows of each.
    fn watch(&mut self, core: &Core, state: &State, now: Time, due: &mut Due) -> Vec<(LaneId, TcpInfo)> {
        self.watches.retain(|id, _| state.lanes.contains_key(id));
        // The latest progress of any lane, but for the one that is looked at: found in two steps.
        let mut latest: Vec<(Time, LaneId)> =
            self.watches.iter().map(|(id, watch)| (watch.progress(), *id)).collect();
        latest.sort_unstable();
        let others =
            |id| latest.iter().rev().find(|(_, other)| *other != id).map_or(Time::ZERO, |(at, _)| *at);
        let mut samples = vec![];
        for (&id, lane) in &state.lanes {
            let (Ok(info), Some(load)) = (TcpInfo::of(&lane.socket), state.out.load(id)) else { continue };
            let sample = LaneSample {
                in_flight: load.in_flight,
                stream_progress: load.progress,
                kernel_acked: info.acked_bytes,
                queued: info.queued_bytes,
                rtt: info.rtt,
            };
            let watch = self.watches.entry(id).or_default();
            if watch.look(&sample, others(id), core.options.stall, now) {
                due.stalled.push(id);
            }
            samples.push((id, info));
        }
        samples
    }

    /// What was not answered for long is asked for again: the answer may have been lost with its lane, and so may the
    /// word that the other side wants more.
    fn ask_again(&mut self, core: &Core, state: &mut State, now: Time) {
        // Well before a lane is taken for stalled because the answer was lost on another one.
        let patience = ASK_AGAIN.min(core.options.stall / 4);
        state.notices.repeat(&Frame::End(0), patience, now);
        let quiet = now.since(self.acked_at) >= patience && now.since(self.probed_at) >= patience;
        if state.out.is_waiting() && quiet {
            self.probed_at = now;
            state.probes = state.lanes.keys().copied().collect();
        }
    }

    fn give_up(&self, core: &Core, state: &mut State, now: Time) {
        let Some(since) = state.alone_since else { return };
        if now.since(since) >= core.options.patience && state.failure.is_none() {
            let why = state.last_lane_error.clone().unwrap_or_else(|| "nobody connects".into());
            let line = format!("all lanes are gone and no new one can be had: {why}");
            state.failure = Some(Failure::new(ErrorKind::ConnectionReset, line));
            core.wake_all(state);
        }
    }

    fn open_lanes(&mut self, core: &Arc<Core>, state: &mut State, now: Time) {
        let missing = lanes_missing(core, state);
        if missing == 0 && now.since(self.retry_at) > RETRY_MAX {
            self.retry_wait = RETRY_MIN;
        }
        if missing == 0 || now < self.retry_at {
            return;
        }
        self.retry_at = now + self.retry_wait;
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
        for _ in 0..missing {
            let core = core.clone();
            let opened =
                std::thread::Builder::new().name("stripe-join".into()).spawn(move || join_one(&core));
            if let Err(error) = opened {
                state.last_lane_error = Some(format!("cannot start a thread: {error}"));
                return;
            }
            state.opening += 1;
        }
    }
}

impl Due {
    /// Nothing.
    pub fn is_empty(&self) -> bool {
        self.stalled.is_empty() && self.remember.is_none()
    }

    /// Do what takes its time, with the state unlocked.
    pub fn act(self, core: &Core) {
        for lane in self.stalled {
            core.lane_died(lane, "nothing gets through");
        }
        if let Some((history, lanes)) = self.remember {
            history.remember(core.peer.ip(), lanes);
        }
    }
}

impl Tuner {
    /// Tell the search how it goes; do as it says. Returns what is to be remembered.
    fn tune(
        &mut self,
        core: &Core,
        state: &mut State,
        samples: &[(LaneId, TcpInfo)],
        now: Time,
    ) -> Option<(History, u32)> {
        let span = now.since(self.since);
        if span < TUNE_EVERY {
            return None;
        }
        let acked = samples
            .iter()
            .filter_map(|(id, info)| Some(info.acked_bytes.saturating_sub(*self.acked.get(id)?)))
            .sum::<u64>();
        self.acked = samples.iter().map(|(id, info)| (*id, info.acked_bytes)).collect();
        let active: Vec<LaneId> = state.out.active_lanes().collect();
        let of_active = samples.iter().filter(|(id, _)| active.contains(id));
        let carrying: Vec<TcpInfo> = of_active.map(|(_, info)| *info).collect();
        let lanes = active.len() as u32;
        let rtt = samples.iter().map(|(_, info)| info.rtt).max().unwrap_or_default();
        let queue = queue_of(samples, &carrying);
        let busy = self.starved < span / STARVED_SHARE;
        (self.since, self.starved) = (now, Duration::ZERO);
        if busy && lanes > 0 {
            let of_lane = acked as f64 / span.as_secs_f64() / f64::from(lanes);
            state.out.set_block_len((of_lane * BLOCK_TIME.as_secs_f64()) as usize);
        }
        let with_losses = carrying.iter().filter(|info| info.retransmits > 0).count() as u32;
        let retransmits: u64 = samples.iter().map(|(_, info)| info.retransmits).sum();
        let lost = retransmits.saturating_sub(std::mem::replace(&mut self.retransmits, retransmits));
        let interval = Interval { now, span, acked, lanes, with_losses, lost, rtt, queue, busy };
        if self.search.on_interval(&interval) {
            tracing::debug!(
                "{}: {} lanes now, tried {:?}",
                core.peer,
                self.search.wanted(),
                self.search.tried()
            );
        }
        state.lanes_tried = self.search.tried().iter().map(|tried| (tried.lanes, tried.rate)).collect();
        state.out.set_active(self.search.wanted() as usize);
        want(core, state, self.search.at_hand());
        let chosen = self.search.chosen().filter(|chosen| self.remembered != Some(*chosen))?;
        self.remembered = Some(chosen);
        Some((self.history.clone()?, chosen))
    }

    /// Nothing is on its way: this says nothing of the path.
    fn rest(&mut self, now: Time) {
        self.acked.clear();
        (self.since, self.starved) = (now, Duration::ZERO);
    }
}

/// By how much round trips of the lanes that carry data are longer than the shortest of any lane lately.
fn queue_of(samples: &[(LaneId, TcpInfo)], carrying: &[TcpInfo]) -> Duration {
    let shortest = samples.iter().map(|(_, info)| info.rtt_min).filter(|rtt| !rtt.is_zero()).min();
    let mean = carrying.iter().map(|info| info.rtt).sum::<Duration>() / (carrying.len() as u32).max(1);
    mean.saturating_sub(shortest.unwrap_or(mean))
}

/// So many lanes are wanted for what we send.
fn want(core: &Core, state: &mut State, lanes: u32) {
    if core.side == Side::Server && lanes > state.wanted {
        state.notices.post(Frame::Want(lanes));
    }
    // Those that are there stay: to close them and open them again would cost more than it gives.
    state.wanted = state.wanted.max(lanes);
}

/// Lanes that are wanted and neither there nor on their way.
fn lanes_missing(core: &Core, state: &State) -> u32 {
    let there = state.lanes.len() as u32 + state.opening;
    state.wanted.max(state.wanted_by_peer).min(core.lanes_max).saturating_sub(there)
}

/// Open one more lane.
fn join_one(core: &Arc<Core>) {
    let deadline = after(core.options.connect_timeout);
    let joined = core.options.dial(core.peer, deadline).and_then(|socket| {
        let nonces = handshake::join(&socket, &core.secrets, deadline)?;
        let (sealer, opener) = core.secrets.lane(Side::Client, &nonces);
        core.add_lane(socket, sealer, opener)
    });
    let mut state = core.lock();
    state.opening -= 1;
    if let Err(error) = joined {
        tracing::debug!("{}: no further lane: {error}", core.peer);
        let unknown = handshake::refusal_of(&error) == Some(Refusal::Stream);
        if unknown && state.lanes.is_empty() && !state.is_over() {
            state.failure = Some(Failure::new(ErrorKind::ConnectionReset, error.to_string()));
            core.wake_all(&mut state);
        }
        state.last_lane_error = Some(error.to_string());
    }
    core.send_waker.wake();
}

/// Things are looked after so often.
const TICK: Duration = Duration::from_millis(50);
/// With nothing to look after.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// What is not answered after so long at most is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// The search hears of so long a time at once.
const TUNE_EVERY: Duration = TICK;
/// An interval counts if lanes had nothing to send for less than one part in so many of it.
const STARVED_SHARE: u32 = 5;
/// A block is what a lane carries in so long, so that none waits much longer for a slow lane than for another.
const BLOCK_TIME: Duration = Duration::from_millis(50);
