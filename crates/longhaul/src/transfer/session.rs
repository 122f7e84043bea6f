//! What sending and receiving have in common.

use super::first_flight::FirstFlight;
use super::newcomer::Newcomer;
use super::presence::Presence;
use super::side_paths::SidePaths;
use crate::api::{Observer, Phase, Progress, Remark};
use crate::clock;
use crate::daemon::supervision::Supervision;
use crate::error::Error;
use crate::fireflies::Fireflies;
use crate::listing::ListingError;
use crate::live::LiveControl;
use crate::net::budget::Budget;
use crate::net::control::{Control, Incoming};
use crate::net::link::PeerLink;
use crate::net::seal::KeyPhase;
use crate::net::tcp_set::{StreamOpener, StreamSocket};
use crate::net::wake::Waker;
use longhaul_proto::control::Remembered;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::path::PathCheck;
use longhaul_proto::session::message::several::PathStatus;
use longhaul_proto::session::message::{Message, Pace, Ticket, TransferOptions};
use longhaul_proto::session::reason::{Cause, Reason};
use longhaul_proto::streams::STREAMS_MAX;
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire::{BASE_DATAGRAM_LEN, Body, SEAL_OVERHEAD, WORDS_PREFIX, encode_words};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An agreed transfer: the control stream is open, datagrams may flow.
pub struct Session<'a> {
    /// Datagrams.
    pub link: PeerLink,
    /// Messages.
    pub control: Control,
    /// Wakes the thread that runs this.
    pub waker: Waker,
    /// Set from outside to end it.
    pub stop: Arc<AtomicBool>,
    /// What was agreed.
    pub options: TransferOptions,
    /// Probes the path and answers probes.
    pub check: PathCheck,
    /// Round trip that the control stream showed.
    pub rtt: Duration,
    /// From when the seconds of remarks count.
    pub began: Instant,
    /// What an earlier transfer found of the path to the peer.
    pub remembered: Option<Remembered>,
    /// Where it tells what happens.
    pub observer: &'a mut dyn Observer,
    /// What was last said to be going on before data moves, and when.
    pub told: Option<(Phase, Time)>,
    /// Buffer for single datagrams.
    pub scratch: Vec<u8>,
    /// When the other side last said anything over the control stream.
    pub last_word: Time,
    /// Since when it has been saying something again and again.
    pub talks_since: Time,
    /// Whether this side was there to hear others.
    pub presence: Presence,
    /// When the latest question of the other side was asked, if it is not answered.
    pub asked: Option<Time>,
    /// When the latest question was asked that the other side has answered.
    pub answered: Time,
    /// Opens TCP streams, where we are the client.
    pub opener: Option<StreamOpener>,
    /// TCP streams there should be.
    pub streams_wanted: usize,
    /// Why there are none, if they cannot be had.
    pub no_streams: Option<String>,
    /// The control stream may carry the data: it runs inside ssh, or by way of the host that arranged the copy.
    pub has_pipe: bool,
    /// The other side has said something under the session's own keys: its offer was no replay of an old one.
    pub confirmed: bool,
    /// Where else the peer may be.
    pub newcomer: Newcomer,
    /// A daemon's rules and records, as far as they concern this session.
    pub supervision: Option<Supervision>,
    /// The rate that the other side was told to keep to, or told us to.
    pub rate_told: Option<Rate>,
    /// The client: how fast its user lets it go by now, and what the server was last told of that.
    pub live: Option<Arc<LiveControl>>,
    pub pace_told: Pace,
    /// The client's user has the server pause.
    pub is_held: bool,
    /// Of a rate that several copies have in common, what this one may have, bit/s.
    pub shared_rate: Option<Arc<AtomicU64>>,
    /// The memory that all sessions of this program may take.
    pub budget: Arc<Budget>,
    /// Set when something has waited long for some of that, and whether it was told.
    pub waits: Arc<AtomicBool>,
    pub waits_told: bool,
    /// How often the control stream has gone on over another connection, as far as was noticed.
    pub breaks: u64,
    /// Data that came before there was anything to take it.
    pub ahead: Ahead,
    /// What the server gives the client for its next copy: at the server until that has confirmed its offer.
    pub ticket: Option<Ticket>,
    /// What the client sent under the ticket of an earlier copy, if the server has opened it.
    pub first_flight: Option<FirstFlight>,
    /// Further paths between the two hosts.
    pub paths: SidePaths,
    /// How each path does, by the word of who sends; empty where there is one.
    pub path_status: Vec<PathStatus>,
    /// Regular files that are in place, by the word of who receives.
    pub files_done: Option<u64>,
    /// When this side's user was last told how the data divides.
    pub breakdown_told: Time,
    /// Tells of flows. Dropped behind what sends by them.
    pub fireflies: Option<Fireflies>,
}

/// Datagrams that have been opened, as far as little of them goes.
#[derive(Default)]
pub struct Ahead {
    kept: Vec<(Time, Arrival, Vec<u8>)>,
    cost: usize,
}

impl Ahead {
    /// One more. `false`: there is no room for it.
    fn push(&mut self, now: Time, arrival: Arrival, body: &[u8]) -> bool {
        let cost = self.cost + size_of::<(Time, Arrival, Vec<u8>)>() + body.len();
        let fits = cost <= AHEAD_COST_MAX;
        if fits {
            self.cost = cost;
            self.kept.push((now, arrival, body.to_vec()));
        }
        fits
    }
}

impl<'a> Session<'a> {
    /// Before anything has been said: the other side may be a replay, and what is allowed beyond the usual is not yet known.
    pub fn new(
        (link, control, waker): (PeerLink, Control, Waker),
        (check, options, rtt): (PathCheck, TransferOptions, Duration),
        stop: Arc<AtomicBool>,
        observer: &'a mut dyn Observer,
    ) -> Session<'a> {
        let now = clock::now();
        Session {
            link,
            control,
            waker,
            stop,
            options,
            check,
            rtt,
            observer,
            began: Instant::now(),
            remembered: None,
            told: None,
            scratch: vec![],
            last_word: now,
            talks_since: now,
            presence: Presence::new(now),
            asked: None,
            answered: Time::ZERO,
            opener: None,
            streams_wanted: 0,
            no_streams: None,
            has_pipe: false,
            confirmed: false,
            newcomer: Newcomer::default(),
            supervision: None,
            rate_told: None,
            live: None,
            pace_told: Pace::default(),
            is_held: false,
            shared_rate: None,
            budget: Arc::default(),
            waits: Arc::default(),
            waits_told: false,
            breaks: 0,
            ahead: Ahead::default(),
            ticket: None,
            first_flight: None,
            paths: SidePaths::default(),
            path_status: vec![],
            files_done: None,
            breakdown_told: Time::ZERO,
            fireflies: None,
        }
    }
}

impl Session<'_> {
    /// A turn of whatever runs this session begins. Whether to go on: the stop flag is not set. Tells the peer otherwise.
    pub fn begin_turn(&mut self) -> Result<(), Error> {
        let now = clock::now();
        self.presence.begin_turn(now, self.stall_timeout());
        if let Some(line) = self.fireflies.as_mut().and_then(|told| told.look(now)) {
            self.remark(line);
        }
        if self.waits.load(Ordering::Relaxed) && !std::mem::replace(&mut self.waits_told, true) {
            self.warn(WAITS_FOR_MEMORY.into());
        }
        if self.stop.load(Ordering::Relaxed) {
            self.control.send(Message::Abort(Reason::new(
                Cause::Interrupted,
                "the other side was interrupted; run the same command again to continue",
            )));
            return Err(Error::Interrupted);
        }
        Ok(())
    }

    /// Since when the peer has said something again and again over the control stream; now, if it has paused.
    pub fn talks_since(&self, now: Time) -> Time {
        if now.since(self.last_word) > WORD_GAP { now } else { self.talks_since }
    }

    /// Give up and tell the peer why.
    pub fn abort(&self, error: impl Into<Error>) -> Error {
        let error = error.into();
        self.control.send(Message::Abort(error.reason()));
        error
    }

    /// The next message, if there is one. An abort or the stream's end is an error.
    pub fn poll_message(&mut self) -> Result<Option<Message>, Error> {
        self.notice_breaks();
        loop {
            let message = match self.control.poll() {
                None => {
                    // The latest answers all, however many there are.
                    if let Some(at) = self.asked.take() {
                        self.control.send(Message::Here { at });
                    }
                    return Ok(None);
                }
                Some(Incoming::Closed) => return Err(Error::PeerLeft),
                Some(Incoming::NoRoom) => return Err(self.abort(ListingError::Busy)),
                Some(Incoming::Pipe(pipe)) => {
                    self.link.streams().add(StreamSocket::Pipe(pipe));
                    continue;
                }
                Some(Incoming::Message(message)) => message,
            };
            let now = clock::now();
            if now.since(self.last_word) > WORD_GAP {
                self.talks_since = now;
            }
            (self.last_word, self.confirmed) = (now, true);
            match message {
                Message::Abort(reason) => return Err(Error::Peer(reason)),
                Message::Streams { wanted } => {
                    self.streams_wanted = usize::from(wanted).min(STREAMS_MAX as usize);
                }
                Message::NoStreams(line) => self.no_streams = Some(line),
                Message::Ticket(ticket) => self.ticket = Some(ticket),
                Message::Warning(line) => self.observer.warning(&line),
                Message::Ask { at } => self.asked = self.asked.max(Some(at)),
                Message::RateCap(rate) => self.rate_told = Some(rate),
                Message::Here { at } => self.answered = self.answered.max(at.min(now)),
                Message::WantPaths(want) => {
                    let answer = self.paths.welcome(&want, &self.waker)?;
                    answer.into_iter().for_each(|answer| self.control.send(Message::Paths(answer)));
                }
                Message::Paths(told) => self.paths.note_answer(told),
                Message::PathStatus(status) => self.path_status = status,
                Message::Pace(pace) => self.take_pace(pace),
                Message::FilesDone(files) => self.files_done = Some(files),
                message => return Ok(Some(message)),
            }
        }
    }

    /// Tell that the control stream has lost its connection, which ends nothing. The client's address may be another one since.
    fn notice_breaks(&mut self) {
        let Some(control) = self.control.resumable().filter(|control| !control.is_over()) else { return };
        let breaks = control.breaks();
        if breaks == self.breaks || control.is_broken() {
            return;
        }
        self.breaks = breaks;
        let address = control.local_address();
        if self.opener.is_some() {
            self.remark("the connection was lost; going on over another one".into());
            address.into_iter().for_each(|address| self.link.note_own_address(address));
            self.ask(0);
        }
    }

    /// Ask the other side, over UDP with a probe of size `class` and over the control stream, whether it is there.
    pub fn ask(&mut self, class: u8) {
        self.check.probe_again(class);
        self.control.send(Message::Ask { at: clock::now() });
    }

    /// Have so many TCP streams between the two hosts: the client opens them.
    pub fn want_streams(&mut self, wanted: usize) {
        if wanted != self.streams_wanted {
            self.streams_wanted = wanted;
            if self.opener.is_none() {
                self.control.send(Message::Streams { wanted: wanted as u16 });
            }
        }
    }

    /// Open what TCP streams are missing, if that is ours to do.
    pub fn tend_streams(&mut self, now: Time) {
        let have = self.link.streams().len();
        if have > 0 {
            self.no_streams = None;
        }
        let Some(opener) = &mut self.opener else { return };
        opener.ensure(have, self.streams_wanted, now);
        let failure = opener.failure().filter(|_| have == 0);
        if failure.is_some() && self.no_streams.is_none() {
            self.no_streams = failure.clone();
            self.control.send(Message::NoStreams(failure.unwrap_or_default()));
        }
    }

    /// Receive; path-check datagrams are dealt with here, the transfer's go to `handle` with the number of the path that they came
    /// over, which says whether it took them.
    pub fn receive(
        &mut self,
        mut handle: impl FnMut(usize, Time, Arrival, &mut [u8]) -> bool,
    ) -> io::Result<bool> {
        let aside = self.paths.receive(|path, now, arrival, body| {
            handle(path, now, arrival, body);
        });
        Ok(self.receive_first(|now, arrival, body| handle(0, now, arrival, body), aside)? || aside)
    }

    /// The same over the first path. `aside`: something came in over another.
    fn receive_first(
        &mut self,
        mut handle: impl FnMut(Time, Arrival, &mut [u8]) -> bool,
        aside: bool,
    ) -> io::Result<bool> {
        let ahead = std::mem::take(&mut self.ahead).kept;
        let mut is_alive = aside || !ahead.is_empty();
        for (now, arrival, mut body) in ahead {
            handle(now, arrival, &mut body);
        }
        let (check, confirmed, is_client) = (&mut self.check, &mut self.confirmed, self.opener.is_some());
        let control = self.control.resumable();
        let came = self.link.receive(|phase, arrival, body| {
            is_alive = true;
            // Read for each datagram: never before its arrival, however long the process was off the processor.
            let now = clock::now();
            match (phase, control) {
                (KeyPhase::Main, _) => {
                    // Its keys were told in the answer to the offer.
                    *confirmed = true;
                    return handle(now, arrival, body);
                }
                // The first data. It may come from somebody who is not there any more.
                (KeyPhase::Ticket, _) => return handle(now, arrival, body),
                (KeyPhase::Early, Some(control)) if is_client => match Body::decode(body) {
                    Some(Body::Words { position, bytes }) => control.take_early(position, bytes),
                    _ => check.handle_datagram(now, arrival, body),
                },
                (KeyPhase::Early, _) => check.handle_datagram(now, arrival, body),
            }
            true
        });
        if let (true, Some(control)) = (is_alive, self.control.resumable()) {
            control.note_life();
        }
        Ok(came? || is_alive)
    }

    /// The same where there is nothing yet to take data: it is kept, if it is not much.
    pub fn receive_ahead(&mut self) -> io::Result<bool> {
        let mut ahead = Ahead::default();
        let came = self.receive(|path, now, arrival, body| path > 0 || ahead.push(now, arrival, body));
        self.ahead = ahead;
        came
    }

    /// The client has confirmed its offer, and is given its ticket. What is said before may have to wait for a connection, and the
    /// first thing said must not be that.
    pub fn give_ticket(&mut self) {
        if self.opener.is_none() {
            self.ticket.take().into_iter().for_each(|ticket| self.control.send(Message::Ticket(ticket)));
        }
    }

    /// Whether what has come of a client's first data counts. Where something is claimed, which may be part of it, neither side has
    /// it count, and no more is taken.
    pub fn keep_first_flight(&mut self, counts: bool) {
        if !counts {
            // Nothing else comes before the client has heard what is needed.
            self.ahead = Ahead::default();
            self.link.set_ticket_keys(None);
        }
    }

    /// What is to be said while the control stream has no connection goes over UDP. The client says it over its connection.
    fn say_early(&mut self) {
        let Some(control) = self.control.resumable().filter(|_| self.opener.is_none()) else { return };
        while self.link.has_peer()
            && self.link.allows(WORDS_PREFIX + WORDS_LEN)
            && let Some((position, bytes)) = control.early_words(WORDS_LEN)
        {
            let number = self.check.take_number();
            self.link.send_one(KeyPhase::Early, &mut self.scratch, |buf| {
                Some(Transmit { number, len: encode_words(buf, position, &bytes) })
            });
        }
    }

    /// Send what the path check has to send. A side that does not know its peer's address yet answers nobody.
    pub fn run_check(&mut self, now: Time) {
        if !self.options.transport.allows_udp() {
            return;
        }
        if self.check.poll_timeout().is_some_and(|at| now >= at) {
            self.check.handle_timeout(now);
        }
        let problems = self.paths.open(&self.link);
        problems.into_iter().for_each(|line| self.warn(line));
        self.paths.run_checks(now);
        self.tend_address(now);
        self.say_early();
        let check = &mut self.check;
        // A probe to nowhere would count as sent.
        while self.link.has_peer()
            && check.next_len().is_some_and(|len| self.link.allows(len))
            && self.link.send_one(KeyPhase::Early, &mut self.scratch, |buf| check.poll_transmit(now, buf))
        {
        }
    }

    /// Datagrams that this host dropped for want of buffer.
    pub fn drops(&mut self) -> u64 {
        let aside: u64 = self.paths.iter_mut().map(|(_, path)| path.link.drops()).sum();
        self.link.drops() + aside
    }

    /// Wait for something to come in, for room to send, for another thread or for `deadline`.
    pub fn wait(&self, now: Time, deadline: Time) -> io::Result<()> {
        if self.paths.is_empty() {
            return self.link.wait(&self.waker, now, deadline);
        }
        let deadline = self.paths.poll_timeout().map_or(deadline, |at| at.min(deadline));
        let fds = self.link.poll_fds().chain(self.paths.poll_fds()).collect();
        self.waker.wait_many(fds, deadline.since(now)).map(drop)
    }

    /// Find out whether the peer is where its datagrams seem to come from (RFC 9000 §8.2, §9.3).
    fn tend_address(&mut self, now: Time) {
        if self.check.answers() > 0 {
            self.link.note_proven();
        }
        while let Some(event) = self.check.poll_event() {
            self.newcomer.heed(event, &mut self.link);
        }
        self.newcomer.ask(&mut self.link, &mut self.check, &mut self.scratch, now);
    }

    /// Have the control stream itself carry the datagrams.
    pub fn open_pipe(&mut self) -> io::Result<()> {
        if self.link.streams().is_empty() {
            let pipe = self.control.open_pipe()?;
            self.link.streams().add(StreamSocket::Pipe(pipe));
        }
        Ok(())
    }

    /// Say what is going on while there is no data to speak of: at once if it is something new, else ten times a second.
    pub fn tell_phase(&mut self, phase: Phase) {
        let now = clock::now();
        if self.told.is_none_or(|(before, at)| before != phase || now.since(at) >= HEARTBEAT) {
            self.told = Some((phase, now));
            self.observer.progress(&Progress { phase, ..Progress::default() });
        }
    }

    /// A line that the user should know, on whichever side he is.
    pub fn warn(&mut self, line: String) {
        if self.opener.is_some() {
            self.observer.warning(&line);
        } else {
            self.control.send(Message::Warning(line));
        }
    }

    /// A line of the copy's story.
    pub fn remark(&mut self, text: String) {
        let at_seconds = self.began.elapsed().as_secs_f64();
        self.observer.remark(Remark { at_seconds, text });
    }

    /// Give up if nothing has been heard since `last` for longer than that may be.
    pub fn check_silence(&self, last: Time) -> Result<(), Error> {
        let after = self.presence.silence(last);
        if after > self.stall_timeout() { Err(self.abort(Error::Silent { after })) } else { Ok(()) }
    }

    /// How long peer or path may be silent.
    pub fn stall_timeout(&self) -> Duration {
        Duration::from_millis(self.options.stall_timeout_ms.max(1000))
    }
}

/// Said once.
const WAITS_FOR_MEMORY: &str = "the copies under way take all the memory that there is for them (a setting of a server's); this one waits for some";
/// A control stream that was silent for longer was not alive: each side says something three times a second.
const WORD_GAP: Duration = Duration::from_millis(1500);
/// Memory for datagrams that come before there is a receiver: what a client sends while a server looks whether it is there, a
/// thousand or more of the usual length.
const AHEAD_COST_MAX: usize = 2 << 20;
/// Bytes of the control stream in a datagram that passes everywhere.
const WORDS_LEN: usize = BASE_DATAGRAM_LEN as usize - SEAL_OVERHEAD - WORDS_PREFIX;
/// Look at the control stream, timers and the stop flag at least this often.
pub const HEARTBEAT: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_early_takes_bounded_memory_however_long_it_is() {
        for len in [0, 1441, 65_476] {
            let mut ahead = Ahead::default();
            let kept = (0..1 << 20)
                .take_while(|_| ahead.push(Time::ZERO, Arrival::new(Time::ZERO, 0), &vec![0; len]))
                .count();
            assert!(kept * len <= AHEAD_COST_MAX && kept < 1 << 17, "{kept} of {len} bytes");
            assert!(kept >= (AHEAD_COST_MAX / (len + 100)).min(1000), "{kept} of {len} bytes");
        }
    }
}
