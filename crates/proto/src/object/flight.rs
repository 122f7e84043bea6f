//! Datagrams on their way: which packet each carried, when it left, what became of it.

use crate::units::{DatagramNumber, PacketNumber, Time};
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Everything sent and not settled yet, by datagram number.
#[derive(Debug, Default)]
pub struct Flight {
    records: VecDeque<Record>,
    /// Number of the first record.
    base: DatagramNumber,
    /// Number of the oldest record that is neither settled nor in a TCP stream; of the next, if there is none.
    udp_from: DatagramNumber,
    outstanding: u64,
    /// Of those, in TCP streams.
    in_streams: u64,
    /// The newest datagram of each packet that was sent more than once: only its loss means that the packet is lost.
    newest: BTreeMap<PacketNumber, DatagramNumber>,
    /// Datagrams lately given up, to notice when one comes in after all.
    given_up: VecDeque<GivenUp>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    packet: PacketNumber,
    sent: Time,
    state: State,
    /// A TCP stream has it: it is lost only with that TCP stream, however many overtake it.
    by_stream: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Outstanding,
    Settled,
}

#[derive(Clone, Copy, Debug)]
struct GivenUp {
    number: DatagramNumber,
    sent: Time,
}

/// Datagrams given up at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// How many.
    pub count: u64,
    /// The last of them.
    pub largest: DatagramNumber,
}

/// A datagram that was found to have come in.
#[derive(Clone, Copy, Debug)]
pub struct Landed {
    pub packet: PacketNumber,
}

impl Flight {
    /// Number of the next datagram.
    pub fn next_number(&self) -> DatagramNumber {
        self.base + self.records.len() as u64
    }

    /// Datagrams on their way over UDP.
    pub fn in_datagrams(&self) -> u64 {
        self.outstanding - self.in_streams
    }

    /// Datagrams on their way in TCP streams.
    pub fn in_streams(&self) -> u64 {
        self.in_streams
    }

    /// A record's fate is known.
    fn close(&mut self, index: usize) {
        let record = &mut self.records[index];
        record.state = State::Settled;
        self.outstanding -= 1;
        self.in_streams -= u64::from(record.by_stream);
    }

    /// Records kept.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Send `packet` now, over a TCP stream or as a datagram. `again`: it was sent before.
    pub fn push(&mut self, packet: PacketNumber, now: Time, again: bool, by_stream: bool) -> DatagramNumber {
        let number = self.next_number();
        if again {
            self.newest.insert(packet, number);
        }
        self.records.push_back(Record { packet, sent: now, state: State::Outstanding, by_stream });
        self.outstanding += 1;
        self.in_streams += u64::from(by_stream);
        self.pass_settled();
        number
    }

    /// A datagram that carries no packet goes out: it is settled at once.
    pub fn push_empty(&mut self, now: Time) -> DatagramNumber {
        let number = self.next_number();
        let packet = PacketNumber::MAX;
        self.records.push_back(Record { packet, sent: now, state: State::Settled, by_stream: false });
        self.pass_settled();
        number
    }

    /// When a datagram that is still recorded, or was lately given up, left, if it went by itself: in a TCP stream it waits
    /// for its turn. Where the way has become longer than a timeout all are given up, and what came of those alone tells so.
    pub fn udp_sent_time(&self, number: DatagramNumber) -> Option<Time> {
        let index = number.checked_sub(self.base);
        let record = index.and_then(|index| self.records.get(index as usize));
        let given_up = || self.given_up.iter().rev().find(|g| g.number == number).map(|g| g.sent);
        record.filter(|r| !r.by_stream).map(|r| r.sent).or_else(given_up)
    }

    /// When a datagram that is still recorded left.
    pub fn sent_time(&self, number: DatagramNumber) -> Option<Time> {
        let index = number.checked_sub(self.base)?;
        self.records.get(index as usize).map(|r| r.sent)
    }

    /// The oldest unsettled datagram that went by itself, and when it left: for those in TCP streams no time is too
    /// long.
    pub fn oldest_by_udp(&self) -> Option<(DatagramNumber, Time)> {
        self.sent_time(self.udp_from).map(|sent| (self.udp_from, sent))
    }

    /// Have [`udp_from`](Flight::udp_from) be what it is. It never goes back, so this takes little.
    fn pass_settled(&mut self) {
        self.udp_from = self.udp_from.max(self.base);
        while let Some(record) = self.records.get((self.udp_from - self.base) as usize)
            && (record.by_stream || record.state == State::Settled)
        {
            self.udp_from += 1;
        }
    }

    /// Whether this datagram is not settled.
    pub fn is_on_way(&self, number: DatagramNumber) -> bool {
        let record = number.checked_sub(self.base).and_then(|index| self.records.get(index as usize));
        record.is_some_and(|r| r.state == State::Outstanding)
    }

    /// These datagrams are gone for sure. Calls `lost` for each packet whose newest copy that was. Returns how many were
    /// on their way.
    pub fn lose(
        &mut self,
        numbers: Range<DatagramNumber>,
        is_acked: impl Fn(PacketNumber) -> bool,
        mut lost: impl FnMut(PacketNumber),
    ) -> u64 {
        let start = numbers.start.max(self.base) - self.base;
        let end = numbers.end.saturating_sub(self.base).min(self.records.len() as u64);
        let mut count = 0;
        for index in start..end.max(start) {
            let (number, record) = (self.base + index, self.records[index as usize]);
            if record.state == State::Settled {
                continue;
            }
            self.close(index as usize);
            count += 1;
            let newest = self.newest.get(&record.packet).is_none_or(|newest| *newest == number);
            if newest && !is_acked(record.packet) {
                lost(record.packet);
            }
        }
        // Before those behind them, which may be waited for in vain, they would count as still in their TCP stream.
        while self.records.front().is_some_and(|front| front.by_stream && front.state == State::Settled) {
            self.drop_front();
        }
        self.pass_settled();
        count
    }

    fn drop_front(&mut self) {
        let Some(record) = self.records.pop_front() else { return };
        if self.newest.get(&record.packet) == Some(&self.base) {
            self.newest.remove(&record.packet);
        }
        self.base += 1;
    }

    /// The receiver got these datagrams. Calls `landed` for each packet that is news.
    pub fn settle(&mut self, numbers: Range<DatagramNumber>, mut landed: impl FnMut(Landed)) {
        let start = numbers.start.max(self.base) - self.base;
        let end = numbers.end.saturating_sub(self.base).min(self.records.len() as u64);
        for index in start..end.max(start) {
            let record = self.records[index as usize];
            if record.state == State::Outstanding {
                self.close(index as usize);
                landed(Landed { packet: record.packet });
            }
        }
        self.pass_settled();
    }

    /// Whether any datagram lately given up is in `numbers`, and how long before `largest_sent` it had left: the
    /// reordering that must be tolerated.
    pub fn spurious(&mut self, numbers: &[Range<DatagramNumber>], largest_sent: Time) -> Option<Duration> {
        let before = self.given_up.len();
        let mut late = None;
        self.given_up.retain(|g| {
            let came = numbers.iter().any(|range| range.contains(&g.number));
            if came {
                late = late.max(Some(largest_sent.since(g.sent)));
            }
            !came
        });
        if self.given_up.len() < before { late } else { None }
    }

    /// Drop settled records from the front, and, where there is no other path (`is_only`), settle those whose packet arrived by
    /// other news. Then give up those that left before `deadline` and have a number below `below`. Calls `lost` for each packet
    /// whose newest copy is gone. Returns the datagrams given up.
    ///
    /// Of several paths a faster one may tell first that a packet is there. Its datagram stays on its way until its own path
    /// says so: that tells of the path.
    pub fn expire(
        &mut self,
        below: DatagramNumber,
        deadline: Time,
        is_only: bool,
        is_acked: impl Fn(PacketNumber) -> bool,
        mut lost: impl FnMut(PacketNumber),
    ) -> Lost {
        let mut given_up = Lost::default();
        let mut index = 0;
        while let Some(record) = self.records.get(index).copied() {
            let number = self.base + index as u64;
            if record.state == State::Outstanding {
                let acked = is_acked(record.packet);
                let is_there = acked && is_only;
                if !is_there && record.by_stream {
                    // It stays, and what went by itself behind it may be lost all the same.
                    if self.in_datagrams() == 0 {
                        break;
                    }
                    index += 1;
                    continue;
                }
                if !(is_there || number < below && record.sent <= deadline) {
                    break;
                }
                self.close(index);
                if !acked {
                    given_up = Lost { count: given_up.count + 1, largest: number };
                    self.given_up.push_back(GivenUp { number, sent: record.sent });
                    if self.newest.get(&record.packet).is_none_or(|newest| *newest == number) {
                        lost(record.packet);
                    }
                }
            }
            if index > 0 {
                index += 1;
                continue;
            }
            self.drop_front();
        }
        self.pass_settled();
        let excess = self.given_up.len().saturating_sub(GIVEN_UP_KEPT);
        self.given_up.drain(..excess);
        given_up
    }

    /// Forget everything on its way: what it carries is to be sent again.
    pub fn clear(&mut self) {
        self.base = self.next_number();
        self.udp_from = self.base;
        self.records.clear();
        self.newest.clear();
        self.given_up.clear();
        (self.outstanding, self.in_streams) = (0, 0);
    }

    /// Packets on their way, oldest first, for hedging.
    pub fn packets(&self) -> impl Iterator<Item = (PacketNumber, Time)> + '_ {
        self.records.iter().filter(|r| r.state == State::Outstanding).map(|r| (r.packet, r.sent))
    }

    /// The newest packet below datagram `below` that is on its way in one copy only, and that copy's number.
    pub fn newest_single(
        &self,
        below: DatagramNumber,
        is_acked: impl Fn(PacketNumber) -> bool,
    ) -> Option<(PacketNumber, DatagramNumber)> {
        let end = below.saturating_sub(self.base).min(self.records.len() as u64);
        (0..end).rev().find_map(|index| {
            let record = &self.records[index as usize];
            let number = self.base + index;
            let only = self.newest.get(&record.packet).is_none_or(|newest| *newest == number);
            let wanted = record.state == State::Outstanding && only && !is_acked(record.packet);
            wanted.then_some((record.packet, number))
        })
    }
}

/// Given-up datagrams remembered: enough to notice reordering, few enough to look through at every acknowledgement.
const GIVEN_UP_KEPT: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_by_itself_behind_a_stream_is_waited_for_whether_that_dies_or_not() {
        let mut flight = Flight::default();
        for packet in 0..3 {
            flight.push(packet, Time::from_millis(1), false, true);
        }
        flight.push(0, Time::from_millis(5), true, false);
        assert_eq!(
            flight.oldest_by_udp(),
            Some((3, Time::from_millis(5))),
            "in a stream it waits for its turn"
        );
        let mut lost = vec![];
        assert_eq!(flight.lose(0..3, |_| false, |packet| lost.push(packet)), 3);
        assert_eq!(lost, [1, 2], "of the first another copy is on its way");
        assert_eq!((flight.in_datagrams(), flight.in_streams()), (1, 0));
        assert_eq!(flight.oldest_by_udp(), Some((3, Time::from_millis(5))));
        flight.settle(3..4, |_| {});
        assert_eq!(flight.oldest_by_udp(), None);
    }
}
