//! Figures for Prometheus, over HTTP on a port of their own.

use super::page::Page;
use crate::failure::Failure;
use crate::gauges::{Transfer, TransferGauges};
use crate::values::describe;
use longhaul::Progress;
use longhaul::daemon::records::{Event, Way, Who};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, PoisonError};

/// Whose, and which way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Session {
    user: String,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    user: String,
    direction: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Forwarded {
    user: String,
    outcome: &'static str,
}

impl From<&Who<'_>> for Session {
    fn from(who: &Who<'_>) -> Session {
        Session { user: who.user.into(), direction: who.way.name() }
    }
}

/// Whose a transfer is, and which way it goes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct About {
    transfer: String,
    user: String,
    direction: &'static str,
}

/// The sessions that have figures of their own, each at the number that tells its figures. Numbers are used again: a daemon that
/// runs for years makes no more series than it has copies at a time.
#[derive(Default)]
struct Slots(Vec<Option<u64>>);

impl Slots {
    /// Where a session is.
    fn of(&self, session: u64) -> Option<usize> {
        self.0.iter().position(|slot| *slot == Some(session))
    }

    /// Give it the lowest one that is free, unless all are taken.
    fn take(&mut self, session: u64) -> Option<usize> {
        let free = self.0.iter().position(Option::is_none);
        let slot = free.or_else(|| (self.0.len() < TRANSFERS_MAX).then_some(self.0.len()))?;
        if slot == self.0.len() {
            self.0.push(None);
        }
        self.0[slot] = Some(session);
        Some(slot)
    }

    /// Nobody has it any more.
    fn free(&mut self, session: u64) -> Option<usize> {
        let slot = self.of(session)?;
        self.0[slot] = None;
        Some(slot)
    }
}

fn about(slot: usize, who: &Who<'_>) -> About {
    About { transfer: slot.to_string(), user: who.user.into(), direction: who.way.name() }
}

/// All figures.
pub struct Metrics {
    registry: Registry,
    connections: Counter,
    turned_away: Counter,
    refused: Family<Session, Counter>,
    sessions: Family<Session, Gauge>,
    ended: Family<Outcome, Counter>,
    bytes: Family<Session, Counter>,
    rate: Family<Session, Gauge>,
    files: Family<Outcome, Counter>,
    forwarded: Family<Forwarded, Counter>,
    forwarded_bytes: Family<Session, Counter>,
    about: Family<About, Gauge>,
    transfers: TransferGauges,
    slots: Mutex<Slots>,
}

impl Metrics {
    fn new() -> Metrics {
        let mut registry = Registry::with_prefix("longhaul");
        let all = Metrics {
            connections: Counter::default(),
            turned_away: Counter::default(),
            refused: Family::default(),
            sessions: Family::default(),
            ended: Family::default(),
            bytes: Family::default(),
            rate: Family::default(),
            files: Family::default(),
            forwarded: Family::default(),
            forwarded_bytes: Family::default(),
            about: Family::default(),
            transfers: TransferGauges::register(registry.sub_registry_with_prefix("transfer")),
            slots: Mutex::default(),
            registry: Registry::default(),
        };
        registry.register("connections", "TCP connections accepted", all.connections.clone());
        let help = "Connections without a key that is known here, or of something that is no longhaul";
        registry.register("turned_away", help, all.turned_away.clone());
        registry.register("refused", "Requests of users that were refused", all.refused.clone());
        registry.register("sessions", "Sessions under way", all.sessions.clone());
        registry.register("sessions_ended", "Sessions that have ended", all.ended.clone());
        registry.register("bytes", "Data bytes moved, seen from the server", all.bytes.clone());
        let help = "Data moved at present, bits per second";
        registry.register("rate_bits_per_second", help, all.rate.clone());
        registry.register("files", "Files copied, and files that could not be", all.files.clone());
        let help = "Forwarded connections that have ended";
        registry.register("forwarded", help, all.forwarded.clone());
        let help = "Bytes of forwarded connections that have ended, seen from the server";
        registry.register("forwarded_bytes", help, all.forwarded_bytes.clone());
        let help = "Whose each transfer is that is under way, and which way it goes";
        registry.register("transfer_info", help, all.about.clone());
        Metrics { registry, ..all }
    }

    /// How far a transfer is. Beyond so many at a time the next ones count in the sums alone.
    fn tell_transfer(&self, who: &Who<'_>, progress: &Progress) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = slots.of(who.session).or_else(|| slots.take(who.session)) else { return };
        self.about.get_or_create(&about(slot, who)).set(1);
        self.transfers.set(&Transfer::named(&slot.to_string()), progress);
    }

    fn forget_transfer(&self, who: &Who<'_>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.free(who.session) {
            self.about.remove(&about(slot, who));
            self.transfers.remove(&Transfer::named(&slot.to_string()));
        }
    }

    /// Something happened.
    pub fn note(&self, event: &Event<'_>) {
        match event {
            Event::Connected => drop(self.connections.inc()),
            Event::TurnedAway => drop(self.turned_away.inc()),
            Event::Refused(who) => drop(self.refused.get_or_create(&who.into()).inc()),
            Event::Began(who) => drop(self.sessions.get_or_create(&who.into()).inc()),
            Event::Moved { who, bytes, before, rate } => {
                self.bytes.get_or_create(&who.into()).inc_by(*bytes);
                let change = rate.0.cast_signed().saturating_sub(before.0.cast_signed());
                self.rate.get_or_create(&who.into()).inc_by(change);
            }
            Event::Progress { who, progress } => self.tell_transfer(who, progress),
            Event::File { who, file } => {
                let outcome = if file.failure.is_none() { "copied" } else { "failed" };
                self.files.get_or_create(&labels(who, outcome)).inc();
            }
            Event::Forwarded(forward) => {
                let outcome = if forward.failure.is_none() { "ended" } else { "failed" };
                self.forwarded.get_or_create(&Forwarded { user: forward.user.into(), outcome }).inc();
                let ways = [(Way::In, forward.bytes_there), (Way::Out, forward.bytes_back)];
                for (way, bytes) in ways {
                    let labels = Session { user: forward.user.into(), direction: way.name() };
                    self.forwarded_bytes.get_or_create(&labels).inc_by(bytes);
                }
            }
            Event::Ended { who, ok } => {
                self.forget_transfer(who);
                self.sessions.get_or_create(&who.into()).dec();
                let outcome = if *ok { "done" } else { "failed" };
                self.ended.get_or_create(&labels(who, outcome)).inc();
            }
            _ => {}
        }
    }

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to memory does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn labels(who: &Who<'_>, outcome: &'static str) -> Outcome {
    Outcome { user: who.user.into(), direction: who.way.name(), outcome }
}

/// Tells them to whoever asks.
pub struct Exporter {
    metrics: Arc<Metrics>,
    address: SocketAddr,
    /// Until it is started.
    listener: Mutex<Option<TcpListener>>,
}

impl Exporter {
    /// Take the port.
    pub fn bind(address: SocketAddr) -> Result<Exporter, Failure> {
        let failed =
            |error| Failure::Failed(format!("cannot listen at {address} for metrics: {}", describe(&error)));
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Exporter { metrics: Arc::new(Metrics::new()), address, listener: Mutex::new(Some(listener)) })
    }

    /// What it tells.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Answer from now on.
    pub fn start(&self) -> Result<(), Failure> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(listener) = listener else { return Ok(()) };
        let metrics = self.metrics.clone();
        let page = Page { path: "/metrics", media_type: MEDIA_TYPE, text: Box::new(move || metrics.text()) };
        let failed = |error| Failure::Failed(format!("cannot tell metrics: {}", describe(&error)));
        page.start(listener).map_err(failed)?;
        tracing::info!("metrics are told at http://{}/metrics", self.address);
        Ok(())
    }
}

const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Transfers with figures of their own: as many as are served at a time unless the configuration says otherwise.
const TRANSFERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul::{Limit, Rate};
    use std::time::Duration;

    #[test]
    fn figures_are_told_for_each_user() {
        let metrics = Metrics::new();
        let who = Who { session: 1, user: "alice", from: [127, 0, 0, 1].into(), way: Way::In };
        metrics.note(&Event::Connected);
        metrics.note(&Event::Began(who));
        let moved = |bytes, before, rate| Event::Moved { who, bytes, before: Rate(before), rate: Rate(rate) };
        metrics.note(&moved(500, 0, 90));
        metrics.note(&moved(70, 90, 30));
        let text = metrics.text();
        for line in [
            "longhaul_connections_total 1\n",
            "longhaul_sessions{user=\"alice\",direction=\"in\"} 1\n",
            "longhaul_bytes_total{user=\"alice\",direction=\"in\"} 570\n",
            "longhaul_rate_bits_per_second{user=\"alice\",direction=\"in\"} 30\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        metrics.note(&Event::Ended { who, ok: true });
        assert!(metrics.text().contains("outcome=\"done\"} 1\n"));
    }

    #[test]
    fn each_transfer_has_its_figures_until_it_ends_and_their_number_is_bounded() {
        let metrics = Metrics::new();
        let who = |session| Who { session, user: "alice", from: [127, 0, 0, 1].into(), way: Way::Out };
        let mut progress = Progress { bytes_done: 7, ..Progress::default() };
        progress.limits.add(Limit::Path, Duration::from_secs(3));
        let series = || metrics.text().lines().filter(|line| line.contains("transfer=")).count();
        let tell = |session| metrics.note(&Event::Progress { who: who(session), progress: &progress });
        // Numbers that grow from session to session are no labels.
        (1000..1000 + 2 * TRANSFERS_MAX as u64).for_each(tell);
        let text = metrics.text();
        for line in [
            "longhaul_transfer_done_bytes{transfer=\"5\"} 7\n",
            "longhaul_transfer_info{transfer=\"5\",user=\"alice\",direction=\"out\"} 1\n",
            "longhaul_transfer_limited_seconds{transfer=\"5\",limit=\"path\"} 3.0\n",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        assert!(series() <= TRANSFERS_MAX * 10, "{}", series());
        assert!(!text.contains(&format!("transfer=\"{TRANSFERS_MAX}\"")));
        let end = |session| metrics.note(&Event::Ended { who: who(session), ok: true });
        end(1005);
        assert!(!metrics.text().contains("{transfer=\"5\"}"));
        tell(5000);
        assert!(metrics.text().contains("longhaul_transfer_done_bytes{transfer=\"5\"} 7\n"));
        (1000..1000 + 2 * TRANSFERS_MAX as u64).chain([5000]).for_each(end);
        assert_eq!(series(), 0, "all are gone");
    }
}
