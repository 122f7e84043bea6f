//! What has its time rather than its occasion: opening lanes, giving up those that stall, trying how many are best.

use super::handshake;
use super::options::Streams;
use super::state::{Core, Failure, State};
use crate::net::seal::Side;
use longhaul_proto::stripe::frame::Frame;
use longhaul_proto::units::Time;
use std::io::ErrorKind;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// Looks after a stream a few times a second.
pub struct Ticker {
    core: Weak<Core>,
    last: Time,
    /// No new lane before this: the last attempts failed.
    retry_at: Time,
    retry_wait: Duration,
    is_client: bool,
}

impl Ticker {
    /// For a stream that begins now.
    pub fn new(core: &Arc<Core>) -> Ticker {
        let mut state = core.lock();
        if let Streams::Fixed(_) = core.options.streams {
            state.wanted = core.lanes_max;
            if core.side == Side::Server {
                state.notices.post(Frame::Want(core.lanes_max));
            }
        }
        Ticker {
            core: Arc::downgrade(core),
            last: Time::ZERO,
            retry_at: Time::ZERO,
            retry_wait: RETRY_MIN,
            is_client: core.side == Side::Client,
        }
    }

    /// Do what is due.
    pub fn tick(&mut self, state: &mut State, now: Time) {
        if now.since(self.last) < TICK {
            return;
        }
        self.last = now;
        let Some(core) = self.core.upgrade() else { return };
        state.notices.repeat(&Frame::End(0), END_AGAIN, now);
        if let Some(since) = state.alone_since
            && now.since(since) >= core.options.patience
        {
            let why = state.last_lane_error.clone().unwrap_or_default();
            let line = format!("all lanes are gone and no new one can be had: {why}");
            state.failure.get_or_insert(Failure::new(ErrorKind::ConnectionReset, line));
            core.wake_all(state);
        }
        if self.is_client {
            self.open_lanes(&core, state, now);
        }
    }

    /// How long the sending thread may sleep.
    pub fn wait(&self, state: &State, now: Time) -> Duration {
        let busy = state.out.in_flight() > 0
            || state.out.end().is_some()
            || state.alone_since.is_some()
            || self.is_client && lanes_missing(state) > 0;
        if busy { (self.last + TICK).since(now).max(Duration::from_millis(1)) } else { IDLE_WAIT }
    }

    fn open_lanes(&mut self, core: &Arc<Core>, state: &mut State, now: Time) {
        let missing = lanes_missing(state);
        if missing == 0 || now < self.retry_at {
            return;
        }
        if state.opening == 0 {
            self.retry_at = now + self.retry_wait;
            self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
        }
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

/// Lanes that are wanted and neither there nor on their way.
fn lanes_missing(state: &State) -> u32 {
    let there = state.lanes.len() as u32 + state.opening;
    state.wanted.max(state.wanted_by_peer).saturating_sub(there)
}

/// Open one more lane.
fn join_one(core: &Arc<Core>) {
    let deadline = Instant::now() + core.options.connect_timeout;
    let joined = core.options.dial(core.peer, deadline).and_then(|socket| {
        let nonces = handshake::join(&socket, &core.secrets, deadline)?;
        let (sealer, opener) = core.secrets.lane(Side::Client, &nonces);
        core.add_lane(socket, sealer, opener)
    });
    let mut state = core.lock();
    state.opening -= 1;
    if let Err(error) = joined {
        tracing::debug!("{}: no further lane: {error}", core.peer);
        state.last_lane_error = Some(error.to_string());
    }
    core.send_waker.wake();
}

/// Things are looked after so often.
const TICK: Duration = Duration::from_millis(50);
/// With nothing to look after.
const IDLE_WAIT: Duration = Duration::from_secs(3600);
/// The end of the stream is told again after so long without an answer.
const END_AGAIN: Duration = Duration::from_secs(1);
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);
