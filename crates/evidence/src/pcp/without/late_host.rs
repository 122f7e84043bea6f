//! A host on which a user-level program runs late: it wakes up some time after its timer was due or a datagram came.

use fastrand::Rng;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::{Time, nanos};
use std::collections::VecDeque;
use std::time::Duration;

/// How late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lateness {
    /// The most; anything less is as likely.
    pub(super) most: Duration,
    /// A datagram's time of arrival is when the program sees it, not when the kernel took it in.
    pub(super) stamps_by_program: bool,
}

/// An endpoint in a program that wakes up late.
#[derive(Debug)]
pub(super) struct LateHost<E> {
    endpoint: E,
    lateness: Lateness,
    rng: Rng,
    waiting: VecDeque<(Arrival, Vec<u8>)>,
    /// It runs until it has nothing more to send.
    is_awake: bool,
    wakes_at: Option<Time>,
}

impl<E: Endpoint> LateHost<E> {
    pub(super) fn new(endpoint: E, lateness: Lateness, seed: u64) -> LateHost<E> {
        LateHost {
            endpoint,
            lateness,
            rng: Rng::with_seed(seed),
            waiting: VecDeque::new(),
            is_awake: true,
            wakes_at: None,
        }
    }

    fn draw(&mut self) -> Duration {
        Duration::from_nanos(self.rng.u64(..=nanos(self.lateness.most)))
    }

    /// It goes to sleep. What is due already needs no timer.
    fn sleep(&mut self, now: Time) {
        self.is_awake = false;
        let late = self.draw();
        let due = if self.waiting.is_empty() { self.endpoint.poll_timeout() } else { Some(now) };
        self.wakes_at = due.map(|at| if at <= now { now } else { at + late });
    }
}

impl<E: Endpoint> Endpoint for LateHost<E> {
    type Event = E::Event;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, body: &[u8]) {
        if self.waiting.is_empty() {
            let wakes_at = now + self.draw();
            self.wakes_at = Some(self.wakes_at.map_or(wakes_at, |at| at.min(wakes_at)));
        }
        self.waiting.push_back((arrival, body.to_vec()));
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.wakes_at.is_none_or(|at| at > now) {
            return;
        }
        (self.is_awake, self.wakes_at) = (true, None);
        while let Some((arrival, body)) = self.waiting.pop_front() {
            let time = if self.lateness.stamps_by_program { now } else { arrival.time };
            self.endpoint.handle_datagram(now, Arrival { time, ..arrival }, &body);
        }
        if self.endpoint.poll_timeout().is_some_and(|at| at <= now) {
            self.endpoint.handle_timeout(now);
        }
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        if !self.is_awake {
            return None;
        }
        let transmit = self.endpoint.poll_transmit(now, buf);
        if transmit.is_none() {
            self.sleep(now);
        }
        transmit
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.wakes_at
    }

    fn poll_event(&mut self) -> Option<E::Event> {
        self.endpoint.poll_event()
    }

    fn framing(&self) -> usize {
        self.endpoint.framing()
    }

    fn ecn(&self) -> Ecn {
        self.endpoint.ecn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends one at each millisecond, and notes when what came in came.
    #[derive(Debug, Default)]
    struct Clock {
        sent: u64,
        told: Time,
        came: Vec<Time>,
    }

    impl Endpoint for Clock {
        type Event = ();

        fn handle_datagram(&mut self, _: Time, arrival: Arrival, _: &[u8]) {
            self.came.push(arrival.time);
        }

        fn handle_timeout(&mut self, now: Time) {
            self.told = now;
        }

        fn poll_transmit(&mut self, now: Time, _: &mut [u8]) -> Option<Transmit> {
            (now >= Time::from_millis(self.sent)).then(|| {
                self.sent += 1;
                Transmit { number: self.sent, len: 1 }
            })
        }

        fn poll_timeout(&self) -> Option<Time> {
            Some(Time::from_millis(self.sent))
        }

        fn poll_event(&mut self) -> Option<()> {
            None
        }
    }

    const MOST: Duration = Duration::from_micros(300);

    fn host(stamps_by_program: bool) -> LateHost<Clock> {
        LateHost::new(Clock::default(), Lateness { most: MOST, stamps_by_program }, 1)
    }

    #[test]
    fn timers_are_late_but_never_early() {
        let mut host = host(false);
        let mut late = vec![];
        let mut now = Time::ZERO;
        for at in 0..50 {
            late.push(now.since(Time::from_millis(at)));
            assert!(host.poll_transmit(now, &mut []).is_some(), "{at}");
            assert!(host.poll_transmit(now, &mut []).is_none(), "{at}");
            now = host.poll_timeout().unwrap();
            assert!(now >= Time::from_millis(at + 1), "{at}");
            host.handle_timeout(now);
        }
        assert!(late.iter().all(|late| *late <= MOST), "{late:?}");
        assert!(late.iter().any(|late| *late > MOST / 2), "{late:?}");
    }

    #[test]
    fn what_came_in_is_seen_late_and_stamped_by_whom_it_is_said() {
        for by_program in [false, true] {
            let mut host = host(by_program);
            while host.poll_transmit(Time::ZERO, &mut []).is_some() {}
            let came = Time(100_000);
            host.handle_datagram(came, Arrival::new(came, 1), &[]);
            let wakes_at = host.poll_timeout().unwrap();
            host.handle_timeout(Time(wakes_at.0 - 1));
            assert!(host.endpoint.came.is_empty() && host.poll_transmit(came, &mut []).is_none());
            host.handle_timeout(wakes_at);
            assert_eq!(host.endpoint.came, [if by_program { wakes_at } else { came }]);
            assert!(wakes_at > came && wakes_at.since(came) <= MOST);
        }
    }
}
