//! A path for the tests of rules: one flow over one bottleneck with a drop-tail queue, acknowledged datagram by
//! datagram.

use super::{Rule, Windowed};
use crate::control::{AckSample, ControlConfig, Controller, LossSample, Sent};
use crate::units::{DatagramNumber, Time};
use core::time::Duration;
use std::collections::VecDeque;

/// Whole bytes of a datagram.
pub const LEN: u64 = 1000;

/// What the path is like.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Round trip through an empty queue.
    pub rtt: Duration,
    /// Time that the bottleneck takes for a datagram.
    pub service: Duration,
    /// Datagrams that may wait.
    pub buffer: u32,
}

impl Path {
    /// A delay and nothing else.
    pub fn delay(rtt: Duration) -> Path {
        Path { rtt, service: Duration::ZERO, buffer: u32::MAX }
    }
}

#[derive(Clone, Copy, Debug)]
struct OnWay {
    number: DatagramNumber,
    sent: Time,
    /// When its acknowledgement is handled, if it comes through.
    back: Time,
    is_lost: bool,
}

/// A flow over a path.
#[derive(Debug)]
pub struct Flow<R> {
    pub control: Windowed<R>,
    pub path: Path,
    pub now: Time,
    link_free: Time,
    on_way: VecDeque<OnWay>,
    next: DatagramNumber,
    episode_from: DatagramNumber,
    pub received: u64,
    rtt_min: Duration,
    /// The next so many datagrams get lost.
    pub drop_next: u32,
    /// All that comes in does so marked, and so much has.
    is_marking: bool,
    marked: u64,
    /// Acknowledged by now.
    pub delivered: u64,
    pub lost: u64,
    pub timeouts: u32,
    pub is_app_limited: bool,
    /// Nothing more to send than this many at once.
    pub in_flight_max: u64,
}

impl<R: Rule> Flow<R> {
    pub fn new(path: Path, rule: R) -> Flow<R> {
        let config = ControlConfig { paced: false, ..ControlConfig::new(LEN, path.rtt) };
        Flow {
            control: Windowed::new(config, rule),
            path,
            now: Time::from_millis(1000),
            link_free: Time::ZERO,
            on_way: VecDeque::new(),
            next: 0,
            episode_from: 0,
            received: 0,
            rtt_min: path.rtt,
            drop_next: 0,
            is_marking: false,
            marked: 0,
            delivered: 0,
            lost: 0,
            timeouts: 0,
            is_app_limited: false,
            in_flight_max: u64::MAX,
        }
    }

    /// Begin in congestion avoidance with this window, sent evenly over the round trip that ends now.
    pub fn in_avoidance(path: Path, rule: R, window: f64) -> Flow<R> {
        let mut flow = Flow::new(path, rule);
        (flow.control.window, flow.control.ssthresh) = (window, window);
        let end = flow.now;
        let count = window as u32;
        for i in 0..count {
            flow.now = end - path.rtt * (count - i) / count;
            flow.send();
        }
        flow.now = end;
        flow
    }

    pub fn window(&self) -> f64 {
        self.control.window
    }

    pub fn in_flight(&self) -> usize {
        self.on_way.len()
    }

    pub fn is_slow_starting(&self) -> bool {
        self.control.is_slow_starting()
    }

    fn fill_window(&mut self) {
        while (self.on_way.len() as u64) < (self.window() as u64).min(self.in_flight_max) {
            self.send();
        }
    }

    fn send(&mut self) {
        let (number, sent) = (self.next, self.now);
        self.next += 1;
        let start = self.link_free.max(sent);
        let is_queue_full = start.since(sent) > self.path.service.saturating_mul(self.path.buffer);
        let is_lost = is_queue_full || self.drop_next > 0;
        self.drop_next = self.drop_next.saturating_sub(1);
        if !is_lost {
            self.link_free = start + self.path.service;
        }
        let back = start + self.path.service + self.path.rtt;
        self.on_way.push_back(OnWay { number, sent, back, is_lost });
        let in_flight = self.on_way.len() as u64 * LEN;
        self.control.on_sent(&Sent { now: sent, number, bytes: LEN, in_train: false, in_flight });
    }

    /// Send what the window allows and handle the next acknowledgement, or the timeout if none is to come.
    pub fn step(&mut self) {
        self.fill_window();
        let mut lost = 0;
        let mut largest_lost = 0;
        while let Some(gone) = self.on_way.pop_front_if(|datagram| datagram.is_lost) {
            (lost, largest_lost) = (lost + 1, gone.number);
        }
        self.lost += lost;
        let Some(datagram) = self.on_way.pop_front() else {
            self.now = self.now + Duration::from_secs(1);
            self.episode_from = self.next;
            self.timeouts += 1;
            return self.control.on_timeout(self.now);
        };
        self.now = datagram.back;
        let in_flight = self.on_way.len() as u64 * LEN;
        if lost > 0 {
            let new_episode = largest_lost >= self.episode_from;
            if new_episode {
                self.episode_from = self.next;
            }
            let lost_bytes = lost * LEN;
            self.control.on_loss(&LossSample { now: self.now, lost_bytes, new_episode, in_flight });
        }
        self.acknowledge(&datagram, in_flight);
    }

    fn acknowledge(&mut self, datagram: &OnWay, in_flight: u64) {
        let rtt = self.now.since(datagram.sent);
        self.rtt_min = self.rtt_min.min(rtt);
        self.delivered += 1;
        self.received += LEN;
        self.marked += if self.is_marking { LEN } else { 0 };
        let one_way_ns = rtt.as_nanos() as i64 - (self.path.rtt / 2).as_nanos() as i64;
        self.control.on_ack(&AckSample {
            now: self.now,
            arrival: self.now - self.path.rtt / 2,
            // The receiver's clock is a minute behind.
            one_way_ns: Some(one_way_ns - 60_000_000_000),
            rtt: Some(rtt),
            rtt_min: self.rtt_min,
            received_bytes: self.received,
            accepted_bytes: self.received,
            covered_bytes: (datagram.number + 1) * LEN,
            overrun_bytes: 0,
            ce_bytes: self.marked,
            pressure: 0.0,
            latest: datagram.number,
            largest: datagram.number,
            next_number: self.next,
            in_flight,
            app_limited: self.is_app_limited,
            time_lost: Duration::ZERO,
        });
    }

    pub fn run_for(&mut self, span: Duration) {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
    }

    /// Round trips until something holds. Each ends when what was sent at its beginning is acknowledged.
    pub fn rounds_until(&mut self, mut holds: impl FnMut(&Flow<R>) -> bool) -> f64 {
        let start = self.now;
        while !holds(self) {
            self.step();
            assert!(self.now.since(start) < self.path.rtt * 100_000, "it never happens: {self:?}");
        }
        self.now.since(start).as_secs_f64() / self.path.rtt.as_secs_f64()
    }

    /// From now on all comes in marked; the windows before and after the first answer to that.
    pub fn mark_all(&mut self) -> (f64, f64) {
        self.is_marking = true;
        let before = self.window();
        self.step();
        (before, self.window())
    }

    /// Lose one datagram; the windows before and after the reduction.
    pub fn lose_one(&mut self) -> (f64, f64) {
        self.drop_next = 1;
        let lost = self.lost;
        let mut before = self.window();
        while self.lost == lost {
            before = self.window();
            self.step();
        }
        (before, self.window())
    }
}
