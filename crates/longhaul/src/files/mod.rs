//! Everything that touches disks: listing and reading at the sender, comparing, receiving, verifying and landing at
//! the receiver.
//!
//! ```text
//! sender                                   receiver
//!   scan  → Scan (manifest, origins)         plan → Plan (have, skipped, failures)
//!   Reader: Source                           FileSink: Sink
//! ```
//!
//! All of this is done for one *part* of a copy at a time, of at most 16 384 entries: a `Lister` lists them one after the
//! other, a `Planner` compares them, and each has a reader and a sink of its own. What goes beyond a part: a folder that is
//! in several of them is finished with the last (`Seams`), a part ends after those before it (`FileSink::go_ahead`), and
//! what is to be removed is known and removed with the last one. Most copies have one part.
//!
//! Both sides cut the object into [`blocks`] of at most 1 MiB that hold whole hash groups: one full group of a
//! large file, or many small files together. Disks are touched by threads of their own, a block at a time; what
//! runs on the network thread copies bytes between packets and blocks in memory and never waits.
//!
//! **Pipes** are copied without a listing: at the sender a `Tap` hands out what it reads in stretches, each a part of the copy with
//! one file in it (`files/tap.rs`); at the receiver a `Drain` writes them one after the other (`files/drain.rs`) to an `Outlet`.
//!
//! **Scan.** Folders are opened one component at a time, never through a link below the top, and listed sorted.
//! What cannot be listed becomes an error for the report and the rest goes on.
//!
//! **Confined root.** A daemon holds a `cap-std` directory handle of each folder: paths that users write are resolved with
//! `openat2` and cannot leave it, neither by `..` nor through links. Below a destination, every folder is opened
//! component by component with `O_NOFOLLOW`. A manifest that names an absolute path, `..`, or a path below a file
//! is refused before anything is done (`Manifest::validate`). Set-user-ID, set-group-ID and sticky bits are
//! taken over where owners are.
//!
//! **More than permissions and times.** Where it is asked for, a listing has owners, extended attributes and ACLs beside its
//! manifest (`files/gather.rs`). The receiver sets them on what it holds, before that gets its name, or on what is there if they
//! differ (`files/keeping.rs`); other names of a file follow when a part ends (`files/links.rs`). What is not allowed is noted and told.
//!
//! **Plan.** The receiver compares the manifest with what is there: a regular file of the same size and time
//! is skipped and has only its permissions and time put right. Room is checked beforehand.
//!
//! **Claims.** A resume, a comparison by hashes and a delta are one mechanism. The receiver *claims* groups: from a part
//! file that an interrupted run left, or from the file in place. The sender reads them beside what it sends and
//! gives their hashes as ever; a writer looks at the claimed group once its hash is there (`files/look.rs`), and
//! `Settled` tells the sender what was confirmed and what is to be sent. No group lands that the sender of *this*
//! copy has not vouched for, by its hash or by the file's version. A file in place whose groups are all confirmed
//! stays untouched; otherwise what is equal in it goes into the part file, where it is hashed again
//! (`copy_file_range`, which shares the blocks where the file system can).
//!
//! **Versions.** A file of several groups carries a version (`files/version.rs`): a hash over all by which the
//! source's file system tells that it was changed or replaced, under a key of the sending user's, so that nobody else
//! can have another file taken for it. Verified groups of the same version need no claim, so a resume reads nothing.
//! The sender compares the identity again after each group that it reads. It has dirty pages written out first, since
//! a store through a mapping leaves no trace while a page is dirty.
//!
//! **Landing.** A file of several groups is received into `.NAME.TOKEN.longhaul-part` beside its destination, a
//! name that no other copy has. When all its groups are verified it gets its length, permissions and time and is
//! renamed: whoever looks sees the old file or the new one. A small file is written in one go into a file without a
//! name (`O_TMPFILE`), which is then linked in, by way of `.NAME.TOKEN.longhaul-new` where it replaces another; until
//! it has come in whole its pieces wait in a spool, also without a name (`files/spool.rs`). Extraneous files are
//! deleted last, and not at all if anything could not be listed or copied. Then folders get their permissions and
//! times; the destination folder itself keeps its own if it holds what the source has not, since then it is a place
//! and no copy (`holds_others` in `files/plan.rs`). Where a file system takes two paths of the copy for one, the
//! second of them fails by name (`files/twins.rs`).
//!
//! **Durability.** With `Fsync::Always` the order is data, name, folder, report; by default it is data, name for
//! files that have a part file. A complete file waits, without its name, until
//! its data is on the disk (`files/landing.rs`); large ones begin their way there group by group (`files/part.rs`), many
//! small ones go together with one `syncfs` (`files/disk.rs`). Links, folders and what was there before follow when all is
//! in place, and only then the copy is finished. An error on the way to the disk fails its file by name and leaves what is
//! in place; nobody knows which data it met, so the part file goes. Where it is the file in place that did not get there, that
//! gets the present time, so that the next run does not skip it.
//!
//! **Verification.** The sender hashes each group as it reads it for the first time and sends the hash over the
//! control stream, authenticated. The receiver hashes what it stored. A group that differs is taken back from the
//! map and sent again under a new *epoch*, so that late acknowledgements of the old bytes do not count. The hash
//! is of what was *read*: a file that changes while it is read fails with a line, and a block that has left the
//! cache and is read again is caught if it differs.
//!
//! **Resume.** A file of more than one group has a journal, `.NAME.longhaul-journal`, locked by the copy that
//! writes it (`files/lease.rs`). It names its part file and speaks of data handed to the kernel, ten times a
//! second, and of verified groups with their hashes; `fdatasync` markers say up to where all of it has reached the
//! disk. Each record carries a check value over the journal's header, its position and its content, so a journal
//! that is torn or changed ends there for its reader. Markers are sealed with a key of the user's: only what was
//! noted before a marker of our own is taken without reading, so a journal that somebody planted is worth no more
//! than a claim, and that of another user of a daemon nothing. After a killed process nothing is read again: what the
//! kernel of this boot was given, through this mount, is brought to the disk, and then counts. After a crash of the host,
//! or where the file system was mounted anew, groups that no marker covers are hashed anew; before Linux 6.8, where mounts
//! cannot be told apart, always. Where the source's version has changed, the journal goes on with the new one, and what it
//! said of the old one becomes claims. That it does so is on the disk before any data of the new one is stored.

mod attributes;
mod blocks;
mod calls;
mod claims;
mod compare;
mod complete;
mod disk;
mod drain;
mod dress;
mod errors;
mod exclude;
mod extents;
mod extraneous;
mod fill;
mod folders;
mod gather;
mod hash;
mod ids;
mod jobs;
mod journal;
mod keeper;
mod keeping;
mod landing;
mod lease;
mod ledger;
mod links;
mod lister;
mod log;
mod look;
mod names;
mod outlet;
mod part;
mod part_sink;
mod parts;
mod pieces;
mod plan;
mod prepare;
mod reader;
mod recover;
mod removal;
mod resume;
mod root;
mod runs;
mod scan;
mod scanned;
mod sealing;
mod shared;
mod single;
mod sink;
mod spill;
mod spool;
mod tap;
mod target;
#[cfg(test)]
mod tests;
mod threads;
mod twins;
mod version;
mod writer;
mod xattrs;

pub use errors::FileError;
pub use exclude::{Exclude, PatternError, PatternProblem};
pub use names::{file_of_part, is_of_pieces, is_ours};
pub use plan::{Base, OBJECT_MAX, Plan, Planner, plan};
pub use reader::{Reader, Wake};
pub use root::Root;
pub use scan::{ScanOptions, SourceSpec, scan};
pub use scanned::Scan;
pub use sink::FileSink;

pub(crate) use drain::{Drain, check_stretch};
pub(crate) use ids::prime as prime_names;
pub(crate) use lister::{Listed, Lister};
pub(crate) use outlet::Outlet;
pub(crate) use part_sink::PartSink;
pub(crate) use pieces::{PIECE_GROUPS_MIN, Pieces, piece_of};
pub(crate) use scan::{PartLimits, goes_into_folder, is_below, scan_in_parts};
pub(crate) use sealing::prime;
pub(crate) use single::tap_file;
pub(crate) use sink::{Backlog, SinkEvent};
pub(crate) use tap::{Passed, Stretch, Tap};
