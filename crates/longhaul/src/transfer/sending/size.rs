//! The size of the datagrams that carry the data, while they do: it changes with what passes.

use super::{Feed, Sending, packet_len};
use longhaul_proto::object::Blocked;
use longhaul_proto::plpmtud::{Look, Plpmtud};
use longhaul_proto::session::transport::Carrier;
use longhaul_proto::units::Time;

/// What is known of it.
pub struct Size {
    search: Plpmtud,
    /// Was found to be the one to use, and is not in use yet.
    next: Option<u8>,
}

impl Size {
    /// Of so many sizes this one passes.
    pub fn new(class: u8, classes: usize, now: Time) -> Size {
        Size { search: Plpmtud::new(class, classes, now), next: None }
    }

    /// Datagrams carry the data again, which they did not for a while: of what passes nothing is known.
    pub fn doubt(&mut self, now: Time) {
        self.search.doubt(now);
    }

    /// Use this one.
    pub fn want(&mut self, class: u8) {
        self.next = Some(class);
    }

    /// When to look again at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.search.poll_timeout()
    }
}

impl<F: Feed> Sending<'_, '_, F> {
    /// The class of the size in use.
    pub(super) fn class(&self) -> u8 {
        let mut classes = self.session.options.classes.iter();
        classes.position(|len| usize::from(*len) == self.datagram_len).unwrap_or(0) as u8
    }

    /// Another size is to be used as soon as the receiver has said what it needs of all that was listed.
    pub(super) fn is_between_sizes(&self) -> bool {
        self.size.next.is_some() && self.carrier.current() == Carrier::Object
    }

    /// Find out which size passes, and use that.
    pub(super) fn tend_size(&mut self, now: Time) {
        let is_refused = self.session.link.take_too_long();
        if self.carrier.current() != Carrier::Object || self.sender.paths() > 1 {
            // Of several paths that which passes no more falls silent, and the others go on.
            self.size.search.rest();
            return;
        }
        if self.sender.blocked() == Blocked::Done || self.sender.is_paused() {
            self.size.search.rest();
        } else {
            self.search_size(now, is_refused);
        }
        if let Some(class) = self.size.next {
            self.change_size(class);
        }
        self.session.run_check(now);
    }

    fn search_size(&mut self, now: Time, is_refused: bool) {
        let look = Look {
            now,
            rtt: self.sender.rtt().smoothed(),
            is_in_vain: self.sender.is_in_vain(),
            is_refused,
            proven: self.sender.proven(),
        };
        if let Some(class) = self.size.search.look(&look, &mut self.session.check) {
            self.size.next = Some(class);
        }
    }

    /// Cut what is left of the object for datagrams of this size. The way is most likely another one, of which nothing is known:
    /// the controller sends a train of its own.
    fn change_size(&mut self, class: u8) {
        let datagram_len = self.session.options.classes[usize::from(class)];
        let before = self.sender.shape();
        let Some((shape, more)) = self.sender.source_mut().recut(before, packet_len(datagram_len)) else {
            return;
        };
        self.size.next = None;
        let control = &mut self.carrier.control;
        (control.config.datagram_len, control.config.path_rate) = (datagram_len.into(), None);
        self.sender.cut(class, shape, &more, control.build(None));
        let passed = std::mem::replace(&mut self.datagram_len, usize::from(datagram_len));
        let line = if usize::from(datagram_len) < passed {
            format!("datagrams of {passed} bytes no longer pass: going on with {datagram_len} bytes")
        } else {
            format!("datagrams of {datagram_len} bytes pass: going on with them (before: {passed} bytes)")
        };
        self.session.remark(line.clone());
        self.remarks.push(line);
    }
}
