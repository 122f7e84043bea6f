//! A handshake over UDP, while the TCP connection to the same daemon is under way: data can leave a round trip sooner.
//!
//! ```text
//! client  the handshake's first message, in pieces · the path check's train               TCP connects meanwhile
//!         with a ticket: the first data, under the ticket's keys
//! server  the answer, in pieces · replies · the control stream's first words
//! client  data, under the session's keys                          on TCP: "LHF", and the control stream from there on
//! ```
//! Each datagram goes once. Where no answer comes in time, TCP carries the same message, and the server, if it has answered
//! that, says the same again: what gets lost or is not let through costs the time that it takes to notice, and no more.

use super::connect::{Remote, key_of};
use super::first_flight::FirstFlight;
use super::proposal::{Agreed, Proposal};
use super::session::HEARTBEAT;
use super::start::Connecting;
use crate::api::{CopyOptions, Observer, Phase, Progress};
use crate::clock;
use crate::error::Error;
use crate::net::control::Beginning;
use longhaul_proto::session::message::Answer;
use longhaul_proto::units::Time;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether a handshake over UDP is of use with so long a listing.
pub fn is_possible(remote: &Remote, options: &CopyOptions, listing: &[u8]) -> bool {
    matches!(remote, Remote::Daemon { .. }) && options.transport.allows_udp() && listing.len() <= LISTING_MAX
}

/// Shake hands over UDP, or over TCP as soon as that is there and no answer has come.
pub fn shake_hands(
    proposal: &mut Proposal,
    mut connecting: Connecting,
    mut first_flight: Option<&mut FirstFlight>,
    options: &CopyOptions,
    (observer, stop): (&mut dyn Observer, &AtomicBool),
) -> Result<Agreed, Error> {
    let (key, address) = (key_of(options)?, connecting.address);
    let (mut link, mut beginning) =
        (proposal.link(&key, address, options)?, Box::new(Beginning::new(&key, &proposal.offer)?));
    let patience = Duration::from_millis(proposal.offer.transfer.stall_timeout_ms.max(1000));
    let offered = Instant::now();
    link.send_opening(proposal.offer.connection_id, beginning.first());
    proposal.send_probes(&mut link);
    link.set_ticket_keys(first_flight.as_ref().map(|first| first.keys(&key.psk, &proposal.offer)));
    loop {
        link.receive(|_, _, _| true)?;
        if let Some(answer) = link.take_answer() {
            match beginning.answered(&answer, patience, connecting.waker.clone()) {
                Ok((control, Answer::Accept { aes, udp_secret: secret, honours_ticket, .. })) => {
                    return Ok(Agreed {
                        link,
                        control,
                        waker: connecting.waker.clone(),
                        aes,
                        honours_ticket,
                        secret,
                        rtt: offered.elapsed(),
                        addresses: vec![address],
                        far: None,
                        has_pipe: false,
                        connecting: Some(connecting),
                    });
                }
                Ok(_) => return Err(Error::Protocol("neither accepts nor refuses")),
                Err(same) => beginning = same,
            }
        }
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        // The connection took a round trip, and the answer takes one.
        let left = connecting.poll()?.map(|(at, rtt)| {
            let until = at.max(offered + rtt) + rtt / GRACE_RTTS + GRACE;
            until.saturating_duration_since(Instant::now())
        });
        if left.is_some_and(|left| left.is_zero())
            && let Some(connection) = connecting.take()
        {
            let begun = (connection.udp == Some(address)).then_some((beginning, link));
            return proposal.over(connection, options, connecting.waker, begun);
        }
        observer.progress(&Progress { phase: Phase::Connecting, ..Progress::default() });
        let due = first_flight.as_mut().and_then(|first| first.send_due(&mut link)).unwrap_or(Time::MAX);
        let now = clock::now();
        link.wait(&connecting.waker, now, due.min(now + left.unwrap_or(HEARTBEAT).min(HEARTBEAT)))?;
    }
}

/// A longer listing would fill short queues at once: with the path check's train, 90 KB.
const LISTING_MAX: usize = 40_000;
/// How much later than a round trip an answer may be: what the server needs to look at the offer, and an eighth of the round trip.
const GRACE: Duration = Duration::from_millis(10);
const GRACE_RTTS: u32 = 8;
