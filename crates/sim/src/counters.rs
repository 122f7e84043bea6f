//! What became of the datagrams of one direction.

use std::ops::AddAssign;

/// Datagrams of one direction, from the sending host's device to the receiving endpoint.
///
/// `sent + copied = delivered + dropped.total() + in flight`, at every moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Handed to the device by the sending endpoint.
    pub sent: u64,
    /// Their bytes, as whole IP packets.
    pub sent_bytes: u64,
    /// Handed to the receiving endpoint.
    pub delivered: u64,
    /// Their bytes, as whole IP packets.
    pub delivered_bytes: u64,
    /// Copies that the path made.
    pub copied: u64,
    /// Held back by the path for others to overtake.
    pub held_back: u64,
    /// Delivered after one with a higher number.
    pub reordered: u64,
    /// Delivered with wrong bytes.
    pub mutated: u64,
    /// Not delivered.
    pub dropped: Drops,
}

/// Datagrams that were not delivered, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// A queue had no room.
    pub queue: u64,
    /// A queue had room, but dropped it to stay short.
    pub managed: u64,
    /// Above the rate of a policer.
    pub policed: u64,
    /// Lost at random.
    pub loss: u64,
    /// Left the bottleneck during an outage.
    pub outage: u64,
    /// Larger than the MTU.
    pub oversize: u64,
    /// Arrived with wrong bytes, which do not authenticate.
    pub corrupt: u64,
    /// Its number had been seen, or was too old to tell.
    pub replay: u64,
    /// Its flow was removed before it arrived.
    pub gone: u64,
}

impl Drops {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.queue
            + self.managed
            + self.policed
            + self.loss
            + self.outage
            + self.oversize
            + self.corrupt
            + self.replay
            + self.gone
    }
}

impl AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        self.copied += other.copied;
        self.held_back += other.held_back;
        self.reordered += other.reordered;
        self.mutated += other.mutated;
        self.dropped += other.dropped;
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, other: Drops) {
        self.queue += other.queue;
        self.managed += other.managed;
        self.policed += other.policed;
        self.loss += other.loss;
        self.outage += other.outage;
        self.oversize += other.oversize;
        self.corrupt += other.corrupt;
        self.replay += other.replay;
        self.gone += other.gone;
    }
}
