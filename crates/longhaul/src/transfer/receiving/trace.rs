//! What a trace is told by the side that receives: what comes in is its own to know, all else is what the sender says of it.

use super::Receiving;
use crate::trace::{Event, PathCounted, Recovery, millis};
use crate::transfer::tracer::{Traced, Tracer};
use longhaul_proto::session::message::several::PathStatus;
use std::net::SocketAddr;
use std::time::Duration;

impl Traced for Receiving<'_, '_> {
    fn tracer(&mut self) -> &mut Option<Tracer> {
        &mut self.tracer
    }

    fn trace_figures(&mut self, tracer: &mut Tracer) {
        let len = self.object.datagram_len().map(u32::from);
        let rate = self.session.live.as_ref().map_or(self.session.options.rate_cap, |live| live.pace().rate);
        let news = [
            tracer.limit(self.status.limited_by),
            len.and_then(|len| tracer.datagram_len(len)),
            tracer.rate_limit(rate),
        ];
        news.into_iter().flatten().for_each(|event| self.session.trace(0, event));
        let paths = self.object.receiver().map_or(0, |receiver| receiver.paths());
        for path in 0..paths {
            let (drops, ends) = match path {
                0 => (self.session.link.drops(), None),
                _ => {
                    let mut side = self.session.paths.iter_mut().filter(|(number, _)| *number == path);
                    side.next().map_or((0, None), |(_, side)| (side.link.drops(), side.link.ends()))
                }
            };
            let Some(receiver) = self.object.receiver_mut() else { return };
            let (stats, covered) = receiver.path_figures(path);
            let counted = PathCounted {
                packets_received: stats.received,
                packets_lost: covered.saturating_sub(stats.received).saturating_sub(drops),
                packets_dropped: drops + stats.refused,
                bytes_received: tracer.received(path, stats.received),
                ..PathCounted::default()
            };
            self.session.trace(path, Event::PathCounted(counted));
            if let Some(recovery) = self.told_of(path, ends) {
                self.session.trace(path, Event::Recovery(recovery));
            }
        }
    }
}

impl Receiving<'_, '_> {
    /// The round trips that the sender told last of a path, which it numbers in its own way: a further one has these ends.
    fn told_of(&self, path: usize, ends: Option<(SocketAddr, SocketAddr)>) -> Option<Recovery> {
        let is_it = |status: &&PathStatus| {
            let told = (status.to, status.from);
            ends.is_some_and(|(own, peer)| told == (own.ip().to_canonical(), peer.ip().to_canonical()))
        };
        let [least, smoothed] = match path {
            0 => [self.status.rtt_ns[0], self.status.rtt_ns[2]],
            _ => self.session.path_status.iter().find(is_it)?.rtt_ns,
        };
        let ms = |ns: u64| Some(millis(Duration::from_nanos(ns))).filter(|_| ns > 0);
        let recovery = Recovery { min_rtt: ms(least), smoothed_rtt: ms(smoothed), ..Recovery::default() };
        (recovery != Recovery::default()).then_some(recovery)
    }
}
