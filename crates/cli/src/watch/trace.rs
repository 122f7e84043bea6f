//! `--trace`: what a copy does, moment by moment, in a file of qlog's format.

use super::ticker::{LOOK_EVERY, await_end};
use crate::failure::Failure;
use crate::output::{program_start, warn};
use crate::signals;
use crate::values::describe;
use longhaul::trace::{
    Cadence, Change, DataCounted, Event, FILE_SCHEMA, Header, Line, RECORD_SEPARATOR, Record, Recovery, Role,
    StreamCounted, StreamsCounted, millis,
};
use longhaul::{Breakdown, Limit, Phase, Progress, Summary};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, channel, sync_channel};
use std::thread;
use std::time::{Duration, SystemTime};

/// A trace that is being written, by a thread of its own: no disk holds up the copy.
pub struct TraceFile {
    path: PathBuf,
    role: Role,
    records: SyncSender<Record>,
    /// Cut off when the thread ends.
    ended: Receiver<()>,
    /// Records that there was no room for.
    missing: u64,
    phase: Option<Phase>,
    limit: Limit,
    /// What was last told of the data, until it is written.
    data: Option<DataCounted>,
    data_due: Cadence,
    streams_due: Cadence,
}

impl TraceFile {
    /// Begin, before anything is sent.
    pub fn create(path: &Path, role: Role) -> Result<TraceFile, Failure> {
        let named = |what: &str| Failure::Usage(format!("--trace {}: {what}", path.display()));
        if !may_be_replaced(path) {
            return Err(named("is there and no trace; name another file"));
        }
        let failed = |error: io::Error| named(&describe(&error));
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path).map_err(failed)?;
        let mut out = BufWriter::new(file);
        let began = SystemTime::now() - program_start().elapsed();
        let header = Header::new(role, humantime::format_rfc3339_millis(began).to_string());
        write(&mut out, &header).and_then(|()| out.flush()).map_err(failed)?;
        let (records, to_write) = sync_channel(WAITING_MAX);
        let (ending, ended) = channel();
        let name = path.to_path_buf();
        let run = move || {
            let _ending = ending;
            write_all(out, &to_write, &name);
        };
        thread::Builder::new()
            .name("trace".into())
            .spawn(run)
            .map_err(|error| Failure::Failed(format!("cannot start a thread: {error}")))?;
        Ok(TraceFile {
            path: path.into(),
            role,
            records,
            ended,
            missing: 0,
            phase: None,
            limit: Limit::None,
            data: None,
            data_due: Cadence::new(DATA_EVERY),
            streams_due: Cadence::new(STREAMS_EVERY),
        })
    }

    /// A line.
    pub fn record(&mut self, record: Record) {
        if self.records.try_send(record).is_err() {
            self.missing += 1;
        }
    }

    /// How far the copy is.
    pub fn progress(&mut self, progress: &Progress) {
        if self.phase != Some(progress.phase) {
            let old = self.phase.replace(progress.phase).map(|phase| phase.name().into());
            self.tell(Event::Phase(Change { old, new: progress.phase.name().into() }));
        }
        if progress.phase < Phase::Moving {
            return;
        }
        let Progress { bytes_done, bytes_total, limited_by, rtt, .. } = *progress;
        self.data = Some(DataCounted { bytes_done, bytes_total });
        if !self.data_due.is_due(program_start().elapsed()) {
            return;
        }
        self.tell_data();
        // Of what two other hosts do nothing else is known here.
        if self.role == Role::Arranger {
            let old = std::mem::replace(&mut self.limit, limited_by);
            if old != limited_by {
                self.tell(Event::Limit(Change { old: Some(old), new: limited_by }));
            }
            let smoothed_rtt = Some(millis(rtt)).filter(|_| !rtt.is_zero());
            self.tell(Event::Recovery(Recovery { smoothed_rtt, ..Recovery::default() }));
        }
    }

    /// A line of the story.
    pub fn info(&mut self, message: &str) {
        self.tell(Event::Info(Line { message: message.into() }));
    }

    /// What the user is told in any case.
    pub fn warning(&mut self, message: &str) {
        self.tell(Event::Warning(Line { message: message.into() }));
    }

    /// How the data divides: over paths, of which more is told elsewhere, and over TCP streams.
    pub fn breakdown(&mut self, breakdown: &Breakdown) {
        if breakdown.streams.is_empty() || !self.streams_due.is_due(program_start().elapsed()) {
            return;
        }
        let streams = breakdown.streams.iter().map(|stream| StreamCounted {
            from: stream.from,
            to: stream.to,
            bytes: stream.bytes,
            smoothed_rtt: stream.rtt_ms,
        });
        self.tell(Event::Streams(StreamsCounted { streams: streams.collect() }));
    }

    /// The copy has ended: what came of it. Waits until all is written, unless nobody wants to wait any more.
    pub fn end(mut self, summary: &Summary) {
        self.tell_data();
        if let Ok(summary) = serde_json::to_value(summary) {
            self.tell_for_sure(Event::Ended(summary));
        }
        let TraceFile { path, records, ended, missing, .. } = self;
        drop(records);
        if !await_end(&ended, signals::is_stopped) {
            warn(&format!("--trace {}: its end is missing, the disk was too slow", path.display()));
        } else if missing > 0 {
            warn(&format!("--trace {}: {missing} events are missing, the disk was too slow", path.display()));
        }
    }

    fn tell_data(&mut self) {
        self.data.take().into_iter().for_each(|data| self.tell(Event::DataCounted(data)));
    }

    /// Wait for the disk if it is behind.
    fn tell_for_sure(&mut self, event: Event) {
        let mut record = Record::new(program_start().elapsed(), 0, event);
        while let Err(TrySendError::Full(full)) = self.records.try_send(record) {
            if signals::is_stopped() {
                self.missing += 1;
                return;
            }
            record = full;
            thread::sleep(LOOK_EVERY);
        }
    }

    fn tell(&mut self, event: Event) {
        self.record(Record::new(program_start().elapsed(), 0, event));
    }
}

/// Whether what is there is a trace, or no file. Whoever names a file of data has mistaken one flag for another.
fn may_be_replaced(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() > 0 => {}
        Ok(_) => return true,
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    }
    let Ok(mut file) = File::open(path) else { return false };
    let known = format!("\u{1E}{{\"file_schema\":\"{FILE_SCHEMA}\"");
    let mut first = vec![0; known.len()];
    file.read_exact(&mut first).is_ok() && first == known.as_bytes()
}

/// Until there will be no more. What has come is in the file before the next is waited for: a killed copy leaves a trace that
/// can be read.
fn write_all(out: BufWriter<File>, records: &Receiver<Record>, path: &Path) {
    let mut out = Some(out);
    for first in records {
        let mut batch = std::iter::once(first).chain(records.try_iter());
        let Some(file) = &mut out else {
            batch.for_each(drop);
            continue;
        };
        if let Err(error) = batch.try_for_each(|record| write(file, &record)).and_then(|()| file.flush()) {
            warn(&format!("--trace {}: {}; the copy goes on without", path.display(), describe(&error)));
            out = None;
        }
    }
}

/// A line, as RFC 7464 has it.
fn write(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    out.write_all(&[RECORD_SEPARATOR])?;
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// Lines that wait for the disk: of a minute or so.
const WAITING_MAX: usize = 8192;
const DATA_EVERY: Duration = Duration::from_millis(100);
const STREAMS_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_of_something_else_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("data"), "mine").unwrap();
        symlink(at("data"), at("link")).unwrap();
        for name in ["data", "link"] {
            let failure = TraceFile::create(&at(name), Role::Sender).err().unwrap();
            assert!(failure.to_string().contains("is there and no trace"), "{failure}");
        }
        assert_eq!(fs::read(at("data")).unwrap(), b"mine");
        fs::write(at("empty"), "").unwrap();
        for name in ["empty", "new", "new"] {
            TraceFile::create(&at(name), Role::Sender).unwrap().end(&Summary::default());
            let lines = fs::read_to_string(at(name)).unwrap();
            assert_eq!(lines.lines().count(), 2, "a header and the outcome: {lines}");
        }
        let failure = TraceFile::create(&at("none/x"), Role::Sender).err().unwrap();
        assert!(failure.to_string().ends_with("none/x: no such file or directory"), "{failure}");
    }

    #[test]
    fn a_full_disk_ends_no_copy() {
        let mut trace = TraceFile::create(Path::new("/dev/full"), Role::Sender);
        assert!(trace.is_err(), "the header does not fit");
        let folder = tempfile::tempdir().unwrap();
        trace = TraceFile::create(&folder.path().join("x"), Role::Sender);
        let mut trace = trace.unwrap();
        let full = BufWriter::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
        let (records, to_write) = sync_channel(9);
        (0..9).for_each(|_| records.send(Record::new(Duration::ZERO, 0, Event::Info(line()))).unwrap());
        drop(records);
        write_all(full, &to_write, Path::new("/dev/full"));
        assert!(to_write.try_recv().is_err(), "all was taken");
        trace.info("and goes on");
        trace.end(&Summary::default());
    }

    fn line() -> Line {
        Line { message: "x".into() }
    }

    #[test]
    fn what_an_arranger_knows_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let mut trace = TraceFile::create(&path, Role::Arranger).unwrap();
        let moving = Progress {
            phase: Phase::Moving,
            bytes_done: 5,
            bytes_total: 9,
            limited_by: Limit::Path,
            rtt: Duration::from_millis(65),
            ..Progress::default()
        };
        trace.progress(&moving);
        trace.progress(&Progress { bytes_done: 9, ..moving });
        trace.end(&Summary::default());
        let text = fs::read_to_string(&path).unwrap();
        for part in [
            "\"arranger\"",
            "\"new\":\"moving\"",
            "\"new\":\"path\"",
            "\"smoothed_rtt\":65.0",
            "\"bytes_done\":9",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
