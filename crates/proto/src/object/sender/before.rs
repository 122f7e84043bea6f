//! Datagrams of before there was a sender: what went together with the offer.

use super::Sender;
use super::marking::Marking;
use crate::control::Sent;
use crate::endpoint::Source;
use crate::units::Time;

impl<S: Source> Sender<S> {
    /// Packets 0, 1, … of this very cut went at these times, as the datagrams 0, 1, …
    pub fn take_over(&mut self, sent: &[Time]) {
        let bytes = self.datagram_len();
        for (packet, now) in (0..self.config.shape.packets()).zip(sent.iter().copied()) {
            let number = self.flight.push(packet, now, false, false);
            self.tried.insert(packet);
            self.busy.insert(packet);
            self.stats.packets_sent += 1;
            self.last_sent = now;
            let in_flight = self.flight.in_datagrams() * bytes;
            self.controller.on_sent(&Sent { now, number, bytes, in_train: false, in_flight });
        }
        self.sent_before = self.flight.in_datagrams();
        self.marking = Marking::from(self.config.ecn, self.flight.next_number());
    }

    /// The same where they count for nothing: the object is cut otherwise now, or the receiver has dropped them.
    pub fn write_off(&mut self, sent: &[Time]) {
        for now in sent {
            self.flight.push_empty(*now);
        }
        self.stats.packets_sent += sent.len() as u64;
        self.cut_from = self.flight.next_number();
        self.marking = Marking::from(self.config.ecn, self.cut_from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bitmap::Bitmap;
    use crate::control::{AckSample, Controller};
    use crate::ecn::Ecn;
    use crate::endpoint::{Arrival, Endpoint};
    use crate::object::{
        AckKind, DEFAULT_EVERY, Receiver, ReceiverConfig, SelectorKind, SenderConfig, Shape,
    };
    use crate::ranges::Ranges;
    use crate::units::{DatagramNumber, Rate};
    use crate::wire;
    use core::time::Duration;

    const SHAPE: Shape = Shape { object_len: 30_000, packet_len: 1000 };
    const RTT: Duration = Duration::from_millis(20);
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
        (0..SHAPE.object_len).map(|at| (at / 7) as u8).collect()
    }

    fn sender() -> Sender<Vec<u8>> {
        let config = SenderConfig {
            shape: SHAPE,
            class: 1,
            selector: SelectorKind::default(),
            rate_cap: None,
            rtt: RTT,
            have: Ranges::default(),
            ecn: Ecn::NotEct,
            seed: 1,
        };
        Sender::new(config, object(), Box::new(Narrow))
    }

    fn receiver() -> Receiver<Vec<u8>> {
        let ack = AckKind::Every(DEFAULT_EVERY).policy(RTT);
        Receiver::new(
            ReceiverConfig { shape: SHAPE, class: 1, ack, have: Ranges::default(), max_body: 1169 },
            vec![0; SHAPE.object_len as usize],
        )
    }

    fn before() -> Vec<Time> {
        (1..=BEFORE).map(Time::from_millis).collect()
    }

    /// What goes until nothing may.
    fn drain(sender: &mut Sender<Vec<u8>>, now: Time) -> Vec<(DatagramNumber, Vec<u8>)> {
        let (mut buf, mut sent) = (vec![0; 2000], vec![]);
        while let Some(transmit) = sender.poll_transmit(now, &mut buf) {
            sent.push((transmit.number, buf[..transmit.len].to_vec()));
        }
        sent
    }

    fn take(receiver: &mut Receiver<Vec<u8>>, now: Time, number: DatagramNumber, body: &[u8]) {
        receiver.handle_datagram(now, Arrival::new(now, number), body);
    }

    fn answer(receiver: &mut Receiver<Vec<u8>>, sender: &mut Sender<Vec<u8>>, now: Time) {
        receiver.handle_timeout(now);
        let mut buf = vec![0; 1169];
        while let Some(ack) = receiver.poll_transmit(now, &mut buf) {
            sender.handle_datagram(now, Arrival::new(now, ack.number), &buf[..ack.len]);
        }
    }

    #[test]
    fn what_went_before_is_on_its_way_and_leaves_the_window_to_what_follows() {
        let (mut sender, mut receiver) = (sender(), receiver());
        sender.take_over(&before());
        let now = Time::from_millis(20);
        let sent = drain(&mut sender, now);
        assert_eq!(sent.iter().map(|(number, _)| *number).collect::<Vec<_>>(), (10..25).collect::<Vec<_>>());
        for packet in 0..BEFORE {
            let mut body = vec![0; wire::DATA_PREFIX];
            wire::encode_data_prefix(&mut body, 1, false, packet);
            body.extend(&object()[packet as usize * 1000..][..1000]);
            take(&mut receiver, now, packet, &body);
        }
        sent.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
        let now = now + RTT;
        answer(&mut receiver, &mut sender, now);
        assert_eq!(sender.acked(), 25, "all that was sent, once");
        let rest = drain(&mut sender, now);
        rest.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
        answer(&mut receiver, &mut sender, now + RTT);
        assert_eq!((sender.acked(), sender.stats().packets_sent, sender.stats().packets_resent), (30, 30, 0));
        assert_eq!(*receiver.sink_mut(), object());
    }

    #[test]
    fn what_was_lost_of_it_is_sent_again() {
        let (mut sender, mut receiver) = (sender(), receiver());
        sender.take_over(&before());
        let mut now = Time::from_millis(20);
        while sender.acked() < 30 {
            let sent = drain(&mut sender, now);
            sent.iter().for_each(|(number, body)| take(&mut receiver, now, *number, body));
            now = now + RTT;
            answer(&mut receiver, &mut sender, now);
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
        let (mut sender, mut receiver) = (sender(), receiver());
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
            answer(&mut receiver, &mut sender, now);
            assert!(now < Time::from_millis(2000), "{} of 30", sender.acked());
        }
        assert_eq!(*receiver.sink_mut(), object());
        assert_eq!((sender.stats().packets_sent, sender.stats().packets_resent), (40, 0));
    }
}
