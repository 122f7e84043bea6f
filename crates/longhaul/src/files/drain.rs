//! A pipe at the side that receives. Each part of the copy is a stretch of a stream. What comes of it is put together in memory, in
//! whole groups; a thread hashes these and writes them in their order, each of them once it is verified. A stretch is begun with
//! when there is memory for all of it, so that nothing that comes has to be turned away: what holds up the stream may be what
//! comes next.

use super::errors::FileError;
use super::hash::{StreamHash, group_hash};
use super::outlet::{Opened, Ready};
use super::part_sink::PartSink;
use super::reader::Wake;
use super::runs::Runs;
use super::sink::{Backlog, SinkEvent};
use super::tap::{Passed, STRETCH_LEN};
use super::writer::BAD_MAX;
use crate::net::budget::Allowance;
use crate::net::prepared::{Prepared, Task};
use crossbeam_channel::{Receiver, Sender, unbounded};
use longhaul_proto::endpoint::{Full, Sink};
use longhaul_proto::session::manifest::{GROUP_LEN, Kind, Manifest, PARTS_MAX};
use longhaul_proto::session::message::{GroupHash, Report};
use longhaul_proto::session::reason::Reason;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// Takes one stretch after the other.
pub struct Drain {
    writer: Arc<Writer>,
    /// Groups of all stretches so far.
    groups: u64,
}

/// The thread that writes.
struct Writer {
    shared: Arc<Shared>,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    /// Groups that were handed to the writer, and those that are written.
    handed: AtomicU64,
    written: AtomicU64,
    /// Of what was handed, groups that wait for one before them which has not come.
    held_up: AtomicU64,
    pool: Mutex<Pool>,
    passed: Arc<Passed>,
    /// What is written to is open.
    is_open: AtomicBool,
    /// Nobody wants any more of it.
    stop: AtomicBool,
    /// All is written, and in place.
    is_done: AtomicBool,
    is_durable: AtomicBool,
    broken: OnceLock<Reason>,
    wake: Wake,
}

/// Buffers, each for a group.
#[derive(Default)]
struct Pool {
    /// Those at hand.
    spare: Vec<Box<[u8]>>,
    /// Those that there are, in use or not: no more than groups in the stretches at work.
    made: u64,
    at_work: u64,
}

enum Job {
    /// A group that has come in.
    Group { number: u64, data: Box<[u8]>, len: usize, hash: [u8; 32], wrong: Sender<u64> },
    /// The stream has so many groups.
    End(u64),
}

/// How many bytes the part is of which this is the manifest, if it is a stretch of a stream.
pub fn check_stretch(manifest: &Manifest) -> Option<u64> {
    let [entry] = &manifest.entries[..] else { return None };
    let Kind::File { size, extents: None, .. } = entry.kind else { return None };
    let is_whole = !manifest.seams.has_more || size % GROUP_LEN == 0;
    (is_whole && size <= STRETCH_LEN).then_some(size)
}

impl Drain {
    /// Begin to write there. `wake` is called when there is something to know.
    pub fn start(outlet: Ready, wake: Wake) -> Result<Drain, FileError> {
        let thread =
            Prepared::for_task("longhaul-write").map_err(FileError::step("no thread can be started"))?;
        let shared = Arc::new(Shared {
            handed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            held_up: AtomicU64::new(0),
            pool: Mutex::default(),
            passed: Arc::default(),
            is_open: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
            is_durable: AtomicBool::new(false),
            broken: OnceLock::new(),
            wake,
        });
        let (jobs, queue) = unbounded();
        let (writing, is_file) = (shared.clone(), outlet.is_file());
        let work: Task = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| writing.work_off(outlet, &queue)));
            if let Err(error) = outcome.unwrap_or(Err(FileError::Panicked)) {
                let _ = writing.broken.set(error.into());
            }
            (writing.wake)();
        });
        let thread = thread.begin(work);
        // Who reads of standard output may never go on: nobody waits for that.
        let writer = Writer { shared, jobs: Some(jobs), thread: is_file.then_some(thread) };
        Ok(Drain { writer: Arc::new(writer), groups: 0 })
    }

    /// What went through it so far.
    pub fn passed(&self) -> Arc<Passed> {
        self.writer.shared.passed.clone()
    }

    /// Take the next stretch, of so many bytes. `room`: the memory that it takes.
    pub fn stretch(&mut self, len: u64, is_last: bool, room: Allowance) -> Box<dyn PartSink> {
        let groups = self.groups..self.groups + len.div_ceil(GROUP_LEN);
        self.groups = groups.end;
        self.writer.shared.pool().at_work += groups.end - groups.start;
        if is_last {
            self.writer.send(Job::End(groups.end));
        }
        let coming = groups.clone().map(|_| Coming::default()).collect();
        let (tell_wrong, wrong) = unbounded();
        Box::new(StretchSink {
            writer: self.writer.clone(),
            groups,
            len,
            is_last,
            coming,
            tell_wrong,
            wrong,
            _room: room,
        })
    }
}

impl Writer {
    fn send(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // One that is gone has said why.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // Nothing of a file stays that has not become complete.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// What the thread does until nobody wants any more of it.
    fn work_off(&self, outlet: Ready, jobs: &Receiver<Job>) -> Result<(), FileError> {
        let mut opened = outlet.open()?;
        self.is_open.store(true, Ordering::Release);
        (self.wake)();
        let (mut whole, mut verified, mut end) = (StreamHash::default(), BTreeMap::new(), None);
        for job in jobs {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            match job {
                Job::End(groups) => end = Some(groups),
                Job::Group { number, data, len, hash, wrong } => {
                    if group_hash(number as u32, u32::MAX, &data[..len]) == hash {
                        verified.insert(number, (data, len, hash));
                    } else {
                        self.handed.fetch_sub(1, Ordering::Relaxed);
                        self.spare(data);
                        // The stretch is there as long as the session is.
                        let _ = wrong.send(number);
                    }
                }
            }
            let mut next = self.written.load(Ordering::Relaxed);
            if verified.contains_key(&next) {
                self.held_up.store(0, Ordering::Relaxed);
            }
            while let Some((data, len, hash)) = verified.remove(&next) {
                self.write(&mut opened, &data[..len])?;
                whole.push(&data[..len], hash);
                self.spare(data);
                next += 1;
                self.written.store(next, Ordering::Release);
            }
            self.held_up.store(verified.len() as u64, Ordering::Relaxed);
            // What broke off leaves all as it was.
            if end == Some(next) && !self.stop.load(Ordering::Relaxed) {
                return self.finish(opened, whole);
            }
            (self.wake)();
        }
        Ok(())
    }

    fn write(&self, opened: &mut Opened, data: &[u8]) -> Result<(), FileError> {
        opened.write(data)?;
        self.passed.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn finish(&self, opened: Opened, whole: StreamHash) -> Result<(), FileError> {
        let is_durable = opened.finish()?;
        let _ = self.passed.hash.set(whole.finish());
        self.is_durable.store(is_durable, Ordering::Relaxed);
        self.is_done.store(true, Ordering::Release);
        Ok(())
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spare(&self, data: Box<[u8]>) {
        let mut pool = self.pool();
        pool.spare.push(data);
        pool.trim();
    }

    fn buffer(&self) -> Box<[u8]> {
        let mut pool = self.pool();
        pool.spare.pop().unwrap_or_else(|| {
            pool.made += 1;
            vec![0; GROUP_LEN as usize].into()
        })
    }
}

impl Pool {
    fn trim(&mut self) {
        while self.made > self.at_work && self.spare.pop().is_some() {
            self.made -= 1;
        }
    }
}

/// What comes of a stretch.
struct StretchSink {
    writer: Arc<Writer>,
    /// Their numbers in the stream.
    groups: Range<u64>,
    len: u64,
    is_last: bool,
    coming: Vec<Coming>,
    tell_wrong: Sender<u64>,
    wrong: Receiver<u64>,
    _room: Allowance,
}

/// A group that comes in.
#[derive(Default)]
struct Coming {
    data: Option<Box<[u8]>>,
    runs: Runs,
    hash: Option<[u8; 32]>,
    /// The writer has it.
    is_handed: bool,
    /// How often it was not what the sender read.
    wrong: u32,
}

impl StretchSink {
    fn group_len(&self, index: usize) -> usize {
        (self.len - index as u64 * GROUP_LEN).min(GROUP_LEN) as usize
    }

    /// Hand a group to the writer if all of it is there.
    fn hand_over(&mut self, index: usize) {
        let len = self.group_len(index);
        let group = &mut self.coming[index];
        if let (false, true, Some(hash)) = (group.is_handed, group.runs.covers(&(0..len as u32)), group.hash)
            && let Some(data) = group.data.take()
        {
            (group.is_handed, group.runs) = (true, Runs::default());
            let (number, wrong) = (self.groups.start + index as u64, self.tell_wrong.clone());
            self.writer.shared.handed.fetch_add(1, Ordering::Relaxed);
            self.writer.send(Job::Group { number, data, len, hash, wrong });
        }
    }
}

impl Sink for StretchSink {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), Full> {
        let (mut at, mut rest) = (offset, data);
        while !rest.is_empty() && at < self.len {
            let (index, from) = ((at / GROUP_LEN) as usize, (at % GROUP_LEN) as usize);
            let (piece, after) = rest.split_at(rest.len().min(self.group_len(index) - from));
            let group = &mut self.coming[index];
            if !group.is_handed {
                let data = group.data.get_or_insert_with(|| self.writer.shared.buffer());
                data[from..from + piece.len()].copy_from_slice(piece);
                group.runs.insert(from as u32..(from + piece.len()) as u32);
                self.hand_over(index);
            }
            (at, rest) = (at + piece.len() as u64, after);
        }
        Ok(())
    }
}

impl PartSink for StretchSink {
    fn expect(&mut self, GroupHash { group, hash }: GroupHash) {
        let index = group.index as usize;
        if group.entry == 0 && index < self.coming.len() {
            self.coming[index].hash = Some(hash);
            self.hand_over(index);
        }
    }

    fn poll_event(&mut self) -> Option<SinkEvent> {
        let index = self.wrong.try_recv().ok()?.checked_sub(self.groups.start)?;
        let start = index * GROUP_LEN;
        let group = &mut self.coming[index as usize];
        (group.is_handed, group.wrong) = (false, group.wrong + 1);
        if group.wrong >= BAD_MAX {
            let _ = self.writer.shared.broken.set(FileError::Unverifiable.into());
        }
        let range = start..start + self.group_len(index as usize) as u64;
        Some(SinkEvent::Bad { ranges: [range].into_iter().collect() })
    }

    fn is_finished(&self) -> bool {
        let shared = &self.writer.shared;
        let is_written = shared.written.load(Ordering::Acquire) >= self.groups.end;
        // A source may pause after little: what cannot be opened is told before.
        let is_written = is_written && shared.is_open.load(Ordering::Acquire);
        if self.is_last { shared.is_done.load(Ordering::Acquire) } else { is_written }
    }

    fn report(&self) -> Report {
        let shared = &self.writer.shared;
        let is_done = self.is_last && shared.is_done.load(Ordering::Acquire);
        let durable = shared.is_durable.load(Ordering::Relaxed) || !self.is_last;
        Report { files_done: u64::from(is_done), durable, ..Report::default() }
    }

    /// What the writer has still to write. What waits for a group that has not come is the path's affair: a sender that went
    /// slower for it would bring that group later still.
    fn backlog(&self) -> Backlog {
        let shared = &self.writer.shared;
        let handed = shared.handed.load(Ordering::Relaxed);
        let done = shared.written.load(Ordering::Relaxed) + shared.held_up.load(Ordering::Relaxed);
        let queued = handed.saturating_sub(done);
        let limit_bytes = PARTS_MAX as u64 * STRETCH_LEN;
        Backlog { queued_bytes: queued * GROUP_LEN, limit_bytes, refused: 0 }
    }

    fn broken(&self) -> Option<Reason> {
        self.writer.shared.broken.get().cloned()
    }

    fn close(&mut self) {
        self.writer.shared.stop.store(true, Ordering::Relaxed);
    }
}

impl Drop for StretchSink {
    fn drop(&mut self) {
        let mut pool = self.writer.shared.pool();
        pool.at_work -= self.groups.end - self.groups.start;
        pool.spare.extend(self.coming.iter_mut().filter_map(|group| group.data.take()));
        pool.trim();
    }
}

#[cfg(test)]
mod tests {
    use super::super::outlet::Outlet;
    use super::super::plan::Base;
    use super::super::root::Root;
    use super::*;
    use longhaul_proto::session::manifest::{Entry, Group, Ranges};
    use longhaul_proto::session::message::FileOptions;
    use std::path::Path;
    use std::time::{Duration, Instant};

    const GROUP: usize = GROUP_LEN as usize;

    /// What is ready to go into the file of that name, before which a folder is missing.
    fn ready_in(folder: &Path) -> Ready {
        let base = Base::new(Root::confined(folder).unwrap(), "below/file");
        let kind = Kind::File { size: 0, extents: None, version: None };
        let entry = Entry { path: b"-".into(), kind, mode: 0o644, mtime: (0, 0) };
        Outlet::File(base, FileOptions::default()).look(&entry, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn what_cannot_be_opened_is_told_although_nothing_has_come() {
        let folder = tempfile::tempdir().unwrap();
        let ready = ready_in(folder.path());
        std::fs::write(folder.path().join("below"), b"in the way").unwrap();
        let mut drain = Drain::start(ready, Arc::new(|| {})).unwrap();
        let first = drain.stretch(0, false, Allowance::default());
        let reason = wait_until(|| {
            assert!(!first.is_finished());
            first.broken()
        });
        assert!(reason.to_string().contains("below/file"), "{reason}");
    }

    #[test]
    fn what_broke_off_gets_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let (opened, go_on) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (seen, awaited) = (opened.clone(), go_on.clone());
        let wake = move || {
            seen.store(true, Ordering::SeqCst);
            wait_until(|| awaited.load(Ordering::SeqCst).then_some(()));
        };
        let mut drain = Drain::start(ready_in(folder.path()), Arc::new(wake)).unwrap();
        let passed = drain.passed();
        let mut only = drain.stretch(5, true, Allowance::default());
        only.write_at(0, b"bytes").unwrap();
        only.expect(hash_of(b"bytes", 0, 0));
        wait_until(|| opened.load(Ordering::SeqCst).then_some(()));
        // All has come, and is still to be written.
        only.close();
        go_on.store(true, Ordering::SeqCst);
        drop((drain, only));
        assert!(passed.hash.get().is_none());
        assert_eq!(std::fs::read_dir(folder.path().join("below")).unwrap().count(), 0);
    }

    #[test]
    fn a_thread_that_panics_ends_the_copy() {
        let folder = tempfile::tempdir().unwrap();
        let calls = AtomicU64::new(0);
        let wake = move || assert!(calls.fetch_add(1, Ordering::Relaxed) > 0, "the first time");
        let mut drain = Drain::start(ready_in(folder.path()), Arc::new(wake)).unwrap();
        let only = drain.stretch(5, true, Allowance::default());
        let reason = wait_until(|| only.broken());
        assert!(reason.to_string().contains("panicked"), "{reason}");
    }

    #[test]
    fn there_are_no_more_buffers_than_groups_at_work() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let ready = Ready::StandardOutput(out.reopen().unwrap());
        let mut drain = Drain::start(ready, Arc::new(|| {})).unwrap();
        let stream = vec![7; 6 * GROUP];
        let made = |drain: &Drain| drain.writer.shared.pool().made;
        let mut first = drain.stretch(3 * GROUP_LEN, false, Allowance::default());
        let mut second = drain.stretch(3 * GROUP_LEN, true, Allowance::default());
        first.write_at(0, &stream[..3 * GROUP]).unwrap();
        second.write_at(0, &stream[..2 * GROUP]).unwrap();
        assert_eq!(made(&drain), 5);
        (0..3).for_each(|number| first.expect(hash_of(&stream, number, 0)));
        wait_until(|| first.is_finished().then_some(()));
        drop(first);
        assert_eq!(made(&drain), 3);
        drop(second);
        assert_eq!(made(&drain), 0);
    }

    /// Wait until something is so.
    fn wait_until<T>(mut found: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// The hash of a stream's group, which is in a stretch that begins with group `first`.
    fn hash_of(stream: &[u8], number: usize, first: usize) -> GroupHash {
        let data = stream.chunks(GROUP).nth(number).unwrap();
        let group = Group { entry: 0, index: (number - first) as u32 };
        GroupHash { group, hash: group_hash(number as u32, u32::MAX, data) }
    }

    #[test]
    fn what_comes_in_any_order_is_written_in_order_and_what_is_wrong_comes_again() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let stream: Vec<u8> = (0..3 * GROUP + 5).map(|at| (at >> 9) as u8 ^ at as u8).collect();
        let ready = Ready::StandardOutput(out.reopen().unwrap());
        let mut drain = Drain::start(ready, Arc::new(|| {})).unwrap();
        let passed = drain.passed();
        let mut first = drain.stretch(2 * GROUP_LEN, false, Allowance::default());
        let mut last = drain.stretch(GROUP_LEN + 5, true, Allowance::default());
        (2..4).for_each(|number| last.expect(hash_of(&stream, number, 2)));
        last.write_at(0, &stream[2 * GROUP..]).unwrap();
        // A piece that crosses the border of two groups, and what is wrong in one of them.
        first.write_at(GROUP_LEN / 2, &stream[GROUP / 2..2 * GROUP]).unwrap();
        first.write_at(0, &vec![7; GROUP / 2]).unwrap();
        (0..2).for_each(|number| first.expect(hash_of(&stream, number, 0)));
        let again = wait_until(|| first.poll_event());
        let mut ranges = Ranges::new();
        ranges.insert(0..GROUP_LEN);
        assert_eq!(again, SinkEvent::Bad { ranges });
        assert!(!first.is_finished() && passed.bytes.load(Ordering::Relaxed) == 0);
        first.write_at(0, &stream[..GROUP]).unwrap();
        wait_until(|| (first.is_finished() && last.is_finished()).then_some(()));
        assert_eq!((first.report().files_done, last.report().files_done), (0, 1));
        assert!(std::fs::read(out.path()).unwrap() == stream);
        assert_eq!(passed.hash.get(), Some(blake3::hash(&stream).as_bytes()));
    }

    #[test]
    fn what_waits_for_a_group_that_has_not_come_does_not_slow_the_sender_down() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let stream = vec![7; 3 * GROUP];
        let mut drain = Drain::start(Ready::StandardOutput(out.reopen().unwrap()), Arc::new(|| {})).unwrap();
        let mut only = drain.stretch(3 * GROUP_LEN, true, Allowance::default());
        (0..3).for_each(|number| only.expect(hash_of(&stream, number, 0)));
        only.write_at(GROUP_LEN, &stream[GROUP..]).unwrap();
        let held_up = |drain: &Drain| drain.writer.shared.held_up.load(Ordering::Relaxed);
        wait_until(|| (held_up(&drain) == 2).then_some(()));
        assert_eq!(only.backlog().queued_bytes, 0);
        only.write_at(0, &stream[..GROUP]).unwrap();
        wait_until(|| only.is_finished().then_some(()));
        assert_eq!((only.backlog().queued_bytes, held_up(&drain)), (0, 0));
    }

    #[test]
    fn what_never_comes_right_ends_the_copy() {
        let out = tempfile::NamedTempFile::new().unwrap();
        let ready = Ready::StandardOutput(out.reopen().unwrap());
        let mut drain = Drain::start(ready, Arc::new(|| {})).unwrap();
        let mut only = drain.stretch(5, true, Allowance::default());
        only.expect(hash_of(b"right", 0, 0));
        for _ in 0..BAD_MAX {
            assert!(only.broken().is_none());
            only.write_at(0, b"wrong").unwrap();
            wait_until(|| only.poll_event());
        }
        assert!(only.broken().is_some_and(|reason| reason.to_string().contains("cannot be verified")));
        assert!(std::fs::read(out.path()).unwrap().is_empty());
    }
}
