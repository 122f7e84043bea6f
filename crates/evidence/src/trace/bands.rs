//! What was the case when: what limited, what carried the data, what controllers did.

use super::read::Trace;
use crate::report::Band;
use longhaul_cli::trace::Event;
use longhaul_proto::session::transport::Carrier;

/// All of them, in the order in which they are shown.
pub(super) fn bands(trace: &Trace) -> Vec<Band> {
    let end = trace.end_s();
    let number = trace.paths();
    let mut limit = Filling::new("Limited by".into(), end);
    let mut transport = Filling::new("Data goes over".into(), end);
    let mut phase = Filling::new("Phase".into(), end);
    let of_path = |path: usize| if number == 1 { String::new() } else { format!(", path {}", path + 1) };
    let mut states: Vec<Filling> =
        (0..number).map(|path| Filling::new(format!("{CONTROLLER}{}", of_path(path)), end)).collect();
    for record in &trace.records {
        let (at, path) = (record.time / 1e3, record.path.parse().unwrap_or(0usize));
        match &record.event {
            Event::Limit(change) => limit.set(at, change.new.name()),
            Event::Transport(change) => {
                transport.set(at, change.new.name());
                if change.new != Carrier::Object {
                    states.iter_mut().for_each(|state| state.end(at));
                }
            }
            Event::Phase(change) => phase.set(at, &change.new),
            Event::State(change) => states[path].set(at, &change.new),
            Event::SessionStarted(started) => {
                limit.end(at);
                states.iter_mut().for_each(|state| state.end(at));
                started.transport.into_iter().for_each(|carrier| transport.set(at, carrier.name()));
            }
            _ => {}
        }
    }
    [limit].into_iter().chain(states).chain([transport, phase]).map(|one| one.finish(end)).collect()
}

/// A band that is being filled from left to right.
struct Filling {
    band: Band,
    /// Since when, and which name.
    current: Option<(f64, usize)>,
    /// What is shorter cannot be seen.
    least_s: f64,
}

impl Filling {
    fn new(name: String, end_s: f64) -> Filling {
        let band = Band { name, spans: vec![], names: vec![] };
        Filling { band, current: None, least_s: end_s / SPANS_MAX }
    }

    fn set(&mut self, at: f64, name: &str) {
        self.end(at);
        // Nothing is to be seen where there is nothing.
        if name.is_empty() || name == NONE {
            return;
        }
        let names = &mut self.band.names;
        let number = names.iter().position(|known| known == name).unwrap_or_else(|| {
            // A file may hold any number of them.
            if names.len() < NAMES_MAX {
                names.push(name.into());
            }
            names.len() - 1
        });
        self.current = Some((at, number));
    }

    fn end(&mut self, at: f64) {
        let Some((since, name)) = self.current.take() else { return };
        match self.band.spans.last_mut() {
            Some(last) if at - since < self.least_s && last.1 >= since => last.1 = at,
            _ => self.band.spans.push((since, at, name)),
        }
    }

    fn finish(mut self, end_s: f64) -> Band {
        self.end(end_s);
        self.band
    }
}

/// The headline of what a controller does.
pub(super) const CONTROLLER: &str = "Controller";
const NONE: &str = "none";
const NAMES_MAX: usize = 24;
const SPANS_MAX: f64 = 2000.0;

#[cfg(test)]
mod tests {
    use super::super::read::tests::written;
    use super::*;
    use longhaul_cli::trace::Change;

    #[test]
    fn a_band_says_what_was_the_case_when() {
        let state = |new: &str| (0, Event::State(Change { old: None, new: new.into() }));
        let events = ["train", "startup", "cruise", "test", "cruise", "cruise"].map(state);
        let all = bands(&Trace::parse(&written(events)).unwrap());
        let controller = all.iter().find(|band| band.name == "Controller").unwrap();
        assert_eq!(controller.names, ["train", "startup", "cruise", "test"]);
        let starts: Vec<_> = controller.spans.iter().map(|(from, _, name)| (*from, *name)).collect();
        assert_eq!(starts, [(0.0, 0), (0.05, 1), (0.1, 2), (0.15, 3), (0.2, 2)]);
        assert!(controller.spans.windows(2).all(|pair| pair[0].1 == pair[1].0));
    }

    #[test]
    fn what_is_too_short_to_be_seen_takes_no_room() {
        let state = |at: usize| {
            let new = if at.is_multiple_of(2) { "probe" } else { "cruise" };
            (0, Event::State(Change { old: None, new: new.into() }))
        };
        let all = bands(&Trace::parse(&written((0..40_000).map(state))).unwrap());
        let controller = all.iter().find(|band| band.name == "Controller").unwrap();
        assert!(controller.spans.len() as f64 <= SPANS_MAX, "{}", controller.spans.len());
    }
}
