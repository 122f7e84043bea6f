//! The memory that all sessions of a daemon may take together: what bounds each of them may be too much for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may be taken, and what is.
pub(crate) struct Budget {
    bytes_max: u64,
    taken: AtomicU64,
}

impl Budget {
    pub fn new(bytes_max: u64) -> Budget {
        Budget { bytes_max, taken: AtomicU64::new(0) }
    }

    /// Half of the host's memory: the other half is for what is not counted, and for the disks' cache.
    pub fn of_host() -> Budget {
        let host = rustix::system::sysinfo();
        Budget::new((host.totalram as u64).saturating_mul(host.mem_unit.into()) / 2)
    }
}

impl Default for Budget {
    /// Without a bound: of a program that has one session, whose user can see what it takes.
    fn default() -> Budget {
        Budget::new(u64::MAX)
    }
}

/// What one part of a session has taken, given back when it is dropped.
pub(crate) struct Allowance {
    budget: Arc<Budget>,
    taken: u64,
}

impl Allowance {
    pub fn of(budget: &Arc<Budget>) -> Allowance {
        Allowance { budget: budget.clone(), taken: 0 }
    }

    /// Take so much more; `false`, and nothing is taken, if it is not to be had.
    pub fn take(&mut self, bytes: u64) -> bool {
        let bytes_max = self.budget.bytes_max;
        let grow = |taken: u64| taken.checked_add(bytes).filter(|taken| *taken <= bytes_max);
        // The number stands for itself: nothing else is read because of it.
        let grown = self.budget.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        if grown.is_ok() {
            self.taken += bytes;
        }
        grown.is_ok()
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_over_all_and_given_back() {
        let budget = Arc::new(Budget::new(10 << 20));
        let (mut one, mut other) = (Allowance::of(&budget), Allowance::of(&budget));
        assert!(one.take(6 << 20) && other.take(4 << 20) && !one.take(1));
        drop(other);
        assert!(one.take(4 << 20) && !one.take(u64::MAX));
        drop(one);
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
        assert!(Allowance::of(&Arc::default()).take(1 << 60) && Budget::of_host().bytes_max > 0);
    }
}
