//! The folder of a planned copy: what is in it, how it is written and read.

use super::cut::{Cut, Cutter, weight_of};
use crate::error::PlanError;
use crate::files::{
    Exclude, OBJECT_MAX, PartLimits, Root, Scan, ScanOptions, SourceSpec, goes_into_folder, scan_in_parts,
};
use crate::listing::{self, Room};
use crate::net::random::random;
use crate::net::user::host_name;
use longhaul_proto::session::attributes::Preserve;
use longhaul_proto::session::manifest::{EntryIndex, GROUP_LEN, Kind, Layout, Manifest};
use longhaul_proto::session::message::{FileFailure, PlanId};
use longhaul_proto::session::truncated::Truncated;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is planned. Serialised it is `plan.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// Of this layout of the folder.
    pub version: u32,
    /// Tells it from other plans: 16 hexadecimal digits.
    pub id: String,
    /// How many parts there are, numbered from 0.
    pub parts: u32,
    /// Data bytes in all.
    pub bytes: u64,
    /// Regular files in all.
    pub files: u64,
    /// Entries of all kinds.
    pub entries: u64,
    /// How the program was called that planned it: sources, destination and how to copy.
    pub command: Vec<String>,
    /// In which folder.
    pub folder: String,
    /// It is of one file, which is given the name that the destination says.
    pub is_single: bool,
    /// The key of its files' versions, 64 hexadecimal digits.
    key: String,
    /// The list's stretches.
    chunks: Vec<Chunk>,
    /// Where each part begins.
    cuts: Vec<Cut>,
}

/// A stretch of the list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chunk {
    /// Where it lies in `list`.
    offset: u64,
    /// Its length there, compressed.
    len: u64,
    /// Its entries, and how many of the first are folders that were in the stretch before as well.
    pub(super) entries: u32,
    pub(super) continued: u32,
    /// The first entry of each source, and the folder that its path is relative to.
    pub(super) origins: Vec<(u32, String)>,
}

/// How to plan.
#[derive(Clone, Debug)]
pub struct PlanOptions {
    /// How many parts there are to be. There may be fewer.
    pub parts: Option<u32>,
    /// How many bytes a part is to have, where their number is not given.
    pub part_len: Option<u64>,
    /// Files are cut at multiples of so many bytes only: what a file system stores in one piece.
    pub align: u64,
    /// Leave out what matches (gitignore-like globs).
    pub exclude: Vec<String>,
    /// Of each source folder only these and what is in them, relative to it.
    pub files_from: Option<Vec<PathBuf>>,
    /// What is kept of files beyond contents, permissions and times.
    pub preserve: Preserve,
    /// To be kept in the plan: how the program was called.
    pub command: Vec<String>,
}

/// The folder of a copy that was planned.
#[derive(Debug)]
pub struct Run {
    /// Where it is.
    pub folder: PathBuf,
    /// What is planned.
    pub plan: Plan,
    list: File,
}

/// What a plan says of what could not be listed.
#[derive(Debug, Default)]
pub struct Left {
    /// What could not be listed.
    pub failures: Truncated<FileFailure>,
    /// Lines about what is left out although nobody asked for that.
    pub warnings: Vec<String>,
}

/// List the sources and write the plan to `folder`, which is made. What cannot be listed is told, and fails again with the last
/// step.
pub fn plan(
    sources: &[PathBuf],
    folder: &Path,
    options: &PlanOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(Plan, Left), PlanError> {
    if options.align == 0 || !options.align.is_multiple_of(GROUP_LEN) {
        return Err(PlanError::Uncuttable("files are cut at multiples of 1 MiB: give such a length"));
    }
    if options.parts == Some(0) || options.part_len == Some(0) {
        return Err(PlanError::Uncuttable("a plan has one part at the least"));
    }
    fs::create_dir_all(folder).map_err(PlanError::at(folder))?;
    let path = folder.join(PLAN);
    if path.exists() {
        return Err(PlanError::Taken { folder: folder.into() });
    }
    for name in [RUNNING, PARTS] {
        let path = folder.join(name);
        fs::create_dir_all(&path).map_err(PlanError::at(&path))?;
    }
    let (plan, left, weight) = list(sources, folder, options, stop)?;
    let parts = match (options.parts, options.part_len) {
        (Some(parts), _) => u64::from(parts),
        (None, Some(len)) => weight.div_ceil(len),
        (None, None) => PARTS_USUAL,
    };
    let run = Run::of(folder, plan)?;
    let cuts = run.cut(weight.div_ceil(parts), options.align)?;
    let plan = Plan { parts: cuts.len() as u32, cuts, ..run.plan };
    let bytes = serde_json::to_vec(&plan).map_err(|error| damaged(&path, error))?;
    replace(&path, &bytes, Keep::OnDisk)?;
    Ok((plan, left))
}

/// List the sources into the folder: a plan without cuts, and what all of it weighs.
fn list(
    sources: &[PathBuf],
    folder: &Path,
    options: &PlanOptions,
    stop: &Arc<AtomicBool>,
) -> Result<(Plan, Left, u64), PlanError> {
    let here = std::env::current_dir().map_err(PlanError::at(Path::new(".")))?;
    let key: [u8; 32] = random().map_err(PlanError::at(folder))?;
    let id: PlanId = random().map_err(PlanError::at(folder))?;
    let mut plan = Plan {
        version: VERSION,
        id: format!("{:016x}", u64::from_be_bytes(id)),
        parts: 0,
        bytes: 0,
        files: 0,
        entries: 0,
        command: options.command.clone(),
        folder: text(&here)?,
        is_single: false,
        key: blake3::Hash::from_bytes(key).to_hex().to_string(),
        chunks: Vec::new(),
        cuts: Vec::new(),
    };
    let exclude = Exclude::new(&options.exclude)?;
    let files_from = options.files_from.clone();
    let scan_options = ScanOptions {
        exclude,
        files_from,
        stop: stop.clone(),
        plan_key: Some(key),
        preserve: options.preserve,
        ..ScanOptions::default()
    };
    let goes_into_folder = goes_into_folder(sources.len(), options.files_from.as_deref());
    let sources: Vec<_> = sources.iter().map(|path| SourceSpec { path: path.clone() }).collect();
    let path = folder.join(LIST);
    let mut out = BufWriter::new(File::create(&path).map_err(PlanError::at(&path))?);
    let (mut left, mut weight, mut broken) = (Left::default(), 0u64, None);
    scan_in_parts(&Root::ambient(), &sources, &scan_options, PartLimits::default(), &mut |scan| {
        weight = weight.saturating_add(weight_of(&scan.manifest));
        broken = write_chunk(&scan, &path, &mut out, &mut plan).err();
        left.warnings.extend(scan.warnings());
        left.failures.extend(scan.errors);
        broken.is_none()
    });
    if let Some(broken) = broken {
        return Err(broken);
    }
    if stop.load(Ordering::Relaxed) {
        return Err(PlanError::Interrupted);
    }
    out.flush().and_then(|()| out.get_ref().sync_all()).map_err(PlanError::at(&path))?;
    plan.is_single &= !goes_into_folder;
    if plan.entries == 0 {
        let first = left.failures.first.first().map(FileFailure::to_string);
        let why = first.or(left.warnings.pop()).unwrap_or_else(|| "everything is left out".into());
        return Err(PlanError::Empty { why });
    }
    check_size(plan.bytes, plan.entries)?;
    Ok((plan, left, weight))
}

/// Whether the last step can be taken.
fn check_size(bytes: u64, entries: u64) -> Result<(), PlanError> {
    let fits = bytes <= OBJECT_MAX && EntryIndex::try_from(entries).is_ok();
    if fits { Ok(()) } else { Err(PlanError::TooLarge { bytes, entries }) }
}

fn write_chunk(scan: &Scan, path: &Path, out: &mut impl Write, plan: &mut Plan) -> Result<(), PlanError> {
    let Manifest { entries, seams, .. } = &scan.manifest;
    let bytes = listing::encode(&scan.manifest, &scan.errors)?;
    out.write_all(&bytes).map_err(PlanError::at(path))?;
    let origin =
        |(first, path): (u32, &Path)| Ok((first, text(&absolute(path).map_err(PlanError::at(path))?)?));
    let is_first = plan.chunks.is_empty();
    plan.chunks.push(Chunk {
        offset: plan.chunks.last().map_or(0, |chunk| chunk.offset + chunk.len),
        len: bytes.len() as u64,
        entries: entries.len() as u32,
        continued: seams.continued,
        origins: scan.origin_paths().map(origin).collect::<Result<_, PlanError>>()?,
    });
    plan.bytes += Layout::new(&scan.manifest).object_len();
    plan.files += scan.manifest.regular_files();
    plan.entries += entries.len() as u64 - u64::from(seams.continued);
    plan.is_single = matches!(&entries[..], [only] if is_first
        && !seams.has_more
        && !matches!(only.kind, Kind::Dir)
        && !only.path.contains(&b'/'));
    Ok(())
}

impl Run {
    /// Open the folder of a copy that was planned.
    pub fn open(folder: &Path) -> Result<Run, PlanError> {
        let path = folder.join(PLAN);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(PlanError::Missing { folder: folder.into() });
            }
            Err(error) => return Err(PlanError::at(&path)(error)),
        };
        let head: Head = serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error))?;
        if head.version != VERSION {
            let (folder, version) = (folder.into(), head.version);
            return Err(PlanError::Version { folder, version, known: VERSION });
        }
        let plan: Plan = serde_json::from_slice(&bytes).map_err(|error| damaged(&path, error))?;
        let run = Run::of(folder, plan)?;
        run.check(&path)?;
        Ok(run)
    }

    fn of(folder: &Path, plan: Plan) -> Result<Run, PlanError> {
        let path = folder.join(LIST);
        let list = File::open(&path).map_err(PlanError::at(&path))?;
        Ok(Run { folder: folder.into(), plan, list })
    }

    /// Where parts of about this weight begin.
    fn cut(&self, weight: u64, align: u64) -> Result<Vec<Cut>, PlanError> {
        let mut cutter = Cutter::new(weight, align);
        for chunk in 0..self.plan.chunks.len() as u32 {
            cutter.add(chunk, &self.read(chunk)?.0);
        }
        Ok(cutter.finish())
    }

    /// Whether what the plan says of itself can be.
    fn check(&self, path: &Path) -> Result<(), PlanError> {
        let Plan { parts, cuts, chunks, id, key, .. } = &self.plan;
        let wrong = |what: &str| Err(PlanError::Damaged { path: path.into(), what: what.into() });
        if cuts.len() as u64 != u64::from(*parts) || cuts.is_empty() || !cuts.is_sorted() {
            return wrong("its parts make no sense");
        }
        let fits = |cut: &Cut| chunks.get(cut.chunk as usize).is_some_and(|chunk| cut.entry < chunk.entries);
        if !cuts.iter().all(|cut| fits(cut) && cut.from_byte % GROUP_LEN == 0) {
            return wrong("its parts lie outside of its list");
        }
        if u64::from_str_radix(id, 16).is_err() || blake3::Hash::from_hex(key).is_err() {
            return wrong("its id or its key is none");
        }
        let len = chunks.last().map_or(0, |chunk| chunk.offset.saturating_add(chunk.len));
        let there = self.list.metadata().map_err(PlanError::at(path))?.len();
        if there < len {
            return wrong("the list beside it is shorter than it says");
        }
        Ok(())
    }

    /// Tells this plan from others.
    pub fn id(&self) -> PlanId {
        u64::from_str_radix(&self.plan.id, 16).unwrap_or_default().to_be_bytes()
    }

    /// The key of the versions of its files.
    pub(super) fn key(&self) -> [u8; 32] {
        blake3::Hash::from_hex(&self.plan.key).map_or([0; 32], |key| *key.as_bytes())
    }

    pub(super) fn chunks(&self) -> &[Chunk] {
        &self.plan.chunks
    }

    /// Where a part begins and the next one does.
    pub(super) fn bounds(&self, part: u32) -> Result<(Cut, Option<Cut>), PlanError> {
        let cuts = &self.plan.cuts;
        let begin = cuts.get(part as usize).ok_or(PlanError::NoSuchPart { part, parts: self.plan.parts })?;
        Ok((*begin, cuts.get(part as usize + 1).copied()))
    }

    /// Read a stretch of the list.
    pub(super) fn read(&self, chunk: u32) -> Result<(Manifest, Vec<FileFailure>), PlanError> {
        let path = self.folder.join(LIST);
        let Chunk { offset, len, entries, .. } = &self.plan.chunks[chunk as usize];
        let mut bytes = vec![0; *len as usize];
        self.list.read_exact_at(&mut bytes, *offset).map_err(PlanError::at(&path))?;
        let listed =
            listing::decode(&bytes, &mut Room::of(usize::MAX)).map_err(|error| damaged(&path, error))?;
        if listed.0.entries.len() != *entries as usize {
            return Err(damaged(&path, "the plan is of another list"));
        }
        Ok(listed)
    }

    /// Where a file of the folder is: `running`'s or `parts`'.
    pub(super) fn path_of(&self, folder: &str, part: u32, ending: &str) -> PathBuf {
        self.folder.join(folder).join(format!("{part}.{ending}"))
    }
}

/// What every version of a plan has.
#[derive(Deserialize)]
struct Head {
    version: u32,
}

pub(super) fn damaged(path: &Path, what: impl std::fmt::Display) -> PlanError {
    PlanError::Damaged { path: path.into(), what: what.to_string() }
}

fn text(path: &Path) -> Result<String, PlanError> {
    path.to_str().map(Into::into).ok_or_else(|| PlanError::NotUtf8 { path: path.into() })
}

/// How well a file is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    /// A power cut does not take it.
    OnDisk,
    /// It is written again soon, and by a thread that must not wait for a disk.
    ForNow,
}

/// Put a file in place of the one that is there, in one step: who reads it sees one or the other.
pub(super) fn replace(path: &Path, bytes: &[u8], keep: Keep) -> Result<(), PlanError> {
    // Processes of two hosts may have one number.
    let whose = format!("{}-{}", host_name().replace('/', "_"), std::process::id());
    let new = path.with_extension(format!("{whose}.new"));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(bytes)?;
        if keep == Keep::OnDisk {
            file.sync_all()?;
        }
        fs::rename(&new, path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        PlanError::at(path)(error)
    })
}

/// Of the folder's layout.
const VERSION: u32 = 1;
const PLAN: &str = "plan.json";
const LIST: &str = "list";
pub(super) const RUNNING: &str = "running";
pub(super) const PARTS: &str = "parts";
pub(super) const WISH: &str = "wish.json";
/// Enough for a dozen movers to end at about the same time.
const PARTS_USUAL: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_last_step_could_not_take_is_not_planned() {
        let (bytes, entries) = (1 << 50, u64::from(u32::MAX));
        assert!(check_size(bytes, entries).is_ok());
        for (bytes, entries) in [(bytes + 1, 1), (1, entries + 1)] {
            let line = check_size(bytes, entries).unwrap_err().to_string();
            assert!(
                line.contains(&bytes.to_string()) && line.ends_with("plan its folders one by one"),
                "{line}"
            );
        }
    }
}
