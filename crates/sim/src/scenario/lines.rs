//! Where each field stands in a scenario's text, and errors that say so.

use super::{CrossTraffic, InvalidField, Scenario, Step};
use longhaul_proto::suggest::unknown;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::forward_to_deserialize_any;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Why a scenario could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file could not be read.
    #[error("cannot read the scenario {}: {source}", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is not TOML, or says what no scenario can say.
    #[error("{}{problem}", place(file.as_deref(), *line))]
    Invalid {
        /// The file, where it came from one.
        file: Option<PathBuf>,
        /// The line at fault, counted from 1.
        line: Option<usize>,
        /// What is wrong, in one line.
        problem: String,
    },
}

impl ScenarioError {
    pub(super) fn invalid(line: Option<usize>, problem: String) -> ScenarioError {
        ScenarioError::Invalid { file: None, line, problem }
    }

    pub(super) fn in_file(self, path: &Path) -> ScenarioError {
        match self {
            ScenarioError::Invalid { line, problem, .. } => {
                ScenarioError::Invalid { file: Some(path.to_owned()), line, problem }
            }
            other => other,
        }
    }

    pub(super) fn syntax(text: &str, error: &toml::de::Error) -> ScenarioError {
        let line = error.span().map(|span| line_of(text, span.start));
        ScenarioError::invalid(line, error.message().replace('\n', " "))
    }
}

/// Where each field stands in the text.
pub(super) struct FieldLines(Vec<(Place, usize)>);

/// A field of the scenario itself, or of an entry of one of its lists; without a name, the entry as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    entry: Option<(String, usize)>,
    field: String,
}

impl FieldLines {
    /// Find all fields; one that no scenario has is refused.
    pub(super) fn read(text: &str) -> Result<FieldLines, ScenarioError> {
        let table = DeTable::parse(text).map_err(|error| ScenarioError::syntax(text, &error))?;
        let mut lines = FieldLines(Vec::new());
        lines.add_table(text, table.get_ref(), None);
        for name in [STEPS, TRAFFIC] {
            let entries = table.get_ref().get(name).and_then(|value| value.get_ref().as_array());
            for (index, entry) in entries.into_iter().flatten().enumerate() {
                lines.add_entry(text, entry, (name.to_string(), index));
            }
        }
        lines.0.sort_by_key(|(_, line)| *line);
        match lines.0.iter().find_map(|(place, line)| place.unknown().map(|problem| (problem, *line))) {
            None => Ok(lines),
            Some((problem, line)) => Err(ScenarioError::invalid(Some(line), problem)),
        }
    }

    fn add_entry(&mut self, text: &str, value: &Spanned<DeValue<'_>>, entry: (String, usize)) {
        let place = Place { entry: Some(entry.clone()), field: String::new() };
        self.0.push((place, line_of(text, value.span().start)));
        if let Some(table) = value.get_ref().as_table() {
            self.add_table(text, table, Some(entry));
        }
    }

    fn add_table(&mut self, text: &str, table: &DeTable<'_>, entry: Option<(String, usize)>) {
        self.0.extend(table.iter().map(|(key, _)| {
            let place = Place { entry: entry.clone(), field: key.get_ref().to_string() };
            (place, line_of(text, key.span().start))
        }));
    }

    /// The line of a field of the scenario itself.
    pub(super) fn of(&self, field: &str) -> Option<usize> {
        self.find(&Place { entry: None, field: field.to_owned() })
    }

    /// The line at fault; that of the list's entry where the field is not written.
    pub(super) fn of_invalid(&self, bad: &InvalidField) -> Option<usize> {
        let entry = bad.entry.map(|(list, index)| (list.to_owned(), index));
        let place = Place { entry, field: bad.field.to_owned() };
        self.find(&place).or_else(|| self.find(&Place { field: String::new(), ..place }))
    }

    fn find(&self, place: &Place) -> Option<usize> {
        self.0.iter().find(|(other, _)| other == place).map(|(_, line)| *line)
    }
}

impl Place {
    /// What to say if no scenario has such a field.
    fn unknown(&self) -> Option<String> {
        let list = self.entry.as_ref().map(|(list, _)| list.as_str());
        let (what, known) = match list {
            Some(STEPS) => ("field of a step", fields_of::<Step>()),
            Some(_) => ("field of traffic", fields_of::<CrossTraffic>()),
            None => ("field", fields_of::<Scenario>()),
        };
        let is_known = self.field.is_empty() || known.contains(&self.field.as_str());
        (!is_known).then(|| unknown(what, &self.field, known.iter().copied()))
    }
}

/// The names of a type's fields, as serde reads them.
fn fields_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut names: &[&str] = &[];
    // It asks for its fields and gets none.
    let _ = T::deserialize(FieldNames(&mut names));
    names
}

struct FieldNames<'a>(&'a mut &'static [&'static str]);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = de::value::Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        *self.0 = fields;
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Self::Error> {
        Err(de::Error::custom("there is no value"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|&&byte| byte == b'\n').count() + 1
}

fn place(file: Option<&Path>, line: Option<usize>) -> String {
    match (file, line) {
        (Some(file), Some(line)) => format!("{}:{line}: ", file.display()),
        (Some(file), None) => format!("{}: ", file.display()),
        (None, Some(line)) => format!("line {line}: "),
        (None, None) => String::new(),
    }
}

/// The lists of tables.
const STEPS: &str = "steps";
const TRAFFIC: &str = "traffic";
