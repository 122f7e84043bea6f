//! Small endpoints to try the network with.

pub mod bulk;
pub mod driver;
pub mod object;
pub mod sizes;
pub mod tcp;

use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::{DatagramNumber, Time};
use std::time::Duration;

/// What the network adds to a body: seal (31) and headers of IPv4 and UDP (28).
pub const OVERHEAD: u32 = 59;

/// Sends datagrams of one size, `gap` apart, or as fast as the device takes them.
#[derive(Clone, Debug)]
pub struct Blaster {
    pub size: u32,
    pub count: u64,
    pub gap: Duration,
    pub sent: u64,
    pub due: Time,
}

impl Blaster {
    pub fn new(size: u32, count: u64, gap: Duration) -> Blaster {
        Blaster { size, count, gap, sent: 0, due: Time::ZERO }
    }

    pub fn silent() -> Blaster {
        Blaster::new(100, 0, Duration::ZERO)
    }
}

impl Endpoint for Blaster {
    type Event = ();

    fn handle_datagram(&mut self, _: Time, _: Arrival, _: &[u8]) {}

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        if self.sent == self.count || now < self.due {
            return None;
        }
        self.due = self.due.max(now) + self.gap;
        self.sent += 1;
        let len = (self.size - OVERHEAD) as usize;
        buf[..len].fill(self.sent as u8);
        Some(Transmit { number: self.sent, len })
    }

    fn poll_timeout(&self) -> Option<Time> {
        (self.sent < self.count).then_some(self.due)
    }

    fn poll_event(&mut self) -> Option<()> {
        None
    }
}

/// Notes what comes in, tells it as events, and answers every `reply_every`-th datagram.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    pub arrivals: Vec<(Time, DatagramNumber, Vec<u8>)>,
    pub reply_every: Option<usize>,
    pub owed: u32,
    pub replies: u64,
    pub told: usize,
}

impl Collector {
    pub fn numbers(&self) -> Vec<DatagramNumber> {
        self.arrivals.iter().map(|arrival| arrival.1).collect()
    }

    pub fn times_ns(&self) -> Vec<u64> {
        self.arrivals.iter().map(|arrival| arrival.0.0).collect()
    }
}

impl Endpoint for Collector {
    type Event = DatagramNumber;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        assert_eq!(now, arrival.time);
        self.arrivals.push((now, arrival.number, body.to_vec()));
        self.owed +=
            u32::from(self.reply_every.is_some_and(|every| self.arrivals.len().is_multiple_of(every)));
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, _: Time, buf: &mut [u8]) -> Option<Transmit> {
        self.owed = self.owed.checked_sub(1)?;
        self.replies += 1;
        buf[0] = 1;
        Some(Transmit { number: self.replies, len: 1 })
    }

    fn poll_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_event(&mut self) -> Option<DatagramNumber> {
        let number = self.arrivals.get(self.told)?.1;
        self.told += 1;
        Some(number)
    }
}
