//! A folder of results beside the list of what there is to run.

use super::stored::{EXTENSION, is_outdone, largest};
use super::{ResultError, Stored};
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

/// An experiment, and what came of it if it has run.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) result: Option<Stored>,
}

impl Results {
    /// Those of a folder, of each experiment the largest; what cannot be read in it is left out and told by [`Results::bad`].
    pub(crate) fn read_among<'a>(
        listed: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
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
        self.entries().filter(|entry| entry.result.is_some()).map(|entry| entry.id.as_str())
    }

    /// Names of experiments that have none.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.entries().filter(|entry| entry.result.is_none()).map(|entry| entry.id.as_str())
    }

    pub(super) fn results(&self) -> impl Iterator<Item = &Stored> {
        self.entries().filter_map(|entry| entry.result.as_ref())
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.groups.iter().flat_map(|group| &group.entries)
    }

    /// Those of a list of groups, names and titles.
    pub(crate) fn among<'a>(
        listed: impl Iterator<Item = (&'a str, &'a str, &'a str)>,
        mut found: Vec<Stored>,
    ) -> Results {
        let mut groups: Vec<Group> = vec![];
        for (title, id, about) in listed {
            let at = found.iter().position(|stored| stored.report.id == id);
            let result = at.map(|at| found.remove(at));
            let entry = Entry { id: id.into(), title: about.into(), result };
            match groups.last_mut() {
                Some(group) if group.title == title => group.entries.push(entry),
                _ => groups.push(Group { title: title.into(), entries: vec![entry] }),
            }
        }
        if !found.is_empty() {
            let entry = |stored: Stored| {
                let (id, title) = (stored.report.id.clone(), stored.report.title.clone());
                Entry { id, title, result: Some(stored) }
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
