//! The memory that all sessions of a program may take together, beyond what each of them has in any case: what bounds each may
//! be too much for all.
//!
//! Nobody waits here, and nobody is made to wait for what it holds itself: whoever gets nothing goes on with less, or asks
//! again while what it has begun goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What may be taken, and what is.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    taken: AtomicU64,
}

impl Budget {
    /// So many bytes.
    pub fn new(bytes_max: u64) -> Budget {
        Budget { bytes_max, taken: AtomicU64::new(0) }
    }

    /// How many that are.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// So many bytes, but no more than half of the host's memory.
    pub fn of_host(bytes_max: u64) -> Budget {
        let host = rustix::system::sysinfo();
        let memory = (host.totalram as u64).saturating_mul(host.mem_unit.into());
        Budget::new(bytes_max.min(memory / 2))
    }
}

impl Default for Budget {
    /// Of a program that has one session: whoever is on its other side gets half of the host's memory at most.
    fn default() -> Budget {
        Budget::of_host(u64::MAX)
    }
}

/// What it is for. Who can do without leaves some to those who cannot, so that a new session finds room beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// What nothing goes on without.
    Need,
    /// What is done ahead of time.
    Ahead,
    /// What makes it faster. Nobody has more of it than is left for the next one.
    Speed,
}

impl Purpose {
    /// Of four parts of the budget, how many may be taken when this is.
    fn quarters(self) -> u64 {
        match self {
            Purpose::Need => 4,
            Purpose::Ahead => 3,
            Purpose::Speed => 2,
        }
    }
}

/// What one part of a session has taken, given back when it is dropped.
#[derive(Debug)]
pub struct Allowance {
    budget: Arc<Budget>,
    purpose: Purpose,
    taken: u64,
}

impl Allowance {
    /// Nothing yet.
    pub fn of(budget: &Arc<Budget>, purpose: Purpose) -> Allowance {
        Allowance { budget: budget.clone(), purpose, taken: 0 }
    }

    /// What one of many may ask for at all.
    pub fn most(&self) -> u64 {
        self.budget.bytes_max / 2
    }

    /// Take so much more; `false`, and nothing is taken, if it is not to be had now.
    pub fn take(&mut self, bytes: u64) -> bool {
        let bytes_max = self.budget.bytes_max / 4 * self.purpose.quarters();
        let own = if self.purpose == Purpose::Speed { self.taken } else { 0 };
        let grow = |taken: u64| {
            let left = bytes_max.checked_sub(taken.checked_add(bytes)?)?;
            (own <= left).then_some(taken + bytes)
        };
        // The number stands for itself: nothing else is read because of it.
        let grown = self.budget.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grow);
        if grown.is_ok() {
            self.taken += bytes;
        }
        grown.is_ok()
    }

    /// Have so much in all, or more; `false`, and nothing more is taken, if that is not to be had now.
    pub fn reach(&mut self, bytes: u64) -> bool {
        bytes <= self.taken || self.take(bytes - self.taken)
    }

    /// Give back all beyond so much.
    pub fn keep(&mut self, bytes: u64) {
        let rest = self.taken.saturating_sub(bytes);
        self.budget.taken.fetch_sub(rest, Ordering::Relaxed);
        self.taken -= rest;
    }
}

impl Default for Allowance {
    /// Of nobody's budget.
    fn default() -> Allowance {
        Allowance::of(&Arc::new(Budget::new(u64::MAX)), Purpose::Need)
    }
}

impl Drop for Allowance {
    fn drop(&mut self) {
        self.keep(0);
    }
}

/// Have the threads of this process share two heaps. As a rule each takes memory from one of many, which keep for themselves what
/// their threads give back.
pub fn share_heaps() {
    // SAFETY: it takes two integers and touches no memory of ours.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_bounded_over_all_and_given_back() {
        let budget = Arc::new(Budget::new(8 << 20));
        let [mut one, mut other] = [(); 2].map(|()| Allowance::of(&budget, Purpose::Need));
        assert!(one.take(5 << 20) && other.take(3 << 20) && !one.take(1));
        other.keep(2 << 20);
        assert!(one.reach(6 << 20) && one.taken == 6 << 20 && !one.take(1));
        assert!(one.reach(2 << 20) && !one.reach(7 << 20) && one.taken == 6 << 20);
        drop(other);
        assert!(one.take(2 << 20) && !one.take(u64::MAX));
        drop(one);
        assert_eq!(budget.taken.load(Ordering::Relaxed), 0);
        assert!(Allowance::default().take(1 << 60) && Budget::of_host(5).bytes_max == 5);
        // As a client's: a server's list may be as long as it likes.
        let of_one = Budget::default().bytes_max;
        assert!(of_one == Budget::of_host(1 << 60).bytes_max && of_one < 1 << 60, "{of_one}");
    }

    #[test]
    fn who_can_do_without_leaves_room_to_those_who_cannot() {
        let budget = Arc::new(Budget::new(8 << 20));
        let takes = |purpose| {
            let mut one = Allowance::of(&budget, purpose);
            while one.take(1 << 20) {}
            one
        };
        let held = [Purpose::Speed, Purpose::Speed, Purpose::Ahead, Purpose::Need].map(takes);
        assert_eq!(held.each_ref().map(|one| one.taken >> 20), [2, 1, 3, 2]);
    }
}
