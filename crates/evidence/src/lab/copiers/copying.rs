//! One copy: started, timed, checked, and nothing left of it.

use super::Copier;
use super::hosts::{TCP_BUFFER_BYTES_MAX, host_congestion_control};
use super::payload::Payload;
use super::setting::Setting;
use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copied::CopyError;
use crate::lab::process::{Ended, Process};
use crate::lab::temporary::Folder;
use longhaul_lab::{Lab, Scenario, Side, TcpSettings};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A side that waits, and how the other one is run: to send, mostly.
pub(crate) struct Started {
    name: &'static str,
    /// They serve for as long as this lives.
    servers: Vec<Process>,
    client: Box<dyn Fn(&Setting<'_>) -> Command>,
    /// The client receives, and a server sends.
    is_fetched: bool,
    /// What the client says of itself.
    judge: fn(&Ended) -> Result<(), CopyError>,
    /// Keys and configuration.
    _folder: Option<Folder>,
}

/// A copy that has arrived whole.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) seconds: f64,
    /// Processor time of the client's processes.
    client_cpu_s: f64,
}

/// Why a copy came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Undone {
    /// Given up at the limit: slower than all that were done.
    GivenUp(String),
    /// It could not begin, or failed by itself, or left something out: of how fast it is nothing is known.
    Failed(String),
}

impl Undone {
    /// A line that says why.
    pub(crate) fn why(&self) -> &str {
        match self {
            Undone::GivenUp(why) | Undone::Failed(why) => why,
        }
    }
}

impl Started {
    /// The usual: a server, a client whose exit status tells whether it did its part, and nothing on the disk.
    pub(super) fn new(
        name: &'static str,
        servers: Vec<Process>,
        client: impl Fn(&Setting<'_>) -> Command + 'static,
    ) -> Started {
        Started {
            name,
            servers,
            client: Box::new(client),
            is_fetched: false,
            judge: by_status,
            _folder: None,
        }
    }

    /// The same, with files that it needs.
    pub(super) fn with_folder(self, folder: Folder) -> Started {
        Started { _folder: Some(folder), ..self }
    }

    /// The same, whose client receives.
    pub(super) fn fetched(self) -> Started {
        Started { is_fetched: true, ..self }
    }

    /// The same, judged by what it says.
    pub(super) fn judged(self, judge: fn(&Ended) -> Result<(), CopyError>) -> Started {
        Started { judge, ..self }
    }

    /// Copy once, within `limit`.
    fn copy(
        &self,
        setting: &Setting<'_>,
        limit: Duration,
    ) -> Result<Result<Arrived, Undone>, ExperimentError> {
        setting.payload.clear()?;
        setting.bench.run(setting.lab, || {
            let (begun, cpu_before) = (Instant::now(), ended_children_cpu_s());
            let client = Process::start(self.name, &mut (self.client)(setting));
            let ended = match client.and_then(|mut client| client.end(setting.bench, limit)) {
                Err(ExperimentError::Program { reason, .. }) => {
                    return Ok(Err(undone(reason, begun.elapsed() >= limit)));
                }
                other => other?,
            };
            let client_cpu_s = ended_children_cpu_s() - cpu_before;
            if let Err(why) = (self.judge)(&ended) {
                return Ok(Err(undone(why.to_string(), false)));
            }
            let patience = Instant::now() + SETTLE_TIME_MAX;
            while !setting.payload.seems_whole() && Instant::now() < patience {
                setting.bench.wait(ARRIVAL_POLL)?;
            }
            let seconds = begun.elapsed().as_secs_f64();
            if !setting.payload.is_whole(setting.bench)? {
                return Ok(Err(undone(CopyError::NotWhole.to_string(), false)));
            }
            Ok(Ok(Arrived { seconds, client_cpu_s }))
        })
    }

    /// Side the servers: processor time that its processes have taken.
    fn end(self) -> f64 {
        let before = ended_children_cpu_s();
        drop(self.servers);
        ended_children_cpu_s() - before
    }
}

fn undone(why: String, is_at_limit: bool) -> Undone {
    if is_at_limit { Undone::GivenUp(why) } else { Undone::Failed(why) }
}

fn by_status(ended: &Ended) -> Result<(), CopyError> {
    if ended.is_success { Ok(()) } else { Err(CopyError::failed(ended.last_words())) }
}

/// One copy, and what it cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// Processor time at each end, all processes of the program together.
    pub(crate) sender_cpu_s: f64,
    pub(crate) receiver_cpu_s: f64,
}

/// A path to copy over.
#[derive(Clone, Copy)]
pub(crate) struct Route<'a> {
    pub(crate) scenario: &'a Scenario,
    /// All on one host.
    pub(crate) is_loopback: bool,
    /// Congestion control that the hosts' TCP is to have, if it may, for programs that choose none.
    pub(crate) congestion: &'static str,
    /// Decides with the run's seed which packets are lost.
    pub(crate) round: u64,
}

/// Copy by `copier` over a path of its own.
pub(crate) fn copy_once(
    bench: &Bench<'_>,
    copier: &dyn Copier,
    route: Route<'_>,
    payload: &Payload,
    limit: Duration,
) -> Result<Result<Cost, Undone>, ExperimentError> {
    bench.check()?;
    let scenario = route.scenario;
    let seed = bench.options.seed.wrapping_add(route.round);
    let lab = Lab::start(&Scenario { seed, ..scenario.clone() })?;
    for end in [Side::Left, Side::Right] {
        let congestion_control = Some(host_congestion_control(route.congestion));
        let buffer_bytes_max = Some(TCP_BUFFER_BYTES_MAX);
        lab.set_tcp(end, &TcpSettings { congestion_control, buffer_bytes_max, ..TcpSettings::default() })?;
    }
    let _sweeper = Sweeper(&lab);
    let (to, mbit) = match route.is_loopback {
        true => (Side::Left, None),
        false => (Side::Right, Some(scenario.bottleneck_mbit)),
    };
    let rtt_ms = if route.is_loopback { 0.0 } else { scenario.rtt_ms };
    let setting = Setting { bench, lab: &lab, payload, to, mbit, rtt_ms };
    let started = match copier.start(&setting) {
        Err(ExperimentError::Program { program, reason }) => {
            bench.count_run();
            return Ok(Err(Undone::Failed(format!("{program}: {reason}"))));
        }
        other => other?,
    };
    let arrived = started.copy(&setting, limit)?;
    // Servers that fork count what their children took once those have ended.
    thread::sleep(REAP_TIME);
    let is_fetched = started.is_fetched;
    let server_cpu_s = started.end();
    Ok(arrived.map(|Arrived { seconds, client_cpu_s }| match is_fetched {
        false => Cost { seconds, sender_cpu_s: client_cpu_s, receiver_cpu_s: server_cpu_s },
        true => Cost { seconds, sender_cpu_s: server_cpu_s, receiver_cpu_s: client_cpu_s },
    }))
}

/// Ends all that still runs on a lab's hosts. Sessions of servers that become leaders of their own would wait for ever for
/// a peer whose host is gone.
struct Sweeper<'a>(&'a Lab);

impl Drop for Sweeper<'_> {
    fn drop(&mut self) {
        let namespace = |end| self.0.enter(end, || fs::read_link("/proc/thread-self/ns/net"));
        let hosts: Vec<_> =
            [Side::Left, Side::Right].into_iter().filter_map(|end| namespace(end).ok()?.ok()).collect();
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            let id = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            // Of others' processes it cannot be read: they are not on these hosts.
            let is_there = fs::read_link(process.path().join("ns/net")).is_ok_and(|its| hosts.contains(&its));
            if let Some(id) = id.filter(|_| is_there) {
                // Fails where it has ended meanwhile.
                let _ = kill_process(id, Signal::KILL);
            }
        }
    }
}

/// Processor time of all children that have ended, and of theirs.
fn ended_children_cpu_s() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel fills in the structure that it is given a valid pointer to; all zeros are a value of it as well.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// How soon it is noticed that all is there.
const ARRIVAL_POLL: Duration = Duration::from_millis(5);
/// For the last blocks to be written after the sender was told that all is there.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(2);
const REAP_TIME: Duration = Duration::from_millis(30);
