//! Many simulations on all cores, with results that do not depend on how many there are.

use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// As many threads as the machine has cores for.
pub fn all_cores() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// Do all jobs on so many threads, and return the results in the order of the jobs. `progress` is told, on any thread,
/// how many jobs are done after each that is.
///
/// A job that takes its randomness from itself alone (a seed) gives the same result on any number of threads.
///
/// # Panics
/// If a job does.
pub fn run_all<J: Sync, R: Send>(
    jobs: &[J],
    threads: usize,
    work: impl Fn(&J) -> R + Sync,
    progress: impl Fn(usize) + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(jobs.len()));
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return };
            let result = work(job);
            results.lock().expect("no job panics while it holds the lock").push((index, result));
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(run);
        }
        run();
    });
    let mut results = results.into_inner().expect("no job panics while it holds the lock");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..100).collect();
        let told = Mutex::new(Vec::new());
        // the first jobs take longest
        let square = |job: &u64| (0..(100 - job) * 1000).fold(job * job, |sum, _| std::hint::black_box(sum));
        let results = run_all(&jobs, 4, square, |done| told.lock().unwrap().push(done));
        assert_eq!(results, jobs.iter().map(|job| job * job).collect::<Vec<_>>());
        let mut told = told.into_inner().unwrap();
        told.sort_unstable();
        assert_eq!(told, (1..=100).collect::<Vec<_>>());
        assert_eq!(run_all(&[0u64; 0], 4, square, |_| ()), Vec::<u64>::new());
    }
}
