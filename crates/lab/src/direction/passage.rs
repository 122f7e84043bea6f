//! What a direction's link does with packets.

use super::{Direction, Held, Load};
use crate::gso::Shape;
use crate::headers::{Headers, corrupt, set_ecn};
use longhaul_proto::ecn::Ecn;
use longhaul_proto::units::Time;
use longhaul_sim::link::Passage;
use longhaul_sim::queue::{DropReason, Waiting};
use std::ops::Range;

/// What a host handed over, until it is known what becomes of all of it.
#[derive(Clone, Copy)]
pub(super) struct Arrived {
    pub(super) pair: usize,
    pub(super) held: Held,
    /// Of a super-packet.
    pub(super) shape: Option<Shape>,
    /// What the IP headers say.
    pub(super) ecn: Ecn,
    /// Packets that the link has still to decide about.
    pub(super) unsettled: u32,
}

/// Packets of a super-packet that the link passed one after the other: they go on together.
pub(super) struct PacketRun {
    arrived: Arrived,
    shape: Shape,
    which: Range<u32>,
    /// What the IP headers are to say.
    ecn: Ecn,
    /// When the last of them comes out.
    time: Time,
}

/// Packets in a queue that chooses, which knows them by a number.
#[derive(Default)]
pub(super) struct WaitingPackets {
    /// By number: in which slot, and which of the packets there.
    packets: Vec<(u32, u32)>,
    free: Vec<u32>,
    /// By slot.
    arrived: Vec<Option<Arrived>>,
}

impl Direction {
    /// What is in a slot comes to the link.
    pub(super) fn enter_link(&mut self, now: Time, mut arrived: Arrived) {
        if self.link.keeps() {
            return self.wait(now, arrived);
        }
        for n in 0..arrived.held.load.packets {
            let passage = self.link.offer(now, arrived.packet_len(n), arrived.ecn);
            self.settle(&mut arrived, n, passage);
        }
    }

    /// What is in a slot comes to a queue that chooses.
    fn wait(&mut self, now: Time, arrived: Arrived) {
        self.serve_until(now);
        let Held { slot, len, load } = arrived.held;
        let bytes = &self.slots.bytes(slot, len as usize)[self.note_len..];
        let flow = Headers::read(bytes).map_or(0, |headers| headers.flow());
        self.waiting.keep(arrived);
        for n in 0..load.packets {
            let packet = self.waiting.number(slot, n);
            let waiting = Waiting {
                packet,
                flow,
                bytes: arrived.packet_len(n),
                ecn: arrived.ecn,
                is_marked: false,
                since: now,
            };
            self.link.push(waiting, &mut self.dropped);
            self.settle_dropped();
            self.serve_at = self.link.serve_at(now);
            self.serve_until(now);
        }
    }

    /// Let the link take what its queue chooses, each packet when the one before has left.
    pub(super) fn serve_until(&mut self, now: Time) {
        while let Some(at) = self.serve_at.filter(|at| *at <= now) {
            let served = self.link.serve(at, &mut self.dropped);
            self.settle_dropped();
            if let Some((waiting, passage)) = served {
                self.settle_waiting(waiting.packet, passage);
            }
            self.serve_at = self.link.serve_at(at);
        }
    }

    fn settle_dropped(&mut self) {
        while let Some(one) = self.dropped.pop() {
            let passage = match one.reason {
                DropReason::Full | DropReason::Managed => Passage::QueueFull,
                DropReason::Policed => Passage::Policed,
            };
            self.settle_waiting(one.waiting.packet, passage);
        }
    }

    /// It is known what becomes of a packet that waited.
    fn settle_waiting(&mut self, number: u32, passage: Passage) {
        let (slot, n) = self.waiting.forget(number);
        let Some(mut arrived) = self.waiting.arrived[slot as usize].take() else { return };
        self.settle(&mut arrived, n, passage);
        if arrived.unsettled > 0 {
            self.waiting.keep(arrived);
        }
    }

    /// It is known what becomes of the n-th packet in a slot.
    fn settle(&mut self, arrived: &mut Arrived, n: u32, passage: Passage) {
        arrived.unsettled -= 1;
        match passage {
            Passage::QueueFull => self.counted.dropped_queue += 1,
            Passage::Policed => self.counted.dropped_policed += 1,
            Passage::Outage => self.counted.dropped_cut += 1,
            Passage::Lost => self.counted.dropped_loss += 1,
            Passage::Arrives { .. } => {}
        }
        match arrived.shape {
            Some(shape) => self.settle_one_of_many(arrived, shape, n, passage),
            None => self.settle_single(arrived, passage),
        }
    }

    fn settle_single(&mut self, arrived: &Arrived, passage: Passage) {
        let Arrived { pair, held, .. } = *arrived;
        let Passage::Arrives { time, copy, corrupt: changed, held_back, ecn } = passage else {
            return self.slots.release(held.slot);
        };
        self.end_run();
        self.counted.reordered += u64::from(held_back);
        let bytes = &mut self.slots.bytes_mut(held.slot)[self.note_len..held.len as usize];
        set_ecn(bytes, ecn);
        if let Some(number) = changed {
            self.counted.corrupted += 1;
            corrupt(bytes, number);
        }
        self.ways[pair].schedule(time, held);
        if let Some(copy_time) = copy {
            self.counted.duplicated += 1;
            let slot = self.slots.take();
            let (from, into) = self.slots.pair_mut(held.slot, slot);
            into[..held.len as usize].copy_from_slice(&from[..held.len as usize]);
            self.ways[pair].schedule(copy_time, Held { slot, ..held });
        }
    }

    /// Of a super-packet, each packet has a fate of its own. Scenarios do not change them or move them apart.
    fn settle_one_of_many(&mut self, arrived: &Arrived, shape: Shape, n: u32, passage: Passage) {
        let slot = arrived.held.slot;
        if let Passage::Arrives { time, ecn, .. } = passage {
            match &mut self.run {
                Some(run) if run.arrived.held.slot == slot && run.which.end == n && run.ecn == ecn => {
                    (run.which.end, run.time) = (n + 1, time);
                }
                _ => {
                    self.end_run();
                    self.run = Some(PacketRun { arrived: *arrived, shape, which: n..n + 1, ecn, time });
                }
            }
        }
        if arrived.unsettled > 0 {
            return;
        }
        let last_run = self.run.as_ref().filter(|run| run.arrived.held.slot == slot);
        let goes_on = last_run.is_some_and(PacketRun::is_whole);
        if last_run.is_some() {
            self.end_run();
        }
        if !goes_on {
            self.slots.release(slot);
        }
    }

    /// The packets of the run go on: in the slot that they came in if they are all of it.
    fn end_run(&mut self) {
        let Some(run) = self.run.take() else { return };
        let Arrived { pair, held: whole, .. } = run.arrived;
        if run.is_whole() {
            set_ecn(&mut self.slots.bytes_mut(whole.slot)[self.note_len..whole.len as usize], run.ecn);
            return self.ways[pair].schedule(run.time, whole);
        }
        let slot = self.slots.take();
        let (from, into) = self.slots.pair_mut(whole.slot, slot);
        let len = run.shape.cut(&from[..whole.len as usize], &run.which, into) as u32;
        set_ecn(&mut into[self.note_len..len as usize], run.ecn);
        self.ways[pair].schedule(run.time, Held { slot, len, load: Load::of(&run.shape, &run.which) });
    }
}

impl Arrived {
    /// Length of the n-th packet, as a whole IP packet.
    fn packet_len(&self, n: u32) -> u32 {
        self.shape.map_or(self.held.load.bytes as u32, |shape| shape.packet_len(n) as u32)
    }
}

impl PacketRun {
    /// How many they are.
    pub(super) fn packets(&self) -> u32 {
        self.which.len() as u32
    }

    fn is_whole(&self) -> bool {
        self.which == (0..self.shape.packets())
    }
}

impl WaitingPackets {
    /// Remember what is in a slot.
    fn keep(&mut self, arrived: Arrived) {
        let slot = arrived.held.slot as usize;
        if slot >= self.arrived.len() {
            self.arrived.resize(slot + 1, None);
        }
        self.arrived[slot] = Some(arrived);
    }

    /// A number for a packet.
    fn number(&mut self, slot: u32, n: u32) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.packets[number as usize] = (slot, n);
                number
            }
            None => {
                self.packets.push((slot, n));
                self.packets.len() as u32 - 1
            }
        }
    }

    /// Which packet the number was for; it may stand for another from now on.
    fn forget(&mut self, number: u32) -> (u32, u32) {
        self.free.push(number);
        self.packets[number as usize]
    }
}
