//! What is on its way and what became of it: the sender's view of the stream in segments, by the rules of RFC 6675.

use crate::units::{DatagramNumber, Time};
use rangemap::RangeSet;
use std::collections::VecDeque;
use std::ops::Range;

/// Place of a segment in the stream: the *n*-th of those that it is cut into.
pub(super) type SegmentIndex = u64;

/// Segments that have left and are not acknowledged cumulatively. `Weight` of a segment is its bytes as a datagram.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    /// The first that is not acknowledged (HighACK).
    una: SegmentIndex,
    records: VecDeque<Record>,
    /// Told by selective acknowledgements; all at or above `una`.
    sacked: RangeSet<SegmentIndex>,
    /// What is not sacked below this is lost (IsLost).
    lost_below: SegmentIndex,
    /// Everything below has been retransmitted or need not be (HighRxt).
    resend_from: SegmentIndex,
    pipe: u64,
    /// Weight of what is neither acknowledged nor sacked.
    unsacked: u64,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    number: DatagramNumber,
    sent: Time,
    covered: u64,
    weight: u32,
    sacked: bool,
    lost: bool,
    /// Sent again since it was taken for lost.
    resent: bool,
    /// Sent more than once in its life.
    ambiguous: bool,
}

impl Record {
    /// RFC 6675 §4, SetPipe: once if not lost, once more if retransmitted.
    fn pipe(&self) -> u64 {
        if self.sacked {
            return 0;
        }
        u64::from(self.weight) * (u64::from(!self.lost) + u64::from(self.resent))
    }
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// Weight delivered newly.
    pub delivered: u64,
    /// The segment among them that left last.
    pub latest: Option<Departure>,
}

/// When a segment left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    /// In which datagram.
    pub number: DatagramNumber,
    /// When.
    pub time: Time,
    /// Bytes sent in all until then, with it.
    pub covered: u64,
    /// It left more than once, and it cannot be told which arrived.
    pub is_ambiguous: bool,
}

impl News {
    fn add(&mut self, record: &Record) {
        self.delivered += u64::from(record.weight);
        if self.latest.is_none_or(|latest| latest.number < record.number) {
            self.latest = Some(Departure {
                number: record.number,
                time: record.sent,
                covered: record.covered,
                is_ambiguous: record.ambiguous,
            });
        }
    }
}

impl Scoreboard {
    /// Nothing sent.
    pub fn new() -> Scoreboard {
        Scoreboard {
            una: 0,
            records: VecDeque::new(),
            sacked: RangeSet::new(),
            lost_below: 0,
            resend_from: 0,
            pipe: 0,
            unsacked: 0,
        }
    }

    /// The first segment that is not acknowledged.
    pub fn una(&self) -> SegmentIndex {
        self.una
    }

    /// The next segment to be sent for the first time (HighData).
    pub fn next(&self) -> SegmentIndex {
        self.una + self.records.len() as u64
    }

    /// Whether anything awaits acknowledgement.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Estimate of the bytes on their way (RFC 6675 §4).
    pub fn pipe(&self) -> u64 {
        self.pipe
    }

    /// Bytes neither acknowledged nor sacked, lost ones too.
    pub fn unsacked(&self) -> u64 {
        self.unsacked
    }

    /// The first unacknowledged segment is lost.
    pub fn is_first_lost(&self) -> bool {
        self.records.front().is_some_and(|first| first.lost && !first.sacked)
    }

    /// The first unacknowledged segment is said to have arrived: the receiver took it back (RFC 2018 §8).
    pub fn is_reneged(&self) -> bool {
        self.records.front().is_some_and(|first| first.sacked)
    }

    /// The next segment leaves for the first time. `covered`: bytes sent in all, with it.
    pub fn push(&mut self, number: DatagramNumber, now: Time, weight: u32, covered: u64) {
        self.pipe += u64::from(weight);
        self.unsacked += u64::from(weight);
        self.records.push_back(Record {
            number,
            sent: now,
            covered,
            weight,
            sacked: false,
            lost: false,
            resent: false,
            ambiguous: false,
        });
    }

    /// A segment leaves once more.
    pub fn resend(&mut self, index: SegmentIndex, number: DatagramNumber, now: Time, covered: u64) {
        self.resend_from = self.resend_from.max(index + 1);
        self.update(index, |record| {
            (record.number, record.sent, record.covered) = (number, now, covered);
            (record.resent, record.ambiguous) = (true, true);
        });
    }

    /// Everything below `end` has arrived.
    pub fn acknowledge(&mut self, end: SegmentIndex, news: &mut News) {
        while self.una < end
            && let Some(record) = self.records.pop_front()
        {
            self.una += 1;
            self.pipe -= record.pipe();
            if !record.sacked {
                self.unsacked -= u64::from(record.weight);
                news.add(&record);
            }
        }
        if self.una > 0 {
            self.sacked.remove(0..self.una);
        }
        self.lost_below = self.lost_below.max(self.una);
        self.resend_from = self.resend_from.max(self.una);
    }

    /// These segments have arrived, others before them may not have.
    pub fn sack(&mut self, segments: Range<SegmentIndex>, news: &mut News) {
        let segments = segments.start.max(self.una)..segments.end.min(self.next());
        if segments.is_empty() {
            return;
        }
        let fresh: Vec<Range<SegmentIndex>> = self.sacked.gaps(&segments).collect();
        for index in fresh.into_iter().flatten() {
            let weight = self.update(index, |record| {
                record.sacked = true;
                news.add(record);
                record.weight
            });
            self.unsacked -= u64::from(weight);
        }
        self.sacked.insert(segments);
    }

    /// RFC 6675 §4, IsLost: what has [`DUP_THRESH`] sacked segments above it is lost. Returns the weight of what was not
    /// lost before.
    pub fn find_lost(&mut self) -> u64 {
        let mut wanted = DUP_THRESH;
        let mut edge = None;
        for range in self.sacked.overlapping(&(0..u64::MAX)).rev() {
            let len = range.end - range.start;
            if len >= wanted {
                edge = Some(range.end - wanted);
                break;
            }
            wanted -= len;
        }
        edge.map_or(0, |edge| self.lose_below(edge))
    }

    /// The first unacknowledged segment is lost, and sent again even if it was before. Returns its weight.
    pub fn lose_first(&mut self) -> u64 {
        self.resend_from = self.una;
        if let Some(first) = self.records.front_mut() {
            self.pipe -= first.pipe();
            first.resent = false;
            self.pipe += first.pipe();
        }
        let lost = self.lose_below(self.una + 1);
        self.lost_below = self.lost_below.max(self.una + 1);
        lost
    }

    /// All that is not sacked is lost and to be sent again (RFC 6675 §5.1). Returns its weight.
    pub fn lose_all(&mut self) -> u64 {
        self.resend_from = self.una;
        self.lost_below = self.next();
        for record in self.records.iter_mut().filter(|record| !record.sacked) {
            (record.lost, record.resent) = (true, false);
        }
        self.pipe = 0;
        self.unsacked
    }

    /// Forget what was sacked.
    pub fn forget_sacked(&mut self) {
        self.sacked.clear();
        for index in self.una..self.next() {
            let weight = self.update(index, |record| {
                let was = record.sacked;
                record.sacked = false;
                if was { record.weight } else { 0 }
            });
            self.unsacked += u64::from(weight);
        }
    }

    /// RFC 6675 §4, NextSeg (1): the first lost segment that has not been sent again.
    pub fn next_lost(&mut self) -> Option<SegmentIndex> {
        while self.resend_from < self.lost_below.min(self.next()) {
            let record = self.record(self.resend_from);
            if record.lost && !record.sacked && !record.resent {
                return Some(self.resend_from);
            }
            self.resend_from += 1;
        }
        None
    }

    /// NextSeg (3): the first segment below the highest sacked one that is not known to be lost either.
    pub fn next_hole(&self) -> Option<SegmentIndex> {
        let end = self.sacked.last()?.end;
        let gap = self.sacked.gaps(&(self.resend_from..end)).next()?;
        Some(gap.start)
    }

    /// NextSeg (4): the last segment that is not sacked, if nothing has been sent again beyond it.
    pub fn last_unsacked(&self) -> Option<SegmentIndex> {
        let range = self.resend_from..self.next();
        if range.is_empty() {
            return None;
        }
        let tail = self.sacked.overlapping(&range).next_back().filter(|last| last.end == range.end);
        let end = tail.map_or(range.end, |last| last.start);
        (end > range.start).then(|| end - 1)
    }

    /// A segment leaves once more without counting for what has been retransmitted in order.
    pub fn rescue(&mut self, index: SegmentIndex, number: DatagramNumber, now: Time, covered: u64) {
        let resend_from = self.resend_from;
        self.resend(index, number, now, covered);
        self.resend_from = resend_from;
    }

    fn lose_below(&mut self, end: SegmentIndex) -> u64 {
        let mut lost = 0;
        for index in self.lost_below.max(self.una)..end.min(self.next()) {
            let weight = self.update(index, |record| {
                let is_new = !record.lost && !record.sacked;
                record.lost = true;
                if is_new { record.weight } else { 0 }
            });
            lost += u64::from(weight);
        }
        self.lost_below = self.lost_below.max(end);
        lost
    }

    fn record(&self, index: SegmentIndex) -> &Record {
        &self.records[(index - self.una) as usize]
    }

    /// Change a record and what it adds to the pipe.
    fn update<T>(&mut self, index: SegmentIndex, change: impl FnOnce(&mut Record) -> T) -> T {
        let record = &mut self.records[(index - self.una) as usize];
        let before = record.pipe();
        let result = change(record);
        self.pipe = self.pipe - before + record.pipe();
        result
    }
}

/// RFC 6675 §2. Segments are of one size but for the last, so that three of them are always more than two full ones in
/// bytes, and the RFC's two conditions of IsLost are one.
const DUP_THRESH: u64 = 3;
