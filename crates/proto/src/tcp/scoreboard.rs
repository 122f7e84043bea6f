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

    /// The first unacknowledged segment is lost, and sent again even if it was before. Returns its weight if it was not
    /// lost before.
    pub fn lose_first(&mut self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        self.resend_from = self.una;
        self.lost_below = self.lost_below.max(self.una + 1);
        let weight = self.update(self.una, |first| {
            let was_lost = std::mem::replace(&mut first.lost, true);
            first.resent = false;
            if was_lost { 0 } else { first.weight }
        });
        weight.into()
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
        if end <= self.resend_from {
            return None;
        }
        self.sacked.gaps(&(self.resend_from..end)).flatten().find(|index| !self.record(*index).resent)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// The same, looked up segment by segment in the words of RFC 6675.
    #[derive(Debug, Default)]
    struct Model {
        una: u64,
        next: u64,
        segments: BTreeMap<u64, Segment>,
        high_rxt: u64,
    }

    #[derive(Clone, Copy, Debug, Default)]
    struct Segment {
        weight: u64,
        sacked: bool,
        resent: bool,
        /// By a timeout, or without selective acknowledgements.
        declared_lost: bool,
    }

    impl Model {
        fn is_lost(&self, index: u64) -> bool {
            let above = self.segments.range(index + 1..).filter(|(_, segment)| segment.sacked);
            self.segments[&index].declared_lost || above.count() >= 3
        }

        fn pipe(&self) -> u64 {
            let of = |(index, segment): (&u64, &Segment)| {
                let times = u64::from(!self.is_lost(*index)) + u64::from(segment.resent);
                if segment.sacked { 0 } else { times * segment.weight }
            };
            self.segments.iter().map(of).sum()
        }

        fn unsacked(&self) -> u64 {
            self.segments.values().filter(|segment| !segment.sacked).map(|segment| segment.weight).sum()
        }

        /// NextSeg (1) and (3): above HighRxt, below the highest sacked one unless `lost` is declared.
        fn holes(&self) -> impl Iterator<Item = u64> + '_ {
            let highest =
                self.segments.iter().rev().find(|(_, segment)| segment.sacked).map_or(0, |(i, _)| *i);
            let open = move |(index, segment): (&u64, &Segment)| {
                let is_below = *index < highest || segment.declared_lost;
                (!segment.sacked && !segment.resent && is_below && *index >= self.high_rxt).then_some(*index)
            };
            self.segments.iter().filter_map(open)
        }

        fn acknowledge(&mut self, end: u64) -> u64 {
            let before = self.unsacked();
            self.una = self.una.max(end);
            self.high_rxt = self.high_rxt.max(end);
            self.segments = self.segments.split_off(&self.una);
            before - self.unsacked()
        }

        fn sack(&mut self, range: Range<u64>) -> u64 {
            let before = self.unsacked();
            let range = range.start.max(self.una)..range.end.min(self.next).max(range.start.max(self.una));
            self.segments.range_mut(range).for_each(|(_, segment)| segment.sacked = true);
            before - self.unsacked()
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Push(u32),
        Acknowledge(u64),
        Sack(u64, u64),
        ResendLost,
        ResendHole,
        Rescue,
        Timeout,
        LoseFirst,
        Renege,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (24u32..1472).prop_map(Step::Push),
            2 => (0u64..6).prop_map(Step::Acknowledge),
            4 => (0u64..30, 1u64..5).prop_map(|(at, len)| Step::Sack(at, len)),
            3 => Just(Step::ResendLost),
            1 => Just(Step::ResendHole),
            1 => Just(Step::Rescue),
            1 => Just(Step::Timeout),
            1 => Just(Step::LoseFirst),
            1 => Just(Step::Renege),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_the_rfc_word_for_word(steps in prop::collection::vec(step(), 0..200)) {
            let (mut board, mut model) = (Scoreboard::new(), Model::default());
            for (number, step) in steps.into_iter().enumerate() {
                let (number, now) = (number as u64, Time(number as u64));
                let mut news = News::default();
                match step {
                    Step::Push(weight) => {
                        board.push(number, now, weight, number);
                        let segment = Segment { weight: weight.into(), ..Segment::default() };
                        model.segments.insert(model.next, segment);
                        model.next += 1;
                    }
                    Step::Acknowledge(by) => {
                        let end = (model.una + by).min(model.next);
                        board.acknowledge(end, &mut news);
                        prop_assert_eq!(news.delivered, model.acknowledge(end));
                    }
                    Step::Sack(at, len) => {
                        let range = model.una + at..model.una + at + len;
                        board.sack(range.clone(), &mut news);
                        prop_assert_eq!(news.delivered, model.sack(range));
                        let lost = |model: &Model| {
                            let is_lost = |i: &&u64| model.is_lost(**i) && !model.segments[*i].sacked;
                            model.segments.keys().filter(is_lost).count()
                        };
                        board.find_lost();
                        prop_assert_eq!(board.is_first_lost(), lost(&model) > 0 && {
                            let first = model.segments[&model.una];
                            !first.sacked && model.is_lost(model.una)
                        });
                    }
                    Step::ResendLost => {
                        let expected = model.holes().find(|index| model.is_lost(*index));
                        prop_assert_eq!(board.next_lost(), expected);
                        if let Some(index) = expected {
                            board.resend(index, number, now, number);
                            model.segments.get_mut(&index).unwrap().resent = true;
                            model.high_rxt = index + 1;
                        }
                    }
                    Step::ResendHole if board.next_lost().is_none() => {
                        let expected = model.holes().next();
                        prop_assert_eq!(board.next_hole(), expected);
                        if let Some(index) = expected {
                            board.resend(index, number, now, number);
                            model.segments.get_mut(&index).unwrap().resent = true;
                            model.high_rxt = index + 1;
                        }
                    }
                    Step::Rescue if board.next_lost().is_none() => {
                        let mut open = model.segments.range(model.high_rxt..).rev();
                        let expected = open.find(|(_, segment)| !segment.sacked).filter(|(_, s)| !s.resent);
                        if let Some(index) = expected.map(|(index, _)| *index) {
                            prop_assert_eq!(board.last_unsacked(), Some(index));
                            board.rescue(index, number, now, number);
                            model.segments.get_mut(&index).unwrap().resent = true;
                        }
                    }
                    Step::Timeout => {
                        prop_assert_eq!(board.lose_all(), model.unsacked());
                        model.high_rxt = model.una;
                        for segment in model.segments.values_mut() {
                            (segment.declared_lost, segment.resent) = (true, false);
                        }
                    }
                    Step::LoseFirst if model.segments.values().all(|segment| !segment.sacked) => {
                        board.lose_first();
                        model.high_rxt = model.una;
                        if let Some(mut first) = model.segments.first_entry() {
                            let first = first.get_mut();
                            (first.declared_lost, first.resent) = (true, false);
                        }
                    }
                    Step::Renege if board.is_reneged() => {
                        board.forget_sacked();
                        board.lose_all();
                        model.high_rxt = model.una;
                        for segment in model.segments.values_mut() {
                            *segment = Segment { weight: segment.weight, declared_lost: true, ..Segment::default() };
                        }
                    }
                    _ => {}
                }
                prop_assert_eq!((board.una(), board.next()), (model.una, model.next));
                prop_assert_eq!(board.unsacked(), model.unsacked());
                prop_assert_eq!(board.pipe(), model.pipe());
            }
        }
    }

    #[test]
    fn the_newest_of_what_arrived_is_told() {
        let (mut board, mut news) = (Scoreboard::new(), News::default());
        (0..5).for_each(|n| board.push(n, Time(n * 10), 100, n * 100 + 100));
        board.sack(3..4, &mut news);
        let latest = news.latest.unwrap();
        assert_eq!((latest.number, latest.time, latest.covered), (3, Time(30), 400));
        assert!(!latest.is_ambiguous);
        board.resend(0, 5, Time(70), 600);
        let mut news = News::default();
        board.acknowledge(2, &mut news);
        let latest = news.latest.unwrap();
        assert_eq!((latest.number, latest.is_ambiguous, news.delivered), (5, true, 200));
    }
}
