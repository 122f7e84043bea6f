//! Slow hosts: programs that get only a share of a processor, by a control group of the kernel's.

use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A millisecond of a processor in each period, for all programs in it together. Dropping it, once they have ended, removes it.
#[derive(Debug)]
pub(crate) struct Share {
    group: PathBuf,
}

impl Share {
    /// A millisecond of each `period_ms`: the kernel gives no less.
    pub(crate) fn one_ms_of(period_ms: u32) -> io::Result<Share> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let kind = Kind::here().ok_or_else(|| io::Error::other("no control groups for processors here"))?;
        let root = kind.root();
        remove_stale(root);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let group = root.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&group)?;
        // Removed if the rest fails.
        let share = Share { group };
        let period_us = u64::from(period_ms) * QUOTA_US;
        for (file, text) in kind.settings(period_us) {
            fs::write(share.group.join(file), text)?;
        }
        Ok(share)
    }

    /// Have a program, with all of its threads and what it starts from now on, get no more than this.
    pub(crate) fn take_in(&self, process: u32) -> io::Result<()> {
        match fs::write(self.group.join("cgroup.procs"), process.to_string()) {
            // It has ended, and says itself why.
            Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Ok(()),
            result => result,
        }
    }

    /// In how many periods they had to wait.
    #[cfg(test)]
    fn waits(&self) -> u64 {
        let stat = fs::read_to_string(self.group.join("cpu.stat")).unwrap_or_default();
        let waits = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
        waits.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // A program that was killed is there until the kernel has cleared it away.
        for _ in 0..REMOVAL_TRIES {
            match fs::remove_dir(&self.group) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => thread::sleep(REMOVAL_WAIT),
                _ => return,
            }
        }
    }
}

/// The kernel's two interfaces.
#[derive(Debug)]
enum Kind {
    First(PathBuf),
    Second(PathBuf),
}

impl Kind {
    fn here() -> Option<Kind> {
        Kind::among(&fs::read_to_string("/proc/self/mounts").ok()?, |root| {
            let lets = |file| fs::read_to_string(root.join(file)).unwrap_or_default();
            lets("cgroup.subtree_control").split_whitespace().any(|controller| controller == "cpu")
        })
    }

    /// Of these mounts; `controls`: whether groups below this one can have shares of processors.
    fn among(mounts: &str, controls: impl Fn(&Path) -> bool) -> Option<Kind> {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (root, kind, options) = (PathBuf::from(words.next()?), words.next()?, words.next()?);
            match kind {
                "cgroup" if options.split(',').any(|option| option == "cpu") => Some(Kind::First(root)),
                "cgroup2" if controls(&root) => Some(Kind::Second(root)),
                _ => None,
            }
        })
    }

    fn root(&self) -> &Path {
        let (Kind::First(root) | Kind::Second(root)) = self;
        root
    }

    fn settings(&self, period_us: u64) -> Vec<(&'static str, String)> {
        match self {
            Kind::First(_) => {
                vec![("cpu.cfs_period_us", period_us.to_string()), ("cpu.cfs_quota_us", QUOTA_US.to_string())]
            }
            Kind::Second(_) => vec![("cpu.max", format!("{QUOTA_US} {period_us}"))],
        }
    }
}

/// What killed runs left: those of processes that are no more.
fn remove_stale(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

const PREFIX: &str = "longhaul-lab-";
/// The least that the kernel gives a group in a period (`min_cfs_quota_period`).
const QUOTA_US: u64 = 1000;
const REMOVAL_TRIES: u32 = 100;
const REMOVAL_WAIT: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn a_program_that_wants_more_than_its_share_waits() {
        let share = match Share::one_ms_of(10) {
            Ok(share) => share,
            Err(why) => return eprintln!("skipped: no shares of a processor here: {why}"),
        };
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        share.take_in(busy.id()).unwrap();
        let begun = Instant::now();
        while share.waits() == 0 && begun.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        let waits = share.waits();
        busy.kill().unwrap();
        busy.wait().unwrap();
        let group = share.group.clone();
        drop(share);
        assert!(waits > 0 && !group.exists(), "waited {waits} times");
    }

    #[test]
    fn either_interface_is_found_where_it_gives_shares() {
        let first = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu,cpuacct 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0";
        let second = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0";
        let kind = |mounts, controls: bool| Kind::among(mounts, |_| controls).map(|kind| kind.settings(4000));
        let of_first = [("cpu.cfs_period_us", "4000"), ("cpu.cfs_quota_us", "1000")]
            .map(|(file, text)| (file, text.into()));
        assert_eq!(kind(first, false), Some(of_first.into()));
        assert_eq!(kind(second, true), Some(vec![("cpu.max", "1000 4000".into())]));
        assert!(kind(second, false).is_none() && kind("", true).is_none());
    }
}
