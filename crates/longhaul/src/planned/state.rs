//! How far the parts of a planned copy are: a file each, replaced as a whole.

use super::folder::{Keep, PARTS, RUNNING, Run, WISH, damaged, replace};
use crate::api::{Breakdown, Observer, Progress, Remark, Summary};
use crate::error::PlanError;
use crate::live::LiveControl;
use crate::net::user::host_name;
use crate::trace::Record;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How far a part is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// It is being copied.
    Copying,
    /// It is copied.
    Done,
    /// Something of it could not be copied.
    Failed,
    /// Whoever copied it was told to end.
    Stopped,
    /// Whoever copied it has not said anything for a while.
    Silent,
}

/// What is known of a part. Serialised it is `running/I.json` and `parts/I.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartState {
    /// Its number.
    pub part: u32,
    /// How far it is.
    pub stage: Stage,
    /// On which host, and as which process there.
    pub host: String,
    /// Its process.
    pub pid: u32,
    /// Where its data goes.
    pub to: String,
    /// When this was written, in seconds since 1970.
    pub at_s: f64,
    /// For how long it has been copied, this time.
    pub seconds: f64,
    /// Data bytes in all.
    pub bytes_total: u64,
    /// Data bytes that are there.
    pub bytes_done: u64,
    /// Of these, those that were there before this time.
    pub bytes_before: u64,
    /// New data per second, Mb/s.
    pub goodput_mbps: f64,
    /// What holds it back.
    pub limited_by: String,
    /// What went wrong.
    pub error: Option<String>,
}

/// What is wished of a planned copy while it runs, by all of its parts, those that begin later too. Serialised it is `wish.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Wish {
    /// The rate of all together, as `--rate` takes it; as it was planned without one.
    pub rate: Option<String>,
    /// Nothing is sent.
    pub paused: bool,
    /// When the rate was asked for, in nanoseconds since 1970: who is at work does what is asked for anew.
    pub rate_asked_ns: u64,
    /// The same of a pause, or of its end.
    pub pause_asked_ns: u64,
}

impl Wish {
    /// From now on at this rate.
    pub fn ask_for_rate(&mut self, rate: &str) {
        (self.rate, self.rate_asked_ns) = (Some(rate.into()), later_than(self.rate_asked_ns));
    }

    /// From now on send nothing, or go on.
    pub fn ask_for_pause(&mut self, paused: bool) {
        (self.paused, self.pause_asked_ns) = (paused, later_than(self.pause_asked_ns));
    }
}

/// Now, or right after this, where a host's clock is behind.
fn later_than(before_ns: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_nanos() as u64).max(before_ns.saturating_add(1))
}

/// How far a planned copy is.
#[derive(Clone, Debug, Serialize)]
pub struct Status {
    /// How many parts there are.
    pub parts: u32,
    /// How many are copied.
    pub parts_done: u32,
    /// How many are being copied.
    pub parts_copying: u32,
    /// Data bytes in all.
    pub bytes_total: u64,
    /// Data bytes that are there, as far as is known.
    pub bytes_done: u64,
    /// New data per second of those being copied, Mb/s.
    pub goodput_mbps: f64,
    /// Seconds until all are copied at this rate, if any are being copied.
    pub seconds_left: Option<f64>,
    /// The rate that was asked for while it runs, if any was, as `--rate` takes it.
    pub rate: Option<String>,
    /// It was told to pause.
    pub paused: bool,
    /// Each part of which something is known, in order.
    pub known: Vec<PartState>,
}

impl Run {
    /// How far it is.
    pub fn status(&self) -> Result<Status, PlanError> {
        let now = seconds_now();
        let mut known: Vec<PartState> = Vec::new();
        for part in 0..self.plan.parts {
            let ended = read(&self.path_of(PARTS, part, "json"))?;
            let running = read(&self.path_of(RUNNING, part, "json"))?.map(|state: PartState| match state {
                state if now - state.at_s > SILENT_AFTER.as_secs_f64() => {
                    PartState { stage: Stage::Silent, goodput_mbps: 0.0, ..state }
                }
                state => state,
            });
            known.extend(running.or(ended));
        }
        let count = |stage| known.iter().filter(|state| state.stage == stage).count() as u32;
        let bytes_done: u64 = known.iter().map(|state| state.bytes_done).sum();
        let copying = known.iter().filter(|state| state.stage == Stage::Copying);
        let goodput_mbps = copying.fold(0.0, |sum, state| sum + state.goodput_mbps);
        let left = self.plan.bytes.saturating_sub(bytes_done) as f64 * 8e-6;
        let wish = self.wish_or_none()?;
        Ok(Status {
            parts: self.plan.parts,
            parts_done: count(Stage::Done),
            parts_copying: count(Stage::Copying),
            bytes_total: self.plan.bytes,
            bytes_done,
            goodput_mbps,
            seconds_left: (goodput_mbps > 0.0).then(|| left / goodput_mbps),
            rate: wish.rate,
            paused: wish.paused,
            known,
        })
    }

    /// What is wished of it by now.
    pub fn wish(&self) -> Result<Wish, PlanError> {
        let told: Value = read(&self.folder.join(WISH))?.unwrap_or_default();
        Ok(Wish {
            rate: told["rate"].as_str().map(Into::into),
            paused: told["paused"] == true,
            rate_asked_ns: told["rate_asked_ns"].as_u64().unwrap_or(0),
            pause_asked_ns: told["pause_asked_ns"].as_u64().unwrap_or(0),
        })
    }

    /// What somebody has damaged holds no more, and is written anew by the next wish.
    fn wish_or_none(&self) -> Result<Wish, PlanError> {
        match self.wish() {
            Err(PlanError::Damaged { .. }) => Ok(Wish::default()),
            wish => wish,
        }
    }

    /// Wish something else. Those at work see it when they look next.
    pub fn change_wish(&self, change: impl FnOnce(&mut Wish)) -> Result<(), PlanError> {
        let path = self.folder.join(WISH);
        // Two who wish something at a time do so one after the other, where there are locks.
        let lock = lock_file(&self.folder.join(RUNNING).join("wish.lock"))?;
        let _ = flock(&lock, FlockOperation::LockExclusive);
        let mut wish = self.wish_or_none()?;
        change(&mut wish);
        let bytes = serde_json::to_vec(&wish).map_err(|error| damaged(&path, error))?;
        replace(&path, &bytes, Keep::OnDisk)
    }

    /// Take a part: nobody else copies it while this lives.
    pub(super) fn take(&self, part: u32) -> Result<Taken, PlanError> {
        self.bounds(part)?;
        let path = self.path_of(RUNNING, part, "lock");
        let lock = lock_file(&path)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => {
                let holder: Option<PartState> = read(&self.path_of(RUNNING, part, "json"))?;
                let by = holder.map_or("another process".into(), |state| {
                    format!("process {} of {}", state.pid, state.host)
                });
                Err(PlanError::InUse { part, by })
            }
            // Where there are no locks, those of the destination keep two from writing the same.
            _ => Ok(Taken { _lock: lock }),
        }
    }
}

/// A part that is ours.
pub(super) struct Taken {
    _lock: File,
}

/// Tells others how far a part is, and passes on what it is told.
pub(super) struct Telling<'a> {
    inner: &'a mut dyn Observer,
    state: PartState,
    running: PathBuf,
    ended: PathBuf,
    began: Instant,
    told: Option<Instant>,
    /// Something new has come in this time.
    pub has_moved: bool,
    share: Share,
}

/// A rate that all that are at work have in common.
pub(super) struct Share {
    /// Of all.
    pub all: Arc<LiveControl>,
    /// Of this one, bit/s.
    pub ours: Arc<AtomicU64>,
}

impl Share {
    /// So many have it in common, which is found out only where there is a rate.
    pub(super) fn divide(&self, movers: impl FnOnce() -> u64) {
        let ours = self.all.pace().rate.map_or(u64::MAX, |all| all.0 / movers().max(1));
        self.ours.store(ours, Ordering::Relaxed);
    }
}

impl<'a> Telling<'a> {
    pub(super) fn new(run: &Run, part: u32, share: Share, inner: &'a mut dyn Observer) -> Telling<'a> {
        let state = PartState {
            part,
            stage: Stage::Copying,
            host: host_name(),
            pid: std::process::id(),
            to: String::new(),
            at_s: seconds_now(),
            seconds: 0.0,
            bytes_total: 0,
            bytes_done: 0,
            bytes_before: 0,
            goodput_mbps: 0.0,
            limited_by: String::new(),
            error: None,
        };
        Telling {
            inner,
            state,
            running: run.path_of(RUNNING, part, "json"),
            ended: run.path_of(PARTS, part, "json"),
            began: Instant::now(),
            told: None,
            has_moved: false,
            share,
        }
    }

    /// It goes there from now on.
    pub(super) fn goes_to(&mut self, to: String) -> Result<(), PlanError> {
        self.state.to = to;
        self.has_moved = false;
        self.tell()
    }

    /// How it ended.
    pub(super) fn ended(&mut self, stage: Stage, error: Option<String>) -> Result<(), PlanError> {
        (self.state.stage, self.state.error) = (stage, error);
        self.state.goodput_mbps = 0.0;
        self.stamp();
        let told = replace(&self.ended, &self.bytes(), Keep::OnDisk);
        let _ = fs::remove_file(&self.running);
        told
    }

    /// The same, with what came of it.
    pub(super) fn summarised(&mut self, summary: &Summary) -> Result<(), PlanError> {
        self.state.bytes_total = summary.bytes;
        self.state.bytes_done = summary.bytes;
        self.state.bytes_before = summary.skipped_bytes + summary.resumed_bytes;
        self.state.limited_by = summary.limited_by.name().into();
        let stage = if summary.ok { Stage::Done } else { Stage::Failed };
        self.ended(stage, summary.error.clone())
    }

    fn stamp(&mut self) {
        self.state.at_s = seconds_now();
        self.state.seconds = self.began.elapsed().as_secs_f64();
    }

    fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.state).unwrap_or_default()
    }

    fn tell(&mut self) -> Result<(), PlanError> {
        self.told = Some(Instant::now());
        self.stamp();
        let told = replace(&self.running, &self.bytes(), Keep::ForNow);
        self.share.divide(|| 1 + at_work(self.running.parent().unwrap_or(Path::new(".")), &self.running));
        told
    }
}

impl Observer for Telling<'_> {
    fn progress(&mut self, progress: &Progress) {
        if progress.bytes_total > 0 {
            let before = progress.skipped_bytes + progress.resumed_bytes;
            self.has_moved |= progress.bytes_done > before;
            (self.state.bytes_total, self.state.bytes_done) = (progress.bytes_total, progress.bytes_done);
            self.state.bytes_before = before;
            self.state.goodput_mbps = progress.goodput.0 as f64 / 1e6;
            self.state.limited_by = progress.limited_by.name().into();
        }
        if self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            // The copy matters more than what is told of it.
            let _ = self.tell();
        }
        self.inner.progress(progress);
    }

    fn remark(&mut self, remark: Remark) {
        self.inner.remark(remark);
    }

    fn warning(&mut self, line: &str) {
        self.inner.warning(line);
    }

    fn breakdown(&mut self, breakdown: &Breakdown) {
        self.inner.breakdown(breakdown);
    }

    fn wants_breakdown(&self) -> bool {
        self.inner.wants_breakdown()
    }

    fn trace(&mut self, record: Record) {
        self.inner.trace(record);
    }

    fn wants_trace(&self) -> bool {
        self.inner.wants_trace()
    }
}

/// How many others are at work now, by the files that they have just written; times are the file system's.
fn at_work(running: &Path, own: &Path) -> u64 {
    let written = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    let Some(now) = written(own) else { return 0 };
    let names = fs::read_dir(running).into_iter().flatten().flatten().map(|entry| entry.path());
    let others = names.filter(|path| path.extension().is_some_and(|ending| ending == "json") && path != own);
    let is_fresh = |path: &PathBuf| {
        written(path).is_some_and(|at| now.duration_since(at).is_ok_and(|age| age < SILENT_AFTER) || at > now)
    };
    others.filter(is_fresh).count() as u64
}

fn lock_file(path: &Path) -> Result<File, PlanError> {
    let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path);
    lock.map_err(PlanError::at(path))
}

/// A file of the folder, if it is there.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, PlanError> {
    match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| damaged(path, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PlanError::at(path)(error)),
    }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Often enough to look at, and a file system that many have in common is not kept busy.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Who has not said anything for so long is not counted any more.
const SILENT_AFTER: Duration = Duration::from_secs(15);
