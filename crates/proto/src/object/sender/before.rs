//! Datagrams of before there was a sender: what went together with the offer.

use super::Sender;
use super::marking::Marking;
use crate::endpoint::Source;
use crate::object::Blocked;
use crate::units::Time;

impl<S: Source> Sender<S> {
    /// Packets 0, 1, … of this very cut went at these times, as the datagrams 0, 1, …
    pub fn take_over(&mut self, sent: &[Time]) {
        for (packet, now) in (0..self.config.shape.packets()).zip(sent.iter().copied()) {
            self.note_sent(packet, now, false);
        }
        self.path.sent_before = self.path.flight.in_datagrams();
        self.begin_after();
    }

    /// The same where they count for nothing: the object is cut otherwise now, or the receiver has dropped them.
    pub fn write_off(&mut self, sent: &[Time]) {
        for now in sent {
            self.path.flight.push_empty(*now);
        }
        self.path.stats.packets_sent += sent.len() as u64;
        self.path.cut_from = self.path.flight.next_number();
        self.begin_after();
    }

    fn begin_after(&mut self) {
        self.path.marking = Marking::from(self.config.ecn, self.path.flight.next_number());
        // What is sent first was not due before there was a sender.
        if !self.complete {
            self.path.blocked = Blocked::Acks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Bitmap;
    use crate::control::{AckSample, ControlConfig, Controller, ControllerKind};
    use crate::endpoint::Endpoint;
    use crate::object::sender::testing::{RTT, acknowledge, drain, receiver, sender, take};
    use crate::units::Rate;
    use crate::wire;

    const BEFORE: u64 = 10;

    /// Room for fifteen datagrams on their way.
    #[derive(Debug)]
    struct Narrow;

    impl Controller for Narrow {
        fn on_ack(&mut self, _ack: &AckSample) {}

        fn pacing_rate(&self) -> Option<Rate> {
            None
        }

        fn window(&self) -> Option<u64> {
            Some(15 * (1000 + wire::DATA_OVERHEAD as u64))
        }
    }

    fn object() -> Vec<u8> {
        (0..30_000).map(|at| (at / 7) as u8).collect()
    }

    fn before() -> Vec<Time> {
        (1..=BEFORE).map(Time::from_millis).collect()
    }

    #[test]
    fn what_went_before_is_on_its_way_and_leaves_the_window_to_what_follows() {
        let (mut sender, mut receiver) = (sender(object(), Box::new(Narrow)), receiver(30_000));
        sender.take_over(&before());
        let now = Time::from_millis(20);
        let sent = drain(&mut sender, now);
        assert_eq!(sent.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (10..25).collect::<Vec<_>>());
        for packet in 0..BEFORE {
            let mut body = vec![0; wire::DATA_PREFIX];
            wire::encode_data_prefix(&mut body, 0, false, packet);
            body.extend(&object()[packet as usize * 1000..][..1000]);
            take(&mut receiver, now, packet, &body);
        }
        sent.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
        let now = now + RTT;
        acknowledge(&mut receiver, &mut sender, now);
        assert_eq!(sender.acked(), 25, "all that was sent, once");
        let rest = drain(&mut sender, now);
        rest.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
        acknowledge(&mut receiver, &mut sender, now + RTT);
        assert_eq!((sender.acked(), sender.stats().packets_sent, sender.stats().packets_resent), (30, 30, 0));
        assert_eq!(*receiver.sink_mut(), object());
    }

    #[test]
    fn what_was_lost_of_it_is_sent_again() {
        let (mut sender, mut receiver) = (sender(object(), Box::new(Narrow)), receiver(30_000));
        sender.take_over(&before());
        let mut now = Time::from_millis(20);
        while sender.acked() < 30 {
            let sent = drain(&mut sender, now);
            sent.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
            now = now + RTT;
            acknowledge(&mut receiver, &mut sender, now);
            if sender.poll_timeout().is_some_and(|at| now >= at) {
                sender.handle_timeout(now);
            }
            assert!(now < Time::from_millis(2000), "{} of 30", sender.acked());
        }
        assert_eq!(*receiver.sink_mut(), object());
        assert_eq!(sender.stats().packets_resent, BEFORE);
    }

    #[test]
    fn what_counts_for_nothing_is_sent_as_if_it_had_not_been() {
        let (mut sender, mut receiver) = (sender(object(), Box::new(Narrow)), receiver(30_000));
        sender.write_off(&before());
        let mut now = Time::from_millis(20);
        let mut numbers = Bitmap::new(100);
        while sender.acked() < 30 {
            for (number, body) in drain(&mut sender, now) {
                assert!(number >= BEFORE && !numbers.contains(number));
                numbers.insert(number);
                take(&mut receiver, now, number, &body);
            }
            now = now + RTT;
            acknowledge(&mut receiver, &mut sender, now);
            assert!(now < Time::from_millis(2000), "{} of 30", sender.acked());
        }
        assert_eq!(*receiver.sink_mut(), object());
        assert_eq!((sender.stats().packets_sent, sender.stats().packets_resent), (40, 0));
    }

    #[test]
    fn no_time_was_lost_before_there_was_a_sender() {
        let rate = Some(Rate::from_mbps(100.0));
        let paced = || ControllerKind::Fixed.build(ControlConfig { rate, ..ControlConfig::new(1038, RTT) });
        for counts in [true, false] {
            let mut sender = sender(object(), paced());
            if counts {
                sender.take_over(&before())
            } else {
                sender.write_off(&before())
            }
            let sent = drain(&mut sender, Time::from_millis(5000));
            assert_eq!((sent.len(), sender.time_lost()), (1, core::time::Duration::ZERO));
        }
    }
}
