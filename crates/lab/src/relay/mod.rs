//! A path for programs of one host, where no network namespaces may be made: a relay on loopback in front of a server.
//!
//! Datagrams pass the same two `Direction`s as in a [`Lab`](crate::Lab), by the same threads: rate, queue, losses and
//! delays are those of the scenario. Each counts as the packet that would carry it, and vanishes if that is longer than
//! the scenario's MTU. TCP ends at the relay, on either side, so that there is nothing to be lost and no queue: its bytes
//! only come as late as over the path, the first by the round trip later that connecting would take.

mod streams;

use crate::Side;
use crate::card::{Card, Port};
use crate::counters::{Counters, DirectionCounters};
use crate::direction::Direction;
use crate::error::LabError;
use crate::listening;
use crate::worker::{self, Switches, Track, clock};
use longhaul_sim::scenario::Scenario;
use socket2::SockRef;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use streams::Streams;

/// A running relay. Dropping it ends its threads and what passes through it.
///
/// The client's side of it is the path's left one, the server's the right one. Of datagrams it knows one client at a time.
pub struct Relay {
    address: SocketAddr,
    /// UDP ports at which the packets of each direction come in.
    ports: [u16; 2],
    tracks: [Arc<Track>; 2],
    switches: Arc<Switches>,
    workers: Vec<JoinHandle<()>>,
    streams: Option<Streams>,
}

impl Relay {
    /// A relay in front of that server, which listens on this host, to TCP and UDP or to one of them.
    pub fn start(scenario: &Scenario, server: SocketAddr) -> Result<Relay, LabError> {
        scenario.validate().map_err(|bad| LabError::Scenario(bad.to_string()))?;
        if !scenario.traffic.is_empty()
            || scenario.nic_mbit.is_some()
            || scenario.super_packets
            || scenario.corrupt > 0.0
        {
            return Err(LabError::Scenario(
                "a relay emulates no traffic, nic_mbit, super_packets or corrupt; leave them out, or run it where \
                 network namespaces may be made"
                    .into(),
            ));
        }
        let (listener, near) = bind_both().map_err(LabError::at("binding a relay's ports on loopback"))?;
        let address = listener.local_addr().map_err(LabError::at("asking for a relay's address"))?;
        let (ports, sockets) = sockets(near, server).map_err(LabError::at("making a relay's sockets"))?;
        let switches = Arc::new(Switches::new().map_err(LabError::at("making an event descriptor"))?);
        let track = |from: Side| {
            let mut direction = Direction::new(scenario, from, &[Duration::ZERO], clock());
            // Loopback itself would take any length.
            direction.limit_length(Some(scenario.mtu));
            let card = |end: Side| vec![Card::Socket(sockets[end as usize].clone())];
            let direction = Mutex::new(direction);
            Arc::new(Track { direction, from: card(from), to: card(from.other()) })
        };
        let tracks = [track(Side::Left), track(Side::Right)];
        let mut relay = Relay { address, ports, tracks, switches, workers: vec![], streams: None };
        worker::start(&relay.tracks, &relay.switches, scenario, &mut relay.workers)?;
        let rtt = Duration::from_secs_f64(scenario.rtt_ms / 1e3);
        relay.streams = Some(Streams::start(listener, server, rtt, relay.switches.clone())?);
        Ok(relay)
    }

    /// Where the server is to be reached through it.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What happened to datagrams since the start.
    pub fn counters(&self) -> Counters {
        let now = clock();
        let direction = |from: Side| {
            let track = &self.tracks[from as usize];
            let mut direction = track.direction.lock().unwrap_or_else(PoisonError::into_inner);
            let dropped_by_emulator = listening::datagrams_dropped(self.ports[from as usize]);
            DirectionCounters { dropped_by_emulator, ..direction.counters(now) }
        };
        Counters { left_to_right: direction(Side::Left), right_to_left: direction(Side::Right) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.switches.stop();
        self.streams = None;
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("a thread of the relay had panicked");
            }
        }
    }
}

/// A port that is free for TCP and for UDP.
fn bind_both() -> io::Result<(TcpListener, UdpSocket)> {
    let both = || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let socket = UdpSocket::bind(listener.local_addr()?)?;
        Ok((listener, socket))
    };
    (1..BIND_TRIES).find_map(|_| both().ok()).map_or_else(both, Ok)
}

/// For the client's side and for the server's, with their ports.
fn sockets(near: UdpSocket, server: SocketAddr) -> io::Result<([u16; 2], [Arc<Port>; 2])> {
    let far = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    for socket in [&near, &far] {
        // As much as the system grants: a burst waits here until the relay gets the processor.
        SockRef::from(socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
    }
    let ports = [near.local_addr()?.port(), far.local_addr()?.port()];
    Ok((ports, [Arc::new(Port::new(near, None)?), Arc::new(Port::new(far, Some(server))?)]))
}

/// A port that TCP has free is hardly ever taken for UDP.
const BIND_TRIES: usize = 20;
/// Some thousand packets, as a TUN device keeps.
const RECEIVE_BUFFER: usize = 4 << 20;

#[cfg(test)]
mod tests;
