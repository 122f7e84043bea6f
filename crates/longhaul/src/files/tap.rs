//! A pipe at the side that sends. Nobody knows how many bytes will come of it, and none of them can be read twice. A thread reads
//! it ahead, a group at a time, and hashes it. What has come is handed out in *stretches* of whole groups, each of which becomes
//! a part of the copy with one file in it. They stay in memory until the receiver has done with them, so that what gets lost is
//! there to be sent again. Where all the memory that there may be is taken, the pipe waits.

use super::errors::FileError;
use super::hash::{StreamHash, group_hash};
use super::reader::Wake;
use crate::net::budget::Allowance;
use longhaul_proto::endpoint::{NotReady, Source};
use longhaul_proto::session::manifest::{Entry, GROUP_LEN, Group, Kind, Manifest, PARTS_MAX, Seams};
use longhaul_proto::session::message::GroupHash;
use rustix::event::{PollFd, PollFlags, poll};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What went through a pipe.
#[derive(Debug, Default)]
pub struct Passed {
    /// Bytes so far.
    pub bytes: AtomicU64,
    /// The hash of all of them, once they are all.
    pub hash: OnceLock<[u8; 32]>,
}

/// The reading end.
#[derive(Debug)]
pub struct Tap {
    shared: Arc<Shared>,
    passed: Arc<Passed>,
    /// Name and permissions of what comes.
    entry: Entry,
}

/// Reads as much as there is room for, less only at the end.
pub(super) type Inlet = Box<dyn FnMut(&mut [u8]) -> Result<usize, FileError> + Send>;

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// What has been read and not handed out.
    ready: VecDeque<Ready>,
    spare: Vec<Box<[u8]>>,
    /// Buffers that there are, and what those that not everybody has may take beside other copies.
    made: usize,
    allowance: Allowance,
    /// Nothing more comes, and why if that is an error.
    end: Option<Result<(), FileError>>,
    wake: Option<Wake>,
    stop: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("ready", &self.ready.len()).field("made", &self.made).finish()
    }
}

/// A group.
struct Ready {
    data: Box<[u8]>,
    len: usize,
    hash: [u8; 32],
}

/// Whole groups of a stream, one after the other.
#[derive(Debug)]
pub struct Stretch {
    shared: Arc<Shared>,
    groups: Vec<Box<[u8]>>,
    hashes: Vec<GroupHash>,
}

impl Tap {
    /// Begin to read this process's standard input.
    pub fn standard_input(allowance: Allowance) -> Result<Tap, FileError> {
        let cannot = FileError::step("standard input cannot be read");
        let file = File::from(io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?);
        // Where it is a pipe: fewer changes between its two ends.
        let _ = rustix::pipe::fcntl_setpipe_size(&file, GROUP_LEN as usize);
        let kind = Kind::File { size: 0, extents: None, version: None };
        let entry = Entry { path: NAME.into(), kind, mode: 0o666 & !umask(), mtime: (0, 0) };
        Tap::open(
            Box::new(move |data| fill(&file, data, |file| await_ready(file, PollFlags::IN)).map_err(cannot)),
            entry,
            allowance,
        )
    }

    pub(super) fn open(inlet: Inlet, entry: Entry, allowance: Allowance) -> Result<Tap, FileError> {
        let state = State {
            ready: VecDeque::new(),
            spare: Vec::new(),
            made: 0,
            allowance,
            end: None,
            wake: None,
            stop: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let passed = Arc::new(Passed::default());
        let (reading, counted) = (shared.clone(), passed.clone());
        let thread = std::thread::Builder::new().name("longhaul-read".into());
        // It may wait for the pipe for ever, so nobody waits for it.
        let read = thread.spawn(move || {
            if catch_unwind(AssertUnwindSafe(|| reading.read(inlet, &counted))).is_err() {
                reading.tell(None, Some(Err(FileError::Panicked)));
            }
        });
        read.map_err(FileError::step("no thread can be started"))?;
        Ok(Tap { shared, passed, entry })
    }

    /// What went through it so far.
    pub fn passed(&self) -> Arc<Passed> {
        self.passed.clone()
    }

    /// `wake` is called when more has come.
    pub(super) fn tell(&self, wake: Wake) {
        self.shared.lock().wake = Some(wake);
    }

    /// Wait until there is something worth a stretch, unless `over` is set meanwhile. Where the pipe is slow that is an empty one,
    /// so that the other side is reached.
    pub(super) fn wait(&self, over: &AtomicBool) -> Result<(Stretch, Manifest), FileError> {
        let began = Instant::now();
        let mut state = self.shared.lock();
        while state.ready.len() < STRETCH_GROUPS
            && state.end.is_none()
            && began.elapsed() < FIRST_PATIENCE
            && !over.load(Ordering::Relaxed)
        {
            let waited = self.shared.changed.wait_timeout(state, FIRST_PATIENCE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        self.take(state)
    }

    /// What has come, if anything has.
    pub(super) fn poll(&self) -> Option<Result<(Stretch, Manifest), FileError>> {
        let state = self.shared.lock();
        (!state.ready.is_empty() || state.end.is_some()).then(|| self.take(state))
    }

    fn take(&self, mut state: MutexGuard<'_, State>) -> Result<(Stretch, Manifest), FileError> {
        if let Some(Err(error)) = state.end.take_if(|end| end.is_err()) {
            return Err(error);
        }
        let count = state.ready.len().min(STRETCH_GROUPS);
        let (mut groups, mut hashes, mut size) = (Vec::with_capacity(count), Vec::new(), 0);
        for (index, Ready { data, len, hash }) in (0..).zip(state.ready.drain(..count)) {
            hashes.push(GroupHash { group: Group { entry: 0, index }, hash });
            groups.push(data);
            size += len as u64;
        }
        let has_more = state.end.is_none() || !state.ready.is_empty();
        let kind = Kind::File { size, extents: None, version: None };
        let entries = vec![Entry { kind, ..self.entry.clone() }];
        let manifest =
            Manifest { entries, seams: Seams { has_more, ..Seams::default() }, ..Manifest::default() };
        Ok((Stretch { shared: self.shared.clone(), groups, hashes }, manifest))
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Read to the end, or until nobody wants any more.
    fn read(&self, mut inlet: Inlet, passed: &Passed) {
        let (mut whole, mut number) = (StreamHash::default(), 0_u32);
        while let Some(mut data) = self.buffer() {
            let read = inlet(&mut data);
            let ready = read.as_ref().ok().filter(|len| **len > 0).map(|len| {
                let hash = group_hash(number, u32::MAX, &data[..*len]);
                whole.push(&data[..*len], hash);
                passed.bytes.fetch_add(*len as u64, Ordering::Relaxed);
                Ready { data, len: *len, hash }
            });
            let end = match read {
                Ok(len) if len == GROUP_LEN as usize => None,
                Ok(_) => Some(Ok(())),
                Err(error) => Some(Err(error)),
            };
            if let Some(Ok(())) = end {
                let _ = passed.hash.set(std::mem::take(&mut whole).finish());
            }
            let is_over = end.is_some();
            self.tell(ready, end);
            if is_over {
                return;
            }
            number += 1;
        }
    }

    fn tell(&self, ready: Option<Ready>, end: Option<Result<(), FileError>>) {
        let mut state = self.lock();
        state.ready.extend(ready);
        state.end = end;
        let wake = state.wake.clone();
        drop(state);
        self.changed.notify_all();
        if let Some(wake) = wake {
            wake();
        }
    }

    /// Memory for a group, as soon as there is some. `None`: nobody wants it any more.
    fn buffer(&self) -> Option<Box<[u8]>> {
        let mut state = self.lock();
        loop {
            if state.stop {
                return None;
            }
            if let Some(data) = state.spare.pop() {
                return Some(data);
            }
            if state.made < MADE_LEAST || state.made < MADE_MAX && state.allowance.take(GROUP_LEN) {
                state.made += 1;
                return Some(vec![0; GROUP_LEN as usize].into());
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Read as much as there is room for, or up to the end. `wait` is what to do where that would block.
pub(super) fn fill(
    mut file: &File,
    data: &mut [u8],
    wait: impl Fn(&File) -> io::Result<()>,
) -> io::Result<usize> {
    let mut len = 0;
    while len < data.len() {
        match file.read(&mut data[len..]) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(file)?,
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

/// Wait for a pipe that somebody has set not to block.
pub(super) fn await_ready(file: &File, how: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::new(file, how)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Stretch {
    /// Append its hashes, the first time.
    pub fn poll_hashes(&mut self, out: &mut Vec<GroupHash>) {
        out.append(&mut self.hashes);
    }
}

impl Source for Stretch {
    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<(), NotReady> {
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let (group, from) = ((at / GROUP_LEN) as usize, (at % GROUP_LEN) as usize);
            let len = rest.len().min(GROUP_LEN as usize - from);
            let (piece, after) = rest.split_at_mut(len);
            piece.copy_from_slice(&self.groups[group][from..from + len]);
            (at, rest) = (at + len as u64, after);
        }
        Ok(())
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        self.shared.lock().spare.append(&mut self.groups);
        self.shared.changed.notify_all();
    }
}

/// What permissions a new file of this process lacks.
fn umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let told = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    told.and_then(|told| u32::from_str_radix(told.trim(), 8).ok()).unwrap_or(0o022)
}

/// Where the other side needs a name for what has none.
const NAME: &[u8] = b"-";
/// Bytes of a stretch at most. Three of them are on their way at a time, each for two round trips and the time that its data takes:
/// enough for 1 Gb/s over 400 ms.
pub const STRETCH_LEN: u64 = 32 << 20;
/// The same in groups.
const STRETCH_GROUPS: usize = (STRETCH_LEN / GROUP_LEN) as usize;
/// Groups in memory: those of the stretches at work, and of one that is being read.
const MADE_MAX: usize = (PARTS_MAX + 1) * STRETCH_GROUPS;
/// Those that are there in any case, so that each stretch at work and the next one have a group.
const MADE_LEAST: usize = PARTS_MAX + 1;
/// How long a copy waits for the first bytes before it reaches the other side: a program that writes at once is not cut short.
const FIRST_PATIENCE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::budget::{Budget, Purpose};
    use std::sync::atomic::AtomicU32;
    use std::thread::sleep;

    fn tap_of(inlet: Inlet, allowance: Allowance) -> Tap {
        let kind = Kind::File { size: 0, extents: None, version: None };
        Tap::open(inlet, Entry { path: NAME.into(), kind, mode: 0o644, mtime: (0, 0) }, allowance).unwrap()
    }

    /// What comes of it next.
    fn next_of(tap: &Tap) -> Result<(Stretch, Manifest), FileError> {
        loop {
            match tap.poll() {
                Some(taken) => return taken,
                None => sleep(Duration::from_millis(1)),
            }
        }
    }

    #[test]
    fn what_cannot_be_read_to_its_end_is_told_and_so_is_a_panic() {
        let mut calls = 0;
        let fails = move |data: &mut [u8]| {
            calls += 1;
            if calls > 2 { Err(FileError::from(io::Error::other("it broke"))) } else { Ok(data.len()) }
        };
        let ends: [(Inlet, &str); 2] =
            [(Box::new(fails), "it broke"), (Box::new(|_: &mut [u8]| panic!("for this test")), "panicked")];
        for (inlet, why) in ends {
            let tap = tap_of(inlet, Allowance::default());
            let mut held = Vec::new();
            let error = loop {
                match next_of(&tap) {
                    Ok((stretch, manifest)) => {
                        assert!(manifest.seams.has_more, "no end before the error");
                        held.push(stretch);
                    }
                    Err(error) => break error,
                }
            };
            assert!(error.to_string().contains(why), "{error}");
        }
    }

    #[test]
    fn a_pipe_waits_where_the_memory_that_there_may_be_is_taken() {
        let (calls, budget) = (Arc::new(AtomicU32::new(0)), Arc::new(Budget::new(0)));
        let counted = calls.clone();
        let inlet = move |data: &mut [u8]| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            data.fill(call as u8);
            Ok(if call < 9 { data.len() } else { 5 })
        };
        let tap = tap_of(Box::new(inlet), Allowance::of(&budget, Purpose::Speed));
        let (mut at, mut has_more) = (0_u64, true);
        while has_more {
            let (mut stretch, manifest) = next_of(&tap).unwrap();
            sleep(Duration::from_millis(20));
            // What is held and what is ready have no more than four buffers.
            assert!(u64::from(calls.load(Ordering::SeqCst)) <= at.div_ceil(GROUP_LEN) + MADE_LEAST as u64);
            let len = manifest.entries[0].kind.data_len();
            let mut read = vec![0; len as usize];
            stretch.read_at(0, &mut read).unwrap();
            assert!((0..).zip(&read).all(|(n, byte)| u64::from(*byte) == (at + n) / GROUP_LEN));
            (at, has_more) = (at + len, manifest.seams.has_more);
        }
        assert_eq!((at, tap.passed().bytes.load(Ordering::Relaxed)), (9 * GROUP_LEN + 5, 9 * GROUP_LEN + 5));
    }
}
