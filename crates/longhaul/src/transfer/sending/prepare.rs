//! Before the first data: what the receiver needs, what the path is like, and what carries the data.

use super::super::session::{HEARTBEAT, Session};
use super::Feed;
use super::pieces::Pieces;
use crate::api::Phase;
use crate::clock;
use crate::error::Error;
use longhaul_proto::endpoint::Endpoint;
use longhaul_proto::path::PathReport;
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::session::message::{Already, Message, Report};
use longhaul_proto::session::transport::{Carrier, Transport};
use longhaul_proto::units::Time;
use longhaul_proto::wire::{BASE_DATAGRAM_LEN, IPV6_UDP_LEN};
use std::time::Duration;

/// What is known when data can go.
pub struct Begin<F> {
    /// Bytes that the receiver does not need.
    pub have: Ranges,
    /// Bytes that it claims to have as well.
    pub claimed: Ranges,
    /// What of that it had before.
    pub already: Already,
    /// Where the bytes come from.
    pub feed: F,
    /// What the path check found.
    pub path: PathReport,
    /// What carries the data to begin with.
    pub carrier: Carrier,
    /// Why, if that is not what was hoped for.
    pub why: Option<String>,
    /// The receiver is done already with what it needed of this, which may be nothing.
    pub finished: Option<Report>,
    /// The memory of these sets.
    pub pieces: Pieces,
}

/// What came of the wait.
pub enum Prepared<F> {
    /// Send.
    Begin(Begin<F>),
    /// There is nothing to be done: all of the copy was a dry run of one part.
    Finished(Report),
}

/// Wait until the receiver says what it needs and there is something to carry it. Nothing needed: nothing to carry it
/// needed. Meanwhile `phase` is what is going on. As soon as it is known what is not, `read` begins to read the rest,
/// while the path is still being looked at.
pub fn prepare<F: Feed>(
    session: &mut Session<'_>,
    phase: Phase,
    object_len: u64,
    read: impl FnOnce(&Ranges, &Ranges) -> Result<F, Error>,
) -> Result<Prepared<F>, Error> {
    let began = clock::now();
    let mut read = Some(read);
    let mut wanted: Option<(Ranges, Ranges, Already, F)> = None;
    let mut finished = None;
    let mut why = None;
    let mut pieces = Pieces::of(&session.budget);
    let mut carrier = match session.options.transport {
        Transport::Auto | Transport::Object => Carrier::Object,
        Transport::Stripe => Carrier::Stripe,
        Transport::Ssh => Carrier::Ssh,
    };
    loop {
        session.begin_turn()?;
        session.tell_phase(phase);
        while let Some(message) = session.poll_message()? {
            match message {
                Message::Start { have, claimed, already } => {
                    session.remark(format!("the other side has {} entries already", already.skipped));
                    if let Some(read) = read.take() {
                        let feed = read(&have, &claimed).map_err(|error| session.abort(error))?;
                        wanted = Some((have, claimed, already, feed));
                    }
                }
                Message::Unwanted { ranges } => {
                    if let Some((have, claimed, ..)) = &mut wanted {
                        for range in ranges.iter() {
                            claimed.remove(range.clone());
                            have.insert(range.clone());
                        }
                        let held = pieces.hold(have.len() + claimed.len());
                        held.map_err(|error| session.abort(error))?;
                    }
                }
                Message::Finished(report) if wanted.is_some() => finished = Some(report),
                Message::Finished(report) => return Ok(Prepared::Finished(report)),
                _ => {}
            }
        }
        // What has come in by then has been seen, however long it takes to look.
        let looked = clock::now();
        session.receive(|_, _, _, _| true)?;
        let now = clock::now();
        session.run_check(now);
        session.tend_streams(now);
        let path = session.check.report();
        if let Some((have, claimed, already, feed)) = wanted.take() {
            let needed = object_len
                - have.iter().map(|r| r.end.min(object_len) - r.start.min(object_len)).sum::<u64>();
            let ready = match carrier {
                Carrier::Object => session.check.is_settled(looked, settle_patience(&path)),
                Carrier::Stripe | Carrier::Ssh => !session.link.streams().is_empty(),
            };
            // What is yet to come of a pipe needs something to carry it.
            let needs_nothing = (needed == 0 || finished.is_some()) && !feed.awaits_source();
            if needs_nothing || ready {
                let begin = Begin { have, claimed, already, feed, path, carrier, why, finished, pieces };
                return Ok(Prepared::Begin(begin));
            }
            wanted = Some((have, claimed, already, feed));
        }
        carrier = fall_back(session, carrier, &mut why, now.since(began))?;
        session.check_silence(session.last_word)?;
        let pending = session.check.poll_timeout().unwrap_or(Time::MAX).min(now + HEARTBEAT);
        let settled = session
            .check
            .last_news()
            .filter(|_| wanted.is_some())
            .map_or(Time::MAX, |at| at + settle_patience(&path));
        let gives_up = Some(began + udp_patience(session)).filter(|at| *at > now).unwrap_or(Time::MAX);
        session.wait(now, pending.min(settled).min(gives_up))?;
    }
}

/// What is to carry the data after so long a wait.
fn fall_back(
    session: &mut Session<'_>,
    carrier: Carrier,
    why: &mut Option<String>,
    waited: Duration,
) -> Result<Carrier, Error> {
    match carrier {
        Carrier::Object if session.check.report().rtt.is_some() => Ok(carrier),
        Carrier::Object if session.options.transport == Transport::Object => {
            if waited > UDP_PATIENCE {
                return Err(session.abort(no_udp(session, waited)));
            }
            Ok(carrier)
        }
        Carrier::Object => {
            let patience = udp_patience(session);
            if waited > patience / 4 {
                // So that they are there when they are needed.
                session.want_streams(first_streams(session));
            }
            if waited < patience {
                return Ok(carrier);
            }
            let unanswered = unanswered(&session.options.classes);
            *why = Some(format!("{unanswered} (no answer in {:.1} s)", waited.as_secs_f64()));
            Ok(Carrier::Stripe)
        }
        // It was only late.
        Carrier::Stripe
            if session.options.transport == Transport::Auto && session.check.report().rtt.is_some() =>
        {
            *why = None;
            Ok(Carrier::Object)
        }
        // However long the other side then takes to say what it needs.
        Carrier::Stripe if !session.link.streams().is_empty() => Ok(carrier),
        Carrier::Stripe => {
            session.want_streams(first_streams(session));
            // As long as UDP may yet answer, that TCP does not is no reason to give up.
            let may_answer = session.options.transport == Transport::Auto && waited < UDP_LATE;
            match session.no_streams.take() {
                failure if may_answer => {
                    session.no_streams = failure;
                    Ok(carrier)
                }
                None if waited < STREAMS_PATIENCE => Ok(carrier),
                Some(line) if session.has_pipe && session.options.transport == Transport::Auto => {
                    let before = why.take().unwrap_or_default();
                    *why = Some(format!("{before}, nor does a TCP connection come about ({line})"));
                    Ok(Carrier::Ssh)
                }
                line => {
                    let reason = line.unwrap_or_else(|| "the other host does not answer".into());
                    Err(session.abort(Error::TcpBlocked { reason }))
                }
            }
        }
        Carrier::Ssh => {
            session.open_pipe()?;
            Ok(carrier)
        }
    }
}

/// What it means that no probe was answered. Where the user named the size, larger than what passes everywhere, that may
/// be all there is to it.
fn no_udp(session: &Session<'_>, waited: Duration) -> Error {
    match session.options.classes[..] {
        [size] if size > BASE_DATAGRAM_LEN => Error::SizeBlocked { size, waited },
        _ => {
            let local = session.link.socket().and_then(|socket| socket.local_addr().ok());
            Error::UdpBlocked { waited, local_port: local.map_or(0, |local| local.port()) }
        }
    }
}

/// The same for another transport that takes over.
fn unanswered(classes: &[u16]) -> String {
    match classes {
        [size] if *size > BASE_DATAGRAM_LEN => {
            format!("no UDP datagrams of {size} bytes pass between the two hosts")
        }
        _ => "UDP does not pass between the two hosts".into(),
    }
}

/// TCP streams to begin with. In the background a single one: each takes its share from others.
pub fn first_streams(session: &Session<'_>) -> usize {
    let usual = if session.options.background { 1 } else { STREAMS_FIRST };
    usize::from(session.options.streams.unwrap_or(usual).max(1))
}

/// The size class to cut the object in: the largest that passes, and over TCP streams all do. Where UDP may take over later it is
/// what Ethernet carries. And whether the first data counts, which went in packets of some size before anything was known: then
/// it is that one.
pub fn begin_class(
    session: &Session<'_>,
    path: &PathReport,
    (carrier, claimed): (Carrier, &Ranges),
) -> (u8, bool) {
    if let Some(first) = &session.first_flight
        && carrier == Carrier::Object
        && claimed.is_empty()
        && path.largest_class >= Some(first.class())
    {
        return (first.class(), true);
    }
    let classes = &session.options.classes;
    let class = match (carrier, session.options.transport) {
        (Carrier::Object, _) => path.largest_class.map(usize::from),
        (_, Transport::Auto) => classes.iter().rposition(|len| *len <= USUAL_DATAGRAM_LEN),
        _ => classes.len().checked_sub(1),
    };
    (class.unwrap_or(0) as u8, false)
}

/// How long UDP may leave the path check without an answer where TCP may carry the data instead.
fn udp_patience(session: &Session<'_>) -> Duration {
    UDP_PATIENCE_AUTO.max(session.rtt * UDP_PATIENCE_RTTS)
}

/// How long after the last answer to a probe more may be on their way.
pub fn settle_patience(report: &PathReport) -> Duration {
    SETTLE + report.rtt.unwrap_or_default() / 32
}

/// TCP streams to begin with where the best number is looked for: one would leave a path of some length half empty for most of
/// a short copy, and more are soon tried.
const STREAMS_FIRST: u16 = 2;
/// How long to try UDP before calling it blocked, where nothing else may carry the data.
const UDP_PATIENCE: Duration = Duration::from_secs(6);
/// Where something else may: after this the path check has tried twice, and it goes on.
const UDP_PATIENCE_AUTO: Duration = Duration::from_millis(250);
/// It may be so many round trips in any case: over ssh a pull's first answer takes as long.
const UDP_PATIENCE_RTTS: u32 = 2;
/// What an Ethernet of the usual size carries over IPv4 and IPv6.
const USUAL_DATAGRAM_LEN: u16 = 1500 - IPV6_UDP_LEN as u16;
/// An answer that comes so late still counts where TCP does not pass either.
const UDP_LATE: Duration = Duration::from_secs(1);
/// How long TCP streams may take to come about.
const STREAMS_PATIENCE: Duration = Duration::from_secs(20);
/// After the last answer to a probe, wait at least this long for more.
const SETTLE: Duration = Duration::from_millis(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_the_user_named_is_not_blamed_on_a_firewall() {
        for classes in [&[1200, 1452, 1472, 8952, 8972][..], &[1200], &[512]] {
            assert_eq!(unanswered(classes), "UDP does not pass between the two hosts");
        }
        assert!(unanswered(&[8972]).contains("datagrams of 8972 bytes"));
    }
}
