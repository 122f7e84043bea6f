//! Rounds of which everything follows from a seed, a few side by side.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// So many seeds, from the one that `CAMPAIGN_SEED` names on, or others each time.
pub fn fresh_seeds(count: u64) -> Range<u64> {
    let given = std::env::var("CAMPAIGN_SEED").ok().and_then(|seed| seed.parse().ok());
    let from = given.unwrap_or_else(|| fastrand::u64(..) >> 16);
    from..from + count
}

/// Run a round for each seed, so many at a time, and hand out what each came to. A round that panics fails all.
pub fn run<T: Send>(seeds: Range<u64>, at_a_time: usize, round: impl Fn(u64) -> T + Sync) -> Vec<T> {
    println!("seeds {seeds:?}");
    let next = AtomicU64::new(seeds.start);
    let draw = || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < seeds.end);
    let rounds = || std::iter::from_fn(draw).map(&round).collect::<Vec<T>>();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..at_a_time).map(|_| scope.spawn(rounds)).collect();
        let done =
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        done.collect()
    })
}
