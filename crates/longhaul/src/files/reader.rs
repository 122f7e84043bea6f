//! The sender's bytes: read ahead by threads, hashed while hot, handed out from memory.

use super::blocks::{Bits, Blocks};
use super::errors::FileError;
use super::fill::Filler;
use super::scanned::Scan;
use crate::net::budget::Allowance;
use crate::net::prepared::{Prepared, Task};
use longhaul_proto::endpoint::{NotReady, Source};
use longhaul_proto::session::manifest::{EntryIndex, GROUP_LEN, Layout, Ranges};
use longhaul_proto::session::message::GroupHash;
use longhaul_proto::session::reason::Reason;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Tells the network thread to look again.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The object as the sender has it on disk.
///
/// Threads read all that the receiver needs once, in object order, as far ahead as the cache allows, and hash it on
/// the way. What was sent stays in the cache for as long as there is room, since what gets lost is asked for again
/// soon; what has left it is read again.
pub struct Reader {
    blocks: Arc<Blocks>,
    /// Blocks that are read; the others read as zeros.
    read: Arc<Bits>,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    held: Vec<Held>,
    /// Index in `held` of the block read last, and its object range.
    current: usize,
    current_range: Range<u64>,
    /// The block used last.
    place: u64,
    /// Counts changes of block: a clock for who was used last.
    clock: u64,
    /// The block that had to be read again last, and how many after it are read along.
    sweep: (u64, u64),
    /// Whether the threads may be behind: not looked at since another block became the current one, or found so.
    may_be_behind: bool,
}

/// A block in the cache.
struct Held {
    block: u64,
    data: Box<[u8]>,
    /// Clock when it was used last; `None`: read ahead and not used yet.
    used: Option<u64>,
}

impl Held {
    /// Whether this block is likely to be used for the first time, when `place` is the block used last.
    fn is_ahead(&self, place: u64) -> bool {
        self.used.is_none() && self.block > place
    }
}

/// What the network thread and the reading threads share.
struct Shared {
    state: Mutex<State>,
    work: Condvar,
    /// There are hashes or failures to fetch.
    news: AtomicBool,
    /// Buffers that there may be.
    blocks_max: AtomicUsize,
    wake: Wake,
}

struct State {
    /// Blocks that the network thread waits for, not yet taken up.
    requests: VecDeque<u64>,
    /// Blocks that a thread reads now.
    in_hand: Vec<u64>,
    /// Blocks whose first reading has begun; their hashes have been given or will be.
    begun: Bits,
    /// All blocks before this one that are to be sent have begun.
    cursor: u64,
    /// All blocks before this one that are only to be hashed have begun.
    hash_cursor: u64,
    ready: Vec<(u64, Box<[u8]>)>,
    /// Blocks that the network thread missed.
    missed: Vec<u64>,
    spare: Vec<Box<[u8]>>,
    /// Buffers that may still be made, how many of them without asking, and what the others may take beside those of other copies.
    unmade: usize,
    unasked: usize,
    allowance: Allowance,
    /// What was asked for has no buffer, since there is no memory for one.
    is_stuck: bool,
    hashes: Vec<GroupHash>,
    failures: VecDeque<(EntryIndex, Reason)>,
    stop: bool,
}

impl Reader {
    /// Begin to read what is not in `have`. What the receiver claims to have is read for its hash, while nothing that is
    /// to be sent can be read. `wake` is called when something that was not ready is, and when there are hashes or
    /// failures to fetch.
    pub fn start(
        scan: Arc<Scan>,
        layout: Arc<Layout>,
        (have, claimed): (&Ranges, &Ranges),
        wake: Wake,
    ) -> Result<Reader, FileError> {
        Reader::with_cache(scan, layout, (have, claimed), wake, (CACHE_LEN, Allowance::default()))
    }

    /// Share a budget with others. Where they have left nothing, it gets along with the buffers that it has.
    pub fn beside_others(
        scan: Arc<Scan>,
        layout: Arc<Layout>,
        ranges: (&Ranges, &Ranges),
        wake: Wake,
        allowance: Allowance,
    ) -> Result<Reader, FileError> {
        Reader::with_cache(scan, layout, ranges, wake, (CACHE_LEN, allowance))
    }

    /// The same with at most `cache_len` bytes of memory (four blocks at the least), what is beyond these beside others.
    pub fn with_cache(
        scan: Arc<Scan>,
        layout: Arc<Layout>,
        (have, claimed): (&Ranges, &Ranges),
        wake: Wake,
        (cache_len, allowance): (usize, Allowance),
    ) -> Result<Reader, FileError> {
        let threads = (0..THREADS).map(|_| Prepared::for_task("longhaul-read"));
        let threads = threads.collect::<io::Result<Vec<_>>>();
        let threads = threads.map_err(FileError::step("no thread can be started"))?;
        let blocks = Arc::new(Blocks::new(&layout, scan.manifest.entries.len()));
        let missing_from = |have: &Ranges| {
            let mut bits = Bits::new(blocks.count());
            for missing in have.gaps(&(0..layout.object_len())) {
                blocks.touching(&missing).for_each(|block| bits.set(block, true));
            }
            Arc::new(bits)
        };
        let read = missing_from(have);
        let mut all = have.clone();
        all.extend(claimed.iter().cloned());
        let sent = if claimed.is_empty() { read.clone() } else { missing_from(&all) };
        let blocks_max = (cache_len / GROUP_LEN as usize).max(MADE_LEAST);
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                requests: VecDeque::new(),
                in_hand: Vec::new(),
                begun: Bits::new(blocks.count()),
                cursor: 0,
                hash_cursor: 0,
                ready: Vec::new(),
                missed: Vec::new(),
                spare: Vec::new(),
                unmade: blocks_max,
                unasked: MADE_LEAST,
                allowance,
                is_stuck: false,
                hashes: Vec::new(),
                failures: VecDeque::new(),
                stop: false,
            }),
            work: Condvar::new(),
            news: AtomicBool::new(false),
            blocks_max: AtomicUsize::new(blocks_max),
            wake,
        });
        let filler = Arc::new(Filler::new(scan, layout, have.clone()));
        let begin = |thread: Prepared<Task>| {
            let (shared, filler) = (shared.clone(), filler.clone());
            let (blocks, read, sent) = (blocks.clone(), read.clone(), sent.clone());
            thread.begin(Box::new(move || shared.work_off(&filler, &blocks, &read, &sent)))
        };
        let threads = threads.into_iter().map(begin).collect();
        Ok(Reader {
            blocks,
            read,
            shared,
            threads,
            held: Vec::new(),
            current: 0,
            current_range: 0..0,
            place: 0,
            clock: 0,
            sweep: (u64::MAX, 0),
            may_be_behind: false,
        })
    }

    /// Append the hashes of groups read since the last call.
    pub fn poll_hashes(&mut self, out: &mut Vec<GroupHash>) {
        if self.shared.news.load(Ordering::Acquire) {
            let mut state = self.shared.lock();
            out.append(&mut state.hashes);
            if state.failures.is_empty() {
                self.shared.news.store(false, Ordering::Release);
            }
        }
    }

    /// The next file that cannot be read as it was listed, and why. Its bytes read as zeros from now on.
    pub fn poll_failures(&mut self) -> Option<(EntryIndex, Reason)> {
        if !self.shared.news.load(Ordering::Acquire) {
            return None;
        }
        let mut state = self.shared.lock();
        let failure = state.failures.pop_front();
        if state.failures.is_empty() && state.hashes.is_empty() {
            self.shared.news.store(false, Ordering::Release);
        }
        failure
    }

    /// Whether the threads read more than lies ready: what does is sent before they come with that, however long it takes.
    pub fn is_behind(&mut self) -> bool {
        if self.may_be_behind {
            let state = self.shared.lock();
            let unused = self.held.iter().filter(|held| held.used.is_none()).count();
            self.may_be_behind = unused + state.ready.len() < state.in_hand.len();
        }
        self.may_be_behind
    }

    /// Make `block` the current one; `false` if it is not in the cache.
    fn select(&mut self, block: u64) -> bool {
        let Some(held) = self.held.iter_mut().find(|held| held.block == block) else { return false };
        self.clock += 1;
        held.used = Some(self.clock);
        let (last, width) = self.sweep;
        if width > 0 && block > last {
            self.sweep.0 = block;
            let shared = self.shared.clone();
            let mut state = shared.lock();
            self.take_ready(&mut state);
            self.read_along(&mut state, block);
        }
        self.give_back(block);
        // Blocks may have changed places meanwhile, but the one used last stays.
        self.current = self.held.iter().position(|held| held.block == block).unwrap_or_default();
        self.current_range = self.blocks.range(block);
        self.may_be_behind = true;
        true
    }

    /// Let go of the blocks used longest ago when so many are kept that reading ahead suffers.
    fn give_back(&mut self, block: u64) {
        self.place = block;
        let blocks_max = self.shared.blocks_max.load(Ordering::Relaxed);
        let keep = blocks_max - (blocks_max / 3).clamp(2, READ_AHEAD_BLOCKS);
        while self.held.iter().filter(|held| !held.is_ahead(block)).count() > keep {
            let shared = self.shared.clone();
            let mut state = shared.lock();
            if state.pass_is_over(self.blocks.count()) || state.has_buffer() {
                return;
            }
            state.spare.extend(self.evict());
            shared.work.notify_one();
        }
    }

    /// Take out a block that was passed over or used longest ago, or one that was read too far ahead if there is no
    /// such. The one used last stays.
    fn evict(&mut self) -> Option<Box<[u8]>> {
        let rank = |held: &Held| (held.is_ahead(self.place), held.used, u64::MAX - held.block);
        let others = self.held.iter().enumerate().filter(|(_, held)| held.used != Some(self.clock));
        let (at, _) = others.min_by_key(|(_, held)| rank(held))?;
        self.current_range = 0..0;
        Some(self.held.swap_remove(at).data)
    }

    /// Fetch what has become ready; if `block` is not among it, ask for it.
    fn fetch(&mut self, block: u64) -> bool {
        let shared = self.shared.clone();
        let mut state = shared.lock();
        self.take_ready(&mut state);
        if self.held.iter().any(|held| held.block == block) {
            return true;
        }
        if !state.missed.contains(&block) && (state.is_coming(block) || self.ask(&mut state, block)) {
            state.missed.push(block);
        }
        if state.pass_is_over(self.blocks.count()) {
            self.sweep = (block, self.widened(block));
            self.read_along(&mut state, block);
        }
        if !state.requests.is_empty() && !state.has_buffer() {
            state.spare.extend(self.evict());
            shared.work.notify_one();
        }
        false
    }

    /// What gets lost comes again in order as a rule: where one block after the other has to be read again, ever more
    /// of those that follow are read along.
    fn widened(&self, block: u64) -> u64 {
        let (last, width) = self.sweep;
        match block.checked_sub(last) {
            Some(1..=SWEEP_STEP_MAX) => (width * 2).clamp(1, SWEEP_WIDTH_MAX),
            Some(0) => width,
            _ => 0,
        }
    }

    /// Ask for the blocks that follow `block` in a sweep.
    fn read_along(&mut self, state: &mut State, block: u64) {
        let end = block.saturating_add(1 + self.sweep.1).min(self.blocks.count());
        for next in block + 1..end {
            let held = self.held.iter().any(|held| held.block == next);
            if self.read.get(next) && !held && !state.is_coming(next) && !self.ask(state, next) {
                return;
            }
        }
    }

    /// Have a block read, and see to it that there is memory for it; `false` if enough is asked for already.
    fn ask(&mut self, state: &mut State, block: u64) -> bool {
        if state.requests.len() >= REQUESTS_MAX {
            return false;
        }
        state.requests.push_back(block);
        if state.spare.len() + state.unmade < state.requests.len() {
            state.spare.extend(self.evict());
        }
        self.shared.work.notify_one();
        true
    }

    fn take_ready(&mut self, state: &mut State) {
        self.held.extend(state.ready.drain(..).map(|(block, data)| Held { block, data, used: None }));
    }
}

impl Source for Reader {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let mut at = offset;
        let mut rest = buf;
        while !rest.is_empty() {
            if !self.current_range.contains(&at) {
                let block = self.blocks.at(at);
                if !self.read.get(block) {
                    let len = (self.blocks.range(block).end - at).min(rest.len() as u64);
                    let (piece, after) = rest.split_at_mut(len as usize);
                    piece.fill(0);
                    (at, rest) = (at + len, after);
                    continue;
                }
                let ready = self.select(block) || (self.fetch(block) && self.select(block));
                if !ready {
                    return Err(NotReady);
                }
            }
            let len = (self.current_range.end - at).min(rest.len() as u64);
            let (piece, after) = rest.split_at_mut(len as usize);
            let from = (at - self.current_range.start) as usize;
            piece.copy_from_slice(&self.held[self.current].data[from..from + len as usize]);
            (at, rest) = (at + len, after);
        }
        Ok(())
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What each reading thread does until the reader is dropped.
    fn work_off(&self, filler: &Filler, blocks: &Blocks, read: &Bits, sent: &Bits) {
        let mut hashed_only: Box<[u8]> = Box::default();
        let mut state = self.lock();
        while !state.stop {
            if let Some((block, mut data, first)) = state.next_job(blocks.count(), sent, &self.blocks_max) {
                drop(state);
                let (hashes, failures) = self.fill(filler, blocks.range(block), &mut data, first);
                state = self.lock();
                state.in_hand.retain(|at| *at != block);
                state.ready.push((block, data));
                let missed = state.missed.iter().position(|at| *at == block);
                missed.map(|at| state.missed.swap_remove(at));
                // Somebody has to find memory for what was asked for.
                let stuck = !state.requests.is_empty() && !state.has_buffer();
                state = self.tell(state, hashes, failures, missed.is_some() || stuck);
            } else if std::mem::take(&mut state.is_stuck) {
                state = self.tell(state, vec![], vec![], true);
            } else if let Some(block) = state.next_to_hash(blocks.count(), read, sent) {
                drop(state);
                if hashed_only.is_empty() {
                    hashed_only = vec![0; GROUP_LEN as usize].into();
                }
                let (hashes, failures) = self.fill(filler, blocks.range(block), &mut hashed_only, true);
                state = self.lock();
                state = self.tell(state, hashes, failures, false);
            } else {
                state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn fill(&self, filler: &Filler, range: Range<u64>, data: &mut [u8], hash: bool) -> News {
        let (mut hashes, mut failures) = (Vec::new(), Vec::new());
        filler.fill(range, data, hash, &mut hashes, &mut failures);
        (hashes, failures)
    }

    /// Pass on what was found, and wake the network thread if there is anything to know.
    fn tell<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        mut hashes: Vec<GroupHash>,
        failures: Vec<(EntryIndex, Reason)>,
        is_awaited: bool,
    ) -> MutexGuard<'a, State> {
        let news = !hashes.is_empty() || !failures.is_empty();
        state.hashes.append(&mut hashes);
        state.failures.extend(failures);
        if news {
            self.news.store(true, Ordering::Release);
        }
        if news || is_awaited {
            drop(state);
            (self.wake)();
            state = self.lock();
        }
        state
    }
}

/// Hashes of groups, and files that cannot be read as they were listed.
type News = (Vec<GroupHash>, Vec<(EntryIndex, Reason)>);

impl State {
    /// The next block to read, a buffer for it, and whether it is read for the first time.
    fn next_job(
        &mut self,
        count: u64,
        sent: &Bits,
        blocks_max: &AtomicUsize,
    ) -> Option<(u64, Box<[u8]>, bool)> {
        if !self.has_buffer() {
            return None;
        }
        if self.requests.is_empty() {
            while !self.pass_is_over(count) && (self.begun.get(self.cursor) || !sent.get(self.cursor)) {
                self.cursor += 1;
            }
            if self.pass_is_over(count) {
                return None;
            }
        }
        self.make_buffer(blocks_max);
        let data = self.spare.pop()?;
        let block = self.requests.pop_front().unwrap_or(self.cursor);
        let first = !self.begun.get(block);
        self.begun.set(block, true);
        self.in_hand.push(block);
        Some((block, data, first))
    }

    /// Make another buffer if there is none at hand. Where there is no memory for it, those that were made are all there are.
    fn make_buffer(&mut self, blocks_max: &AtomicUsize) {
        if !self.spare.is_empty() || self.unmade == 0 {
            return;
        }
        if self.unasked > 0 || self.allowance.take(GROUP_LEN) {
            self.unasked = self.unasked.saturating_sub(1);
            self.unmade -= 1;
            self.spare.push(vec![0; GROUP_LEN as usize].into());
        } else {
            blocks_max.fetch_sub(std::mem::take(&mut self.unmade), Ordering::Relaxed);
            self.is_stuck = !self.requests.is_empty();
        }
    }

    /// The next block that is read for its hashes alone.
    fn next_to_hash(&mut self, count: u64, read: &Bits, sent: &Bits) -> Option<u64> {
        while self.hash_cursor < count {
            let block = self.hash_cursor;
            self.hash_cursor += 1;
            if read.get(block) && !sent.get(block) && !self.begun.get(block) {
                self.begun.set(block, true);
                return Some(block);
            }
        }
        None
    }

    /// Whether there is memory to read a block into.
    fn has_buffer(&self) -> bool {
        !self.spare.is_empty() || self.unmade > 0
    }

    /// Whether a block is being read or will be soon.
    fn is_coming(&self, block: u64) -> bool {
        self.in_hand.contains(&block) || self.requests.contains(&block)
    }

    fn pass_is_over(&self, count: u64) -> bool {
        self.cursor >= count
    }
}

/// Memory for blocks read ahead and kept for retransmission: a second of 400 Mb/s.
const CACHE_LEN: usize = 48 << 20;

/// Buffers that a copy has in any case.
const MADE_LEAST: usize = 4;

/// Blocks that at least can be read ahead of the first transmission.
const READ_AHEAD_BLOCKS: usize = 16;

/// Blocks that the network thread may have asked for at a time.
const REQUESTS_MAX: usize = 8;

/// Blocks read again that are no further apart than this belong to one sweep.
const SWEEP_STEP_MAX: u64 = 4;

/// Blocks that are read along in a sweep at most.
const SWEEP_WIDTH_MAX: u64 = 6;

/// Reading threads: while one hashes the other waits for the disk.
const THREADS: usize = 2;
