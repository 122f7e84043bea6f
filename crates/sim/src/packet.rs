//! Packets in flight.

use crate::ids::Side;
use fastrand::Rng;
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::DatagramNumber;

/// Whose packet it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Slot of the flow.
    pub slot: u32,
    /// Number of the flow; the slot may belong to another by now.
    pub serial: u32,
    /// The host that sent it.
    pub from: Side,
}

/// A datagram on its way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub owner: Owner,
    /// Hops that it has come out of.
    pub hops_passed: u16,
    pub number: DatagramNumber,
    /// Bytes of the whole IP packet.
    pub size: u32,
    /// What its IP header says.
    pub ecn: Ecn,
    /// It arrives with wrong bytes; the number says which.
    pub corrupt: Option<u64>,
    /// Bytes of the body.
    len: usize,
    /// The body without the zeros at its end: data that nobody looks at is all zeros, and takes no memory.
    body: Vec<u8>,
}

impl Packet {
    /// Write the body to the beginning of `zeros`, and return its length.
    pub(crate) fn unpack(&self, zeros: &mut [u8]) -> usize {
        zeros[..self.body.len()].copy_from_slice(&self.body);
        self.len
    }

    /// Undo [`Packet::unpack`].
    pub(crate) fn clear(&self, zeros: &mut [u8]) {
        zeros[..self.body.len()].fill(0);
    }
}

/// Holds the packets in flight in slots that are used again: memory follows the largest number in flight.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    slots: Vec<Packet>,
    free: Vec<u32>,
}

impl Packets {
    /// Keep a packet. Its body is taken out of the buffer, which is left with zeros.
    pub(crate) fn insert(
        &mut self,
        owner: Owner,
        number: DatagramNumber,
        (size, ecn): (u32, Ecn),
        body: &mut [u8],
    ) -> u32 {
        let slot = self.free.pop();
        // memory is used again
        let mut kept = slot.map_or(Vec::new(), |slot| std::mem::take(&mut self.slots[slot as usize].body));
        let len = body.len();
        let used = used_len(body);
        let used = &mut body[..used];
        kept.clear();
        kept.extend_from_slice(used);
        used.fill(0);
        let packet = Packet { owner, hops_passed: 0, number, size, ecn, corrupt: None, len, body: kept };
        match slot {
            Some(slot) => {
                self.slots[slot as usize] = packet;
                slot
            }
            None => self.append(packet),
        }
    }

    pub(crate) fn duplicate(&mut self, slot: u32) -> u32 {
        let copy = self.slots[slot as usize].clone();
        match self.free.pop() {
            Some(free) => {
                self.slots[free as usize] = copy;
                free
            }
            None => self.append(copy),
        }
    }

    fn append(&mut self, packet: Packet) -> u32 {
        self.slots.push(packet);
        u32::try_from(self.slots.len() - 1).expect("fewer than 2³² packets in flight")
    }

    pub(crate) fn get(&self, slot: u32) -> &Packet {
        &self.slots[slot as usize]
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Packet {
        &mut self.slots[slot as usize]
    }

    pub(crate) fn release(&mut self, slot: u32) {
        self.free.push(slot);
    }
}

/// Length without the zeros at the end.
fn used_len(body: &[u8]) -> usize {
    let rest = without_zeros(without_zeros(body, 1024), 64);
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Without the zeros at the end that fill pieces of this length, each compared at once.
fn without_zeros(body: &[u8], piece_len: usize) -> &[u8] {
    let is_zeros = |piece: &&[u8]| piece.iter().fold(0, |all, byte| all | byte) == 0;
    let zeros: usize = body.rchunks(piece_len).take_while(is_zeros).map(<[u8]>::len).sum();
    &body[..body.len() - zeros]
}

/// Spoil a body: some bytes change, and sometimes its end is missing or bytes follow it.
pub(crate) fn mutate(body: &mut Vec<u8>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    match rng.u32(0..8) {
        0 => body.truncate(rng.usize(..=body.len())),
        1 => body.extend((0..rng.usize(1..=8)).map(|_| seed as u8)),
        _ => {}
    }
    if !body.is_empty() {
        for _ in 0..rng.u32(1..=4) {
            let place = rng.usize(..body.len());
            body[place] ^= rng.u8(1..);
        }
    }
}

/// The numbers seen lately, as a receiver of sealed datagrams keeps them: each is let in once, and one too old to tell
/// is not.
#[derive(Debug)]
pub(crate) struct ReplayWindow {
    /// One above the highest number seen.
    next: DatagramNumber,
    seen: [u64; WINDOW as usize / 64],
}

impl ReplayWindow {
    pub(crate) fn new() -> ReplayWindow {
        ReplayWindow { next: 0, seen: [0; WINDOW as usize / 64] }
    }

    /// Whether a higher number has been seen.
    pub(crate) fn is_overtaken(&self, number: DatagramNumber) -> bool {
        number.saturating_add(1) < self.next
    }

    /// Let a number in; false if it is a replay.
    pub(crate) fn admit(&mut self, number: DatagramNumber) -> bool {
        if number + WINDOW < self.next {
            return false;
        }
        if number >= self.next {
            let steps = (number + 1 - self.next).min(WINDOW);
            for passed in number + 1 - steps..=number {
                self.seen[word(passed)] &= !bit(passed);
            }
            self.next = number + 1;
        }
        let is_new = self.seen[word(number)] & bit(number) == 0;
        self.seen[word(number)] |= bit(number);
        is_new
    }
}

fn word(number: DatagramNumber) -> usize {
    (number % WINDOW / 64) as usize
}

fn bit(number: DatagramNumber) -> u64 {
    1 << (number % 64)
}

/// Numbers that a receiver looks back.
const WINDOW: u64 = 8192;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_window_is_a_set_that_forgets(numbers in proptest::collection::vec(
            prop_oneof![0..100u64, 0..30_000u64, 8_100..8_300u64], 1..300)
        ) {
            let (mut window, mut set) = (ReplayWindow::new(), BTreeSet::new());
            for number in numbers {
                let highest = set.last().copied();
                prop_assert_eq!(window.is_overtaken(number), highest.is_some_and(|highest| highest > number));
                let too_old = highest.is_some_and(|highest| highest >= number + WINDOW);
                prop_assert_eq!(window.admit(number), !too_old && set.insert(number));
            }
        }
    }

    #[test]
    fn slots_are_used_again_and_bodies_kept() {
        let mut packets = Packets::default();
        let owner = Owner { slot: 0, serial: 0, from: Side::Left };
        let mut buffer = vec![0; 2000];
        let mut insert = |packets: &mut Packets, number: u64, body: &[u8]| {
            buffer[..body.len()].copy_from_slice(body);
            let slot = packets.insert(owner, number, (100, Ecn::NotEct), &mut buffer[..body.len()]);
            assert!(buffer.iter().all(|byte| *byte == 0));
            slot
        };
        let unpack = |packets: &Packets, slot: u32| {
            let mut zeros = vec![0; 2000];
            let len = packets.get(slot).unpack(&mut zeros);
            let body = zeros[..len].to_vec();
            packets.get(slot).clear(&mut zeros);
            assert!(zeros.iter().all(|byte| *byte == 0));
            body
        };
        let mut long = vec![0; 1500];
        long[70] = 9;
        let first = insert(&mut packets, 1, &long);
        let copy = packets.duplicate(first);
        packets.release(first);
        assert_eq!(insert(&mut packets, 2, b"three"), first);
        assert_eq!((packets.get(copy).number, unpack(&packets, copy)), (1, long));
        assert_eq!((packets.get(first).number, unpack(&packets, first)), (2, b"three".to_vec()));
        packets.release(first);
        for body in [&b""[..], &[0; 64], &[0; 65], &[1; 64], &[0; 1999]] {
            let slot = insert(&mut packets, 3, body);
            assert_eq!(unpack(&packets, slot), body);
            packets.release(slot);
        }
    }

    #[test]
    fn spoilt_bodies_differ() {
        for seed in 0..1000 {
            let mut body = b"whatever it was".to_vec();
            mutate(&mut body, seed);
            assert_ne!(body, b"whatever it was");
            let mut empty = Vec::new();
            mutate(&mut empty, seed);
        }
    }
}
