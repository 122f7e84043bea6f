//! A host whose processor takes time: for every datagram, every byte, every look at the network.
//!
//! The simulator's own hosts act in no time at all. Where a paper's figures come from its hosts (FOBS §3.2: what
//! arrives while an acknowledgement is made gets lost), an endpoint is put into a [`Host`].

use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::Time;
use longhaul_proto::wire::Body;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// What a host's processor takes for what it does, one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostCosts {
    /// To send a datagram.
    pub send: Duration,
    /// To take in a datagram.
    pub receive: Duration,
    /// For each byte of either.
    pub byte_ns: f64,
    /// To look whether anything has come in, at every look.
    pub look: Duration,
}

/// Datagrams sent in a row before the host looks for an acknowledgement: FOBS's B (§3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// Always so many.
    Packets(u32),
    /// So many, and none where a look found no acknowledgement: B = 0 until there is one.
    Blocking(u32),
    /// As many as the receiver took in between its last two acknowledgements.
    Received,
    /// So many at first, then as many as the acknowledgements of each look say were taken in, and none where there are none.
    ReceivedOrNone(u32),
}

impl Batch {
    /// Before anything is known.
    fn first(self) -> u32 {
        match self {
            Batch::Packets(packets) | Batch::Blocking(packets) | Batch::ReceivedOrNone(packets) => packets,
            Batch::Received => BATCH,
        }
    }

    /// Whether nothing is sent before an acknowledgement has come.
    pub fn blocks(self) -> bool {
        matches!(self, Batch::Blocking(_) | Batch::ReceivedOrNone(_))
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Batch::Packets(packets) => write!(f, "{packets}"),
            Batch::Blocking(packets) => write!(f, "{packets}, or 0"),
            Batch::Received => f.write_str("d"),
            Batch::ReceivedOrNone(packets) => write!(f, "{packets} at first, then d, or 0"),
        }
    }
}

/// How a host goes about its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostConfig {
    /// What things take.
    pub costs: HostCosts,
    /// Datagrams sent in a row before the host takes in all that has come in; it also looks, for one datagram at a time,
    /// when there is nothing to send.
    pub batch: Batch,
    /// Room of the socket's receive buffer, bytes; what does not fit is lost.
    pub buffer_bytes: usize,
}

/// An endpoint on a host whose processor takes time.
#[derive(Debug)]
pub struct Host<E> {
    endpoint: E,
    config: HostConfig,
    waiting: VecDeque<(Arrival, Vec<u8>)>,
    waiting_bytes: usize,
    busy_until: Time,
    /// Of the batch.
    left: u32,
    told: Told,
    /// Asked for something to send while it was busy.
    is_asked: bool,
}

/// What the other host's acknowledgements tell of what it took in.
#[derive(Debug, Default)]
struct Told {
    /// Datagrams in all.
    received: u64,
    /// Between the last two acknowledgements.
    lately: u64,
    /// Since the batch began.
    in_batch: Option<u64>,
}

impl Told {
    fn note(&mut self, body: &[u8]) {
        let Some(Body::Ack(ack)) = Body::decode(body) else { return };
        self.lately = ack.received.saturating_sub(self.received);
        self.received = self.received.max(ack.received);
        self.in_batch = Some(self.in_batch.unwrap_or(0) + self.lately);
    }
}

impl<E: Endpoint> Host<E> {
    /// An idle host.
    pub fn new(endpoint: E, config: HostConfig) -> Host<E> {
        Host {
            endpoint,
            config,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            busy_until: Time::ZERO,
            left: config.batch.first(),
            told: Told::default(),
            is_asked: false,
        }
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &E {
        &self.endpoint
    }

    fn look(&mut self, now: Time) {
        self.busy_until = now + self.config.costs.look;
        if let Some((arrival, body)) = self.waiting.pop_front() {
            self.waiting_bytes -= body.len();
            self.told.note(&body);
            self.endpoint.handle_datagram(now, arrival, &body);
            self.busy_until = self.busy_until + self.config.costs.receive + self.bytes_cost(body.len());
        }
        if self.waiting.is_empty() {
            self.left = self.next_batch();
        }
    }

    fn next_batch(&mut self) -> u32 {
        let told = self.told.in_batch.take();
        let packets = match self.config.batch {
            Batch::Packets(packets) => packets.into(),
            Batch::Blocking(packets) => told.map_or(0, |_| packets.into()),
            Batch::Received if self.told.lately == 0 => BATCH.into(),
            Batch::Received => self.told.lately,
            Batch::ReceivedOrNone(_) => told.unwrap_or(0),
        };
        u32::try_from(packets).unwrap_or(u32::MAX)
    }

    fn bytes_cost(&self, len: usize) -> Duration {
        Duration::from_nanos((self.config.costs.byte_ns * len as f64) as u64)
    }
}

impl<E: Endpoint> Endpoint for Host<E> {
    type Event = E::Event;

    fn handle_datagram(&mut self, _now: Time, arrival: Arrival, body: &[u8]) {
        if self.waiting_bytes + body.len() > self.config.buffer_bytes {
            return;
        }
        self.waiting_bytes += body.len();
        self.waiting.push_back((arrival, body.to_vec()));
    }

    fn handle_timeout(&mut self, now: Time) {
        if now >= self.busy_until && self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        loop {
            self.is_asked = now < self.busy_until;
            if self.is_asked {
                return None;
            }
            if self.left == 0 {
                // Looks in vain, again and again, are as good as to wait (§3.1).
                if self.waiting.is_empty() && self.config.batch.blocks() {
                    return None;
                }
                self.look(now);
                continue;
            }
            if let Some(transmit) = self.endpoint.poll_transmit(now, buf) {
                self.left -= 1;
                self.busy_until = now + self.config.costs.send + self.bytes_cost(transmit.len);
                return Some(transmit);
            }
            if self.waiting.is_empty() {
                return None;
            }
            self.look(now);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        let endpoint = self.endpoint.poll_timeout().map(|at| at.max(self.busy_until));
        let work = (self.is_asked || !self.waiting.is_empty()).then_some(self.busy_until);
        [endpoint, work].into_iter().flatten().min()
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        self.endpoint.poll_event()
    }

    fn framing(&self) -> usize {
        self.endpoint.framing()
    }
}

/// FOBS §3.1.1.
pub(super) const BATCH: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::wire::Ack;

    /// Sends as much as it is let, and notes what comes in.
    #[derive(Debug, Default)]
    struct Eager {
        to_send: u64,
        sent: u64,
        came: Vec<(u64, Time)>,
    }

    impl Endpoint for Eager {
        type Event = ();

        fn handle_datagram(&mut self, now: Time, arrival: Arrival, _: &[u8]) {
            self.came.push((arrival.number, now));
        }

        fn handle_timeout(&mut self, _: Time) {}

        fn poll_transmit(&mut self, _: Time, _: &mut [u8]) -> Option<Transmit> {
            (self.sent < self.to_send).then(|| {
                self.sent += 1;
                Transmit { number: self.sent, len: 1000 }
            })
        }

        fn poll_timeout(&self) -> Option<Time> {
            None
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    const US: u64 = 1000;

    fn host(to_send: u64, batch: Batch) -> Host<Eager> {
        let costs = HostCosts {
            send: Duration::from_micros(10),
            receive: Duration::from_micros(20),
            byte_ns: 1.0,
            look: Duration::from_micros(5),
        };
        let config = HostConfig { costs, batch, buffer_bytes: 3000 };
        Host::new(Eager { to_send, ..Eager::default() }, config)
    }

    /// As a driver does until nothing is left: returns when each datagram was sent.
    fn drive(host: &mut Host<Eager>) -> Vec<u64> {
        let (mut now, mut sent) = (Time::ZERO, Vec::new());
        loop {
            while host.poll_transmit(now, &mut [0; 1500]).is_some() {
                sent.push(now.0 / US);
            }
            match host.poll_timeout() {
                Some(at) => now = at,
                None => return sent,
            }
            host.handle_timeout(now);
        }
    }

    #[test]
    fn sending_takes_time_and_so_do_looks() {
        // 10 µs and 1000 bytes of 1 ns each, and 5 µs for a look after every second
        assert_eq!(drive(&mut host(5, Batch::Packets(2))), [0, 11, 27, 38, 54]);
        assert_eq!(drive(&mut host(4, Batch::Packets(u32::MAX))), [0, 11, 22, 33]);
    }

    #[test]
    fn what_comes_in_waits_for_the_batch_and_is_lost_beyond_the_buffer() {
        let mut host = host(3, Batch::Packets(3));
        assert!(host.poll_transmit(Time::ZERO, &mut []).is_some());
        for number in 0..5 {
            host.handle_datagram(Time(1), Arrival::new(Time(1), number), &[0; 1000]);
        }
        assert_eq!(host.waiting.len(), 3);
        drive(&mut host);
        // three sent until 33 µs, then one at a time: 5 + 20 + 1 µs each
        let came: Vec<_> = host.endpoint().came.iter().map(|(number, at)| (*number, at.0 / US)).collect();
        assert_eq!(came, [(0, 33), (1, 59), (2, 85)]);
    }

    /// An acknowledgement that says so many came in altogether.
    fn tell(host: &mut Host<Eager>, received: u64) {
        let mut body = [0; 100];
        let len = Ack { received, ..Ack::default() }.encode(&mut body);
        host.handle_datagram(Time::ZERO, Arrival::new(Time::ZERO, received), &body[..len]);
    }

    #[test]
    fn a_batch_follows_from_what_the_acknowledgements_say() {
        let sent = |batch: Batch, told: &[&[u64]]| -> Vec<usize> {
            let mut host = host(30, batch);
            let mut sent = vec![drive(&mut host).len()];
            for acks in told {
                acks.iter().for_each(|received| tell(&mut host, *received));
                sent.push(drive(&mut host).len());
            }
            sent
        };
        assert_eq!(sent(Batch::Blocking(4), &[&[1], &[2, 3]]), [4, 4, 4]);
        assert_eq!(sent(Batch::ReceivedOrNone(4), &[&[1], &[3, 6]]), [4, 1, 5]);
        assert_eq!(sent(Batch::Received, &[]), [30], "never waits");
    }
}
