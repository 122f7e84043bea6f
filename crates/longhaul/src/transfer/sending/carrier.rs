//! What carries the data at a moment: UDP at the controller's pace, or TCP streams at TCP's. Which of the two is
//! decided in [`longhaul_proto::session::choice`].

use super::super::session::Session;
use super::prepare::first_streams;
use super::{Feed, Sending};
use crate::clock;
use crate::error::Error;
use crate::net::tcp::{Progress, Tuner};
use crate::trace::Event;
use longhaul_proto::control::{ControlConfig, Controller, ControllerKind};
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::object::{Blocked, SenderStats};
use longhaul_proto::path::{PathRate, PathReport};
use longhaul_proto::session::choice::{Choice, ChoiceConfig, Look, Order};
use longhaul_proto::session::limit::Limit;
use longhaul_proto::session::message::SenderStatus;
use longhaul_proto::session::transport::{Carrier, Switch, Transport};
use longhaul_proto::streams::STREAMS_MAX;
use longhaul_proto::units::{Rate, Time, nanos};
use std::time::Duration;

/// What carries the data, and what is known of it.
pub struct CarrierState {
    current: Carrier,
    choice: Choice,
    pub(super) control: Control,
    /// What UDP delivered when it was last given up.
    udp_rate: Option<Rate>,
    began: Time,
    switches: Vec<Switch>,
    /// How many TCP streams are best; `None`: so many as the user says.
    tuner: Option<Tuner>,
    /// It was told that TCP does not yield.
    warned: bool,
    /// No TCP stream had room when something was last to be sent.
    full: bool,
    /// Since when nothing could be sent although there was room.
    idle_since: Option<Time>,
    idle: Duration,
    /// At the last look.
    looked_at: Time,
    acked: u64,
    /// Datagrams that went by TCP streams before the control stream carried any.
    by_ssh_from: Option<u64>,
    streams: usize,
    rtt: Option<[Duration; 2]>,
}

impl CarrierState {
    /// Begin with `carrier`.
    pub fn new(session: &Session<'_>, carrier: Carrier, path: &PathReport, control: Control) -> CarrierState {
        let now = clock::now();
        let config = ChoiceConfig {
            transport: session.options.transport,
            carrier,
            train_rate: path.rate.map(|train| train.rate),
            mute: path.mute,
            has_pipe: session.has_pipe,
            is_hasty: control.kind == ControllerKind::default()
                && !control.hands_over
                && !session.options.background,
            hands_over: control.hands_over,
        };
        CarrierState {
            current: carrier,
            choice: Choice::new(config, now),
            control,
            udp_rate: None,
            began: now,
            switches: vec![],
            tuner: None,
            warned: false,
            full: false,
            idle_since: None,
            idle: Duration::ZERO,
            looked_at: now,
            acked: 0,
            by_ssh_from: None,
            streams: 0,
            rtt: None,
        }
    }

    /// What carries the data.
    pub fn current(&self) -> Carrier {
        self.current
    }

    /// Smoothed and shortest round trip of the TCP streams.
    pub fn streams_rtt(&self) -> Option<[Duration; 2]> {
        self.rtt
    }

    /// Whether no TCP stream had room when something was last to be sent.
    pub fn is_full(&self) -> bool {
        self.full && self.current != Carrier::Object
    }

    /// The thread is going to sleep.
    pub fn note_idle(&mut self, now: Time, blocked: Blocked) {
        let starved = !self.full && !matches!(blocked, Blocked::No | Blocked::Window);
        self.idle_since = starved.then_some(now);
    }

    /// Put into a status what is known here.
    pub fn tell(&self, stats: &SenderStats, status: &mut SenderStatus) {
        let by_ssh = self.by_ssh_from.map_or(0, |from| stats.packets_by_streams.saturating_sub(from));
        status.packets_by_ssh = by_ssh;
        status.packets_by_stripe = stats.packets_by_streams - by_ssh;
        status.streams = self.streams as u16;
        status.switches.clone_from(&self.switches);
        if let Some([smoothed, least]) = self.rtt
            && stats.packets_by_streams * 2 > stats.packets_sent
        {
            status.rtt_ns = [least, smoothed, smoothed].map(nanos);
        }
    }
}

/// How fast to send over UDP.
pub struct Control {
    /// By which rule.
    pub kind: ControllerKind,
    /// With what in mind.
    pub config: ControlConfig,
    /// TCP is to have the data while others' traffic lasts.
    hands_over: bool,
}

impl Control {
    /// By the user's `kind`. Where TCP connections can have the data, `switch` is made of them and the default.
    pub fn new(kind: ControllerKind, config: ControlConfig, transport: Transport) -> Control {
        let hands_over = kind == ControllerKind::Switch && transport == Transport::Auto;
        Control { kind: if hands_over { ControllerKind::default() } else { kind }, config, hands_over }
    }

    /// A controller for a path that has delivered so much, if that is known.
    pub fn build(&self, delivered: Option<Rate>) -> Box<dyn Controller> {
        // What TCP delivered beside others may be a part of what the path carries.
        let known = delivered.map(|rate| PathRate { rate, passed: rate, is_bottleneck: !self.hands_over });
        self.kind.build(ControlConfig { path_rate: known.or(self.config.path_rate), ..self.config })
    }
}

impl<F: Feed> Sending<'_, '_, F> {
    /// Look after what carries the data.
    pub(super) fn carry(&mut self, now: Time) -> Result<(), Error> {
        if let Some(since) = self.carrier.idle_since.take() {
            self.carrier.idle += now.since(since);
        }
        let patience = STREAM_PATIENCE.min(self.session.stall_timeout() / 4);
        let sender = &self.sender;
        self.session.link.streams().look_after(now, patience, |number| sender.is_on_way(number));
        while let Some(numbers) = self.session.link.streams().poll_lost() {
            self.sender.lose(numbers);
        }
        let span = now.since(self.carrier.looked_at);
        if span >= LOOK_EVERY {
            self.look_at_streams(now, span);
            self.choose(now)?;
        }
        Ok(())
    }

    /// Whether something else should carry the data.
    fn choose(&mut self, now: Time) -> Result<(), Error> {
        if self.sender.is_paused() {
            self.carrier.choice.rest(now);
            return Ok(());
        }
        let stats = self.sender.stats();
        let (packets, delivered) = (self.sender.shape().packets(), self.sender.acked_bytes());
        if !self.sender.is_heard() {
            // What an earlier size lost says nothing of this one.
            self.carrier.choice.restart(now);
        }
        let look = Look {
            now,
            delivered,
            left: self.sender.shape().object_len - delivered,
            settled: stats.covered,
            lost: stats.path_losses(),
            path_bound: matches!(self.meter.current(), Limit::Path | Limit::Loss | Limit::Policer),
            waiting: self.sender.acked() < packets
                && stats.packets_sent > 0
                && self.sender.blocked() != Blocked::Source,
            overdue: stats.timeouts_in_a_row > 0,
            news: stats.last_news,
            talks_since: self.session.talks_since(now),
            last_word: self.session.last_word,
            answered: self.session.answered,
            udp_heard: self.session.check.last_news(),
            udp_answers: self.session.check.answers(),
            rtt: self.sender.rtt().smoothed(),
            queue: self.sender.rtt().smoothed().saturating_sub(self.sender.rtt().min()),
            paths: self.sender.paths(),
            streams: self.session.link.streams().len(),
            no_streams: self.session.no_streams.clone(),
        };
        match self.carrier.choice.look(&look) {
            None => {}
            Some(Order::OpenStreams) => self.session.want_streams(first_streams(self.session)),
            Some(Order::Probe) => {
                // While TCP carries the data it matters whether UDP passes at all, in datagrams of whatever size.
                let class = if self.carrier.current == Carrier::Object { self.class() } else { 0 };
                self.session.ask(class);
            }
            Some(Order::Go { to, why, trial }) => self.switch(to, why, trial)?,
        }
        Ok(())
    }

    fn switch(&mut self, to: Carrier, why: String, trial: bool) -> Result<(), Error> {
        if self.carrier.current == Carrier::Object {
            // What UDP delivered before it fell silent says nothing of what it will.
            self.carrier.udp_rate = Some(self.recent.goodput).filter(|_| trial);
        }
        if to == Carrier::Ssh {
            self.session.open_pipe()?;
        }
        let hands_over = self.carrier.control.hands_over;
        if to == Carrier::Object && to != self.carrier.current {
            let rate = if hands_over && trial { Some(self.recent.goodput) } else { self.carrier.udp_rate };
            let controller = self.carrier.control.build(rate.filter(|rate| rate.0 > 0));
            self.sender.go_by_datagrams(controller);
            self.size.doubt(clock::now());
        }
        if to != self.carrier.current {
            // One TCP stream against one flow over UDP is a fair trial.
            let first = if trial && !hands_over { 1 } else { first_streams(self.session) };
            self.settle_carrier(to, first);
        }
        self.tell_switch(to, why, trial);
        Ok(())
    }

    /// From now on this carries the data; so many TCP streams to begin with, where the user does not say.
    pub(super) fn settle_carrier(&mut self, carrier: Carrier, first: usize) {
        self.carrier.current = carrier;
        if carrier != Carrier::Object {
            self.sender.go_by_streams();
        }
        if carrier == Carrier::Ssh && self.carrier.by_ssh_from.is_none() {
            self.carrier.by_ssh_from = Some(self.sender.stats().packets_by_streams);
        }
        if carrier == Carrier::Stripe {
            // A short copy may be over before anybody looks at them.
            self.carrier.streams = first.min(self.session.link.streams().len());
        }
        let (streams, background) = (self.session.options.streams, self.session.options.background);
        // Beside others each further connection would take more from them.
        let hands_over = self.carrier.control.hands_over;
        if carrier == Carrier::Stripe && streams.is_none() && !background && !hands_over {
            self.carrier.tuner = Some(Tuner::new(first as u32, SEARCH_MAX));
        }
        if carrier != Carrier::Object && background && !std::mem::replace(&mut self.carrier.warned, true) {
            self.session.warn(
                "a copy in the background has no say over TCP, which now carries the data beside other traffic as any TCP \
                 does; a rate bounds it"
                    .into(),
            );
        }
    }

    /// Tell both users.
    pub(super) fn tell_switch(&mut self, to: Carrier, why: String, trial: bool) {
        let seconds = clock::now().since(self.carrier.began).as_secs_f64();
        let switch = Switch { seconds, to, why, trial };
        let line = switch.to_string();
        if trial {
            self.session.remark(line);
        } else {
            self.session.observer.warning(&line);
        }
        self.session.trace(0, Event::transport(&switch));
        self.carrier.switches.push(switch);
    }

    /// How the TCP streams do, and how many there should be.
    fn look_at_streams(&mut self, now: Time, span: Duration) {
        let acked = self.sender.acked_bytes();
        let news = acked.saturating_sub(self.carrier.acked);
        let idle = std::mem::take(&mut self.carrier.idle);
        (self.carrier.looked_at, self.carrier.acked) = (now, acked);
        if self.carrier.current != Carrier::Stripe {
            return;
        }
        let streams = self.session.link.streams();
        let count = streams.len();
        let survey = *streams.survey();
        if let (Some(rtt), Some(least)) = (survey.rtt, survey.rtt_least) {
            self.carrier.rtt = Some([rtt, least]);
        }
        let mut wanted = first_streams(self.session);
        let mut at_hand = wanted;
        if let Some(tuner) = &mut self.carrier.tuner {
            let [rtt, _] = self.carrier.rtt.unwrap_or([self.session.rtt; 2]);
            let streams = count.min(tuner.search().wanted() as usize) as u32;
            tuner.look(now, &Progress { span, acked: news, streams, rtt, idle }, &survey);
            let search = tuner.search();
            (wanted, at_hand) = (search.wanted() as usize, search.at_hand() as usize);
        }
        self.session.link.streams().set_active(wanted);
        // Those that are there stay: to close them and open them again would cost more than it gives.
        self.session.want_streams(at_hand.max(self.session.streams_wanted).min(STREAMS_MAX as usize));
        self.carrier.streams = wanted.min(count);
    }

    /// Give TCP streams what they take. True if there is more to send at once.
    pub(super) fn transmit_by_streams(&mut self) -> bool {
        for _ in 0..RUNS_PER_TURN {
            let (sender, now) = (&mut self.sender, clock::now());
            let sent = self
                .session
                .link
                .send_by_streams(self.datagram_len, now, |buf| sender.poll_transmit(now, buf));
            self.carrier.full = sent.is_none();
            if sent.is_none_or(|datagrams| datagrams == 0) {
                return false;
            }
        }
        true
    }
}

/// TCP streams that the search tries at most: in the FOBS paper (Table 2) the best number was 20.
const SEARCH_MAX: u32 = 32;
/// A TCP stream that gets nothing through for so long while others do is given up.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);
/// The search hears of so long a time at once.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Runs given to TCP streams between two looks for an acknowledgement.
const RUNS_PER_TURN: usize = 16;
