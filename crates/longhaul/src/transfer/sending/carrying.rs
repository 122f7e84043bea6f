//! What carries the data at a moment: UDP at the controller's pace, or lanes at TCP's.

use super::super::session::{Broken, Session};
use super::prepare::first_streams;
use super::{Feed, Sending};
use crate::clock;
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::lanes::LANES_MAX;
use longhaul_proto::object::{Blocked, SenderStats};
use longhaul_proto::session::message::SenderStatus;
use longhaul_proto::session::transport::{Carrier, Switch};
use longhaul_proto::stripe::search::{Interval, Search};
use longhaul_proto::units::{Time, nanos};
use std::time::Duration;

/// What carries the data, and what is known of it.
pub struct Carrying {
    carrier: Carrier,
    began: Time,
    switches: Vec<Switch>,
    /// How many lanes are best; `None`: so many as the user says.
    search: Option<Search>,
    /// No lane had room when something was last to be sent.
    full: bool,
    /// Since when nothing could be sent although there was room.
    idle_since: Option<Time>,
    idle: Duration,
    /// At the last look.
    looked_at: Time,
    acked: u64,
    /// Datagrams that went by lanes before the control stream became one.
    by_ssh_from: Option<u64>,
    streams: usize,
    rtt: Option<[Duration; 2]>,
}

impl Carrying {
    /// Begin with `carrier`.
    pub fn new(session: &Session<'_>, carrier: Carrier, now: Time) -> Carrying {
        let search = session.options.streams.is_none();
        let search = search.then(|| Search::new(first_streams(session) as u32, STREAMS_MAX, now));
        Carrying {
            carrier,
            began: now,
            switches: vec![],
            search,
            full: false,
            idle_since: None,
            idle: Duration::ZERO,
            looked_at: now,
            acked: 0,
            by_ssh_from: (carrier == Carrier::Ssh).then_some(0),
            streams: 0,
            rtt: None,
        }
    }

    /// What carries the data.
    pub fn carrier(&self) -> Carrier {
        self.carrier
    }

    /// Whether no lane had room when something was last to be sent.
    pub fn is_full(&self) -> bool {
        self.full && self.carrier != Carrier::Object
    }

    /// The thread is going to sleep.
    pub fn note_idle(&mut self, now: Time, blocked: Blocked) {
        let starved = !self.full && !matches!(blocked, Blocked::No | Blocked::Window);
        self.idle_since = starved.then_some(now);
    }

    /// Put into a status what is known here.
    pub fn tell(&self, stats: &SenderStats, status: &mut SenderStatus) {
        let by_ssh = self.by_ssh_from.map_or(0, |from| stats.packets_by_lanes.saturating_sub(from));
        status.packets_by_ssh = by_ssh;
        status.packets_by_stripe = stats.packets_by_lanes - by_ssh;
        status.streams = self.streams as u16;
        status.switches.clone_from(&self.switches);
        if let Some([smoothed, least]) = self.rtt
            && stats.packets_by_lanes * 2 > stats.packets_sent
        {
            status.rtt_ns = [least, smoothed, smoothed].map(nanos);
        }
    }
}

impl<F: Feed> Sending<'_, '_, F> {
    /// Look after what carries the data.
    pub(super) fn carry(&mut self, now: Time) -> Result<(), Broken> {
        if let Some(since) = self.carrying.idle_since.take() {
            self.carrying.idle += now.since(since);
        }
        let patience = LANE_PATIENCE.min(self.session.stall_timeout() / 4);
        let sender = &self.sender;
        self.session.link.lanes().look_after(now, patience, |number| sender.is_on_way(number));
        while let Some(numbers) = self.session.link.lanes().poll_lost() {
            self.sender.lose(numbers);
        }
        let span = now.since(self.carrying.looked_at);
        if span >= LOOK_EVERY {
            self.look_at_lanes(now, span);
        }
        Ok(())
    }

    /// How the lanes do, and how many there should be.
    fn look_at_lanes(&mut self, now: Time, span: Duration) {
        let acked = self.sender.acked();
        let news = acked.saturating_sub(self.carrying.acked) * u64::from(self.sender.shape().packet_len);
        let idle = std::mem::take(&mut self.carrying.idle);
        (self.carrying.looked_at, self.carrying.acked) = (now, acked);
        if self.carrying.carrier != Carrier::Stripe {
            return;
        }
        let lanes = self.session.link.lanes();
        let count = lanes.len();
        self.carrying.rtt = lanes.rtt();
        let mut wanted = first_streams(self.session);
        if let Some(search) = &mut self.carrying.search {
            let rtt = self.carrying.rtt.map_or(self.session.rtt, |[smoothed, _]| smoothed);
            let lanes = count.min(search.wanted() as usize) as u32;
            let busy = idle < span / IDLE_SHARE;
            if search.on_interval(&Interval { now, span, acked: news, lanes, rtt, busy }) {
                tracing::debug!("{} lanes now, tried {:?}", search.wanted(), search.tried());
            }
            wanted = search.wanted() as usize;
        }
        self.session.link.lanes().set_active(wanted);
        // Those that are there stay: to close them and open them again would cost more than it gives.
        self.session.want_lanes(wanted.max(self.session.lanes_wanted).min(LANES_MAX));
        self.carrying.streams = wanted.min(count);
    }

    /// Give lanes what they take. True if there is more to send at once.
    pub(super) fn transmit_by_lanes(&mut self) -> bool {
        self.session.link.lanes().flush();
        for _ in 0..RUNS_PER_TURN {
            let (sender, now) = (&mut self.sender, clock::now());
            let sent =
                self.session.link.send_by_lanes(self.datagram_len, now, |buf| sender.poll_transmit(now, buf));
            self.carrying.full = sent.is_none();
            if sent.is_none_or(|datagrams| datagrams == 0) {
                return false;
            }
        }
        true
    }
}

/// Lanes to begin with where the best number is looked for: one would leave a path of some length half empty for most of
/// a short copy, and more are soon tried.
pub const STREAMS_FIRST: u16 = 4;
/// Lanes that the search tries at most: in the FOBS paper (Table 2) the best number was 20.
const STREAMS_MAX: u32 = 32;
/// A lane that gets nothing through for so long while others do is given up.
const LANE_PATIENCE: Duration = Duration::from_secs(5);
/// The search hears of so long a time at once.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// An interval counts if there was nothing to send for less than one part in so many of it.
const IDLE_SHARE: u32 = 5;
/// Runs given to lanes between two looks for an acknowledgement.
const RUNS_PER_TURN: usize = 16;
