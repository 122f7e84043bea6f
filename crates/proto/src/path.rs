//! The path check: while the handshake is still under way, a train of datagrams, and a few of each other size,
//! find out whether UDP passes at all, which sizes do (RFC 8899: a probe that is answered proves its size), and how far the path
//! spreads a train (its bottleneck's rate). Both sides run one; each answers the other's probes.

use crate::endpoint::{Arrival, Endpoint, Transmit};
use crate::units::{DatagramNumber, Rate, Time};
use crate::wire::{self, Body};
use core::time::Duration;
use std::collections::VecDeque;
use std::ops::Range;

/// What a train said of the path's rate, in bits of UDP payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathRate {
    /// The rate at which the train came in.
    pub rate: Rate,
    /// The same without what of the train was lost: so much had room.
    pub passed: Rate,
    /// Whether it came in slower than it left, so that this is the bottleneck's rate and not ours.
    pub is_bottleneck: bool,
}

/// What is known so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathReport {
    /// Index of the largest size that passed.
    pub largest_class: Option<u8>,
    /// Shortest round trip.
    pub rtt: Option<Duration>,
    /// What the train told.
    pub rate: Option<PathRate>,
    /// How long after the first probe the first one left that was answered.
    pub mute: Duration,
}

/// What a check tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEvent {
    /// The first word from the other side: UDP passes both ways (or, to the side that only answers, towards it).
    Reached,
    /// The token of [`PathCheck::ask_who`] came back.
    Echoed(u64),
}

/// Probes the path and answers the other side's probes.
#[derive(Debug)]
pub struct PathCheck {
    /// UDP payload lengths to try, ascending.
    classes: Vec<u16>,
    /// Probes sent, by number.
    sent: Vec<SentProbe>,
    /// Classes of the probes that are still to go.
    queue: VecDeque<u8>,
    replies: VecDeque<(DatagramNumber, Time, u64)>,
    /// In every probe. Who repeats it has received one: nobody can guess it.
    token: u64,
    /// Those of the latest probes to other addresses.
    other_tokens: VecDeque<u64>,
    /// Number of the next datagram; probes and replies share it.
    next_number: DatagramNumber,
    retry_at: Option<Time>,
    retries: u32,
    last_news: Option<Time>,
    answers: u64,
    events: VecDeque<PathEvent>,
    reached: bool,
}

#[derive(Clone, Copy, Debug)]
struct SentProbe {
    number: DatagramNumber,
    class: u8,
    at: Time,
    came: Option<(Time, Time)>,
}

impl PathCheck {
    /// Try `classes` (UDP payload lengths, ascending, at most [`wire::MAX_CLASSES`]). With `train`, the side that will
    /// send data learns the path's rate; the other side only needs to make itself known. `token` is random.
    pub fn new(classes: Vec<u16>, train: bool, token: u64) -> PathCheck {
        assert!(!classes.is_empty() && classes.len() <= wire::MAX_CLASSES);
        let mut queue = VecDeque::new();
        if train {
            // The train first, undisturbed, in a size that surely passes the first hop and is long on the wire.
            let body = classes.iter().rposition(|len| *len <= TRAIN_DATAGRAM_MAX).unwrap_or(0) as u8;
            queue.extend([body; TRAIN_LEN]);
            queue
                .extend((0..classes.len() as u8).filter(|class| *class != body).flat_map(|class| [class; 2]));
        } else {
            queue.extend([0, 0]);
        }
        PathCheck {
            classes,
            sent: vec![],
            queue,
            replies: VecDeque::new(),
            token,
            other_tokens: VecDeque::new(),
            next_number: 0,
            retry_at: None,
            retries: 0,
            last_news: None,
            answers: 0,
            events: VecDeque::new(),
            reached: false,
        }
    }

    /// What is known so far.
    pub fn report(&self) -> PathReport {
        let came = self.sent.iter().filter_map(|p| p.came.map(|(now, _)| (p, now)));
        let first = self.sent.first().map_or(Time::ZERO, |probe| probe.at);
        PathReport {
            mute: came.clone().map(|(p, _)| p.at.since(first)).min().unwrap_or_default(),
            largest_class: came.clone().map(|(p, _)| p.class).max(),
            rtt: came.map(|(p, now)| now.since(p.at)).min(),
            rate: self.train_rate(),
        }
    }

    /// Whether nothing more is to be expected: all probes answered, or silence for `patience` after the last answer.
    pub fn is_settled(&self, now: Time, patience: Duration) -> bool {
        let all =
            !self.sent.is_empty() && self.queue.is_empty() && self.sent.iter().all(|p| p.came.is_some());
        all || self.last_news.is_some_and(|at| now >= at + patience)
    }

    /// Ask once more whether a size passes.
    pub fn probe_again(&mut self, class: u8) {
        if usize::from(class) < self.classes.len() {
            self.queue.push_back(class);
        }
    }

    /// A probe for another address than that of the others, with a token of its own: who repeats that is there.
    pub fn ask_who(&mut self, token: u64, buf: &mut [u8]) -> Transmit {
        self.other_tokens.retain(|other| *other != token);
        self.other_tokens.push_back(token);
        if self.other_tokens.len() > OTHERS_MAX {
            self.other_tokens.pop_front();
        }
        wire::encode_probe(&mut buf[..wire::PROBE_LEN_MIN], 0, token);
        Transmit { number: self.take_number(), len: wire::PROBE_LEN_MIN }
    }

    /// The number for a datagram of the owner's own under the same keys.
    pub fn take_number(&mut self) -> DatagramNumber {
        self.next_number += 1;
        self.next_number - 1
    }

    /// How long the body of the next datagram is, if there is one.
    pub fn next_len(&self) -> Option<usize> {
        if !self.replies.is_empty() {
            return Some(wire::REPLY_LEN);
        }
        self.queue.front().map(|class| self.probe_len(*class))
    }

    fn probe_len(&self, class: u8) -> usize {
        usize::from(self.classes[usize::from(class)]) - wire::SEAL_OVERHEAD
    }

    fn remember(&mut self, probe: SentProbe) {
        if self.sent.len() >= PROBES_MAX {
            // What the first ones found stays.
            self.sent.drain(PROBES_MAX / 2..PROBES_MAX / 4 * 3);
        }
        self.sent.push(probe);
    }

    /// Whether a probe of this size that left within `span` was answered.
    pub fn passed(&self, class: u8, span: Range<Time>) -> bool {
        self.sent.iter().any(|probe| probe.class == class && probe.came.is_some() && span.contains(&probe.at))
    }

    /// How many probes were answered.
    pub fn answers(&self) -> u64 {
        self.answers
    }

    /// When the last answer came.
    pub fn last_news(&self) -> Option<Time> {
        self.last_news
    }

    /// Rate of the train: bytes behind its first arrival over the time until its last.
    fn train_rate(&self) -> Option<PathRate> {
        let class = self.sent.first()?.class;
        let train = || self.sent.iter().take(TRAIN_LEN).filter(|p| p.class == class);
        let mut arrivals: Vec<(Time, Time)> =
            train().filter_map(|p| p.came.map(|(_, arrival)| (arrival, p.at))).collect();
        if arrivals.len() < TRAIN_READ {
            return None;
        }
        arrivals.sort();
        let (first, last) = (arrivals[0], arrivals[arrivals.len() - 1]);
        let bytes = (arrivals.len() as u64 - 1) * u64::from(self.classes[usize::from(class)]);
        let rate = Rate::from_bytes_over(bytes, last.0.since(first.0));
        let offered = Rate::from_bytes_over(bytes, last.1.since(first.1));
        // A burst that one system call sent has no measurable spacing of its own.
        let rate = rate.min(TRAIN_RATE_MAX);
        let passed = rate.scale(arrivals.len() as f64 / train().count() as f64);
        Some(PathRate { rate, passed, is_bottleneck: rate < offered.min(TRAIN_RATE_MAX).scale(STRETCHED) })
    }

    fn on_reply(&mut self, reached_us: Time, number: DatagramNumber, arrival: Time) {
        if let Some(probe) = self.sent.iter_mut().find(|p| p.number == number && p.came.is_none()) {
            probe.came = Some((reached_us, arrival));
            self.last_news = Some(reached_us);
            self.answers += 1;
            self.retry_at = None;
            self.reach();
        }
    }

    fn reach(&mut self) {
        if !self.reached {
            self.reached = true;
            self.events.push_back(PathEvent::Reached);
        }
    }
}

impl Endpoint for PathCheck {
    type Event = PathEvent;

    fn handle_datagram(&mut self, _now: Time, arrival: Arrival, body: &[u8]) {
        match Body::decode(body) {
            Some(Body::Probe { token, .. }) if self.replies.len() < REPLIES_MAX => {
                self.replies.push_back((arrival.number, arrival.time, token));
                self.reach();
            }
            Some(Body::Reply { token, .. }) if self.other_tokens.contains(&token) => {
                self.other_tokens.retain(|other| *other != token);
                self.events.push_back(PathEvent::Echoed(token));
            }
            // The moment it reached the host, not the moment we looked: the owner may be busy with the handshake.
            Some(Body::Reply { probe, arrival: there, token }) if token == self.token => {
                self.on_reply(arrival.time, probe, there);
            }
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        // However long the other side is silent: it may be reading a whole tree, and a NAT on the way is to know us still.
        if self.retry_at.is_some_and(|at| now >= at) {
            self.retry_at = None;
            self.retries += 1;
            self.queue.extend(0..self.classes.len() as u8);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let number = self.next_number;
        let len = if let Some((probe, arrival, token)) = self.replies.pop_front() {
            wire::encode_reply(buf, probe, arrival, token)
        } else {
            let class = self.queue.pop_front()?;
            let len = self.probe_len(class);
            wire::encode_probe(&mut buf[..len], class, self.token);
            self.remember(SentProbe { number, class, at: now, came: None });
            self.retry_at = Some(now + RETRY_AFTER * (1 << self.retries.saturating_sub(RETRIES_SOON).min(3)));
            len
        };
        self.next_number += 1;
        Some(Transmit { number, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.retry_at.filter(|_| self.last_news.is_none())
    }

    fn poll_event(&mut self) -> Option<PathEvent> {
        self.events.pop_front()
    }
}

/// Datagrams in the train: long enough to read a rate, short enough for any queue worth the name.
const TRAIN_LEN: usize = 32;
/// Answers needed to read a rate.
const TRAIN_READ: usize = 8;
/// Trains are of what Ethernet carries, even where more passes.
const TRAIN_DATAGRAM_MAX: u16 = 1472;
/// A train that came in slower than this share of its sending rate was stretched by the path.
const STRETCHED: f64 = 0.8;
/// Faster than this, timestamps tell nothing.
pub(crate) const TRAIN_RATE_MAX: Rate = Rate(2_000_000_000);
/// Without any answer, probes of all sizes go out again after this long, some times; then after twice as long, …
const RETRY_AFTER: Duration = Duration::from_millis(200);
const RETRIES_SOON: u32 = 4;
/// Probes remembered.
const PROBES_MAX: usize = 200;
/// Other addresses that are asked at once: where the peer seems to be, and where else it may be.
const OTHERS_MAX: usize = 2;
/// Answers waiting to be sent.
const REPLIES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const OUT_MS: u64 = 30;

    /// Run two checks against each other over a path that passes `mtu` bytes at `rate`; returns the prober's report.
    fn check(mtu: usize, rate: Rate, drop: impl Fn(u64) -> bool) -> PathReport {
        let mut left = PathCheck::new(vec![1200, 1472, 8972], true, 7);
        let mut right = PathCheck::new(vec![1200], false, 8);
        let mut buf = vec![0; 9000];
        let (mut free, mut now) = (Time::ZERO, Time::ZERO);
        for _ in 0..4 {
            while let Some(t) = left.poll_transmit(now, &mut buf) {
                let bytes = t.len + wire::SEAL_OVERHEAD;
                if bytes > mtu || drop(t.number) {
                    continue;
                }
                free = free.max(now) + rate.time_for(bytes as u64);
                let time = free + Duration::from_millis(OUT_MS);
                right.handle_datagram(time, Arrival::new(time, t.number), &buf[..t.len]);
                while let Some(reply) = right.poll_transmit(time, &mut buf) {
                    let at = time + Duration::from_millis(OUT_MS);
                    left.handle_datagram(at, Arrival::new(at, reply.number), &buf[..reply.len]);
                }
                now = now + Duration::from_micros(2);
            }
            now = left.poll_timeout().unwrap_or(now + Duration::from_secs(1));
            left.handle_timeout(now);
        }
        left.report()
    }

    #[test]
    fn finds_size_rate_and_round_trip() {
        let report = check(1472, Rate::from_mbps(100.0), |_| false);
        assert_eq!(report.largest_class, Some(1));
        let rate = report.rate.unwrap();
        assert!(rate.is_bottleneck && (95.0..105.0).contains(&rate.rate.as_mbps()), "{rate:?}");
        assert!(report.rtt.unwrap() >= Duration::from_millis(2 * OUT_MS));
        assert_eq!(report.mute, Duration::ZERO);
    }

    #[test]
    fn jumbo_frames_are_found() {
        assert_eq!(check(9000, Rate::from_mbps(100.0), |_| false).largest_class, Some(2));
    }

    #[test]
    fn a_lost_train_is_made_up_for_by_retries() {
        let report = check(1472, Rate::from_mbps(100.0), |n| n < 36);
        assert_eq!((report.largest_class, report.rate), (Some(1), None));
        assert!((RETRY_AFTER..RETRY_AFTER * 2).contains(&report.mute), "{report:?}");
    }

    #[test]
    fn what_of_a_train_was_lost_had_no_room() {
        let link = Rate::from_mbps(100.0);
        let rate = check(1472, link, |n| (16..32).contains(&n)).rate.unwrap();
        assert!((95.0..105.0).contains(&rate.rate.as_mbps()), "{rate:?}");
        assert_eq!(rate.passed, rate.rate.scale(0.5));
        let whole = check(1472, link, |_| false).rate.unwrap();
        assert_eq!(whole.passed, whole.rate);
    }

    #[test]
    fn a_dead_path_reports_nothing() {
        assert_eq!(check(0, Rate::from_mbps(100.0), |_| true), PathReport::default());
    }

    #[test]
    fn who_is_silent_for_an_hour_is_asked_to_its_end_now_and_then() {
        let mut check = PathCheck::new(vec![1200, 1472], true, 7);
        let mut buf = vec![0; 1500];
        let (mut now, mut last) = (Time::ZERO, 0);
        while now < Time::ZERO + Duration::from_secs(3600) {
            while let Some(sent) = check.poll_transmit(now, &mut buf) {
                last = sent.number;
            }
            let next = check.poll_timeout().expect("it asks again");
            assert!((RETRY_AFTER..=RETRY_AFTER * 8).contains(&next.since(now)), "{next:?} after {now:?}");
            now = next;
            check.handle_timeout(now);
            assert!(check.sent.len() <= PROBES_MAX);
        }
        let len = wire::encode_reply(&mut buf, last, now, 7);
        check.handle_datagram(now, Arrival::new(now, 0), &buf[..len]);
        assert_eq!((check.answers(), check.poll_event()), (1, Some(PathEvent::Reached)));
    }

    #[test]
    fn a_reply_from_somebody_who_saw_no_probe_counts_for_nothing() {
        let mut check = PathCheck::new(vec![1200], true, 7);
        let mut buf = vec![0; 1500];
        let sent = check.poll_transmit(Time::ZERO, &mut buf).unwrap();
        let reply = |check: &mut PathCheck, token| {
            let mut body = [0; wire::REPLY_LEN];
            wire::encode_reply(&mut body, sent.number, Time::ZERO, token);
            check.handle_datagram(Time::ZERO, Arrival::new(Time::ZERO, 0), &body);
        };
        // As it was recorded in another transfer.
        reply(&mut check, 6);
        assert_eq!((check.answers(), check.poll_event()), (0, None));
        for token in [8, 9, 10, 9] {
            check.ask_who(token, &mut buf);
        }
        [9, 9, 10, 8].into_iter().for_each(|token| reply(&mut check, token));
        let events: Vec<_> = std::iter::from_fn(|| check.poll_event()).collect();
        assert_eq!(
            events,
            [9, 10].map(PathEvent::Echoed),
            "each once, and not the one asked before these two"
        );
        assert_eq!(check.answers(), 0);
        reply(&mut check, 7);
        assert_eq!(check.answers(), 1);
    }

    #[test]
    fn an_unstretched_train_is_no_bottleneck() {
        let rate = check(1472, Rate(100_000_000_000), |_| false).rate.unwrap();
        assert!(!rate.is_bottleneck, "{rate:?}");
    }
}
