//! Copies by several programs, one after the other in each round, and what to say of them.

use crate::ExperimentError;
use crate::lab::bench::Bench;
use crate::lab::copiers::{Copier, Cost, Missing, Payload, Route, Undone, copy_once};
use crate::lab::figures::{Better, median_of_all};
use crate::report::{Rows, Unit};
use std::time::Duration;

/// What a program does in each round, and how long it may take.
pub(super) struct Turn<'a> {
    pub(super) copier: &'a dyn Copier,
    /// What a table calls it.
    pub(super) name: &'static str,
    pub(super) payload: &'a Payload,
    pub(super) limit: Duration,
}

/// A turn of the same for each of them.
pub(super) fn turns<'a>(
    copiers: &'a [Box<dyn Copier>],
    payload: &'a Payload,
    limit: Duration,
) -> Vec<Turn<'a>> {
    let turn = |copier: &'a dyn Copier| Turn { copier, name: copier.name(), payload, limit };
    copiers.iter().map(AsRef::as_ref).map(turn).collect()
}

/// All copies by one program under the same circumstances.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    pub(super) name: &'static str,
    pub(super) bytes: u64,
    pub(super) done: Vec<Cost>,
    /// Why the others came to nothing.
    pub(super) failed: Vec<Undone>,
}

/// Every turn once a round: what the host does meanwhile befalls all alike.
pub(super) fn interleaved(
    bench: &Bench<'_>,
    route: Route<'_>,
    turns: &[Turn<'_>],
    rounds: usize,
) -> Result<Vec<Runs>, ExperimentError> {
    let empty =
        |turn: &Turn<'_>| Runs { name: turn.name, bytes: turn.payload.bytes, done: vec![], failed: vec![] };
    let mut all: Vec<Runs> = turns.iter().map(empty).collect();
    for round in 0..rounds {
        for (turn, runs) in turns.iter().zip(&mut all) {
            let route = Route { round: route.round + round as u64, ..route };
            match copy_once(bench, turn.copier, route, turn.payload, turn.limit)? {
                Ok(cost) => runs.done.push(cost),
                Err(why) => runs.failed.push(why),
            }
        }
    }
    Ok(all)
}

impl Runs {
    /// The median of seconds.
    pub(super) fn median_s(&self) -> Option<f64> {
        self.median(|cost| cost.seconds)
    }

    /// The median of a cost; a copy that came to nothing is dearer than all that did not.
    pub(super) fn median(&self, of: impl Fn(&Cost) -> f64) -> Option<f64> {
        median_of_all(self.done.iter().map(of).collect(), self.failed.len(), Better::Less)
    }

    /// As [`median_s`](Runs::median_s), of copies whose speed is known: those that were done or given up. That a program
    /// failed must not make it slow.
    fn median_of_known_s(&self) -> Option<f64> {
        let failed = self.failed.iter().filter(|why| matches!(why, Undone::GivenUp(_))).cloned().collect();
        Runs { failed, ..self.clone() }.median_s()
    }

    /// Nothing is known of its speed: no copy was done or given up.
    pub(super) fn is_unknown(&self) -> bool {
        self.done.is_empty() && !self.failed.iter().any(|why| matches!(why, Undone::GivenUp(_)))
    }

    /// Shortest and longest; nothing where a copy came to nothing.
    pub(super) fn range_s(&self) -> (Option<f64>, Option<f64>) {
        let seconds = || self.done.iter().map(|cost| cost.seconds);
        let max = seconds().max_by(f64::total_cmp).filter(|_| self.failed.is_empty());
        (seconds().min_by(f64::total_cmp), max)
    }

    /// Mb/s of the middle one.
    pub(super) fn goodput_mbps(&self) -> Option<f64> {
        Some(self.bytes as f64 * 8e-6 / self.median_s()?)
    }

    /// What went wrong, if something did; for tables.
    pub(super) fn note(&self) -> String {
        match self.failed.first() {
            None => String::new(),
            Some(undone) if self.done.is_empty() && self.failed.len() == 1 => undone.why().into(),
            Some(undone) => {
                let all = self.failed.len() + self.done.len();
                format!("{} of {all}: {}", self.failed.len(), undone.why())
            }
        }
    }

    /// Columns of a table: program, median, shortest, longest, goodput and note.
    pub(super) fn columns<'a, R>(table: Rows<'a, R>, of: fn(&'a R) -> &'a Runs) -> Rows<'a, R> {
        table
            .text("program", |row| of(row).name)
            .column("median", Unit::Seconds, |row| of(row).median_s())
            .column("min", Unit::Seconds, |row| of(row).range_s().0)
            .column("max", Unit::Seconds, |row| of(row).range_s().1)
            // A bar of no height for what was not done.
            .column("goodput", Unit::Mbps, |row| of(row).goodput_mbps().unwrap_or(0.0))
            .text("note", |row| of(row).note())
    }
}

/// How often something was done.
pub(super) fn times(rounds: usize) -> String {
    if rounds == 1 { "once".into() } else { format!("{rounds} times") }
}

/// The fastest of those that are not called `ours`.
pub(super) fn fastest_but<'a>(all: &'a [Runs], ours: &str) -> Option<(&'a Runs, f64)> {
    let others = all.iter().filter(|runs| runs.name != ours);
    others.filter_map(|runs| Some((runs, runs.median_of_known_s()?))).min_by(|a, b| a.1.total_cmp(&b.1))
}

/// Programs that are not here; for a statement's figures. Nothing where there are none.
pub(super) fn absent(missing: &[Missing]) -> String {
    let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
    if names.is_empty() { String::new() } else { format!("; not here: {}", names.join(", ")) }
}

/// How the one called `ours` stands among others that ran beside it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    /// Faster than every other that was done; there are others, which were done or given up.
    Ahead,
    /// This one was faster; `None`: ours was not done, nor was any other.
    Behind(Option<(&'static str, f64)>),
    /// Of no other is anything known.
    Alone,
}

/// The middle one of `ours` beside those of all others.
pub(super) fn standing(all: &[Runs], ours: &str) -> Standing {
    let ours_s = named(all, ours).and_then(Runs::median_s);
    let has_others = all.iter().any(|runs| runs.name != ours && !runs.is_unknown());
    match (ours_s, fastest_but(all, ours)) {
        (Some(ours_s), Some((_, theirs_s))) if ours_s < theirs_s => Standing::Ahead,
        (_, Some((other, theirs_s))) => Standing::Behind(Some((other.name, theirs_s))),
        (None, None) => Standing::Behind(None),
        (Some(_), None) if has_others => Standing::Ahead,
        (Some(_), None) => Standing::Alone,
    }
}

/// Of whose speed nothing is known where they ran, and how often; for a statement's figures. Nothing where there are none.
pub(super) fn unknown<'a>(all: impl IntoIterator<Item = &'a Runs>) -> String {
    let mut counts: Vec<(&str, usize)> = vec![];
    for runs in all.into_iter().filter(|runs| runs.is_unknown()) {
        match counts.iter_mut().find(|(name, _)| *name == runs.name) {
            Some((_, count)) => *count += 1,
            None => counts.push((runs.name, 1)),
        }
    }
    let each: Vec<String> = counts.iter().map(|(name, count)| format!("{name} ({count} x)")).collect();
    if each.is_empty() {
        String::new()
    } else {
        format!("; failed, so not compared with: {}", each.join(", "))
    }
}

/// The one called that.
pub(super) fn named<'a>(all: &'a [Runs], name: &str) -> Option<&'a Runs> {
    all.iter().find(|runs| runs.name == name)
}

/// For tests: such times, and so many that were given up.
#[cfg(test)]
pub(super) fn of(name: &'static str, seconds: &[f64], failed: usize) -> Runs {
    let cost = |&seconds: &f64| Cost { seconds, sender_cpu_s: 0.5, receiver_cpu_s: 0.5 };
    let (done, failed) =
        (seconds.iter().map(cost).collect(), vec![Undone::GivenUp("not done after 12 s".into()); failed]);
    Runs { name, bytes: 1_000_000, done, failed }
}

/// For tests: one whose server did not start.
#[cfg(test)]
pub(super) fn broken(name: &'static str) -> Runs {
    Runs { failed: vec![Undone::Failed("sshd: refused".into())], ..of(name, &[], 0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::copiers::Absent;

    #[test]
    fn what_was_not_done_is_slower_than_everything() {
        assert_eq!(of("a", &[3.0, 1.0, 2.0], 0).median_s(), Some(2.0));
        assert_eq!(of("a", &[3.0, 1.0], 1).median_s(), Some(3.0));
        assert_eq!(of("a", &[1.0], 2).median_s(), None);
        assert_eq!(of("a", &[1.0, 2.0], 0).median_s(), Some(1.5));
        assert_eq!(of("a", &[], 0).median_s(), None);
        assert_eq!(of("a", &[3.0, 1.0], 1).range_s(), (Some(1.0), None));
        assert_eq!(of("a", &[3.0, 1.0], 1).note(), "1 of 3: not done after 12 s");
        assert_eq!(of("a", &[], 1).note(), "not done after 12 s");
    }

    #[test]
    fn the_fastest_other_one_is_found_among_those_that_got_there() {
        let all = [of("ours", &[1.0], 0), of("b", &[3.0], 0), of("c", &[2.0], 0), of("d", &[], 1)];
        assert_eq!(fastest_but(&all, "ours").map(|(runs, _)| runs.name), Some("c"));
        assert!(fastest_but(&all[..1], "ours").is_none());
        let once = Runs { failed: broken("b").failed, ..of("b", &[3.0, 1.0], 0) };
        assert_eq!(once.median_s(), Some(3.0));
        let found = fastest_but(std::slice::from_ref(&once), "ours").map(|(_, seconds)| seconds);
        assert_eq!(found, Some(2.0), "one that failed once is as fast as it was");
    }

    #[test]
    fn ahead_is_who_was_faster_than_somebody_or_was_not_given_up() {
        let ours = || of("ours", &[2.0], 0);
        let of_others = |others: &[Runs]| standing(&[&[ours()], others].concat(), "ours");
        assert_eq!(of_others(&[of("a", &[3.0], 0), broken("b")]), Standing::Ahead);
        assert_eq!(of_others(&[of("a", &[], 1)]), Standing::Ahead);
        assert_eq!(of_others(&[broken("b")]), Standing::Alone);
        assert_eq!(of_others(&[]), Standing::Alone);
        assert_eq!(of_others(&[of("a", &[1.0], 0)]), Standing::Behind(Some(("a", 1.0))));
        assert_eq!(standing(&[of("ours", &[], 1), broken("b")], "ours"), Standing::Behind(None));
        assert_eq!(unknown(&[ours(), of("a", &[], 1)]), "");
        let missing = |name| Missing { name, why: Absent::NotCompiled };
        assert_eq!(absent(&[missing("a"), missing("b")]), "; not here: a, b");
        assert_eq!(absent(&[]), "");
        let named = "; failed, so not compared with: b (2 x)";
        assert_eq!(unknown(&[broken("b"), broken("b")]), named);
    }
}
