//! Programs that share a path, and what each has of it.

use crate::experiments::ExperimentError;
use crate::experiments::bench::Bench;
use crate::experiments::copies::Copies;
use crate::experiments::peers::Cargo;
use crate::experiments::process::Process;
use crate::experiments::striped::{Amount, Streams, Striped, Underway};
use crate::{End, Lab};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Who shares the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    /// Copies by longhaul.
    pub(super) copies: u16,
    pub(super) way: Way,
    /// The kernel's congestion control for the others, and how many connections.
    pub(super) rivals: Option<(&'static str, u32)>,
}

/// How they copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// As it comes.
    Default,
    /// Over UDP for good: the default may take to parallel TCP connections.
    Udp,
    /// Yielding to all else.
    Background,
}

impl Way {
    fn args(self) -> &'static [&'static str] {
        match self {
            Way::Default => &[],
            Way::Udp => &["--transport", "object"],
            Way::Background => &["--background"],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Default => "",
            Way::Udp => " over UDP",
            Way::Background => " in the background",
        }
    }
}

impl Meeting {
    pub(super) const fn of(copies: u16) -> Meeting {
        Meeting { copies, way: Way::Default, rivals: None }
    }

    pub(super) const fn beside(self, control: &'static str, connections: u32) -> Meeting {
        Meeting { rivals: Some((control, connections)), ..self }
    }

    pub(super) const fn by(self, way: Way) -> Meeting {
        Meeting { way, ..self }
    }

    /// What it is called.
    pub(super) fn name(self) -> String {
        let copies = match self.copies {
            0 => None,
            1 => Some(format!("1 copy{}", self.way.name())),
            count => Some(format!("{count} copies{}", self.way.name())),
        };
        let names: Vec<String> = copies.into_iter().chain(self.rivals_name()).collect();
        names.join(" beside ")
    }

    /// The others.
    pub(super) fn rivals_name(self) -> Option<String> {
        self.rivals.map(|(control, connections)| format!("{connections} {control}"))
    }

    /// How many programs there are, so many beginnings.
    fn programs(self) -> u32 {
        u32::from(self.copies) + u32::from(self.rivals.is_some())
    }
}

/// When flows begin and are measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    /// Between beginnings.
    pub(super) gap: Duration,
    /// From the last beginning until they are measured.
    pub(super) settle: Duration,
    pub(super) measure: Duration,
}

impl Timing {
    /// All of it.
    pub(super) fn total(self, meeting: Meeting) -> Duration {
        self.gap * meeting.programs() + self.settle + self.measure
    }
}

/// What each has of what the link carries, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Shares {
    /// Of each copy.
    pub(super) copies: Vec<f64>,
    /// Of the others together.
    pub(super) rivals: f64,
}

impl Shares {
    pub(super) fn ours(&self) -> f64 {
        self.copies.iter().sum()
    }
}

/// A program that sends.
enum Flow {
    Copy { process: Process, copies: Copies },
    Tcp(Underway),
}

impl Flow {
    fn port(&self) -> u16 {
        match self {
            Flow::Copy { copies, .. } => copies.port(),
            Flow::Tcp(underway) => underway.port,
        }
    }

    fn is_running(&mut self) -> bool {
        match self {
            Flow::Copy { process, .. } => process.is_running(),
            Flow::Tcp(underway) => underway.is_running(),
        }
    }
}

impl Meeting {
    /// Let them meet on that path, which carries `mbit`. The others begin first if `rivals_first`.
    pub(super) fn run(
        self,
        bench: &Bench<'_>,
        lab: &Lab,
        mbit: f64,
        source: &Rc<Cargo>,
        timing: Timing,
        rivals_first: bool,
    ) -> Result<Shares, ExperimentError> {
        bench.run(lab, || {
            let (mut copies, mut rivals) = (vec![], vec![]);
            for is_rivals_turn in [rivals_first, !rivals_first] {
                if is_rivals_turn {
                    if let Some((control, connections)) = self.rivals {
                        rivals.push(Flow::Tcp(
                            tcp(control, connections, timing.total(self)).begin(bench, lab)?,
                        ));
                        bench.wait(timing.gap)?;
                    }
                    continue;
                }
                for number in 0..self.copies {
                    copies.push(self.copy(bench, lab, source, FIRST_PORT + number)?);
                    bench.wait(timing.gap)?;
                }
            }
            bench.wait(timing.settle)?;
            let ports: Vec<u16> = copies.iter().chain(&rivals).map(Flow::port).collect();
            lab.watch_ports(End::Right, &ports);
            let arrived = || ports.iter().map(|port| lab.bytes_to(End::Right, *port)).collect::<Vec<u64>>();
            let (before, from) = (arrived(), Instant::now());
            bench.wait(timing.measure)?;
            let (after, seconds) = (arrived(), from.elapsed().as_secs_f64());
            if !copies.iter_mut().chain(&mut rivals).all(Flow::is_running) {
                let reason = "one of them was at its end before it had been measured".into();
                return Err(ExperimentError::Program {
                    program: "programs that share a path".into(),
                    reason,
                });
            }
            let shares = after
                .iter()
                .zip(&before)
                .map(|(after, before)| (after - before) as f64 * 8e-6 / seconds / mbit);
            let mut shares: Vec<f64> = shares.collect();
            let rivals = shares.split_off(copies.len()).iter().sum();
            Ok(Shares { copies: shares, rivals })
        })
    }

    fn copy(
        self,
        bench: &Bench<'_>,
        lab: &Lab,
        source: &Rc<Cargo>,
        port: u16,
    ) -> Result<Flow, ExperimentError> {
        let copies = Copies::of(bench, lab, source.clone(), port)?;
        Ok(Flow::Copy { process: copies.begin(bench, lab, self.way.args())?, copies })
    }
}

/// TCP of the kernel's for so long at least.
fn tcp(control: &'static str, connections: u32, time: Duration) -> Striped {
    let measure = time.as_secs_f64() + TCP_LONGER_S;
    Striped {
        streams: Streams::Fixed(connections),
        congestion: control,
        amount: Amount::Seconds { skip: 0.0, measure },
        ..Striped::default()
    }
}

/// The program's own is left to others.
const FIRST_PORT: u16 = 7710;
/// A start that takes its time.
const TCP_LONGER_S: f64 = 30.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_who_is_there() {
        let copy = Meeting::of(1);
        assert_eq!(Meeting::of(3).name(), "3 copies");
        assert_eq!(copy.beside("bbr", 4).name(), "1 copy beside 4 bbr");
        let behind = copy.by(Way::Background).beside("cubic", 1);
        assert_eq!(behind.name(), "1 copy in the background beside 1 cubic");
        assert_eq!(Meeting::of(0).beside("cubic", 1).name(), "1 cubic");
    }

    #[test]
    fn every_program_begins_in_a_gap_of_its_own() {
        let second = Duration::from_secs(1);
        let timing = Timing { gap: second, settle: 2 * second, measure: 3 * second };
        assert_eq!(timing.total(Meeting::of(0).beside("cubic", 4)), 6 * second);
        assert_eq!(timing.total(Meeting::of(3)), 8 * second);
        assert_eq!(timing.total(Meeting::of(1).by(Way::Background).beside("cubic", 1)), 7 * second);
    }
}
