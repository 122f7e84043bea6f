//! What has its time rather than its occasion: opening lanes, giving up those that stall, trying how many are best.

use super::handshake;
use super::history::History;
use super::options::Streams;
use super::state::{Core, Failure, State, after};
use longhaul_net::seal::Side;
use longhaul_net::tcp::{Opener, Progress, Survey, TcpInfo, Tuner};
use longhaul_proto::streams::watch::{self, StreamSample, StreamWatch};
use longhaul_proto::stripe::LaneId;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::stripe::hello::Refusal;
use longhaul_proto::units::Time;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

/// Looks after a stream some times a second.
pub struct Ticker {
    last: Time,
    watches: BTreeMap<LaneId, StreamWatch>,
    /// Bytes acknowledged at the last tick, and when there were last more.
    acked: u64,
    acked_at: Time,
    probed_at: Time,
    opener: Opener,
    tuner: Option<LaneTuner>,
}

/// Tries how many lanes are best, and how large blocks should be.
struct LaneTuner {
    tuner: Tuner,
    history: Option<History>,
    /// The number that the history has.
    remembered: Option<u32>,
    since: Time,
    /// Bytes that the kernel at the other end had acknowledged at the last look. Our own acknowledgements come for whole
    /// blocks only, too seldom for slow starts.
    acked: BTreeMap<LaneId, u64>,
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
        let history = core.options.history();
        let mut state = core.lock();
        let tuner = match core.options.streams {
            Streams::Fixed(_) => {
                want(core, &mut state, core.lanes_max);
                None
            }
            Streams::Auto => {
                let remembered = history.as_ref().and_then(|history| history.lanes_to(core.peer.ip()));
                let tuner = Tuner::new(remembered.unwrap_or(1).max(core.lanes_min()), core.lanes_max);
                want(core, &mut state, tuner.search().wanted());
                Some(LaneTuner {
                    tuner,
                    history,
                    remembered,
                    since: now,
                    acked: BTreeMap::new(),
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
            opener: Opener::new("stripe-join"),
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
            || core.side == Side::Client && self.lanes_missing(core, state) > 0;
        if busy { (self.last + TICK).since(now).max(Duration::from_millis(1)) } else { IDLE_WAIT }
    }

    /// Look which lanes stall. Returns what the kernel knows of each.
    fn watch(&mut self, core: &Core, state: &State, now: Time, due: &mut Due) -> Vec<(LaneId, TcpInfo)> {
        self.watches.retain(|id, _| state.lanes.contains_key(id));
        for id in state.lanes.keys() {
            self.watches.entry(*id).or_default();
        }
        let (mut infos, mut watched) = (vec![], vec![]);
        for (&id, watch) in &mut self.watches {
            let (Some(lane), Some(load)) = (state.lanes.get(&id), state.out.load(id)) else { continue };
            let Ok(info) = TcpInfo::of(&lane.socket) else { continue };
            let sample = StreamSample {
                in_flight: load.in_flight,
                progress: load.progress,
                kernel_acked: info.acked_bytes,
                queued: info.queued_bytes,
                rtt: info.rtt,
            };
            infos.push((id, info));
            watched.push((id, watch, sample));
        }
        due.stalled.extend(watch::stalled(watched, core.options.tcp.stall, now));
        infos
    }

    /// What was not answered for long is asked for again: the answer may have been lost with its lane, and so may the
    /// word that the other side wants more.
    fn ask_again(&mut self, core: &Core, state: &mut State, now: Time) {
        // Well before a lane is taken for stalled because the answer was lost on another one.
        let patience = ASK_AGAIN.min(core.options.tcp.stall / 4);
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
            let why = state.last_lane_error.clone().or_else(|| self.opener.failure());
            let why = why.unwrap_or_else(|| "nobody connects".into());
            let line = format!("all lanes are gone and no new one can be had: {why}");
            state.failure = Some(Failure::new(ErrorKind::ConnectionReset, line));
            core.wake_all(state);
        }
    }

    fn open_lanes(&mut self, core: &Arc<Core>, state: &mut State, now: Time) {
        let missing = self.lanes_missing(core, state) as usize;
        let (joining, waking) = (core.clone(), core.clone());
        self.opener.open(missing, now, move || join_one(&joining), move || waking.send_waker.wake());
    }

    /// Lanes that are wanted and neither there nor on their way.
    fn lanes_missing(&self, core: &Core, state: &State) -> u32 {
        let there = state.lanes.len() + self.opener.opening();
        state.wanted.max(state.wanted_by_peer).min(core.lanes_max).saturating_sub(there as u32)
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

impl LaneTuner {
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
        let survey = Survey::of(samples.iter().map(|(id, info)| (active.contains(id), *info)));
        let (streams, rtt, idle) = (active.len() as u32, survey.rtt_longest, self.starved);
        let progress = Progress { span, acked, streams, rtt, idle };
        (self.since, self.starved) = (now, Duration::ZERO);
        if progress.is_busy() && streams > 0 {
            let of_lane = acked as f64 / span.as_secs_f64() / f64::from(streams);
            state.out.set_block_len((of_lane * BLOCK_TIME.as_secs_f64()) as usize);
        }
        self.tuner.look(now, &progress, &survey);
        let search = self.tuner.search();
        state.lanes_tried = search.tried().iter().map(|tried| (tried.streams, tried.rate)).collect();
        state.out.set_active(search.wanted().max(core.lanes_min()) as usize);
        want(core, state, search.at_hand().max(core.lanes_min()));
        let chosen = search.chosen().filter(|chosen| self.remembered != Some(*chosen))?;
        self.remembered = Some(chosen);
        Some((self.history.clone()?, chosen))
    }

    /// Nothing is on its way: this says nothing of the path.
    fn rest(&mut self, now: Time) {
        self.acked.clear();
        (self.since, self.starved) = (now, Duration::ZERO);
    }
}

/// So many lanes are wanted for what we send.
fn want(core: &Core, state: &mut State, lanes: u32) {
    if state.out.written() < core.options.lanes_after {
        return;
    }
    if core.side == Side::Server && lanes > state.wanted {
        state.notices.post(Frame::Want(lanes));
    }
    // Those that are there stay: to close them and open them again would cost more than it gives.
    state.wanted = state.wanted.max(lanes);
}

/// Open one more lane.
fn join_one(core: &Arc<Core>) -> io::Result<()> {
    let deadline = after(core.options.connect_timeout);
    let joined = core.turns.dial(&core.options.tcp, core.peer, deadline).and_then(|(socket, end)| {
        let joined = handshake::join(&socket, &core.secrets, deadline).and_then(|nonces| {
            let (sealer, opener) = core.secrets.lane(Side::Client, &nonces);
            core.add_lane(socket, end, sealer, opener)
        });
        if !matches!(joined, Ok(true)) {
            core.turns.failed(end);
        }
        joined
    });
    if let Err(error) = &joined {
        tracing::debug!("{}: no further lane: {error}", core.peer);
        let mut state = core.lock();
        let unknown = handshake::refusal_of(error) == Some(Refusal::Stream);
        if unknown && state.lanes.is_empty() && !state.is_over() {
            state.failure = Some(Failure::new(ErrorKind::ConnectionReset, error.to_string()));
            core.wake_all(&mut state);
        }
        state.last_lane_error = Some(error.to_string());
    }
    joined.map(drop)
}

/// Things are looked after so often.
const TICK: Duration = Duration::from_millis(50);
/// With nothing to look after.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// What is not answered after so long at most is asked for again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// The search hears of so long a time at once.
const TUNE_EVERY: Duration = TICK;
/// A block is what a lane carries in so long, so that none waits much longer for a slow lane than for another.
const BLOCK_TIME: Duration = Duration::from_millis(50);
