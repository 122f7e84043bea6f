//! What a sender is told and what it tells.

use super::{SelectorKind, Shape};
use crate::ecn::Ecn;
use crate::ranges::Ranges;
use crate::units::{Rate, Time};
use core::time::Duration;

/// How to send.
#[derive(Clone, Debug)]
pub struct SenderConfig {
    /// How the object is cut.
    pub shape: Shape,
    /// Which of the negotiated sizes this is.
    pub class: u8,
    /// Which packet next.
    pub selector: SelectorKind,
    /// Never faster than this, whatever the controller says.
    pub rate_cap: Option<Rate>,
    /// Round trip measured beforehand.
    pub rtt: Duration,
    /// Object bytes that the receiver has or does not want.
    pub have: Ranges,
    /// What datagrams say of queues on the way, if the path shows that marks survive.
    pub ecn: Ecn,
    /// Seed of the random selector.
    pub seed: u64,
}

/// What a sender tells its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderEvent {
    /// The receiver has everything.
    Complete,
}

/// How datagrams travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Each by itself, and any may get lost: the controller sets the pace.
    Datagrams,
    /// In order over each of several reliable connections, which overtake each other and set the pace themselves.
    Streams,
}

/// Totals of the receiver's at a moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// Datagrams that came in.
    pub received: u64,
    /// Different packets.
    pub distinct: u64,
    /// Largest datagram number, plus one.
    pub covered: u64,
    /// Datagrams in TCP streams whose fate was not known.
    pub in_streams: u64,
    /// [`SenderStats::overruns`].
    pub overruns: u64,
    /// Datagrams that came in marked.
    pub marked: u64,
}

/// Why nothing can be sent at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// Something was sent just now.
    No,
    /// The controller's rate.
    Pacing,
    /// The user's cap on the rate.
    RateCap,
    /// The user has it pause.
    Paused,
    /// The controller's window.
    Window,
    /// The source has not read what is to go next.
    Source,
    /// All is on its way; waiting for acknowledgements.
    Acks,
    /// All is done.
    Done,
}

impl Blocked {
    /// Whether it is the pacer that says when to go on, so that coming late is coming late.
    pub(super) fn is_paced(self) -> bool {
        matches!(self, Blocked::No | Blocked::Pacing | Blocked::RateCap)
    }
}

/// Counters.
#[derive(Clone, Copy, Debug, Default)]
pub struct SenderStats {
    /// Packets that had to be delivered.
    pub packets_required: u64,
    /// Data datagrams sent.
    pub packets_sent: u64,
    /// Of those, carrying a packet sent before.
    pub packets_resent: u64,
    /// Of those sent, given to TCP streams.
    pub packets_by_streams: u64,
    /// Of those sent again, sent ahead of any sign of loss, at the end of the object.
    pub packets_hedged: u64,
    /// Datagrams given up as lost.
    pub given_up: u64,
    /// Of those, that came in after all.
    pub spurious: u64,
    /// Rounds begun, by a selector that works in rounds.
    pub rounds: u32,
    /// Questions for the receiver's map, repeated ones included.
    pub requests: u64,
    /// Acknowledgements taken in.
    pub acks: u64,
    /// Bodies that made no sense.
    pub malformed: u64,
    /// Datagrams that came in at the receiver, by its own count.
    pub received: u64,
    /// Different packets that the receiver has, by its own count.
    pub distinct: u64,
    /// Largest datagram number that came in, plus one.
    pub covered: u64,
    /// Datagrams dropped by the receiving host.
    pub receiver_drops: u64,
    /// Packets refused by a full sink.
    pub refused: u64,
    /// Datagrams that a queue had marked, by the receiver's count.
    pub marked: u64,
    /// How full the receiver's sink was at last, 0 to 255.
    pub pressure: u8,
    /// For how long the receiving host left datagrams lying for longer than any receiver waits of its own accord.
    pub receiver_late: Duration,
    /// Timeouts in a row without an acknowledgement.
    pub timeouts_in_a_row: u32,
    /// When the last acknowledgement with news came in.
    pub last_news: Time,
}

impl SenderStats {
    /// Those of two paths together. What the object as a whole has is not added up.
    pub(super) fn and(self, other: SenderStats) -> SenderStats {
        SenderStats {
            packets_required: self.packets_required,
            packets_sent: self.packets_sent + other.packets_sent,
            packets_resent: self.packets_resent + other.packets_resent,
            packets_by_streams: self.packets_by_streams + other.packets_by_streams,
            packets_hedged: self.packets_hedged + other.packets_hedged,
            given_up: self.given_up + other.given_up,
            spurious: self.spurious + other.spurious,
            rounds: self.rounds.max(other.rounds),
            requests: self.requests + other.requests,
            acks: self.acks + other.acks,
            malformed: self.malformed + other.malformed,
            received: self.received + other.received,
            distinct: self.distinct + other.distinct,
            covered: self.covered + other.covered,
            receiver_drops: self.receiver_drops + other.receiver_drops,
            refused: self.refused + other.refused,
            marked: self.marked + other.marked,
            pressure: self.pressure.max(other.pressure),
            receiver_late: self.receiver_late.max(other.receiver_late),
            timeouts_in_a_row: self.timeouts_in_a_row.min(other.timeouts_in_a_row),
            last_news: self.last_news.max(other.last_news),
        }
    }

    /// Datagrams that the path lost: all up to the newest that arrived, less those that arrived, less those that the receiving
    /// host dropped.
    pub fn path_losses(&self) -> u64 {
        self.covered.saturating_sub(self.received).saturating_sub(self.receiver_drops)
    }

    /// Datagrams that came to the receiving host and went no further.
    pub fn overruns(&self) -> u64 {
        self.receiver_drops.saturating_add(self.refused)
    }
}
