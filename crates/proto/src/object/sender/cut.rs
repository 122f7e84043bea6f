//! Cutting the object anew while it is on its way, because datagrams of another size pass.

use super::super::Shape;
use super::Sender;
use crate::control::Controller;
use crate::endpoint::Source;
use crate::ranges::Ranges;
use crate::units::Time;
use core::mem::take;
use std::ops::Range;

impl<S: Source> Sender<S> {
    /// From now on datagrams of size class `class` carry the packets of `shape`, at the pace of a controller that has heard
    /// nothing yet. Of the object `more` is not wanted, and nothing behind its end has been told before.
    ///
    /// The receiver learns of it from the first datagram that reaches it. What it has said to have stays: a packet of which it
    /// has a part goes again. What is on its way is forgotten.
    pub fn cut(&mut self, class: u8, shape: Shape, more: &Ranges, controller: Box<dyn Controller>) {
        let before = std::mem::replace(&mut self.config.shape, shape);
        let left = before.packets() - self.acked.count();
        let have = &mut self.config.have;
        if shape.object_len < u64::MAX {
            have.remove(shape.object_len..u64::MAX);
        }
        have.extend(more.iter().cloned());
        self.acked = shape.recut(&self.acked, &before, &self.config.have);
        self.tried = shape.recut(&self.tried, &before, &self.config.have);
        self.busy = self.acked.clone();
        let claimed = take(&mut self.claimed);
        self.hold(&claimed);
        self.packets_required =
            (self.packets_required + shape.packets() - self.acked.count()).saturating_sub(left);
        self.config.class = class;
        self.longest_before = self.longest_before.max(before.packet_len);
        self.path.flight.clear();
        self.path.cut_from = self.path.flight.next_number();
        self.asking.cut(class, shape.packets());
        self.selector = self.config.selector.build(self.config.seed);
        (self.pending, self.path.train_left, self.path.hedge_from) = (None, 0, 0);
        self.path.vanished = 0;
        self.go_by_datagrams(controller);
    }

    /// Whether datagrams of data seem to vanish, though others may come through.
    pub fn is_in_vain(&self) -> bool {
        self.path.stats.timeouts_in_a_row > 0 || self.path.vanished >= VANISHED
    }

    /// Before when the data left that is known to have come in.
    pub fn proven(&self) -> Time {
        self.path.proven
    }

    /// Whether the receiver is known to have got anything since the object was last cut.
    pub fn is_heard(&self) -> bool {
        self.path.stats.covered > self.path.cut_from || self.path.cut_from == 0
    }

    /// What the receiver may have taken back when it took back these bytes: it may not have known yet how the object is cut now.
    pub(super) fn widened(&self, bytes: &Range<u64>) -> Range<u64> {
        let by = u64::from(self.longest_before);
        bytes.start.saturating_sub(by)..bytes.end.saturating_add(by)
    }
}

/// Where the receiver speaks only when it is asked, no timeout tells that nothing comes in. More than the worst paths lose
/// in a row.
const VANISHED: u64 = 64;
