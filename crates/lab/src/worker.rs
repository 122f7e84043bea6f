//! The thread that moves packets between devices and directions.

use crate::card::Card;
use crate::direction::{Closed, Direction};
use crate::error::LabError;
use longhaul_proto::units::Time;
use longhaul_sim::scenario::Scenario;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, write};
use rustix::process::setpriority_process;
use rustix::thread::{nanosleep, set_current_timer_slack};
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// One direction with what is at its ends, one of each for every pair of hosts.
pub(crate) struct Track {
    pub(crate) direction: Mutex<Direction>,
    pub(crate) from: Vec<Card>,
    pub(crate) to: Vec<Card>,
}

/// What the lab tells its threads.
pub(crate) struct Switches {
    pub(crate) cut: AtomicBool,
    pub(crate) block_udp: AtomicBool,
    stop: AtomicBool,
    wake: OwnedFd,
}

impl Switches {
    pub(crate) fn new() -> Result<Switches, Errno> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Switches { cut: false.into(), block_udp: false.into(), stop: false.into(), wake })
    }

    /// Side all threads that run on these switches.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        // Cannot fail: the counter is far from its limit. It stays readable, so that every thread sees it.
        let _ = write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Readable from then on.
    pub(crate) fn stopped(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// Move packets both ways over such a path, by a thread each, until told to stop.
pub(crate) fn start(
    tracks: &[Arc<Track>; 2],
    switches: &Arc<Switches>,
    scenario: &Scenario,
    workers: &mut Vec<JoinHandle<()>>,
) -> Result<(), LabError> {
    let nap = nap(scenario);
    for (track, name) in tracks.iter().zip(["lab-to-right", "lab-to-left"]) {
        let (track, switches) = (track.clone(), switches.clone());
        let worker = thread::Builder::new().name(name.into());
        let worker = worker.spawn(move || run(&track, &switches, nap));
        workers.push(worker.map_err(LabError::at("starting a thread"))?);
    }
    Ok(())
}

/// Where packets follow each other faster than a thread can be woken for each, they are moved in small groups, as a
/// network card with interrupt coalescing does. A path that becomes so fast is treated so from the start.
fn nap(scenario: &Scenario) -> Duration {
    let later = scenario.steps.iter().filter_map(|step| step.bottleneck_mbit);
    let packet_us = f64::from(scenario.mtu) * 8.0 / later.fold(scenario.bottleneck_mbit, f64::max);
    if packet_us < SINGLE_PACKET_US { NAP } else { Duration::ZERO }
}

/// The time of the monotonic clock.
pub(crate) fn clock() -> Time {
    let now = clock_gettime(ClockId::Monotonic);
    Time(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// Move the packets of one direction until told to stop.
///
/// `nap` trades precision for processor time: while packets flow, the thread looks for new and due ones only that often.
/// Zero wakes it for every packet.
fn run(track: &Track, switches: &Switches, nap: Duration) {
    hurry();
    let mut alarm = Alarm::default();
    let mut moved = false;
    let mut woken_by = None;
    let mut wakers: Vec<PollFd<'_>> = vec![PollFd::new(&switches.wake, PollFlags::IN)];
    wakers.extend(track.from.iter().map(|from| PollFd::new(from, PollFlags::IN)));
    let mut sources = Vec::with_capacity(track.from.len());
    while !switches.stop.load(Ordering::Acquire) {
        let seen = work(track, switches, woken_by.take(), &mut sources);
        moved |= seen.moved;
        if seen.more {
            continue;
        }
        if moved && !nap.is_zero() {
            // A nap that a signal interrupts ends early, which does no harm.
            let _ = nanosleep(&timespec(nap));
        } else {
            woken_by = alarm.sleep(&mut wakers, seen.next_due);
        }
        moved = false;
    }
}

/// Wakes a thread when a packet comes or is due. A processor that sleeps takes tens of microseconds to wake up, a virtual
/// one even more. The alarm learns how long from its timers and takes it into account: it sets them that much earlier,
/// and it knows that a packet that woke it had come that much before.
#[derive(Default)]
struct Alarm {
    lead: Duration,
}

impl Alarm {
    /// Sleep until there is something to do. If a packet came: when, as far as can be told.
    fn sleep(&mut self, wakers: &mut [PollFd<'_>], next_due: Option<Time>) -> Option<Time> {
        let asleep = clock();
        let wait = next_due.map(|due| due.since(asleep).saturating_sub(self.lead));
        match (poll(wakers, wait.map(timespec).as_ref()), wait) {
            (Ok(0), Some(wait)) if !wait.is_zero() => {
                let late = clock().since(asleep + wait).min(LEAD_MAX);
                self.lead = (self.lead * 7 + late) / 8;
                None
            }
            (Ok(1..), _) => Some(asleep.max(clock() - self.lead)),
            _ => None,
        }
    }
}

/// What a look at a track came to.
struct Seen {
    /// Packets were moved.
    moved: bool,
    /// There may be more to do at once.
    more: bool,
    /// When there is something to do next.
    next_due: Option<Time>,
}

/// Deliver what is due and take in what has arrived, a bounded number of each. The first arrival was at `woken_by` if that
/// is known; of the others nothing better is known than when they are read. Hosts have turns of a packet each: `sources` is
/// room to note which of them still have one.
fn work(track: &Track, switches: &Switches, mut woken_by: Option<Time>, sources: &mut Vec<usize>) -> Seen {
    let mut direction = track.direction.lock().unwrap_or_else(PoisonError::into_inner);
    let cut = switches.cut.load(Ordering::Relaxed);
    let closed = Closed { all: cut, udp: switches.block_udp.load(Ordering::Relaxed) };
    let mut delivered = 0;
    while delivered < BATCH_PACKETS
        && direction.deliver_next(clock(), cut, |pair, packet| track.to[pair].write(packet))
    {
        delivered += 1;
    }
    let mut arrived = 0;
    sources.clear();
    sources.extend(0..track.from.len());
    while arrived < BATCH_PACKETS && !sources.is_empty() {
        sources.retain(|pair| match track.from[*pair].read(direction.room()) {
            Ok(len) => {
                direction.arrive(woken_by.take().unwrap_or_else(clock), *pair, len, closed);
                arrived += 1;
                true
            }
            Err(_) => false,
        });
    }
    let next_due = direction.next_due();
    let more = arrived >= BATCH_PACKETS || next_due.is_some_and(|due| due <= clock());
    Seen { moved: delivered + arrived > 0, more, next_due }
}

/// Get the processor as soon as there is something to do, as far as this user may: a path does not wait until the
/// programs at its ends have used up their time slices. What is refused shows as lateness.
fn hurry() {
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    // What the kernel takes `sched_param` to be. A system call, because musl's function of this name does nothing.
    let priority: libc::c_int = 1;
    // SAFETY: thread 0 is the calling thread and `priority` is live and as large as the kernel reads.
    let refused =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_FIFO, &raw const priority) } != 0;
    if refused {
        let _ = setpriority_process(None, -20);
    }
}

/// As the kernel wants it.
pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) }
}

/// Packets moved one way before those of the other queue have their turn: a fraction of a millisecond's work.
const BATCH_PACKETS: usize = 32;
/// More than a timer is ever late on a machine that has a processor to spare.
const LEAD_MAX: Duration = Duration::from_micros(100);
/// 480 Mb/s at an MTU of 1500 bytes.
const SINGLE_PACKET_US: f64 = 25.0;
/// As common network cards do by default.
const NAP: Duration = Duration::from_micros(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_moved_in_groups_where_the_path_is_or_becomes_fast() {
        let nap_at = |mbit: u32, step: &str| {
            let text = format!("bottleneck_mbit = {mbit}\nrtt_ms = 10\n[[steps]]\nat_s = 1\n{step}");
            nap(&Scenario::parse(&text).unwrap())
        };
        assert_eq!([nap_at(100, "loss = 0.1"), nap_at(100, "bottleneck_mbit = 50")], [Duration::ZERO; 2]);
        assert_eq!([nap_at(1000, "loss = 0.1"), nap_at(100, "bottleneck_mbit = 1000")], [NAP; 2]);
        assert_eq!(nap_at(1000, "bottleneck_mbit = 100"), NAP);
    }
}
