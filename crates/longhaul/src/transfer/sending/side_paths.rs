//! Sending over further paths beside the first one.

use super::prepare::settle_patience;
use super::{Feed, Sending};
use crate::clock;
use crate::net::link::PeerLink;
use longhaul_proto::control::ControlConfig;
use longhaul_proto::endpoint::{Endpoint, Source};
use longhaul_proto::object::{PathFigures, Sender};
use longhaul_proto::session::message::Message;
use longhaul_proto::session::message::several::PathStatus;
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::{Time, nanos};
use std::io;
use std::net::SocketAddr;

/// The paths that the sender uses: their numbers in the session, and the sender's.
#[derive(Default)]
pub struct Joined(Vec<(usize, usize)>);

impl Joined {
    /// The sender's number of a path.
    pub fn number_of(&self, path: usize) -> Option<usize> {
        if path == 0 {
            return Some(0);
        }
        self.0.iter().find(|(joined, _)| *joined == path).map(|(_, number)| *number)
    }
}

impl<F: Feed> Sending<'_, '_, F> {
    /// Use the paths that turn out to be there.
    pub(super) fn join_paths(&mut self, now: Time) {
        if self.session.paths.is_empty()
            || self.carrier.current() != Carrier::Object
            || self.is_between_sizes()
            || !self.sender.is_heard()
            || self.sender.works_in_rounds()
        {
            return;
        }
        let class = self.class();
        let (mut remarks, mut found) = (vec![], vec![]);
        for (path, side) in self.session.paths.iter_mut() {
            let report = side.check.report();
            let (Some(rtt), Some(largest), Some((from, to))) =
                (report.rtt, report.largest_class, side.link.ends())
            else {
                continue;
            };
            if self.joined.number_of(path).is_some() || !side.check.is_settled(now, settle_patience(&report))
            {
                continue;
            }
            if largest < class {
                // All paths carry packets of one size. Once there are several it is no longer changed.
                if self.sender.paths() > 1 {
                    continue;
                }
                self.size.want(largest);
                break;
            }
            let control = &self.carrier.control;
            let config = ControlConfig { path_rate: report.rate, remembered: None, rtt, ..control.config };
            let number = self.sender.add_path(rtt, control.kind.build(config));
            self.joined.0.push((path, number));
            found.push((number, report, (from, to)));
            let rate = report.rate.map_or("unknown".into(), |train| train.rate.to_string());
            let ms = rtt.as_secs_f64() * 1e3;
            remarks.push(format!(
                "another path is used: {} to {}, round trip {ms:.1} ms, rate by train {rate}",
                from.ip().to_canonical(),
                to.ip().to_canonical()
            ));
        }
        for (number, report, ends) in found {
            self.trace_path(number, &report, Some(ends));
        }
        for line in remarks {
            self.session.remark(line.clone());
            self.remarks.push(line);
        }
    }

    /// A batch over each further path. True if there is more to send at once. A path that fails is one that loses all.
    pub(super) fn transmit_aside(&mut self) -> bool {
        let mut more = false;
        for (path, side) in self.session.paths.iter_mut() {
            let Some(number) = self.joined.number_of(path) else { continue };
            let (batch, len, link) = (self.batch, self.datagram_len, &mut side.link);
            let sent = self.sender.on_path(number, |sender| send_batch(link, batch, len, sender));
            more |= sent.unwrap_or_else(|error| {
                tracing::debug!("path {path}: {error}");
                false
            });
        }
        more
    }

    /// Tell both users how each path does, where there are several.
    pub(super) fn tell_paths(&mut self) {
        if self.sender.paths() == 1 {
            return;
        }
        let mut ends: Vec<(usize, SocketAddr, SocketAddr)> = vec![];
        ends.extend(self.session.link.ends().map(|(from, to)| (0, from, to)));
        for (path, side) in self.session.paths.iter_mut() {
            let number = self.joined.number_of(path);
            ends.extend(number.zip(side.link.ends()).map(|(number, (from, to))| (number, from, to)));
        }
        let status = ends.into_iter().map(|(number, from, to)| {
            let PathFigures { stats, rtt, is_silent, .. } = self.sender.path_figures(number);
            PathStatus {
                from: from.ip().to_canonical(),
                to: to.ip().to_canonical(),
                packets_sent: stats.packets_sent,
                loss: stats.path_losses() as f64 / stats.covered.max(1) as f64,
                rtt_ns: [rtt.min(), rtt.smoothed()].map(nanos),
                is_silent,
            }
        });
        self.session.path_status = status.collect();
        self.session.control.send(Message::PathStatus(self.session.path_status.clone()));
    }
}

/// True if there is more to send at once.
pub(super) fn send_batch<S: Source>(
    link: &mut PeerLink,
    batch: usize,
    datagram_len: usize,
    sender: &mut Sender<S>,
) -> io::Result<bool> {
    if link.is_congested() && !link.flush()? {
        return Ok(false);
    }
    link.set_ecn(sender.ecn());
    let mut left = batch;
    while left > 0 {
        let now = clock::now();
        let sent = link.send_run(left, datagram_len, |buf| sender.poll_transmit(now, buf))?;
        if sent == 0 || link.is_congested() {
            return Ok(false);
        }
        left -= sent.min(left);
    }
    Ok(true)
}
