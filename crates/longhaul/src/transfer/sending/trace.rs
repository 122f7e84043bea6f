//! What a trace is told by the side that sends.

use super::super::tracer::{Traced, Tracer};
use super::{Feed, Sending};
use crate::trace::{Event, PathChecked, PathCounted, Recovery, Role, millis};
use longhaul_proto::object::PathFigures;
use longhaul_proto::path::PathReport;
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::Time;
use std::net::SocketAddr;

impl<F: Feed> Sending<'_, '_, F> {
    /// The check of the first path has shown this.
    pub(super) fn begin_trace(&mut self, carrier: Carrier, path: &PathReport, now: Time) {
        self.tracer = Tracer::of(self.session, Role::Sender, Some(carrier), now);
        if carrier == Carrier::Object {
            let ends = self.session.link.ends();
            self.trace_path(0, path, ends);
        }
    }

    /// A path is used that was found to be so.
    pub(super) fn trace_path(
        &mut self,
        number: usize,
        path: &PathReport,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) {
        let checked = PathChecked {
            from: ends.map(|(from, _)| from.ip().to_canonical()),
            to: ends.map(|(_, to)| to.ip().to_canonical()),
            datagram_bytes: self.datagram_len as u32,
            rtt: path.rtt.map(millis),
            train_rate: path.rate.map(|train| train.rate.0),
            is_bottleneck: path.rate.is_some_and(|train| train.is_bottleneck),
        };
        self.session.trace(number, Event::PathChecked(checked));
    }

    /// What the kernel measures of TCP streams is theirs, and nobody paces what goes through them.
    fn recovery(&self, path: usize, figures: &PathFigures) -> Recovery {
        let of_datagrams = Recovery::of_sender(figures, self.datagram_len as u64);
        if self.carrier.current() == Carrier::Object {
            return of_datagrams;
        }
        let rtt = self.carrier.streams_rtt().filter(|_| path == 0);
        Recovery {
            smoothed_rtt: rtt.map(|[smoothed, _]| millis(smoothed)),
            min_rtt: rtt.map(|[_, least]| millis(least)),
            bytes_in_flight: of_datagrams.bytes_in_flight,
            packets_in_flight: of_datagrams.packets_in_flight,
            ..Recovery::default()
        }
    }
}

impl<F: Feed> Traced for Sending<'_, '_, F> {
    fn tracer(&mut self) -> &mut Option<Tracer> {
        &mut self.tracer
    }

    fn trace_states(&mut self, tracer: &mut Tracer) {
        if self.carrier.current() != Carrier::Object {
            return;
        }
        for path in 0..self.sender.paths() {
            let state = self.sender.path_figures(path).controller.phase;
            if let Some(event) = tracer.state(path, state) {
                self.session.trace(path, event);
            }
        }
    }

    fn trace_figures(&mut self, tracer: &mut Tracer) {
        let news = [
            tracer.limits(self.meter.total()),
            tracer.datagram_len(self.datagram_len as u32),
            tracer.rate_limit(self.session.rate_cap(None)),
        ];
        news.into_iter().flatten().for_each(|event| self.session.trace(0, event));
        for path in 0..self.sender.paths() {
            let figures = self.sender.path_figures(path);
            let sent = tracer.sent(path, figures.stats.packets_sent);
            let received = tracer.received(path, figures.stats.received);
            self.session.trace(path, Event::Recovery(self.recovery(path, &figures)));
            let mut counted = PathCounted::of_sender(&figures, [sent, received]);
            if self.carrier.current() != Carrier::Object {
                // The controller hears nothing.
                (counted.bandwidth, counted.queue_delay, counted.random_loss) = (None, None, None);
            }
            self.session.trace(path, Event::PathCounted(counted));
        }
    }
}
