//! The first data of a push to a daemon that was met before: on its way together with the offer, a round trip sooner.
//!
//! The daemon gave a ticket then ([`Tickets`](crate::daemon::tickets::Tickets)), and it is known what the path carried. How much
//! goes, and how fast, is that of careful resume (draft-ietf-tsvwg-careful-resume): half of what the path held in a round trip,
//! spread over one. The path check's train goes before it, and sets the pace of all that follows.

use super::sizes::classes;
use crate::api::CopyOptions;
use crate::clock;
use crate::files::{Listed, Reader, Wake};
use crate::net::budget::Allowance;
use crate::net::link::PeerLink;
use crate::net::seal::{KeyPhase, Keys};
use longhaul_proto::control::ControllerKind;
use longhaul_proto::endpoint::{Source, Transmit};
use longhaul_proto::object::Sender;
use longhaul_proto::session::manifest::{Layout, Ranges};
use longhaul_proto::session::message::{Offer, Ticket, TicketId};
use longhaul_proto::units::{Rate, Time};
use longhaul_proto::wire;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What is kept of a daemon that let this client in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Met {
    /// For the next copy.
    pub ticket: Ticket,
    /// What the path carried.
    pub bandwidth: Rate,
    /// The shortest round trip, in microseconds.
    pub rtt_us: u64,
    /// UDP payload of the datagrams that passed.
    pub datagram_len: u16,
}

/// Where that is kept: beside what is remembered of paths.
pub fn tickets_file(history: &Path) -> PathBuf {
    history.with_file_name("tickets.json")
}

/// See the [module](self).
pub struct FirstFlight {
    ticket: Ticket,
    reader: Reader,
    object_len: u64,
    class: u8,
    packet_len: u32,
    /// So many packets go at most.
    packets: usize,
    pause: Duration,
    next_at: Time,
    /// When each left.
    sent: Vec<Time>,
    scratch: Vec<u8>,
}

impl FirstFlight {
    /// What may go, if anything may. `wake` is told when something can that had not been read.
    pub fn plan(met: &Met, first: &Listed, options: &CopyOptions, wake: Wake) -> Option<FirstFlight> {
        if !may_go(options) {
            return None;
        }
        let layout = Arc::new(Layout::new(&first.scan.manifest));
        let object_len = layout.object_len();
        let rate = met.bandwidth.min(options.rate_now().unwrap_or(met.bandwidth)).scale(CAREFUL);
        let packet_len =
            u32::from(met.datagram_len).checked_sub(wire::DATA_OVERHEAD as u32).filter(|len| *len > 0)?;
        let rtt = Duration::from_micros(met.rtt_us).min(RTT_MAX);
        let pause = rate.time_for(met.datagram_len.into()).max(Duration::from_nanos(1));
        let bytes = rate.bytes_in(rtt).min(FLIGHT_MAX);
        // A packet that another part fills up cannot go.
        let whole = match first.scan.manifest.seams.has_more {
            true => object_len / u64::from(packet_len),
            false => object_len.div_ceil(packet_len.into()),
        };
        let packets = (bytes / u64::from(met.datagram_len)).min(whole) as usize;
        let class = classes(options).iter().position(|len| *len == met.datagram_len)? as u8;
        if packets == 0 {
            return None;
        }
        let none = Ranges::new();
        let reader =
            Reader::with_cache(first.scan.clone(), layout, (&none, &none), wake, (0, Allowance::default()))
                .ok()?;
        let (ticket, next_at) = (met.ticket, Time::ZERO);
        let (sent, scratch) = (Vec::with_capacity(packets), vec![]);
        Some(FirstFlight {
            ticket,
            reader,
            object_len,
            class,
            packet_len,
            packets,
            pause,
            next_at,
            sent,
            scratch,
        })
    }

    /// The ticket's name.
    pub fn ticket(&self) -> TicketId {
        self.ticket.id
    }

    /// Index of the size that it goes in.
    pub fn class(&self) -> u8 {
        self.class
    }

    /// How many packets went.
    pub fn packets_sent(&self) -> usize {
        self.sent.len()
    }

    /// The keys for it, together with an offer.
    pub fn keys(&self, psk: &[u8; 32], offer: &Offer) -> Keys {
        Keys::ticket(&self.ticket.secret, psk, &offer.early_salt, offer.connection_id)
    }

    /// Send what is due. When the next is, if it is only to be waited for.
    pub fn send_due(&mut self, link: &mut PeerLink) -> Option<Time> {
        loop {
            let (now, packet) = (clock::now(), self.sent.len() as u64);
            if self.sent.len() >= self.packets {
                return None;
            }
            if now < self.next_at {
                return Some(self.next_at);
            }
            let at = packet * u64::from(self.packet_len);
            let len = (self.object_len - at).min(self.packet_len.into()) as usize;
            let (reader, class) = (&mut self.reader, self.class);
            let is_gone = link.send_one(KeyPhase::Ticket, &mut self.scratch, |buf| {
                reader.read_at(at, &mut buf[wire::DATA_PREFIX..][..len]).ok()?;
                wire::encode_data_prefix(buf, class, false, packet);
                Some(Transmit { number: packet, len: wire::DATA_PREFIX + len })
            });
            if !is_gone {
                return None;
            }
            self.sent.push(now);
            self.next_at = self.next_at.max(now - BURST) + self.pause;
        }
    }
}

fn may_go(options: &CopyOptions) -> bool {
    let is_usual = options.control == ControllerKind::default() && !options.background;
    is_usual && !options.files.dry_run && !options.is_paused()
}

/// Tell who sends what follows of what has gone, if anything. It may count for nothing.
pub fn hand_over<S: Source>(first: Option<FirstFlight>, sender: &mut Sender<S>, counts: bool) {
    match first {
        Some(first) if counts => sender.take_over(&first.sent),
        Some(first) => sender.write_off(&first.sent),
        None => {}
    }
}

/// Of what a path carried.
const CAREFUL: f64 = 0.5;
/// What a server keeps of a session before it has begun is twice this.
const FLIGHT_MAX: u64 = 1 << 20;
/// No path on Earth is longer.
const RTT_MAX: Duration = Duration::from_secs(2);
/// What was held up may be made up for by so much.
const BURST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::LiveControl;

    #[test]
    fn nothing_goes_of_a_copy_that_pauses() {
        let live = Arc::new(LiveControl::default());
        let options = CopyOptions { live: Some(live.clone()), ..CopyOptions::default() };
        assert!(may_go(&options));
        live.pause().unwrap();
        assert!(!may_go(&options));
        live.resume();
        assert!(may_go(&options));
    }
}
