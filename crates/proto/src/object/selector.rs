//! Which packet goes next.

use crate::bitmap::Bitmap;
use crate::suggest::UnknownName;
use crate::units::PacketNumber;
use core::fmt;
use core::str::FromStr;

/// What a selector sees.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// Packets that the receiver has.
    pub acked: &'a Bitmap,
    /// Packets that the receiver has or that are on their way.
    pub busy: &'a Bitmap,
}

/// Picks the next packet of those that the receiver has not. FOBS §3.1, third phase: "some user-defined algorithm".
pub trait Selector: fmt::Debug + Send {
    /// The packet to send now, if any.
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber>;

    /// For a selector that works in rounds: whether this one is over, so that nothing more goes before the receiver was
    /// asked what it has and [`start_round`](Selector::start_round) was called. `None`: it does not work in rounds.
    fn round_is_over(&self) -> Option<bool> {
        None
    }

    /// The receiver has answered.
    fn start_round(&mut self) {}
}

/// The selectors there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectorKind {
    /// Circular, leaving out packets that are still on their way, and going back for lost ones every few thousand
    /// packets rather than once around the whole object: files complete soon and the map stays small.
    #[default]
    Circular,
    /// The paper's: round and round over everything unacknowledged; nothing twice before all else went once.
    CircularStrict,
    /// Always the lowest packet that is neither acknowledged nor on its way.
    Sequential,
    /// Any packet that is neither acknowledged nor on its way.
    Random,
    /// RBUDP's: every missing packet once; then ask the receiver which still are, and begin again.
    Rounds,
}

impl SelectorKind {
    /// Every kind, in the order of a help text.
    pub const ALL: [SelectorKind; 5] = [
        SelectorKind::Circular,
        SelectorKind::CircularStrict,
        SelectorKind::Sequential,
        SelectorKind::Random,
        SelectorKind::Rounds,
    ];

    /// The name that the command line uses.
    pub fn name(self) -> &'static str {
        match self {
            SelectorKind::Circular => "circular",
            SelectorKind::CircularStrict => "circular-strict",
            SelectorKind::Sequential => "sequential",
            SelectorKind::Random => "random",
            SelectorKind::Rounds => "rounds",
        }
    }

    /// What it is, in a line of a help text.
    pub fn summary(self) -> &'static str {
        match self {
            SelectorKind::Circular => "In a circle, skipping what may still be under way",
            SelectorKind::CircularStrict => "In a circle exactly as in the FOBS paper",
            SelectorKind::Sequential => "The lowest first",
            SelectorKind::Random => "Any",
            SelectorKind::Rounds => "Every missing one once, then ask which still are (RBUDP)",
        }
    }

    /// Make one; `seed` feeds the random one.
    pub fn build(self, seed: u64) -> Box<dyn Selector> {
        match self {
            SelectorKind::Circular => Box::new(Circular { cursor: 0, since_wrap: 0 }),
            SelectorKind::CircularStrict => Box::new(CircularStrict { cursor: 0 }),
            SelectorKind::Sequential => Box::new(Sequential),
            SelectorKind::Random => Box::new(Random { rng: fastrand::Rng::with_seed(seed) }),
            SelectorKind::Rounds => Box::new(Rounds { cursor: 0, is_over: false }),
        }
    }
}

impl FromStr for SelectorKind {
    type Err = UnknownName;
    fn from_str(name: &str) -> Result<SelectorKind, UnknownName> {
        SelectorKind::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            UnknownName::new("selector", name, SelectorKind::ALL.iter().map(|kind| kind.name()))
        })
    }
}

/// Packets sent ahead before the circular selector goes back for what was lost: some 20 MB. Far more than a round trip
/// holds on most paths, so that acknowledgements have come in; small enough that files complete soon after their data.
const LAP: u64 = 1 << 14;

#[derive(Debug)]
struct Circular {
    cursor: PacketNumber,
    since_wrap: u64,
}

impl Selector for Circular {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        if self.since_wrap >= LAP {
            (self.cursor, self.since_wrap) = (0, 0);
        }
        let packet = view.busy.next_missing(self.cursor).or_else(|| {
            self.since_wrap = 0;
            view.busy.next_missing(0)
        })?;
        self.cursor = packet + 1;
        self.since_wrap += 1;
        Some(packet)
    }
}

#[derive(Debug)]
struct CircularStrict {
    cursor: PacketNumber,
}

impl Selector for CircularStrict {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        let packet = view.acked.next_missing(self.cursor).or_else(|| view.acked.next_missing(0))?;
        self.cursor = packet + 1;
        Some(packet)
    }
}

#[derive(Debug)]
struct Sequential;

impl Selector for Sequential {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        view.busy.next_missing(0)
    }
}

#[derive(Debug)]
struct Random {
    rng: fastrand::Rng,
}

impl Selector for Random {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        let from = self.rng.u64(0..view.busy.len().max(1));
        view.busy.next_missing(from).or_else(|| view.busy.next_missing(0))
    }
}

#[derive(Debug)]
struct Rounds {
    cursor: PacketNumber,
    is_over: bool,
}

impl Selector for Rounds {
    fn next(&mut self, view: View<'_>) -> Option<PacketNumber> {
        match view.acked.next_missing(self.cursor) {
            Some(packet) => {
                self.cursor = packet + 1;
                Some(packet)
            }
            None => {
                self.is_over = true;
                None
            }
        }
    }

    fn round_is_over(&self) -> Option<bool> {
        Some(self.is_over)
    }

    fn start_round(&mut self) {
        (self.cursor, self.is_over) = (0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Drive a selector to the end; `lost` says which sends get lost. Returns the order of sends.
    fn drive(kind: SelectorKind, len: u64, lost: impl Fn(usize) -> bool) -> Vec<PacketNumber> {
        let mut selector = kind.build(7);
        let (mut acked, mut busy, mut order) = (Bitmap::new(len), Bitmap::new(len), vec![]);
        loop {
            let Some(packet) = selector.next(View { acked: &acked, busy: &busy }) else {
                if acked.is_full() {
                    return order;
                }
                assert_eq!(selector.round_is_over(), Some(true), "nothing to send and nothing to ask");
                selector.start_round();
                continue;
            };
            assert!(!acked.contains(packet), "sent what the receiver has");
            if !lost(order.len()) {
                acked.insert(packet);
                busy.insert(packet);
            }
            order.push(packet);
        }
    }

    proptest! {
        #[test]
        fn every_selector_delivers_everything(len in 0u64..3000, seed: u64) {
            for kind in SelectorKind::ALL {
                let mut rng = fastrand::Rng::with_seed(seed);
                let losses: Vec<bool> = (0..2000).map(|_| rng.u32(0..100) < 30).collect();
                let order = drive(kind, len, |i| losses.get(i).copied().unwrap_or(false));
                prop_assert!(order.len() as u64 >= len);
            }
        }

        #[test]
        fn strict_order_never_resends_before_all_went_as_often(len in 1u64..300, seed: u64) {
            // FOBS §3.1: an (n+1)th resend only after all other unacknowledged packets went out n times.
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut selector = SelectorKind::CircularStrict.build(0);
            let mut acked = Bitmap::new(len);
            let mut times = vec![0u32; len as usize];
            while let Some(packet) = selector.next(View { acked: &acked, busy: &acked }) {
                let least = (0..len).filter(|p| !acked.contains(*p)).map(|p| times[p as usize]).min().unwrap();
                prop_assert_eq!(times[packet as usize], least);
                times[packet as usize] += 1;
                if rng.bool() { acked.insert(rng.u64(0..len)); }
            }
        }
    }

    proptest! {
        #[test]
        fn a_round_sends_each_missing_packet_once_and_no_other(len in 1u64..1000, seed: u64) {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut selector = SelectorKind::Rounds.build(0);
            let mut acked = Bitmap::new(len);
            (0..len).filter(|_| rng.u32(0..10) == 0).for_each(|packet| { acked.insert(packet); });
            while !acked.is_full() {
                prop_assert_eq!(selector.round_is_over(), Some(false));
                let missing: Vec<_> = (0..len).filter(|packet| !acked.contains(*packet)).collect();
                // Nothing is heard while a round goes on, so `acked` stays.
                let view = View { acked: &acked, busy: &acked };
                let sent: Vec<_> = std::iter::from_fn(|| selector.next(view)).collect();
                prop_assert_eq!(&sent, &missing);
                prop_assert_eq!(selector.next(view), None, "it waits for the answer");
                prop_assert_eq!(selector.round_is_over(), Some(true));
                sent.into_iter().filter(|_| rng.bool()).for_each(|packet| { acked.insert(packet); });
                selector.start_round();
            }
        }
    }

    #[test]
    fn circular_returns_for_losses_after_a_lap() {
        let order = drive(SelectorKind::Circular, 3 * LAP, |i| i == 5);
        let again = order.iter().skip(6).position(|p| *p == 5).unwrap() as u64;
        assert!(again <= LAP, "resent after {again} packets");
    }

    #[test]
    fn names_are_read_back_and_unknown_ones_listed() {
        for kind in SelectorKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        assert!("spiral".parse::<SelectorKind>().unwrap_err().to_string().contains("circular-strict"));
    }
}
