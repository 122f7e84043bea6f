//! What was written and is not acknowledged yet, and which lane takes which of it.

use super::frame::{Ack, PAYLOAD_MAX};
use super::{LaneId, Violation};
use crate::units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// How what is written is spread over the lanes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// Each lane takes the next block when it has room, so none waits for a slower one.
    #[default]
    Auto,
    /// As in the PSockets paper (section 3): each write in as many equal partitions as there are lanes, or fewer where
    /// those would be too small to be worth their headers.
    Equal,
    /// Blocks of so many bytes in turn (the way of XFTP, which the paper compares itself with: 8 KB). At least
    /// [`BLOCK_MIN`].
    Blocks(usize),
}

/// The smallest block that lanes take in turn: what XFTP used (PSockets paper, section 2).
pub const BLOCK_MIN: usize = 8 << 10;

/// The smallest of equal partitions: little less than a TCP segment carries.
pub(super) const EQUAL_MIN: usize = 1 << 10;

/// A piece of the stream for a lane to carry.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where it belongs.
    pub offset: u64,
    /// All of it.
    pub bytes: Arc<Vec<u8>>,
}

/// The sending half of a stream: keeps what was written until the other side says that it has come in.
#[derive(Debug)]
pub struct Outgoing {
    /// In order, without gaps; the first is not acknowledged.
    blocks: VecDeque<Block>,
    /// All below it is acknowledged.
    acked: u64,
    /// Bytes written so far.
    written: u64,
    /// The end of the furthest piece that a lane was given.
    sent: u64,
    /// Up to where the other side takes data.
    limit: u64,
    /// Bytes held at most.
    capacity: u64,
    held: u64,
    /// Bytes held that no lane has taken yet.
    unsent: u64,
    finished: bool,
    complete: bool,
    partition: Partition,
    block_len: usize,
    /// Offsets of blocks for whichever lane has room.
    shared: BTreeSet<u64>,
    /// In order of their names. Those before `active` take new data.
    lanes: BTreeMap<LaneId, Lane>,
    active: usize,
    resent: u64,
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
struct Block {
    offset: u64,
    len: usize,
    /// `None` once it is acknowledged.
    bytes: Option<Arc<Vec<u8>>>,
    place: Place,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Shared,
    Queued(LaneId),
    Sent(LaneId),
    Acked,
}

/// What a lane has to do with.
#[derive(Debug, Default)]
struct Lane {
    /// Offsets of blocks that only this lane is to take.
    queue: VecDeque<u64>,
    in_flight: u64,
    /// When it last got something acknowledged, or something to carry while it had nothing.
    progress: Time,
}

/// What is on its way over a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneLoad {
    /// Bytes taken by the lane and not acknowledged.
    pub in_flight: u64,
    /// When something of it was last acknowledged, or when it began to carry something.
    pub progress: Time,
}

impl Outgoing {
    /// To hold at most `capacity` bytes, and send at first up to `limit`.
    pub fn new(partition: Partition, capacity: u64, limit: u64) -> Outgoing {
        Outgoing {
            blocks: VecDeque::new(),
            acked: 0,
            written: 0,
            sent: 0,
            limit,
            capacity,
            held: 0,
            unsent: 0,
            finished: false,
            complete: false,
            partition,
            block_len: BLOCK_LEN,
            shared: BTreeSet::new(),
            lanes: BTreeMap::new(),
            active: usize::MAX,
            resent: 0,
            spare: vec![],
        }
    }

    /// How many bytes of a write of `len` can be taken now: all or a part, none while there is too much already. Equal
    /// partitions need the whole write at once, so there it is all of it, or half of the capacity, or none.
    pub fn room(&self, len: usize) -> usize {
        let free = self.capacity.saturating_sub(self.held);
        let free = match self.partition {
            Partition::Auto => free.min(self.queue_max().saturating_sub(self.unsent)),
            Partition::Blocks(_) => free,
            Partition::Equal if free >= (len as u64).min(self.capacity / 2) => free,
            Partition::Equal => 0,
        };
        usize::try_from(free).unwrap_or(usize::MAX).min(len)
    }

    /// Whether there is so much room that it is worth waking whoever waits to write.
    pub fn has_good_room(&self) -> bool {
        let free = self.capacity.saturating_sub(self.held);
        match self.partition {
            Partition::Auto => free.min(self.queue_max().saturating_sub(self.unsent)) >= self.queue_max() / 2,
            Partition::Blocks(_) => free >= self.capacity / 4,
            Partition::Equal => free >= self.capacity / 2 || self.held == 0,
        }
    }

    /// The largest block to hand to [`Outgoing::push`].
    pub fn block_len(&self) -> usize {
        self.block_len
    }

    /// Set how large blocks are from now on: small ones where lanes are slow, so that none waits long for one of them.
    pub fn set_block_len(&mut self, len: usize) {
        self.block_len = len.clamp(BLOCK_MIN, BLOCK_LEN);
    }

    /// An empty buffer for a block.
    pub fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK_LEN));
        buffer.clear();
        buffer
    }

    /// Memory for a block, of whatever it held before.
    pub fn used_buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; BLOCK_LEN])
    }

    /// Whether a block of so many bytes is taken as it is, now or as soon as there is room.
    pub fn takes_whole(&self, len: usize) -> bool {
        self.partition == Partition::Auto && len <= self.block_len && 2 * len as u64 <= self.queue_max()
    }

    /// Append a block that the caller has filled, for whichever lane comes first. Only with [`Partition::Auto`].
    pub fn push(&mut self, bytes: Vec<u8>) {
        debug_assert!(self.partition == Partition::Auto && bytes.len() <= PAYLOAD_MAX);
        self.append(bytes, Place::Shared);
    }

    /// Append what was written, as much as there is room for. Returns how much was taken.
    pub fn write(&mut self, buf: &[u8]) -> usize {
        let taken = self.room(buf.len());
        let buf = &buf[..taken];
        match self.partition {
            Partition::Auto => self.write_cut(buf, |_| (u64::MAX, Place::Shared)),
            Partition::Blocks(size) => {
                let size = size.max(BLOCK_MIN) as u64;
                let lanes: Vec<LaneId> = self.active_lanes().collect();
                self.write_cut(buf, |offset| {
                    let turn = offset / size;
                    ((turn + 1) * size, place(&lanes, turn as usize % lanes.len().max(1)))
                });
            }
            Partition::Equal => {
                let lanes: Vec<LaneId> = self.active_lanes().collect();
                let count = lanes.len().max(1);
                let start = self.written;
                let share = buf.len().div_ceil(count).max(EQUAL_MIN) as u64;
                // Writes too small for all lanes take turns.
                let first = if buf.len() < EQUAL_MIN * count { (start / share) as usize } else { 0 };
                self.write_cut(buf, |offset| {
                    let turn = (offset - start) / share;
                    (start + (turn + 1) * share, place(&lanes, (first + turn as usize) % count))
                });
            }
        }
        taken
    }

    /// Append, cut where `part` says: given an offset, where the part that holds it ends, and where it goes.
    fn write_cut(&mut self, mut buf: &[u8], part: impl Fn(u64) -> (u64, Place)) {
        while !buf.is_empty() {
            let (end, place) = part(self.written);
            let in_part = usize::try_from(end - self.written).unwrap_or(usize::MAX);
            let joined = self.join_last(&buf[..buf.len().min(in_part)], place);
            if joined > 0 {
                buf = &buf[joined..];
                continue;
            }
            let (head, rest) = buf.split_at(buf.len().min(in_part).min(self.block_len));
            let mut bytes = if head.len() * 2 > BLOCK_MIN { self.buffer() } else { Vec::new() };
            bytes.extend_from_slice(head);
            self.append(bytes, place);
            buf = rest;
        }
    }

    /// Put bytes behind the last block, if that waits at the same place and is short. Returns how many.
    fn join_last(&mut self, buf: &[u8], place: Place) -> usize {
        let Some(last) = self.blocks.back_mut().filter(|last| last.place == place) else { return 0 };
        let Some(bytes) = last.bytes.as_mut().and_then(Arc::get_mut) else { return 0 };
        let joined = self.block_len.saturating_sub(bytes.len()).min(buf.len());
        bytes.extend_from_slice(&buf[..joined]);
        last.len = bytes.len();
        self.count_written(joined as u64);
        joined
    }

    fn append(&mut self, bytes: Vec<u8>, place: Place) {
        let (offset, len) = (self.written, bytes.len());
        self.enqueue(offset, place);
        self.blocks.push_back(Block { offset, len, bytes: Some(Arc::new(bytes)), place });
        self.count_written(len as u64);
    }

    fn count_written(&mut self, len: u64) {
        self.written += len;
        self.held += len;
        self.unsent += len;
    }

    fn enqueue(&mut self, offset: u64, place: Place) {
        match place {
            Place::Queued(lane) => self.lanes.entry(lane).or_default().queue.push_back(offset),
            _ => drop(self.shared.insert(offset)),
        }
    }

    /// Nothing more will be written.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// The length of the stream, once nothing more will be written.
    pub fn end(&self) -> Option<u64> {
        self.finished.then_some(self.written)
    }

    /// A lane can carry data from now on.
    pub fn add_lane(&mut self, lane: LaneId) {
        self.lanes.insert(lane, Lane::default());
    }

    /// A lane has died. What it carried goes to the others. Returns how many bytes of it a lane had taken already.
    pub fn remove_lane(&mut self, lane: LaneId) -> u64 {
        if self.lanes.remove(&lane).is_none() {
            return 0;
        }
        let mut lost = 0;
        for block in &mut self.blocks {
            if block.place == Place::Sent(lane) {
                lost += block.len as u64;
            } else if block.place != Place::Queued(lane) {
                continue;
            }
            block.place = Place::Shared;
            self.shared.insert(block.offset);
        }
        self.unsent += lost;
        self.resent += lost;
        lost
    }

    /// Give new data only to the first so many lanes.
    pub fn set_active(&mut self, lanes: usize) {
        self.active = lanes.max(1);
        let retired: Vec<LaneId> = self.lanes.keys().copied().skip(self.active).collect();
        for lane in retired {
            let queue = self.lanes.get_mut(&lane).map(|lane| std::mem::take(&mut lane.queue));
            for offset in queue.unwrap_or_default() {
                if let Ok(at) = self.index_of(offset) {
                    self.blocks[at].place = Place::Shared;
                    self.shared.insert(offset);
                }
            }
        }
    }

    /// The lanes that take new data.
    pub fn active_lanes(&self) -> impl Iterator<Item = LaneId> {
        self.lanes.keys().copied().take(self.active)
    }

    /// What a lane that has room is to carry next.
    pub fn next(&mut self, lane: LaneId, now: Time) -> Option<Piece> {
        if !self.active_lanes().any(|active| active == lane) {
            return None;
        }
        let of_shared = self.shared.first().copied();
        let of_queue = self.lanes.get(&lane).and_then(|lane| lane.queue.front().copied());
        let offset = of_shared.into_iter().chain(of_queue).min()?;
        let at = self.index_of(offset).ok()?;
        let block = &mut self.blocks[at];
        let end = block.offset + block.len as u64;
        if end > self.limit {
            return None;
        }
        block.place = Place::Sent(lane);
        let piece = Piece { offset, bytes: block.bytes.clone()? };
        let len = block.len as u64;
        let load = self.lanes.get_mut(&lane)?;
        if of_shared == Some(offset) {
            self.shared.remove(&offset);
        } else {
            load.queue.pop_front();
        }
        if load.in_flight == 0 {
            load.progress = now;
        }
        load.in_flight += len;
        self.unsent -= len;
        self.sent = self.sent.max(end);
        Some(piece)
    }

    /// Whether a lane would get something now.
    pub fn has_next(&self, lane: LaneId) -> bool {
        let of_queue = self.lanes.get(&lane).and_then(|lane| lane.queue.front());
        self.shared.first().into_iter().chain(of_queue).min().is_some_and(|offset| {
            self.index_of(*offset).is_ok_and(|at| offset + self.blocks[at].len as u64 <= self.limit)
        }) && self.active_lanes().any(|active| active == lane)
    }

    /// The other side tells what has come in. Returns how many bytes are acknowledged for the first time.
    pub fn on_ack(&mut self, ack: &Ack, now: Time) -> Result<u64, Violation> {
        let highest = ack.ranges.last().map_or(ack.received, |(_, end)| *end);
        if highest.max(ack.received) > self.sent || ack.complete && self.end() != Some(ack.received) {
            return Err(Violation::NeverSent);
        }
        self.limit = self.limit.max(ack.limit);
        self.complete |= ack.complete;
        let before = self.held;
        while let Some(block) = self.blocks.front()
            && (block.offset + block.len as u64 <= ack.received || block.place == Place::Acked)
        {
            self.acked = block.offset + block.len as u64;
            self.settle(0, now);
            self.blocks.pop_front();
        }
        for &(start, end) in &ack.ranges {
            let first = self.index_of(start).unwrap_or_else(|at| at);
            let whole = |block: &Block| block.offset >= start && block.offset + block.len as u64 <= end;
            let count = self.blocks.range(first.min(self.blocks.len())..).take_while(|b| whole(b)).count();
            (first..first + count).for_each(|at| self.settle(at, now));
        }
        Ok(before - self.held)
    }

    /// A block has come in.
    fn settle(&mut self, at: usize, now: Time) {
        let block = &mut self.blocks[at];
        let (len, offset) = (block.len as u64, block.offset);
        match std::mem::replace(&mut block.place, Place::Acked) {
            Place::Acked => return,
            Place::Sent(lane) => {
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.in_flight -= len;
                    lane.progress = now;
                }
            }
            // It was to go out again, but had come in after all.
            Place::Shared => {
                self.shared.remove(&offset);
                self.unsent -= len;
            }
            Place::Queued(lane) => {
                if let Some(lane) = self.lanes.get_mut(&lane) {
                    lane.queue.retain(|queued| *queued != offset);
                }
                self.unsent -= len;
            }
        }
        self.held -= len;
        // Whoever still holds it, as a lane that has just written it may, does without the buffer being used again.
        let buffer = block.bytes.take().and_then(Arc::into_inner);
        if let Some(buffer) = buffer.filter(|buffer| buffer.capacity() >= BLOCK_LEN)
            && self.spare.len() < SPARE_MAX
        {
            self.spare.push(buffer);
        }
    }

    /// Everything has come in, and the other side knows that there is no more.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Bytes that no lane has taken yet.
    pub fn unsent(&self) -> u64 {
        self.unsent
    }

    /// Bytes that lanes have taken and the other side has not acknowledged.
    pub fn in_flight(&self) -> u64 {
        self.held - self.unsent
    }

    /// Bytes written so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// All below it is acknowledged.
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// Bytes that the other side has, with those that came in ahead of others.
    pub fn delivered(&self) -> u64 {
        self.written - self.held
    }

    /// Bytes that were given to a lane which then died.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Something is to come from the other side: word of what is on its way, or that it wants more.
    pub fn is_waiting(&self) -> bool {
        self.in_flight() > 0 || self.is_held_up()
    }

    /// Data waits that the other side does not want yet.
    pub fn is_held_up(&self) -> bool {
        self.unsent > 0 && !self.lanes.keys().any(|lane| self.has_next(*lane))
    }

    /// What is on its way over a lane.
    pub fn load(&self, lane: LaneId) -> Option<LaneLoad> {
        let lane = self.lanes.get(&lane)?;
        Some(LaneLoad { in_flight: lane.in_flight, progress: lane.progress })
    }

    fn index_of(&self, offset: u64) -> Result<usize, usize> {
        self.blocks.binary_search_by_key(&offset, |block| block.offset)
    }

    /// Bytes that may wait for a lane with [`Partition::Auto`]: enough that no lane waits for the writer, and little, so
    /// that lanes find it in the processor's caches.
    fn queue_max(&self) -> u64 {
        let blocks = self.lanes.len().clamp(QUEUE_BLOCKS_MIN, QUEUE_BLOCKS_MAX);
        ((blocks * self.block_len) as u64).min(self.capacity / 2).max(1)
    }
}

fn place(lanes: &[LaneId], turn: usize) -> Place {
    lanes.get(turn).map_or(Place::Shared, |lane| Place::Queued(*lane))
}

/// The usual and largest block. Loopback, where work per block counts most, gains nothing from larger ones; where lanes
/// are slow, smaller ones are taken.
const BLOCK_LEN: usize = 128 << 10;
const QUEUE_BLOCKS_MIN: usize = 4;
const QUEUE_BLOCKS_MAX: usize = 32;
/// Buffers kept for use again.
const SPARE_MAX: usize = 32;
