//! Hosts as they are, and such as get a part of a processor.

use crate::experiment::Backend;
use crate::lab::processor::Share;

/// Hosts between which an experiment is run.
pub(super) struct Hosts {
    /// Both ends get a millisecond of a processor in so many; as many processors as there are, if none. The first are as they are.
    pub(super) periods_ms: Vec<Option<u32>>,
    /// What to say of the slow ones.
    pub(super) about: Option<String>,
}

impl Hosts {
    /// As they are, and, over real sockets, slowed to each of these if that can be had.
    pub(super) fn of(backend: &Backend<'_>, slow_ms: &[u32]) -> Hosts {
        let slow_ms = backend.choose(&[][..], slow_ms);
        // Tried before anything is measured.
        let tried = slow_ms.first().map_or(Ok(()), |period_ms| Share::one_ms_of(*period_ms).map(drop));
        let (slow_ms, about) = match tried {
            Err(error) => (&[][..], Some(format!("{NOT_SLOWED}: {error}."))),
            Ok(()) => (slow_ms, (!slow_ms.is_empty()).then(|| SLOWED.into())),
        };
        let periods_ms = std::iter::once(None).chain(slow_ms.iter().copied().map(Some)).collect();
        Hosts { periods_ms, about }
    }
}

/// In words.
pub(super) fn condition(period_ms: Option<u32>) -> String {
    period_ms.map_or("hosts as they are".into(), |period_ms| {
        format!("1 ms of a processor in {period_ms} at either end")
    })
}

/// Name and title of a table of such hosts.
pub(super) fn titled(name: &str, title: &str, period_ms: Option<u32>) -> (String, String) {
    match period_ms {
        None => (name.into(), title.into()),
        Some(slow) => (format!("{name}_{slow}"), format!("{title}, {}", condition(period_ms))),
    }
}

const SLOWED: &str = "Slow hosts: the programs at either end get a millisecond of a processor in each period of some (a control \
     group's quota, of which the kernel gives no less). Receive buffers are the program's own; it has no option for small ones.";
const NOT_SLOWED: &str = "Slow hosts were not measured, as this host gives no shares of a processor";
