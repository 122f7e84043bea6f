//! Where the traffic's flows begin, go on and end: one thread, sockets that never block.

use super::flow::{Flow, Progress, clamp_window, open_receivers};
use super::plan::{Carrier, Source};
use super::{Tally, count};
use crate::datagrams::Ends;
use crate::error::LabError;
use crate::host::{HostHandle, enter, join_namespace};
use crate::place::Side;
use crate::worker::{clock, timespec};
use longhaul_proto::units::Time;
use longhaul_sim::flow::KnownPath;
use longhaul_sim::traffic::Coming;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::thread::nanosleep;
use socket2::Socket;
use std::io;
use std::iter::Peekable;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The two hosts.
pub(super) type HostPair = [HostHandle; 2];

type Arrivals = Peekable<Box<dyn Iterator<Item = Coming> + Send>>;

/// All that flows, and all that is to.
pub(super) struct FlowDriver {
    sources: Arc<Vec<Source>>,
    arrivals: Vec<Arrivals>,
    pair: HostPair,
    /// On the left and on the right host.
    ends: [Receivers; 2],
    flows: Vec<Flow>,
    /// Flows by the simulator's endpoints, each with threads of its own.
    apart: Vec<Apart>,
    /// The receiving ends of TCP connections, with their numbers.
    accepted: Vec<(Socket, usize)>,
    /// What these may advertise at most.
    window_bytes_max: Option<u32>,
    path: KnownPath,
    zero: u64,
    tally: Arc<Tally>,
    block: Vec<u8>,
}

/// What takes the flows in on one host.
struct Receivers {
    listener: Socket,
    tcp: SocketAddr,
    /// Never read: what does not fit is dropped.
    _sink: Socket,
    udp: SocketAddr,
}

impl FlowDriver {
    /// Everything but the flows. Their time begins at `zero`.
    pub(super) fn new(
        seed: u64,
        path: KnownPath,
        sources: &Arc<Vec<Source>>,
        pair: &HostPair,
        tally: Arc<Tally>,
        zero: u64,
    ) -> Result<FlowDriver, LabError> {
        let arrivals = sources.iter().enumerate().map(|(index, source)| {
            let coming = source.traffic.coming(seed, index);
            (Box::new(coming) as Box<dyn Iterator<Item = Coming> + Send>).peekable()
        });
        let window = sources.iter().filter_map(Source::window_bytes_max).min();
        Ok(FlowDriver {
            arrivals: arrivals.collect(),
            sources: sources.clone(),
            ends: [Receivers::open(&pair[0], window)?, Receivers::open(&pair[1], window)?],
            pair: pair.clone(),
            flows: vec![],
            apart: vec![],
            accepted: vec![],
            window_bytes_max: window,
            path,
            zero,
            tally,
            block: vec![0; BLOCK_BYTES],
        })
    }

    /// Until `stop` can be read.
    pub(super) fn run(mut self, stop: &OwnedFd) {
        loop {
            let now = clock().0;
            self.begin_flows(now);
            self.drive_by_clock(now);
            self.look_at_those_apart(now);
            let next = self.next_moment();
            let Some(ready) = self.wait(stop, next) else { break };
            let has_worked = self.drive_by_room(&ready);
            self.take_in(&ready);
            if has_worked {
                // Programs at the ends look after their sockets now and then, not at each packet: that would cost the
                // processor that the path needs. A nap that is interrupted ends early, which does no harm.
                let nap = Time(self.next_moment()).since(clock()).min(NAP);
                let _ = nanosleep(&timespec(nap));
            }
        }
        self.flows.into_iter().for_each(Flow::cut_off);
        self.apart.iter().for_each(Apart::cut_off);
        self.apart.into_iter().for_each(|one| drop(one.thread.join()));
    }

    fn begin_flows(&mut self, now: u64) {
        self.zero = without_standstill(self.zero, self.next_arrival(), now);
        for index in 0..self.arrivals.len() {
            while let Some(coming) = self.arrivals[index].next_if(|coming| self.zero + coming.at.0 <= now) {
                count(&self.tally.begun);
                match self.begin(index, &coming, now) {
                    Ok(()) => {}
                    Err(reason) => self.tally.fail(&reason),
                }
            }
        }
    }

    fn begin(&mut self, index: usize, coming: &Coming, now: u64) -> Result<(), LabError> {
        if self.flows.len() + self.apart.len() >= FLOWS_MAX {
            return Err(LabError::Scenario(format!("more than {FLOWS_MAX} flows at a time; ask for fewer")));
        }
        let source = &self.sources[index];
        let (from, to) =
            if source.is_reverse { (Side::Right, Side::Left) } else { (Side::Left, Side::Right) };
        let stop = coming.stop.map_or(u64::MAX, |stop| self.zero.saturating_add(stop.0));
        // Sockets belong to the namespace that the thread is in when it makes them.
        join_namespace(&self.pair[from as usize].0).map_err(LabError::at("entering a network namespace"))?;
        let (there, bytes) = (&self.ends[to as usize], coming.spec.bytes);
        match &source.carrier {
            Carrier::Tcp { control, .. } => self.flows.push(Flow::tcp(control, there.tcp, bytes, stop)?),
            Carrier::Udp(mbit) => {
                self.flows.push(Flow::udp(*mbit, self.path.mtu, there.udp, bytes, stop, now)?);
            }
            Carrier::Endpoints => {
                let pair = [&self.pair[from as usize], &self.pair[to as usize]];
                self.apart.push(Apart::begin(Ends::new(pair, &coming.spec, self.path)?, stop));
            }
        }
        Ok(())
    }

    /// UDP that is due, and flows whose end has come.
    fn drive_by_clock(&mut self, now: u64) {
        let mut index = 0;
        while index < self.flows.len() {
            let flow = &mut self.flows[index];
            if flow.stop <= now {
                self.flows.swap_remove(index).cut_off();
            } else if flow.next() <= now && flow.drive(now, &self.block) == Progress::Done {
                self.flows.swap_remove(index);
                count(&self.tally.done);
            } else {
                index += 1;
            }
        }
    }

    /// Those apart whose end has come, or that are done.
    fn look_at_those_apart(&mut self, now: u64) {
        self.apart.iter().filter(|one| one.stop <= now).for_each(Apart::cut_off);
        for one in self.apart.extract_if(.., |one| one.thread.is_finished()) {
            match one.thread.join() {
                Ok(Ok(())) if one.stop <= now => {}
                Ok(Ok(())) => count(&self.tally.done),
                Ok(Err(error)) => self.tally.fail(&error),
                Err(_) => self.tally.fail(&"its thread panicked"),
            }
        }
    }

    fn next_arrival(&mut self) -> Option<u64> {
        let zero = self.zero;
        let arrivals = self.arrivals.iter_mut().filter_map(|arrivals| arrivals.peek());
        arrivals.map(|coming| zero.saturating_add(coming.at.0)).min()
    }

    fn next_moment(&mut self) -> u64 {
        let looks = (!self.apart.is_empty()).then(|| clock().0 + LOOK_EVERY_NS);
        let arrival = self.next_arrival();
        self.flows.iter().map(Flow::next).chain(looks).chain(arrival).min().unwrap_or(u64::MAX)
    }

    /// Wait until that moment or until a socket is ready: which are, in the order listeners, receivers, flows. `None` at
    /// the end.
    fn wait(&self, stop: &OwnedFd, until: u64) -> Option<Vec<bool>> {
        let mut sockets = vec![PollFd::new(stop, PollFlags::IN)];
        sockets.extend(self.ends.iter().map(|end| PollFd::new(&end.listener, PollFlags::IN)));
        sockets.extend(self.accepted.iter().map(|(socket, _)| PollFd::new(socket, PollFlags::IN)));
        sockets.extend(self.flows.iter().map(|flow| {
            let wanted = if flow.waits_for_room() { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::new(&flow.socket, wanted)
        }));
        let wait = (until < u64::MAX).then(|| timespec(Time(until).since(clock())));
        // An interrupted wait has nothing ready.
        let _ = poll(&mut sockets, wait.as_ref());
        let ready: Vec<bool> = sockets.iter().map(|socket| !socket.revents().is_empty()).collect();
        (!ready[0]).then(|| ready[1..].to_vec())
    }

    /// TCP flows whose sockets have room; whether there was anything to do with sockets at all.
    fn drive_by_room(&mut self, ready: &[bool]) -> bool {
        let now = clock().0;
        let flows_ready = &ready[self.ends.len() + self.accepted.len()..];
        // From the end, so that the places of those before stay.
        for index in (0..self.flows.len()).rev().filter(|index| flows_ready[*index]) {
            let flow = &mut self.flows[index];
            if !flow.waits_for_room() {
                // Paced flows are woken by errors alone, such as the host's queue being full; the next send clears them.
                continue;
            }
            match flow.drive(now, &self.block) {
                Progress::Goes => continue,
                Progress::Done => count(&self.tally.done),
                Progress::Broken(reason) => self.tally.fail(&reason),
            }
            self.flows.swap_remove(index);
        }
        ready.contains(&true)
    }

    /// Take in what has arrived, and new connections.
    fn take_in(&mut self, ready: &[bool]) {
        let (listeners, rest) = ready.split_at(self.ends.len());
        for index in (0..self.accepted.len()).rev().filter(|index| rest[*index]) {
            // The kernel throws a TCP's bytes away without copying them, if asked to.
            let (socket, number) = &self.accepted[index];
            match recv(socket, &mut self.block[..], RecvFlags::TRUNC) {
                Ok((_, len @ 1..)) => {
                    self.tally.received()[*number] += len as u64;
                    if let Some(bytes) = self.window_bytes_max {
                        // Refused by nothing that has just brought data.
                        let _ = clamp_window(socket, bytes);
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok((_, 0)) | Err(_) => drop(self.accepted.swap_remove(index)),
            }
        }
        for (end, _) in self.ends.iter().zip(listeners).filter(|(_, is_ready)| **is_ready) {
            while let Ok((socket, _)) = end.listener.accept() {
                if socket.set_nonblocking(true).is_ok() {
                    let mut received = self.tally.received();
                    self.accepted.push((socket, received.len()));
                    received.push(0);
                }
            }
        }
    }
}

/// A flow that threads of its own drive.
struct Apart {
    over: Arc<AtomicBool>,
    /// When it is cut off.
    stop: u64,
    thread: JoinHandle<io::Result<()>>,
}

impl Apart {
    fn begin(ends: Ends, stop: u64) -> Apart {
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let thread = thread::spawn(move || ends.stream(&seen, &AtomicU64::new(0)));
        Apart { over, stop, thread }
    }

    fn cut_off(&self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Receivers {
    fn open((namespace, address): &HostHandle, window_bytes_max: Option<u32>) -> Result<Receivers, LabError> {
        let opened = enter(namespace, || open_receivers(*address, window_bytes_max));
        let (listener, sink) = opened.map_err(LabError::at("entering a network namespace"))??;
        let address = |socket: &Socket| {
            let address = socket.local_addr().and_then(|address| {
                address.as_socket().ok_or_else(|| io::Error::other("it is no Internet address"))
            });
            address.map_err(LabError::at("asking for a socket's address"))
        };
        Ok(Receivers { tcp: address(&listener)?, udp: address(&sink)?, listener, _sink: sink })
    }
}

/// When the traffic's time began, later by as long as the host stood still: flows that were to begin meanwhile would
/// otherwise begin all at once.
fn without_standstill(zero: u64, next_arrival: Option<u64>, now: u64) -> u64 {
    let late = next_arrival.map_or(0, |arrival| now.saturating_sub(arrival));
    if late > STANDSTILL_NS { zero.saturating_add(late) } else { zero }
}

/// Two descriptors each: where a process may have fewer, some flows cannot begin, which is told.
const FLOWS_MAX: usize = 1024;
/// How soon those apart are seen to have ended.
const LOOK_EVERY_NS: u64 = 50_000_000;
/// A thread that waits for a processor is late by milliseconds; by this much are virtual machines that are paused.
const STANDSTILL_NS: u64 = 1_000_000_000;
const BLOCK_BYTES: usize = 256 * 1024;
const NAP: Duration = Duration::from_micros(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_standstill_do_not_begin_all_at_once() {
        let (zero, second) = (5_000_000_000, 1_000_000_000);
        // Since the next flow was to begin, at 7 s.
        let begun = |now| without_standstill(zero, Some(7 * second), now);
        assert_eq!(begun(6 * second), zero);
        assert_eq!(begun(8 * second), zero, "late by what a busy host may be");
        assert_eq!(
            begun(12 * second),
            zero + 5 * second,
            "it begins now, the one after it as long after it as ever"
        );
        assert_eq!(without_standstill(zero, None, 12 * second), zero, "nobody is to come any more");
    }
}
