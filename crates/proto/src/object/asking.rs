//! Asking the receiver for its bitmap at the end of a round (RBUDP: "done with round k", answered with the bitmap).
//!
//! The selector `rounds` sends every missing packet once. Then the sender asks for the bitmap with a datagram of its
//! own (`REQUEST`), and the next round begins when all of it has come: `T ≈ S/R + rounds · RTT`. A receiver that
//! acknowledges only when asked still sends something every 200 ms: otherwise a long round would look like a dead path.

use crate::ranges::Ranges;
use crate::units::{DatagramNumber, PacketNumber, Time};
use crate::wire::{Ack, Request};
use core::time::Duration;

/// The sender's side of it. A question, or a part of the answer, may get lost: after a while it is asked again, from
/// the first packet that no part of the answer spoke of.
#[derive(Debug)]
pub struct Asking {
    class: u8,
    packets: u64,
    /// The round that goes on or is asked about, counted from 1.
    round: u32,
    /// Packets that parts of the answer spoke of.
    answered: Ranges,
    /// Questions in a row that nobody answered.
    unanswered: u32,
    ask_at: Time,
    /// The last question's datagram, and when it left.
    asked: Option<(DatagramNumber, Time)>,
}

impl Asking {
    /// In the first round.
    pub fn new(class: u8, packets: u64) -> Asking {
        let answered = Ranges::new();
        Asking { class, packets, round: 1, answered, unanswered: 0, ask_at: Time::ZERO, asked: None }
    }

    /// From now on there are so many packets.
    pub fn grow(&mut self, packets: u64) {
        self.packets = packets;
    }

    /// From now on there are so many packets of another length, of which nothing has been told.
    pub fn cut(&mut self, class: u8, packets: u64) {
        (self.class, self.packets, self.answered) = (class, packets, Ranges::new());
    }

    /// The round that goes on, counted from 1.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// When to ask.
    pub fn ask_at(&self) -> Time {
        self.ask_at
    }

    /// When the question left in datagram `number`.
    pub fn sent_time(&self, number: DatagramNumber) -> Option<Time> {
        self.asked.filter(|(asked, _)| *asked == number).map(|(_, sent)| sent)
    }

    /// The question goes out now as datagram `number`; with `patience` it is repeated.
    pub fn ask(&mut self, now: Time, number: DatagramNumber, patience: Duration) -> Request {
        self.asked = Some((number, now));
        self.ask_at = now + (patience * (1 << self.unanswered.min(6))).min(patience.max(PATIENCE_MAX));
        self.unanswered += 1;
        let from = self.first_gap().unwrap_or(self.packets);
        Request { class: self.class, round: self.round, from }
    }

    /// An acknowledgement may be a part of the answer. True if it completes it: the next round begins.
    pub fn hear(&mut self, now: Time, ack: &Ack, patience: Duration) -> bool {
        let Some(answer) = ack.answer.filter(|answer| answer.round == self.round) else { return false };
        let slice_end = ack.slice_start.saturating_add(64 * ack.slice.len() as u64);
        let rest = if answer.last { slice_end.max(ack.low)..self.packets } else { 0..0 };
        for part in [0..ack.low, ack.slice_start..slice_end, rest] {
            if !part.is_empty() {
                self.answered.insert(part);
            }
        }
        (self.unanswered, self.ask_at) = (0, now + patience);
        if self.first_gap().is_some() {
            return false;
        }
        self.round = self.round.saturating_add(1);
        self.answered = Ranges::new();
        self.ask_at = Time::ZERO;
        true
    }

    fn first_gap(&self) -> Option<PacketNumber> {
        self.answered.gaps(&(0..self.packets)).next().map(|gap| gap.start)
    }
}

/// After an outage the question is repeated at least this often.
const PATIENCE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Answer;

    const PATIENCE: Duration = Duration::from_millis(100);

    fn part(round: u32, low: u64, slice_start: u64, words: usize, last: bool) -> Ack {
        let answer = Some(Answer { round, last });
        Ack { answer, low, slice_start, slice: vec![0; words], ..Ack::default() }
    }

    #[test]
    fn the_first_part_that_is_missing_is_asked_for_again() {
        let mut asking = Asking::new(3, 1000);
        let now = Time::from_millis(5);
        assert_eq!(asking.ask(now, 70, PATIENCE), Request { class: 3, round: 1, from: 0 });
        assert_eq!((asking.sent_time(70), asking.sent_time(69)), (Some(now), None));
        assert!(!asking.hear(now, &part(1, 10, 0, 2, false), PATIENCE));
        assert!(!asking.hear(now, &part(1, 10, 256, 2, false), PATIENCE), "packets 128 to 255 are missing");
        assert!(!asking.hear(now, &part(1, 10, 384, 2, true), PATIENCE));
        assert_eq!(asking.ask(now, 71, PATIENCE).from, 128);
        assert!(asking.hear(now, &part(1, 10, 128, 2, false), PATIENCE));
        assert_eq!(asking.ask(now, 72, PATIENCE), Request { class: 3, round: 2, from: 0 });
    }

    #[test]
    fn only_an_answer_to_the_question_counts() {
        let mut asking = Asking::new(0, 100);
        asking.ask(Time::ZERO, 0, PATIENCE);
        let now = Time::from_millis(1);
        assert!(!asking.hear(now, &Ack { low: 100, ..Ack::default() }, PATIENCE));
        assert!(!asking.hear(now, &part(2, 0, 0, 2, true), PATIENCE), "of another round");
        assert_eq!(asking.ask_at(), Time::ZERO + PATIENCE);
        assert!(asking.hear(now, &part(1, 0, 0, 0, true), PATIENCE), "nothing has come in at all");
    }

    #[test]
    fn silence_makes_it_ask_ever_less_often() {
        let mut asking = Asking::new(0, 100);
        let mut gaps = vec![];
        for number in 0..6 {
            let now = asking.ask_at();
            asking.ask(now, number, PATIENCE);
            gaps.push(asking.ask_at().since(now).as_millis());
        }
        assert_eq!(gaps, [100, 200, 400, 800, 1000, 1000]);
    }
}
