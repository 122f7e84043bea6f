//! What a trace was told last of a session: when it is to be told again, and what is news.

use super::session::Session;
use crate::trace::{Cadence, Change, Event, RateLimit, Role, SessionStarted};
use longhaul_proto::session::limit::{Limit, LimitSpans};
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::{Rate, Time};
use std::mem::replace;
use std::time::Duration;

/// See the [module](self).
pub struct Tracer {
    began: Time,
    /// Of the copy, when the session began: it may be one of many.
    before: Duration,
    looks: Cadence,
    counts: Cadence,
    paths: Vec<Path>,
    limit: Limit,
    limits: LimitSpans,
    datagram_len: u32,
    rate_limit: Option<Rate>,
}

/// What was told of a path.
#[derive(Default)]
pub struct Path {
    state: String,
    sent: Amount,
    received: Amount,
}

/// Packets, and the bytes in them: datagrams of a copy are not always of one size.
#[derive(Clone, Copy, Default)]
pub struct Amount {
    packets: u64,
    bytes: u64,
}

/// What is to be told now.
struct Due {
    /// What controllers do.
    states: bool,
    /// Everything else.
    figures: bool,
}

/// Either side of a session, as far as a trace is told of it.
pub trait Traced {
    /// What was told, if the user of the session wants a trace.
    fn tracer(&mut self) -> &mut Option<Tracer>;

    /// Tell what controllers do, where this side has any.
    fn trace_states(&mut self, _: &mut Tracer) {}

    /// Tell everything else.
    fn trace_figures(&mut self, tracer: &mut Tracer);

    /// Whatever is due by now.
    fn tell_trace(&mut self, now: Time) {
        let Some(mut tracer) = self.tracer().take() else { return };
        let due = tracer.due(now);
        if due.states {
            self.trace_states(&mut tracer);
        }
        if due.figures {
            self.trace_figures(&mut tracer);
        }
        *self.tracer() = Some(tracer);
    }

    /// The same for the last time.
    fn end_trace(&mut self) {
        if let Some(mut tracer) = self.tracer().take() {
            self.trace_figures(&mut tracer);
        }
    }
}

impl Tracer {
    /// Begin, if the user of this session wants a trace.
    pub fn of(
        session: &mut Session<'_>,
        role: Role,
        transport: Option<Carrier>,
        now: Time,
    ) -> Option<Tracer> {
        if !session.observer.wants_trace() {
            return None;
        }
        let (control, companions) = session.options.protocol();
        let started = SessionStarted {
            role,
            control: control.name().into(),
            select: companions.selector.name().into(),
            transport,
        };
        session.trace(0, Event::SessionStarted(started));
        let before = session.began.elapsed();
        Some(Tracer::new(now, before))
    }

    fn new(began: Time, before: Duration) -> Tracer {
        Tracer {
            began,
            before,
            looks: Cadence::new(COUNT_EVERY / LOOKS_PER_COUNT),
            counts: Cadence::new(COUNT_EVERY),
            paths: vec![],
            limit: Limit::None,
            limits: LimitSpans::default(),
            datagram_len: 0,
            rate_limit: None,
        }
    }

    /// Whether it is time again.
    fn due(&mut self, now: Time) -> Due {
        let since_began = self.before + now.since(self.began);
        Due { states: self.looks.is_due(since_began), figures: self.counts.is_due(since_began) }
    }

    /// The controller of a path does this.
    pub fn state(&mut self, path: usize, state: &str) -> Option<Event> {
        let told = &mut self.path(path).state;
        (*told != state).then(|| Event::State(changed(told, state.into(), String::is_empty)))
    }

    /// So many datagrams have been sent over a path: bytes in them.
    pub fn sent(&mut self, path: usize, packets: u64) -> u64 {
        let len = self.datagram_len;
        self.path(path).sent.add(packets, len)
    }

    /// So many have come in over it: bytes in them.
    pub fn received(&mut self, path: usize, packets: u64) -> u64 {
        let len = self.datagram_len;
        self.path(path).received.add(packets, len)
    }

    /// Datagrams are of this size.
    pub fn datagram_len(&mut self, len: u32) -> Option<Event> {
        (len != self.datagram_len)
            .then(|| Event::Mtu(changed(&mut self.datagram_len, len, |before| *before == 0)))
    }

    /// For how long each limit has held so far.
    pub fn limits(&mut self, total: LimitSpans) -> Option<Event> {
        let lately = total.since(&replace(&mut self.limits, total)).longest();
        self.limit(lately)
    }

    /// What holds it back.
    pub fn limit(&mut self, limit: Limit) -> Option<Event> {
        (limit != self.limit).then(|| Event::Limit(changed(&mut self.limit, limit, |_| false)))
    }

    /// What the user lets it send at.
    pub fn rate_limit(&mut self, rate: Option<Rate>) -> Option<Event> {
        (replace(&mut self.rate_limit, rate) != rate)
            .then(|| Event::RateLimit(RateLimit { new: rate.map(|rate| rate.0) }))
    }

    fn path(&mut self, path: usize) -> &mut Path {
        let known = self.paths.len().max(path + 1);
        self.paths.resize_with(known, Path::default);
        &mut self.paths[path]
    }
}

impl Amount {
    /// So many there are by now, of which the new ones have this length: bytes in all.
    fn add(&mut self, packets: u64, len: u32) -> u64 {
        self.bytes += packets.saturating_sub(self.packets) * u64::from(len);
        self.packets = self.packets.max(packets);
        self.bytes
    }
}

/// `told` is told to be `new`.
fn changed<T: Clone>(told: &mut T, new: T, is_unknown: impl Fn(&T) -> bool) -> Change<T> {
    let old = replace(told, new.clone());
    Change { old: Some(old).filter(|old| !is_unknown(old)), new }
}

/// Figures are told so often.
const COUNT_EVERY: Duration = Duration::from_millis(50);
/// States of controllers last about a round trip.
const LOOKS_PER_COUNT: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_news_is_not_told_again() {
        let mut tracer = Tracer::new(Time::ZERO, Duration::ZERO);
        let first = Change { old: None, new: "train".to_string() };
        assert_eq!(tracer.state(2, "train"), Some(Event::State(first)));
        assert_eq!(tracer.state(2, "train"), None);
        let next = Change { old: Some("train".to_string()), new: "cruise".to_string() };
        assert_eq!(tracer.state(2, "cruise"), Some(Event::State(next)));
        assert_eq!(tracer.datagram_len(1472), Some(Event::Mtu(Change { old: None, new: 1472 })));
        assert_eq!(tracer.datagram_len(1472), None);
        assert_eq!(tracer.rate_limit(None), None);
        assert_eq!(tracer.rate_limit(Some(Rate(8))), Some(Event::RateLimit(RateLimit { new: Some(8) })));
    }

    #[test]
    fn the_limit_told_is_that_of_most_of_the_time_since() {
        let (mut tracer, mut total) = (Tracer::new(Time::ZERO, Duration::ZERO), LimitSpans::default());
        let ms = Duration::from_millis;
        total.add(Limit::Path, ms(30));
        total.add(Limit::Cpu, ms(20));
        let to = |old, new| Some(Event::Limit(Change { old: Some(old), new }));
        assert_eq!(tracer.limits(total), to(Limit::None, Limit::Path));
        total.add(Limit::Cpu, ms(5));
        assert_eq!(tracer.limits(total), to(Limit::Path, Limit::Cpu));
    }

    #[test]
    fn bytes_are_those_of_the_sizes_in_use_when_they_went() {
        let mut tracer = Tracer::new(Time::ZERO, Duration::ZERO);
        tracer.datagram_len(1000);
        assert_eq!(tracer.sent(0, 3), 3000);
        tracer.datagram_len(100);
        assert_eq!((tracer.sent(0, 5), tracer.received(0, 5), tracer.sent(1, 1)), (3200, 500, 100));
    }
}
