//! `--metrics-file`: the figures of a copy for the textfile collector of node_exporter.

use super::board::Board;
use crate::failure::Failure;
use crate::gauges::{Transfer, TransferGauges};
use crate::output::{program_start, warn};
use crate::values::describe;
use longhaul::{Progress, Summary};
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

/// Such a file, which is replaced as a whole.
pub struct TextFile {
    path: PathBuf,
    folder: PathBuf,
    registry: Registry,
    transfer: Transfer,
    gauges: TransferGauges,
    running: Family<Transfer, Gauge>,
    elapsed: Family<Transfer, Gauge<f64, AtomicU64>>,
    success: Family<Transfer, Gauge>,
    ended: Family<Transfer, Gauge<f64, AtomicU64>>,
    /// That it cannot be written was told.
    warned: AtomicBool,
}

impl TextFile {
    /// Make it, or replace one that is there.
    pub fn create(path: &Path) -> Result<TextFile, Failure> {
        let named = |what: &str| Failure::Usage(format!("--metrics-file {}: {what}", path.display()));
        let name = path.file_stem().ok_or_else(|| named("names no file"))?;
        if path.extension().is_none_or(|ending| ending != ENDING) {
            warn(&format!(
                "--metrics-file {}: node_exporter reads files that end in .{ENDING} alone",
                path.display()
            ));
        }
        // It is replaced as a whole: a device or a link would be no more.
        if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(named("is there and no regular file; name another"));
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let mut registry = Registry::with_prefix("longhaul_transfer");
        let gauges = TransferGauges::register(&mut registry);
        let (running, elapsed, success, ended) =
            (Family::default(), Family::default(), Family::default(), Family::default());
        registry.register("running", "Whether the copy is under way", running.clone());
        registry.register("elapsed_seconds", "Since the program began", elapsed.clone());
        registry.register("success", "Whether all is in place, once the copy has ended", success.clone());
        registry.register("end_timestamp_seconds", "When it ended, in seconds since 1970", ended.clone());
        let file = TextFile {
            path: path.into(),
            folder: folder.into(),
            registry,
            transfer: Transfer::named(&name.to_string_lossy()),
            gauges,
            running,
            elapsed,
            success,
            ended,
            warned: AtomicBool::new(false),
        };
        file.set(&Progress::default(), true);
        file.write().map_err(|error| named(&describe(&error)))?;
        Ok(file)
    }

    /// How far it is.
    pub fn update(&self, board: &Board) {
        self.set(&board.progress(), true);
        self.replace();
    }

    /// It has ended.
    pub fn end(&self, board: &Board, summary: &Summary) {
        let mut last = board.progress();
        (last.bytes_done, last.files_total) = (summary.bytes, summary.files);
        (last.goodput, last.limits) = (Default::default(), summary.limits);
        last.files_done = Some(summary.files_in_place);
        if summary.ok {
            last.bytes_total = summary.bytes;
        }
        self.set(&last, false);
        self.success.get_or_create(&self.transfer).set(i64::from(summary.ok));
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.ended.get_or_create(&self.transfer).set(now.as_secs_f64());
        self.replace();
    }

    fn set(&self, progress: &Progress, is_running: bool) {
        self.gauges.set(&self.transfer, progress);
        self.running.get_or_create(&self.transfer).set(i64::from(is_running));
        self.elapsed.get_or_create(&self.transfer).set(program_start().elapsed().as_secs_f64());
    }

    /// The copy matters more than what is told of it.
    fn replace(&self) {
        if let Err(error) = self.write()
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            warn(&format!("--metrics-file {}: {}", self.path.display(), describe(&error)));
        }
    }

    fn write(&self) -> io::Result<()> {
        let mut text = String::new();
        encode_registry(&mut text, &self.registry).map_err(io::Error::other)?;
        // Another user's exporter is to read it, and none is to take the draft for a file of its own.
        let mut draft = tempfile::Builder::new();
        draft.prefix(".longhaul-").suffix(".new");
        let mut draft = draft.tempfile_in(&self.folder)?;
        draft.write_all(text.as_bytes())?;
        // Whatever the umask.
        draft.as_file().set_permissions(Permissions::from_mode(READ_BY_ALL))?;
        draft.persist(&self.path)?;
        Ok(())
    }
}

const ENDING: &str = "prom";
const READ_BY_ALL: u32 = 0o644;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::failed_summary;
    use longhaul::{Limit, Phase, Rate};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    #[test]
    fn the_file_is_there_from_the_beginning_and_says_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nightly.prom");
        let file = TextFile::create(&path).unwrap();
        let text = || fs::read_to_string(&path).unwrap();
        assert!(text().contains("longhaul_transfer_running{transfer=\"nightly\"} 1\n"), "{}", text());
        assert!(!text().contains("success{"), "{}", text());
        let board = Board::default();
        let mut progress = Progress {
            phase: Phase::Moving,
            bytes_done: 10,
            bytes_total: 30,
            goodput: Rate(8000),
            ..Progress::default()
        };
        progress.limits.add(Limit::Path, Duration::from_secs(2));
        board.note(&progress);
        file.update(&board);
        for line in [
            "longhaul_transfer_done_bytes{transfer=\"nightly\"} 10\n",
            "longhaul_transfer_size_bytes{transfer=\"nightly\"} 30\n",
            "longhaul_transfer_rate_bits_per_second{transfer=\"nightly\"} 8000\n",
            "longhaul_transfer_limited_seconds{transfer=\"nightly\",limit=\"path\"} 2.0\n",
        ] {
            assert!(text().contains(line), "{line} in {}", text());
        }
        file.end(&board, &failed_summary("no", ""));
        for line in ["success{transfer=\"nightly\"} 0\n", "running{transfer=\"nightly\"} 0\n"] {
            assert!(text().contains(line), "{line} in {}", text());
        }
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, socket] =
            ["file.prom", "link.prom", "socket.prom"].map(|name| folder.path().join(name));
        TextFile::create(&file).unwrap();
        TextFile::create(&file).unwrap();
        symlink(&file, &link).unwrap();
        let _socket = UnixListener::bind(&socket).unwrap();
        for there in [&link, &socket] {
            let before = fs::symlink_metadata(there).unwrap().file_type();
            let error = TextFile::create(there).err().unwrap().to_string();
            assert!(error.contains("no regular file"), "{error}");
            assert_eq!(fs::symlink_metadata(there).unwrap().file_type(), before);
        }
    }

    #[test]
    fn a_place_that_cannot_be_written_is_told_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for bad in [folder.path().join("no/file.prom"), folder.path().into(), "/".into()] {
            let error = TextFile::create(&bad).err().unwrap();
            assert!(matches!(&error, Failure::Usage(text) if text.contains("--metrics-file")), "{error}");
        }
    }
}
