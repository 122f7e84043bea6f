//! What the receiver claims to have: held back until the claim is settled.

use super::Sender;
use crate::endpoint::Source;
use crate::ranges::Ranges;
use std::ops::Range;

impl<S: Source> Sender<S> {
    /// The receiver claims to have these bytes as well. No packet that touches them is sent before each claim is
    /// [settled](Sender::settle): one that was sent too early would have to be taken back.
    pub fn hold(&mut self, claimed: &Ranges) {
        self.claimed.extend(claimed.iter().cloned());
        for range in claimed.iter() {
            self.busy.insert_range(self.config.shape.packets_touching(range));
        }
    }

    /// Hold back whatever touches a claim within `bytes`.
    pub(super) fn hold_within(&mut self, bytes: &Range<u64>) {
        for range in self.claimed.overlapping(bytes) {
            self.busy.insert_range(self.config.shape.packets_touching(range));
        }
    }

    /// The receiver has these bytes, as it claimed (`confirmed`), and not those (`refused`), which are to be sent.
    pub fn settle(&mut self, confirmed: &Ranges, refused: &Ranges) {
        // Not by what is acknowledged: an acknowledgement may have told of it before.
        let before = self.tried.count();
        self.skip(confirmed);
        let spared = self.tried.count() - before;
        self.packets_required = self.packets_required.saturating_sub(spared);
        for range in refused.iter() {
            self.claimed.remove(range.clone());
            let packets = self.config.shape.packets_touching(range);
            self.busy.remove_range(packets.clone());
            self.hold_within(&self.config.shape.bytes(packets));
        }
    }

    /// How many pieces the sets have of what the receiver has, and claims to have.
    pub fn pieces(&self) -> usize {
        self.config.have.len() + self.claimed.len()
    }

    /// The receiver does not need these bytes any more.
    pub fn skip(&mut self, ranges: &Ranges) {
        let shape = self.config.shape;
        for range in ranges.iter() {
            self.claimed.remove(range.clone());
            self.config.have.insert(range.clone());
        }
        for range in ranges.iter() {
            // Together with what lies around it: a packet may cross the border of two ranges.
            let Some(whole) = self.config.have.get(&range.start) else { continue };
            let (within, touching) = (shape.packets_within(whole), shape.packets_touching(range));
            let packets = within.start.max(touching.start)..within.end.min(touching.end);
            for map in [&mut self.acked, &mut self.busy, &mut self.tried] {
                map.insert_range(packets.clone());
            }
            // What crosses the border to something else that is needed was held back with this.
            for packet in [touching.start, touching.end.saturating_sub(1)] {
                let is_held = self.claimed.overlaps(&shape.range(packet));
                if !touching.is_empty() && !is_held && !self.acked.contains(packet) {
                    self.busy.remove(packet);
                }
            }
        }
        self.check_complete();
    }
}
