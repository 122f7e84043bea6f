//! What is taken for lost, and when; and the two ways in which datagrams travel, over which that differs.

use super::super::sending::{Blocked, Channel, Totals};
use super::super::{AckPolicy, MAX_DELAY, STATUS_EVERY};
use super::marking::Marking;
use super::{STREAMS_SPAN, Sender, TIMEOUT_MAX};
use crate::control::{Controller, LossSample};
use crate::endpoint::Source;
use crate::units::{DatagramNumber, Time};
use core::time::Duration;
use std::ops::Range;

impl<S: Source> Sender<S> {
    /// From now on TCP streams carry what is sent: they decide the pace, and what they carry is lost only if
    /// [`Sender::lose`] says so.
    pub fn go_by_streams(&mut self) {
        self.path.channel = Channel::Streams;
        self.path.train_left = 0;
        // Over other paths nothing goes meanwhile, and nothing is to be waited for but what is on its way.
        self.others.iter_mut().for_each(|other| other.blocked = Blocked::Acks);
        self.path.marking.stop(self.path.flight.next_number());
    }

    /// From now on datagrams of their own carry it, at the pace of a controller that has heard nothing yet.
    pub fn go_by_datagrams(&mut self, controller: Box<dyn Controller>) {
        self.path.channel = Channel::Datagrams;
        self.path.controller = self.brief(controller);
        self.path.base = Totals {
            received: self.path.stats.received,
            distinct: self.path.stats.distinct,
            covered: self.path.flight.next_number(),
            in_streams: self.path.flight.in_streams(),
            overruns: self.path.stats.overruns(),
            marked: self.path.stats.marked,
        };
        self.path.marking = Marking::from(self.config.ecn, self.path.flight.next_number());
        self.path.told = Totals::default();
        self.path.episode_from = self.path.flight.next_number();
        self.path.stats.timeouts_in_a_row = 0;
        (self.path.app_limited, self.path.blocked) = (true, Blocked::Acks);
    }

    /// These datagrams will never come in: the TCP stream that had them is gone.
    pub fn lose(&mut self, numbers: Range<DatagramNumber>) {
        let (acked, busy) = (&self.acked, &mut self.busy);
        let in_streams = self.path.flight.in_streams();
        let lost = self.path.flight.lose(
            numbers,
            |packet| acked.contains(packet),
            |packet| {
                busy.remove(packet);
            },
        );
        self.path.stats.given_up += lost;
        // They do not count as landed.
        let from_streams = in_streams - self.path.flight.in_streams();
        self.path.base.in_streams = self.path.base.in_streams.saturating_sub(from_streams);
    }

    /// What a stream has held back for so many numbers the receiver takes for a replay when it comes: it goes again. What went by
    /// itself came after all that is in streams.
    pub(super) fn send_anew_what_streams_hold(&mut self) {
        let flight = &self.path.flight;
        if flight.in_streams() > 0 && flight.len() as u64 > STREAMS_SPAN {
            self.lose(0..self.path.base.covered.min(flight.next_number() - STREAMS_SPAN));
        }
    }

    /// Whether nothing is known yet of what became of this datagram.
    pub fn is_on_way(&self, number: DatagramNumber) -> bool {
        self.path.flight.is_on_way(number)
    }

    pub(super) fn give_up(&mut self, now: Time, below: DatagramNumber, deadline: Time) {
        let is_only = self.others.is_empty();
        let (acked, busy) = (&self.acked, &mut self.busy);
        let lost = self.path.flight.expire(
            below,
            deadline,
            is_only,
            |p| acked.contains(p),
            |p| {
                busy.remove(p);
            },
        );
        if lost.count > 0 {
            self.path.stats.given_up += lost.count;
            self.path.vanished += lost.count;
            let len = self.datagram_len();
            let in_flight = self.path.flight.in_datagrams() * len;
            let new_episode = lost.largest >= self.path.episode_from;
            if new_episode {
                self.path.episode_from = self.path.flight.next_number();
            }
            let lost_bytes = lost.count * len;
            if self.path.channel == Channel::Datagrams {
                self.path.controller.on_loss(&LossSample { now, lost_bytes, new_episode, in_flight });
            }
        }
    }

    /// How long the receiver may hold an acknowledgement back: one that waits to be asked says only now and then what
    /// has come in.
    pub(super) fn ack_delay_max(&self) -> Duration {
        if self.selector.round_is_over().is_some() { STATUS_EVERY } else { MAX_DELAY }
    }

    /// How long the oldest datagram may stay unacknowledged.
    pub(super) fn timeout(&self) -> Duration {
        let base = self.path.rtt.timeout(self.ack_delay_max());
        (base * (1 << self.path.stats.timeouts_in_a_row.min(6))).min(base.max(TIMEOUT_MAX))
    }

    pub(super) fn timeout_at(&self) -> Option<Time> {
        self.path.flight.oldest_by_udp().map(|(_, sent)| sent.max(self.path.stats.last_news) + self.timeout())
    }

    /// When a datagram is lost that later ones overtook, though nothing more was acknowledged since (RFC 8985 §6.2,
    /// step 5): had it only been late, the acknowledgement after the last would have told of it. Without this the
    /// losses among the last datagrams of an object would wait for the timeout.
    pub(super) fn overtaken_at(&self) -> Option<Time> {
        let waits_for_question = self.selector.round_is_over().is_some();
        let is_overtaken =
            self.path.flight.oldest_by_udp()?.0 + 1 < self.path.stats.covered && !waits_for_question;
        let ack_delay = AckPolicy::new(1, self.path.rtt.smoothed()).delay;
        is_overtaken.then(|| self.path.stats.last_news + self.path.reorder_window + ack_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Greedy;
    use crate::endpoint::Endpoint;
    use crate::object::sender::testing::{self, RTT, acknowledge, drain, take};
    use crate::object::{Receiver, ReceiverEvent};
    use crate::ranges::Ranges;

    fn sender() -> Sender<Vec<u8>> {
        testing::sender((0..100_000u32).map(|i| i as u8).collect(), Box::new(Greedy))
    }

    fn receiver() -> Receiver<Vec<u8>> {
        testing::receiver(100_000)
    }

    #[test]
    fn an_object_grows_while_it_is_on_its_way_and_ends_when_nothing_follows() {
        let (mut sender, mut receiver) = (sender(), receiver().growing());
        let now = Time::from_millis(1);
        let sent = drain(&mut sender, now);
        deliver(&mut sender, &mut receiver, now, &sent);
        assert_eq!((sender.acked(), receiver.poll_event()), (100, None), "there is more to come");
        // The receiver hears of what follows before the sender: what it says of it is not taken for nonsense.
        let bytes = |range| std::iter::once(range).collect::<Ranges>();
        let have = bytes(120_000..150_000);
        receiver.sink_mut().resize(200_000, 0);
        receiver.grow(200_000, &have, false);
        sender.source_mut().extend(vec![7; 100_000]);
        sender.grow(200_000, &have, &bytes(150_000..155_000));
        let now = now + RTT * 2;
        let sent = drain(&mut sender, now);
        assert_eq!(sent.len(), 65, "nothing that is had or claimed");
        deliver(&mut sender, &mut receiver, now, &sent);
        sender.settle(&bytes(150_000..155_000), &Ranges::new());
        receiver.skip(&bytes(150_000..155_000));
        assert_eq!((sender.acked(), sender.stats().packets_required), (200, 165));
        assert_eq!(receiver.poll_event(), None);
        receiver.grow(200_000, &Ranges::new(), true);
        assert_eq!(receiver.poll_event(), Some(ReceiverEvent::Complete));
        assert_eq!(receiver.sink_mut()[..120_000], sender.source_mut()[..120_000]);
        assert_eq!(receiver.sink_mut()[155_000..], sender.source_mut()[155_000..]);
    }

    /// Give the first 40 packets to TCP streams: numbers and bodies.
    fn fill_streams(sender: &mut Sender<Vec<u8>>, now: Time) -> Vec<(DatagramNumber, Vec<u8>)> {
        sender.go_by_streams();
        let mut buf = vec![0; 1100];
        let mut next = || {
            let transmit = sender.poll_transmit(now, &mut buf).expect("nothing holds it back");
            (transmit.number, buf[..transmit.len].to_vec())
        };
        (0..40).map(|_| next()).collect()
    }

    /// Hand over and acknowledge.
    fn deliver(
        sender: &mut Sender<Vec<u8>>,
        receiver: &mut Receiver<Vec<u8>>,
        now: Time,
        sent: &[(DatagramNumber, Vec<u8>)],
    ) {
        sent.iter().for_each(|(number, body)| take(receiver, now, *number, body));
        acknowledge(receiver, sender, now + RTT);
    }

    #[test]
    fn being_overtaken_means_nothing_in_a_stream_and_its_death_does() {
        let (mut sender, mut receiver) = (sender(), receiver());
        sender.go_by_streams();
        let start = Time::from_millis(100);
        let sent = drain(&mut sender, start);
        assert_eq!(sent.len(), 100, "nothing holds it back");
        // One of two TCP streams delivers all it has, the other nothing, for ten seconds.
        let (slow, fast): (Vec<_>, Vec<_>) = sent.into_iter().partition(|(number, _)| number % 2 == 0);
        deliver(&mut sender, &mut receiver, start + RTT, &fast);
        assert_eq!((sender.acked(), sender.poll_timeout()), (50, None));
        let late = start + Duration::from_secs(10);
        sender.handle_timeout(late);
        assert_eq!(drain(&mut sender, late), [], "all is on its way");
        for (number, _) in &slow {
            assert!(sender.is_on_way(*number));
        }
        sender.lose(0..100);
        let again = drain(&mut sender, late);
        assert_eq!(again.len(), 50, "what the dead stream had, and nothing else");
        deliver(&mut sender, &mut receiver, late, &again);
        assert_eq!(sender.acked(), 100);
        assert_eq!((sender.stats().packets_sent, sender.stats().packets_by_streams), (150, 150));
    }

    #[test]
    fn what_a_stream_took_with_it_does_not_count_as_landed() {
        let (mut sender, mut receiver) = (sender(), receiver());
        let start = Time::from_millis(100);
        fill_streams(&mut sender, start);
        sender.go_by_datagrams(Box::new(Greedy));
        sender.lose(0..40);
        let sent = drain(&mut sender, start);
        deliver(&mut sender, &mut receiver, start + RTT, &sent);
        assert_eq!(sender.acked(), 100);
        let told = (sender.path.told.received, sender.path.told.distinct);
        assert_eq!(told, (sent.len() as u64, 100), "all came over UDP");
    }

    #[test]
    fn what_a_stream_holds_back_goes_again_before_it_would_be_taken_for_a_replay() {
        let mut sender = testing::sender(vec![1; 60_000_000], Box::new(Greedy));
        let start = Time::from_millis(100);
        fill_streams(&mut sender, start);
        sender.go_by_datagrams(Box::new(Greedy));
        let mut buf = vec![0; 1100];
        while sender.poll_transmit(start, &mut buf).is_some() {}
        let stats = sender.stats();
        assert_eq!((stats.given_up, stats.packets_by_streams, sender.path.flight.in_streams()), (40, 40, 0));
        assert_eq!(stats.packets_sent - stats.packets_hedged, 60_040, "those 40 twice");
    }

    #[test]
    fn what_went_by_itself_is_missed_though_a_stream_has_older_ones() {
        let (mut sender, mut receiver) = (sender(), receiver());
        let start = Time::from_millis(100);
        fill_streams(&mut sender, start);
        sender.go_by_datagrams(Box::new(Greedy));
        assert_eq!(drain(&mut sender, start).len(), 60);
        let at = sender.poll_timeout().expect("silence is noticed");
        sender.handle_timeout(at);
        assert_eq!(sender.stats().timeouts_in_a_row, 1);
        let again = drain(&mut sender, at);
        deliver(&mut sender, &mut receiver, at + RTT, &again);
        assert_eq!(sender.acked(), 60);
    }

    #[test]
    fn what_streams_carry_is_no_loss_of_a_path_that_is_gone_back_to() {
        let (mut sender, mut receiver) = (sender(), receiver());
        let start = Time::from_millis(100);
        let mut buf = vec![0; 1100];
        let by_streams = fill_streams(&mut sender, start);
        sender.go_by_datagrams(Box::new(Greedy));
        sender.poll_transmit(start, &mut buf).unwrap();
        let sent = drain(&mut sender, start + RTT / 2);
        assert_eq!(sent.len(), 59);
        // That the first of them is lost over UDP is noticed although older ones are still in TCP streams.
        deliver(&mut sender, &mut receiver, start + RTT, &sent);
        assert_eq!((sender.acked(), sender.stats().given_up), (59, 1));
        let again = drain(&mut sender, start + RTT * 2);
        deliver(&mut sender, &mut receiver, start + RTT * 2, &again);
        assert!(sender.acked() >= 60, "it went again");
        deliver(&mut sender, &mut receiver, start + RTT * 3, &by_streams);
        assert_eq!((sender.acked(), sender.stats().given_up), (100, 1));
    }
}
