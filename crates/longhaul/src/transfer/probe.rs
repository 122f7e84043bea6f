//! What a path can do, found out with data that nobody keeps.
//!
//! A probe is a short transfer of an endless object by each transport in turn. Sender, controller and the search
//! for the number of streams are those of a copy; only the bytes come from nowhere and go nowhere.

use super::client::{begun, meet, open, split};
use super::connect::Remote;
use super::identity::copy_id;
use super::object_receiver::ObjectReceiver;
use super::proposal::OfferFields;
use super::receiving::await_confirmation;
use super::sending::{Feed, Sent, send_for};
use super::session::{HEARTBEAT, Session};
use crate::api::{CopyOptions, Limit, Location, Observer, Phase, Progress, Remark, Transport};
use crate::clock;
use crate::error::{Error, RequestError};
use crate::net::wake::precise_timers;
use longhaul_proto::endpoint::{Full, NotReady, Sink, Source};
use longhaul_proto::session::choice::{MARGIN, ODD_LOSS, QUEUE};
use longhaul_proto::session::manifest::Ranges;
use longhaul_proto::session::message::{Already, Message, Operation, PROBE_LEN};
use longhaul_proto::session::reason::Cause;
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::{Rate, Time};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a probe found. Serialised it is the JSON that the program prints.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ProbeReport {
    /// Something passes.
    pub ok: bool,
    /// The host, as it was named.
    pub host: String,
    /// Whether UDP passes in both directions, where it was tried and the host was reached.
    pub udp: Option<bool>,
    /// Shortest round trip, milliseconds.
    pub rtt_ms_min: Option<f64>,
    /// Mean round trip while the path was filled, milliseconds.
    pub rtt_ms_mean: Option<f64>,
    /// UDP payload plus headers of the largest datagram that passed, bytes.
    pub path_mtu: Option<u32>,
    /// Data that the path has room for now, by the better transport, 10⁶ bit/s.
    pub available_mbps: Option<f64>,
    /// By object packets over UDP.
    pub object_mbps: Option<f64>,
    /// By parallel TCP streams.
    pub stripe_mbps: Option<f64>,
    /// Share of datagrams lost over UDP.
    pub loss: Option<f64>,
    /// The number of TCP streams that was best, where a copy would end with them.
    pub streams: Option<u16>,
    /// What held the faster transport back.
    pub limited_by: Limit,
    /// What a copy that may choose its transport would end with.
    pub transport: String,
    /// Why, in a line.
    pub reason: String,
    /// How long the probe took.
    pub seconds: f64,
    /// Why it failed.
    pub error: Option<String>,
}

/// Find out what the path to the host of `at` can do, sending by each transport that `options` allow for `trial`.
pub fn probe(
    at: &Location,
    options: &CopyOptions,
    trial: Duration,
    observer: &mut dyn Observer,
    stop: Arc<AtomicBool>,
) -> Result<ProbeReport, Error> {
    let (remote, _) = split(at).map_err(RequestError::ProbeOfThisHost)?;
    remote.check_token(options)?;
    let options = begun(options);
    precise_timers();
    let mut trials = vec![];
    for (carrier, transport) in [(Carrier::Object, Transport::Object), (Carrier::Stripe, Transport::Stripe)] {
        if ![Transport::Auto, transport].contains(&options.transport) {
            continue;
        }
        let options = CopyOptions { transport, ..options.clone() };
        let outcome = run_trial(&remote, &options, trial, observer, stop.clone());
        match outcome.map_err(|error| error.unless_stopped(&stop)) {
            Err(error @ Error::Interrupted) => return Err(error),
            outcome => trials.push((carrier, outcome)),
        }
    }
    let mut report = summarise(remote.name(), trials)?;
    report.seconds = options.began.map_or(0.0, |began| began.elapsed().as_secs_f64());
    Ok(report)
}

/// What one trial found.
struct Found {
    rate: Rate,
    sent: Sent,
    /// The largest datagrams, with their headers.
    packet_len: u32,
}

fn run_trial(
    remote: &Remote,
    options: &CopyOptions,
    trial: Duration,
    observer: &mut dyn Observer,
    stop: Arc<AtomicBool>,
) -> Result<Found, Error> {
    let mut meter = Meter { told: observer, samples: vec![] };
    let copy = copy_id::<&Path>(&[], options);
    let fields = OfferFields {
        operation: Operation::Probe,
        copy,
        listing: &[],
        sends: true,
        ticket: None,
        third_party: false,
    };
    let reached = meet(remote, options, &stop)?;
    let mut opened = open(reached, &fields, None, options, (&mut meter, stop))?;
    let outcome = send_for(&mut opened.session, PROBE_LEN, trial, Nothing);
    let packet_len = outcome.as_ref().map_or(0, |sent| opened.session.link.packet_len(sent.datagram_len));
    opened.close();
    let sent = outcome?;
    Ok(Found { rate: meter.rate(), sent, packet_len })
}

type Outcome = (Carrier, Result<Found, Error>);

fn summarise(host: &str, trials: Vec<Outcome>) -> Result<ProbeReport, Error> {
    let mut report = ProbeReport { host: host.into(), ..ProbeReport::default() };
    let mut failures = vec![];
    for (transport, outcome) in trials {
        match outcome {
            Ok(found) => report.take(transport, &found),
            Err(error) => failures.push((transport, error)),
        }
    }
    if failures.iter().any(|(_, error)| error.cause() == Cause::UdpBlocked) {
        report.udp = Some(false);
    }
    let why_not =
        |wanted: Carrier| failures.iter().find(|(t, _)| *t == wanted).map(|(_, error)| error.to_string());
    let (transport, reason) = match (report.object_mbps, report.stripe_mbps) {
        (None, None) => {
            return Err(Error::NoTransport(failures.into_iter().map(|(_, error)| error).collect()));
        }
        (Some(_), None) => (Carrier::Object, why_not(Carrier::Stripe).unwrap_or_else(|| "UDP passes".into())),
        (None, Some(_)) => (Carrier::Stripe, why_not(Carrier::Object).unwrap_or_else(|| "TCP passes".into())),
        (Some(object), Some(stripe)) => choose(object, stripe, &report),
    };
    // The number of TCP streams is of use only where they are recommended.
    report.streams = report.streams.filter(|_| transport == Carrier::Stripe);
    report.ok = true;
    report.available_mbps = report.object_mbps.into_iter().chain(report.stripe_mbps).reduce(f64::max);
    report.transport = transport.name().into();
    report.reason = reason;
    Ok(report)
}

/// The rule where the transport is left open: packets over UDP unless something drops UDP alone and streams are faster by a margin.
fn choose(object: f64, stripe: f64, found: &ProbeReport) -> (Carrier, String) {
    let faster = |a: f64, b: f64| format!("{:.2} times as fast", a / b.max(1e-9));
    let queue_ms = found.rtt_ms_mean.zip(found.rtt_ms_min).map_or(0.0, |(mean, min)| mean - min);
    let is_dropped = found.loss.unwrap_or(0.0) >= ODD_LOSS && queue_ms < QUEUE.as_secs_f64() * 1e3;
    if stripe > object * MARGIN && is_dropped {
        (Carrier::Stripe, format!("streams are {} as packets over UDP", faster(stripe, object)))
    } else if object > stripe {
        (Carrier::Object, format!("packets over UDP are {} as streams", faster(object, stripe)))
    } else {
        (Carrier::Object, format!("streams are {}, and take more from others", faster(stripe, object)))
    }
}

impl ProbeReport {
    fn take(&mut self, transport: Carrier, found: &Found) {
        let (status, mbps) = (&found.sent.status, found.rate.0 as f64 / 1e6);
        let [min, mean, _] = status.rtt_ns.map(|ns| (ns > 0).then_some(ns as f64 / 1e6));
        if mbps >= self.object_mbps.unwrap_or(0.0) {
            self.limited_by = status.limits.longest();
        }
        match transport {
            Carrier::Stripe => {
                self.stripe_mbps = Some(mbps);
                self.streams = Some(status.streams);
                if self.udp.is_none() {
                    (self.rtt_ms_min, self.rtt_ms_mean) = (min, mean);
                }
            }
            _ => {
                self.object_mbps = Some(mbps);
                self.udp = Some(true);
                self.loss = Some(status.loss);
                self.path_mtu = Some(found.packet_len);
                (self.rtt_ms_min, self.rtt_ms_mean) = (min, mean);
            }
        }
    }
}

/// Passes on what happens, and remembers how far the trial was when.
struct Meter<'a> {
    told: &'a mut dyn Observer,
    samples: Vec<(Time, u64)>,
}

impl Meter<'_> {
    /// Data per second over the last third: what came before found out how fast to go.
    fn rate(&self) -> Rate {
        let (Some(first), Some(last)) = (self.samples.first(), self.samples.last()) else {
            return Rate::default();
        };
        let from = last.0 - last.0.since(first.0) / 3;
        let Some(start) = self.samples.iter().find(|(at, _)| *at >= from) else { return Rate::default() };
        Rate::from_bytes_over(last.1 - start.1, last.0.since(start.0))
    }
}

impl Observer for Meter<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.phase == Phase::Moving {
            self.samples.push((clock::now(), progress.bytes_done));
        }
        self.told.progress(progress);
    }

    fn remark(&mut self, remark: Remark) {
        self.told.remark(remark);
    }

    fn warning(&mut self, line: &str) {
        self.told.warning(line);
    }
}

/// Bytes from nowhere, to nowhere. They travel sealed: what they are makes no difference to any device on the way.
#[derive(Debug)]
struct Nothing;

impl Source for Nothing {
    fn read_at(&mut self, _: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        buf.fill(0);
        Ok(())
    }
}

impl Feed for Nothing {}

impl Sink for Nothing {
    fn write_at(&mut self, _: u64, _: &[u8]) -> Result<(), Full> {
        Ok(())
    }
}

/// The far side: take what comes until the prober has enough.
pub fn answer(session: &mut Session<'_>) -> Result<String, Error> {
    let have = Ranges::new();
    session.tell_rate(None);
    session.control.send(Message::Start {
        have: have.clone(),
        claimed: Ranges::new(),
        already: Already::default(),
    });
    await_confirmation(session)?;
    let mut object = ObjectReceiver::new(session, PROBE_LEN, false, Nothing)?;
    loop {
        session.begin_turn()?;
        let busy = object.take(session, &have)?;
        while let Some(message) = session.poll_message()? {
            if let Message::Bye(_) = message {
                return Ok(format!("was probed with {} packets", received(&object)));
            }
        }
        let now = clock::now();
        object.acknowledge(session, now);
        session.run_check(now);
        session.tend_streams(now);
        session.check_silence(object.last_news().max(session.last_word))?;
        if !busy {
            let deadline = object.poll_timeout().unwrap_or(Time::MAX).min(now + HEARTBEAT);
            session.wait(now, deadline)?;
        }
    }
}

fn received<K: Sink>(object: &ObjectReceiver<K>) -> u64 {
    object.receiver().map_or(0, |receiver| receiver.received())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is recommended where streams carry three times what UDP does.
    fn recommended(loss: f64, rtt_ms: [f64; 2]) -> Carrier {
        let [min, mean] = rtt_ms.map(Some);
        let found =
            ProbeReport { loss: Some(loss), rtt_ms_min: min, rtt_ms_mean: mean, ..ProbeReport::default() };
        choose(30.0, 90.0, &found).0
    }

    #[test]
    fn streams_are_recommended_only_where_something_drops_udp_alone() {
        assert_eq!(recommended(0.3, [40.0, 40.5]), Carrier::Stripe, "a policer");
        assert_eq!(recommended(0.001, [40.0, 40.5]), Carrier::Object, "a clean path");
        assert_eq!(recommended(0.1, [40.0, 70.0]), Carrier::Object, "a full one");
    }
}
