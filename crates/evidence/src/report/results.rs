//! A folder of results beside the list of what there is to run.

use super::stored::{EXTENSION, is_outdone, largest};
use super::{Report, ResultError, Statement, Stored, Table};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Everything that is known about every experiment.
#[derive(Debug, Default)]
pub struct Results {
    /// Groups in the order of the list; results that no list has are in a last one.
    pub(super) groups: Vec<Group>,
    bad: Vec<ResultError>,
}

/// Experiments that belong together.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) title: String,
    pub(super) entries: Vec<Entry>,
}

/// An experiment, and what came of it: measured, simulated, or both in this order.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) title: String,
    /// Why what was measured and what was simulated may be far apart.
    pub(super) differs: Option<&'static str>,
    pub(super) results: Vec<Stored>,
}

/// What the list of all experiments says of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) group: &'static str,
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    /// Why what was measured and what was simulated may be far apart.
    pub(crate) differs: Option<&'static str>,
}

impl Entry {
    /// What its results speak of, each claim once.
    pub(super) fn claims(&self) -> Vec<&Statement> {
        self.distinct(|report| &report.statements, |one| &one.claim)
    }

    /// Their tables, each name once.
    pub(super) fn tables(&self) -> Vec<&Table> {
        self.distinct(|report| &report.tables, |one| &one.name)
    }

    /// What tells one of them from the others, if there are several.
    pub(super) fn mark(&self, stored: &Stored) -> Option<&'static str> {
        (self.results.len() > 1).then(|| stored.head.origin.words())
    }

    fn distinct<T>(&self, all: fn(&Report) -> &Vec<T>, name: fn(&T) -> &String) -> Vec<&T> {
        let mut found: Vec<&T> = vec![];
        for one in self.results.iter().flat_map(|stored| all(&stored.report)) {
            if found.iter().all(|other| name(other) != name(one)) {
                found.push(one);
            }
        }
        found
    }
}

impl Results {
    /// Those of a folder, of each experiment the largest of either origin; what cannot be read in it is left out and told by [`Results::bad`].
    pub(crate) fn read_among(
        listed: impl Iterator<Item = Listed>,
        folder: &Path,
    ) -> Result<Results, ResultError> {
        let unreadable = |source| ResultError::Unreadable { path: folder.to_owned(), source };
        let (mut found, mut bad) = (vec![], vec![]);
        for entry in fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) && !is_outdone(&path) {
                match Stored::read(&path) {
                    Ok(stored) if !is_named_after(&path, &stored) => bad.push(misnamed(path, &stored)),
                    Ok(stored) => found.push(stored),
                    Err(error) => bad.push(error),
                }
            }
        }
        bad.sort_by_key(ToString::to_string);
        Ok(Results { bad, ..Results::among(listed, largest(found)) })
    }

    /// Files that hold no result that could be read.
    pub fn bad(&self) -> &[ResultError] {
        &self.bad
    }

    /// Names of experiments that have a result.
    pub fn present(&self) -> impl Iterator<Item = &str> {
        self.entries().filter(|entry| !entry.results.is_empty()).map(|entry| entry.id.as_str())
    }

    /// Names of experiments that have none.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.entries().filter(|entry| entry.results.is_empty()).map(|entry| entry.id.as_str())
    }

    pub(super) fn results(&self) -> impl Iterator<Item = &Stored> {
        self.entries().flat_map(|entry| &entry.results)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.groups.iter().flat_map(|group| &group.entries)
    }

    /// Those of a list of groups, names and titles.
    pub(crate) fn among(listed: impl Iterator<Item = Listed>, mut found: Vec<Stored>) -> Results {
        let mut groups: Vec<Group> = vec![];
        for Listed { group: title, id, title: about, differs } in listed {
            let (results, others) = found.into_iter().partition(|stored| stored.report.id == id);
            found = others;
            let entry = Entry { id: id.into(), title: about.into(), differs, results };
            match groups.last_mut() {
                Some(group) if group.title == title => group.entries.push(entry),
                _ => groups.push(Group { title: title.into(), entries: vec![entry] }),
            }
        }
        if !found.is_empty() {
            let entry = |stored: Stored| {
                let (id, title) = (stored.report.id.clone(), stored.report.title.clone());
                Entry { id, title, differs: None, results: vec![stored] }
            };
            let entries = found.into_iter().map(entry).collect();
            groups.push(Group { title: "Others".into(), entries });
        }
        Results { groups, bad: vec![] }
    }
}

/// Whether the file has the experiment's name. Others are copies: which of two would be shown is not for chance to say.
fn is_named_after(path: &Path, stored: &Stored) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('.').next() == Some(&stored.report.id)
}

fn misnamed(path: PathBuf, stored: &Stored) -> ResultError {
    let id = &stored.report.id;
    let reason =
        format!("it is a result of {id} under another name; call it {id}.{EXTENSION}, or move it away");
    ResultError::Unreadable { path, source: io::Error::other(reason) }
}
