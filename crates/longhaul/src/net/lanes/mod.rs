//! Lanes: TCP connections that carry a transfer's datagrams where UDP does not get on. The bodies, numbers and keys are
//! those of the datagrams, so that a transfer can change between the two at any moment; only the pace is TCP's.

mod join;
mod lane;
mod opener;

pub use join::{Door, LaneKey, SILENCE, admit, check_congestion};
pub use lane::LaneSocket;
pub use longhaul_proto::lanes::{MAGIC, MAGIC_LEN};
pub use opener::{Opener, OpenerConfig};

use super::link::Phase;
use super::seal::{Keys, Refused};
use super::wake::Waker;
use crossbeam_channel::{Receiver, Sender, bounded};
use lane::Lane;
use longhaul_proto::endpoint::{Arrival, Transmit};
use longhaul_proto::lanes::{LANES_MAX, LENGTH_LEN, encode_length, next_body, write_bundle};
use longhaul_proto::session::message::TransferOptions;
use longhaul_proto::units::{DatagramNumber, Time};
use longhaul_proto::wire::{HEADER_LEN, Header, SEAL_OVERHEAD};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// All lanes of a transfer.
pub struct Lanes {
    lanes: Vec<Lane>,
    newcomers: Receiver<LaneSocket>,
    door: Sender<LaneSocket>,
    /// What lanes carried that died since it was last asked for.
    lost: VecDeque<Range<DatagramNumber>>,
    /// Only so many of them are given anything.
    active: usize,
    /// The one that is given something next.
    next: usize,
    /// The one that last brought something, which is the best bet for an answer.
    latest: usize,
    /// Smoothed round trip of those that are given something, and the least of all.
    rtt: Option<[Duration; 2]>,
    /// How many of those that are given something had lost something by then.
    with_losses: usize,
    /// Segments that all had sent again.
    retransmits: u64,
    looked_at: Time,
}

impl Default for Lanes {
    fn default() -> Lanes {
        let (door, newcomers) = bounded(LANES_MAX);
        Lanes {
            lanes: vec![],
            newcomers,
            door,
            lost: VecDeque::new(),
            active: LANES_MAX,
            next: 0,
            latest: 0,
            rtt: None,
            with_losses: 0,
            retransmits: 0,
            looked_at: Time::ZERO,
        }
    }
}

impl Lanes {
    /// Where other threads leave connections that have joined.
    pub fn door(&self) -> Sender<LaneSocket> {
        self.door.clone()
    }

    /// The same for a server's lanes, which must prove that they know `key`.
    pub fn door_of(&self, key: LaneKey, options: &TransferOptions, waker: Waker) -> Door {
        Door { key, congestion: options.congestion.clone(), inside: self.door(), waker }
    }

    /// Take in connections that have joined.
    pub fn take_newcomers(&mut self) {
        while let Ok(socket) = self.newcomers.try_recv() {
            self.add(socket);
        }
    }

    /// A connection that both sides trust is a lane from now on. More than there may be are closed.
    pub fn add(&mut self, socket: LaneSocket) {
        if self.lanes.len() < LANES_MAX
            && let Ok(lane) = Lane::new(socket)
        {
            self.lanes.push(lane);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lanes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Give something to so many of them only.
    pub fn set_active(&mut self, active: usize) {
        self.active = active.max(1);
    }

    /// Smoothed and least round trip of their connections, as the kernel has it.
    pub fn rtt(&self) -> Option<[Duration; 2]> {
        self.rtt
    }

    /// How many of those that are given something have lost something, and how many segments all have sent again.
    pub fn losses(&self) -> (usize, u64) {
        (self.with_losses, self.retransmits)
    }

    /// Numbers that a lane carried which died. Some of them may have come in.
    pub fn poll_lost(&mut self) -> Option<Range<DatagramNumber>> {
        self.lost.pop_front()
    }

    /// What to wait for: something to read, and room where something is stuck.
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.lanes.iter().map(|lane| {
            let mut flags = if !lane.held.is_empty() { PollFlags::empty() } else { PollFlags::IN };
            if !lane.writable {
                flags |= PollFlags::OUT;
            }
            PollFd::from_borrowed_fd(lane.socket.as_fd(), flags)
        })
    }

    /// Whether a body waits for whoever is to take it, so that time alone gets it on.
    pub fn is_holding(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.held.is_empty())
    }

    /// Look which of them can be read and written.
    fn refresh(&mut self) {
        let mut ready: Vec<PollFlags> = vec![];
        {
            let flags = PollFlags::IN | PollFlags::OUT;
            let fds = self.lanes.iter().map(|lane| PollFd::from_borrowed_fd(lane.socket.as_fd(), flags));
            let mut fds: Vec<PollFd<'_>> = fds.collect();
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&at_once)).is_ok() {
                ready.extend(fds.iter().map(PollFd::revents));
            }
        }
        for (lane, ready) in self.lanes.iter_mut().zip(ready) {
            // An end or an error shows when it is read.
            lane.readable = ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
            lane.writable |= ready.contains(PollFlags::OUT);
        }
    }

    /// Take what has come in and hand each authentic body to `handle`, which says whether it took it: a body that it did
    /// not is offered again, and holds its lane up until then. True if anything was taken.
    pub fn receive(
        &mut self,
        keys: &mut Keys,
        now: impl Fn() -> Time,
        handle: &mut impl FnMut(Phase, Arrival, &mut [u8]) -> bool,
    ) -> bool {
        if self.lanes.is_empty() {
            return false;
        }
        self.refresh();
        let (mut any, mut index) = (false, 0);
        while index < self.lanes.len() {
            match read_lane(&mut self.lanes[index], keys, &now, handle) {
                Ok(taken) => {
                    if taken {
                        (any, self.latest) = (true, index);
                    }
                    index += 1;
                }
                Err(why) => self.bury(index, &why),
            }
        }
        any
    }

    /// A lane is dead.
    fn bury(&mut self, index: usize, why: &str) {
        tracing::debug!("a lane is gone: {why}");
        self.lost.extend(self.lanes.remove(index).into_carried());
    }

    /// Give a run of datagrams to a lane with room. `write` fills bodies until it has none. Returns how many there were,
    /// and `None` if no lane has room.
    pub fn send_run(
        &mut self,
        keys: &Keys,
        datagram_len: usize,
        now: Time,
        mut write: impl FnMut(&mut [u8]) -> Option<Transmit>,
    ) -> Option<usize> {
        let index = self.next_with_room()?;
        let lane = &mut self.lanes[index];
        let mut run = std::mem::take(lane.run_mut());
        run.resize(RUN_LEN.max(2 * LENGTH_LEN + datagram_len), 0);
        let (mut filled, mut datagrams) = (0, 0);
        let body_max = datagram_len - SEAL_OVERHEAD;
        while let Some((first, count, len)) = write_bundle(&mut run[filled..], body_max, &mut write) {
            seal_record(&mut run[filled..filled + len], keys, first);
            lane.note_carried(first..first + count, now);
            (filled, datagrams) = (filled + len, datagrams + count as usize);
        }
        run.truncate(filled);
        *lane.run_mut() = run;
        self.next = index + 1;
        if let Err(error) = self.lanes[index].flush() {
            self.bury(index, &error.to_string());
        }
        Some(datagrams)
    }

    /// A lane that may be given something, by turns.
    fn next_with_room(&mut self) -> Option<usize> {
        loop {
            let count = self.lanes.len().min(self.active);
            let found = (0..count).map(|i| (self.next + i) % count).find(|index| {
                let lane = &self.lanes[*index];
                lane.writable
            })?;
            if let Err(error) = self.lanes[found].flush() {
                self.bury(found, &error.to_string());
            } else if self.lanes[found].has_room() {
                return Some(found);
            }
        }
    }

    /// Send one small datagram over the lane that last brought something, or else any that has room. It may be lost.
    pub fn send_one(&mut self, keys: &Keys, body: &[u8], number: DatagramNumber) {
        let count = self.lanes.len();
        let latest = self.latest;
        let Some(index) =
            (0..count).map(|i| (latest + i) % count).find(|index| !self.lanes[*index].is_stuck())
        else {
            return;
        };
        let mut record = vec![0; 2 * LENGTH_LEN + body.len() + SEAL_OVERHEAD];
        let (len, rest) = record[LENGTH_LEN + HEADER_LEN..].split_at_mut(LENGTH_LEN);
        encode_length(len, body.len());
        rest[..body.len()].copy_from_slice(body);
        seal_record(&mut record, keys, number);
        *self.lanes[index].run_mut() = record;
        if let Err(error) = self.lanes[index].flush() {
            self.bury(index, &error.to_string());
        }
    }

    /// Write what is stuck where there is room again.
    pub fn flush(&mut self) {
        for index in (0..self.lanes.len()).rev() {
            let lane = &mut self.lanes[index];
            if lane.writable
                && lane.is_stuck()
                && let Err(error) = lane.flush()
            {
                self.bury(index, &error.to_string());
            }
        }
    }

    /// Some times a second: forget what is settled, and give up lanes that get nothing through while others do.
    pub fn look_after(&mut self, now: Time, patience: Duration, is_on_way: impl Fn(DatagramNumber) -> bool) {
        if now.since(self.looked_at) < LOOK_EVERY || self.lanes.is_empty() {
            return;
        }
        self.looked_at = now;
        let progress: Vec<Time> = self.lanes.iter().map(Lane::progress).collect();
        let others = |index: usize| {
            let other = progress.iter().enumerate().filter(|(other, _)| *other != index);
            other.map(|(_, at)| *at).max().unwrap_or(Time::ZERO)
        };
        let mut stalled = vec![];
        let (mut sum, mut least, mut told) = (Duration::ZERO, Duration::MAX, 0);
        (self.with_losses, self.retransmits) = (0, 0);
        for (index, lane) in self.lanes.iter_mut().enumerate() {
            lane.settle(now, &is_on_way);
            let (stalls, info) = lane.look(others(index), patience, now);
            if stalls {
                stalled.push(index);
            }
            let Some(info) = info else { continue };
            self.retransmits += info.retransmits;
            if info.rtt.is_zero() {
                continue;
            }
            least = least.min(info.rtt_min);
            // Idle ones know of no queue.
            if index < self.active {
                self.with_losses += usize::from(info.retransmits > 0);
                (sum, told) = (sum + info.rtt, told + 1);
            }
        }
        if told > 0 {
            self.rtt = Some([sum / told, least]);
        }
        for index in stalled.into_iter().rev() {
            self.bury(index, "nothing gets through");
        }
    }
}

/// Read a lane until it has no more, its turn is over, or somebody does not take what it brings. An error says why it is
/// of no use any more.
fn read_lane(
    lane: &mut Lane,
    keys: &mut Keys,
    now: &impl Fn() -> Time,
    handle: &mut impl FnMut(Phase, Arrival, &mut [u8]) -> bool,
) -> Result<bool, String> {
    let mut any = false;
    while let Some((number, body)) = lane.held.front_mut() {
        if !handle(Phase::Main, Arrival { time: now(), number: *number }, body) {
            return Ok(any);
        }
        lane.held.pop_front();
        any = true;
    }
    for turn in 0..=READS {
        while let Some(record) = lane.records.next_record().map_err(|error| error.to_string())? {
            let header = Header::decode(record).filter(|header| !header.early);
            let header = header.ok_or("a record without a datagram's header")?;
            let mut bundle = match keys.open(&header, record) {
                Ok(bundle) => bundle,
                Err(Refused::Repeated) => continue,
                Err(Refused::Forged) => return Err("a record that is not authentic".into()),
            };
            any = true;
            for number in header.number.. {
                let Some(body) = next_body(&mut bundle).map_err(|error| error.to_string())? else { break };
                // What one body waits for those behind it wait for too.
                if !lane.held.is_empty() || !handle(Phase::Main, Arrival { time: now(), number }, body) {
                    lane.held.push_back((number, body.to_vec()));
                }
            }
            if !lane.held.is_empty() {
                return Ok(any);
            }
        }
        if turn == READS || !lane.readable || !lane.fill().map_err(|error| error.to_string())? {
            break;
        }
    }
    Ok(any)
}

/// Seal a record whose bundle stands where it belongs.
fn seal_record(record: &mut [u8], keys: &Keys, first: DatagramNumber) {
    let (length, datagram) = record.split_at_mut(LENGTH_LEN);
    encode_length(length, datagram.len());
    keys.seal(datagram, first);
}

/// Bytes given to a lane in one system call: some 45 datagrams of what Ethernet carries.
const RUN_LEN: usize = 64 << 10;
/// Calls to read one lane before the others have their turn.
const READS: usize = 2;
/// Lanes are looked after so often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests;
