//! Flows of the simulator over real UDP sockets: the same endpoints, driven by threads at both ends of a path. In
//! clear, with datagrams as long as sealed ones would be.

use crate::error::LabError;
use crate::host::{self, HostHandle};
use crate::relay::Relay;
use longhaul_net::plain::{Driver, Ran};
use longhaul_proto::control::Remembered;
use longhaul_proto::endpoint::{Arrival, Endpoint, Transmit};
use longhaul_proto::units::Time;
use longhaul_sim::flow::{FlowEnd, FlowNews, FlowSpec, KnownPath, Protocol};
use longhaul_sim::scenario::Scenario;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// What came of a transfer.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// From the beginning of its set-up until the receiver had everything, if it came so far.
    pub delivered: Option<Duration>,
    /// The same until the sender knew.
    pub acknowledged: Option<Duration>,
    /// Different bytes that came to the receiver.
    pub received_bytes: u64,
    /// Datagrams that the receiving host dropped for want of buffer.
    pub drops: u64,
    /// What the sender's controller has learnt of the path, for the next.
    pub learnt: Option<Remembered>,
}

/// A flow with its sockets, about to begin ([`Lab::ends`](crate::Lab::ends)).
pub struct Ends {
    sender: Driver<Clear>,
    receiver: Driver<Clear>,
    /// How long after its beginning the sender begins.
    setup: Duration,
}

impl Ends {
    /// From one host to the other, over a path that is known to be like this.
    pub(crate) fn new(hosts: [&HostHandle; 2], spec: &FlowSpec, path: KnownPath) -> Result<Ends, LabError> {
        let (sender, receiver) = spec.build(path);
        let any = SocketAddr::from((hosts[1].1, 0));
        let receiver = enter(hosts[1], || Driver::listen(Clear::new(receiver), any))?;
        let receiver = receiver.map_err(LabError::at("listening on the receiving host"))?;
        let to = receiver.local_addr().map_err(LabError::at("listening on the receiving host"))?;
        let sender = enter(hosts[0], || Driver::connect(Clear::new(sender), to))?;
        let sender = sender.map_err(LabError::at("making a socket on the sending host"))?;
        Ok(Ends { sender, receiver, setup: setup_time(spec, path) })
    }

    /// Between two sockets of this host, with a relay of its own between them.
    pub fn over_relay(scenario: &Scenario, spec: &FlowSpec) -> Result<(Ends, Relay), LabError> {
        let path = KnownPath::of(scenario);
        let (sender, receiver) = spec.build(path);
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let receiver = Driver::listen(Clear::new(receiver), any);
        let receiver = receiver.map_err(LabError::at("listening on loopback"))?;
        let to = receiver.local_addr().map_err(LabError::at("listening on loopback"))?;
        let relay = Relay::start(scenario, to)?;
        let sender = Driver::connect(Clear::new(sender), relay.address());
        let sender = sender.map_err(LabError::at("making a socket on loopback"))?;
        Ok((Ends { sender, receiver, setup: setup_time(spec, path) }, relay))
    }

    /// Move everything, within `limit` and as long as it is `wanted`.
    pub fn transfer(self, limit: Duration, wanted: impl Fn() -> bool) -> io::Result<Moved> {
        let Ends { mut sender, mut receiver, setup } = self;
        let (start, over) = (Instant::now(), AtomicBool::new(false));
        let is_over = || over.load(Ordering::Relaxed);
        let goes_on = || start.elapsed() < limit && wanted();
        let (mut delivered, mut acknowledged) = (None, None);
        let receive = || {
            delivered = run_until(&mut receiver, FlowNews::Delivered, is_over)?.then(|| start.elapsed());
            // The last acknowledgement may get lost.
            run_until(&mut receiver, FlowNews::Delivered, is_over).map(drop)
        };
        let send = || {
            while start.elapsed() < setup && goes_on() {
                thread::sleep(SLICE.min(setup.saturating_sub(start.elapsed())));
            }
            let is_done = run_until(&mut sender, FlowNews::Acknowledged, || is_over() || !goes_on())?;
            acknowledged = is_done.then(|| start.elapsed());
            over.store(true, Ordering::Relaxed);
            Ok(())
        };
        both(&over, receive, send)?;
        let learnt = sender.endpoint().end.learnt();
        let received_bytes = receiver.endpoint().received_bytes();
        Ok(Moved { delivered, acknowledged, received_bytes, drops: receiver.drops(), learnt })
    }

    /// Send until the sender knows that all has arrived, which sets `over`, or until it is over; and count the bytes that have
    /// arrived. A failure makes it over, for whatever goes along.
    pub fn stream(self, over: &AtomicBool, arrived: &AtomicU64) -> io::Result<()> {
        let Ends { mut sender, mut receiver, setup } = self;
        let is_over = || over.load(Ordering::Relaxed);
        let receive = || {
            while !is_over() {
                receiver.run(SLICE, |_| false)?;
                arrived.store(receiver.endpoint().received_bytes(), Ordering::Relaxed);
            }
            Ok(())
        };
        let send = || {
            thread::sleep(setup);
            run_until(&mut sender, FlowNews::Acknowledged, is_over)?;
            over.store(true, Ordering::Relaxed);
            Ok(())
        };
        both(over, receive, send)
    }
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends").field("setup", &self.setup).finish_non_exhaustive()
    }
}

/// How long after its beginning a flow's sender begins.
fn setup_time(spec: &FlowSpec, path: KnownPath) -> Duration {
    match &spec.protocol {
        Protocol::Object(flow) => path.rtt * flow.setup_round_trips,
        // A TCP's is part of what it sends.
        Protocol::Tcp(_) => Duration::ZERO,
    }
}

/// Make something on that host.
fn enter<T: Send>((namespace, _): &HostHandle, make: impl FnOnce() -> T + Send) -> Result<T, LabError> {
    host::enter(namespace, make).map_err(LabError::at("entering a network namespace"))
}

/// Run until this is the news, which is true, or until it is over, which is looked for now and then.
fn run_until(end: &mut Driver<Clear>, awaited: FlowNews, is_over: impl Fn() -> bool) -> io::Result<bool> {
    while !is_over() {
        if end.run(SLICE, |news| news == awaited)? == Ran::Stopped {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Two ends at a time, until `over`. The failure of one makes it over.
fn both(
    over: &AtomicBool,
    one: impl FnOnce() -> io::Result<()> + Send,
    other: impl FnOnce() -> io::Result<()>,
) -> io::Result<()> {
    let end = |_: &io::Error| over.store(true, Ordering::Relaxed);
    thread::scope(|scope| {
        let one = scope.spawn(move || one().inspect_err(end));
        let other = other().inspect_err(end);
        other.and(joined(one))
    })
}

/// What a thread came to; a panic in it goes on here.
pub fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|payload| std::panic::resume_unwind(payload))
}

/// An endpoint whose datagrams go in clear: where the seal would be, their number and blank space.
struct Clear {
    end: FlowEnd,
    framing: usize,
}

impl Clear {
    fn new(end: FlowEnd) -> Clear {
        let framing = end.framing();
        Clear { end, framing }
    }

    /// Different bytes that a receiver has.
    fn received_bytes(&self) -> u64 {
        match &self.end {
            FlowEnd::ObjectReceiver(receiver) => receiver.received() * u64::from(receiver.shape().packet_len),
            FlowEnd::TcpReceiver(receiver) => receiver.delivered_bytes(),
            FlowEnd::ObjectSender(_) | FlowEnd::TcpSender(..) => 0,
        }
    }
}

impl Endpoint for Clear {
    type Event = FlowNews;

    fn handle_datagram(&mut self, now: Time, arrival: Arrival, datagram: &[u8]) {
        if self.framing == 0 {
            return self.end.handle_datagram(now, arrival, datagram);
        }
        if let (Some((number, _)), Some(body)) =
            (datagram.split_first_chunk::<NUMBER_LEN>(), datagram.get(self.framing..))
        {
            let arrival = Arrival { number: u64::from_be_bytes(*number), ..arrival };
            self.end.handle_datagram(now, arrival, body);
        }
    }

    fn handle_timeout(&mut self, now: Time) {
        self.end.handle_timeout(now);
    }

    fn poll_transmit(&mut self, now: Time, buf: &mut [u8]) -> Option<Transmit> {
        let (frame, body) = buf.split_at_mut(self.framing);
        let sent = self.end.poll_transmit(now, body)?;
        if let Some(place) = frame.first_chunk_mut::<NUMBER_LEN>() {
            *place = sent.number.to_be_bytes();
        }
        Some(Transmit { len: self.framing + sent.len, ..sent })
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.end.poll_timeout()
    }

    fn poll_event(&mut self) -> Option<FlowNews> {
        self.end.poll_event()
    }

    fn framing(&self) -> usize {
        0
    }
}

const NUMBER_LEN: usize = size_of::<u64>();
/// How soon the end is noticed.
const SLICE: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;
    use longhaul_proto::control::ControllerKind;

    #[test]
    fn an_end_that_fails_ends_the_other_and_is_heard_of() {
        let over = AtomicBool::new(false);
        let goes_on = || {
            while !over.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            Ok(())
        };
        let fails = || Err(io::Error::other("no"));
        assert!(both(&over, fails, goes_on).is_err());
        over.store(false, Ordering::Relaxed);
        assert!(both(&over, goes_on, fails).is_err());
    }

    #[test]
    fn what_a_transfer_loses_the_link_has_dropped_and_all_arrives() {
        let path = Scenario { loss: 0.02, ..Scenario::new(50.0, 10.0) };
        for control in [ControllerKind::Cubic, ControllerKind::Bbr] {
            let spec = FlowSpec::tcp(control, 2_000_000);
            let (ends, relay) = Ends::over_relay(&path, &spec).unwrap();
            let moved = ends.transfer(Duration::from_secs(60), || true).unwrap();
            let counters = relay.counters();
            let least = Duration::from_secs_f64(2e6 * 8.0 / 50e6);
            assert!(moved.delivered.is_some_and(|took| took > least), "{moved:?}");
            assert_eq!(moved.received_bytes, 2_000_000);
            let forth = counters.left_to_right;
            assert!(forth.dropped_loss > 5, "{forth:?}");
            assert!(
                forth.bytes_delivered > 2_000_000 && forth.packets_delivered < forth.packets_in,
                "{forth:?}"
            );
            assert_eq!(counters.right_to_left.dropped_loss, 0);
        }
    }
}
