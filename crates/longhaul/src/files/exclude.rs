//! Which files to leave out: patterns as in a `.gitignore`.

use fast_glob::{ErrorKind, glob_match, validate};

/// A list of patterns; the last that matches decides.
///
/// A pattern without a slash matches a name at any depth; one with a slash in front or inside matches the path below
/// the source. A slash at its end makes it match folders only, `!` in front takes files back in, `**` stands for any
/// number of folders, `*`, `?` and `[a-z]` for parts of one name.
#[derive(Clone, Debug, Default)]
pub struct Exclude {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    glob: String,
    /// Against the whole path, not the name alone.
    anchored: bool,
    folders_only: bool,
    /// Leave out what matches; otherwise take it back in.
    leaves_out: bool,
}

/// A pattern that makes no sense.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{pattern:?}: {}", problem.as_str())]
pub struct PatternError {
    /// As it was written.
    pub pattern: String,
    /// What is wrong with it.
    pub problem: PatternProblem,
}

/// What can be wrong with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PatternProblem {
    /// A `[` without its `]`.
    UnclosedClass,
    /// A `\\` at the end.
    NothingEscaped,
    /// Anything else.
    Other,
}

impl PatternProblem {
    fn as_str(self) -> &'static str {
        match self {
            PatternProblem::UnclosedClass => "a [ without its ]",
            PatternProblem::NothingEscaped => "a \\ with nothing after it",
            PatternProblem::Other => "no pattern",
        }
    }
}

impl Exclude {
    /// Read patterns; the error names the one that makes no sense.
    pub fn new<P: AsRef<str>>(patterns: &[P]) -> Result<Exclude, PatternError> {
        let rules = patterns.iter().map(AsRef::as_ref).filter(|p| !p.is_empty());
        Ok(Exclude { rules: rules.map(Rule::new).collect::<Result<_, _>>()? })
    }

    /// Whether there are no patterns: nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether to leave out the file or folder at `path` below its source.
    pub fn leaves_out(&self, path: &[u8], is_folder: bool) -> bool {
        let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
        let is_meant = |rule: &&Rule| {
            (is_folder || !rule.folders_only)
                && glob_match(&rule.glob, if rule.anchored { path } else { name })
        };
        self.rules.iter().rev().find(is_meant).is_some_and(|rule| rule.leaves_out)
    }
}

impl Rule {
    fn new(pattern: &str) -> Result<Rule, PatternError> {
        let (leaves_out, rest) = match pattern.strip_prefix('!') {
            Some(rest) => (false, rest),
            None => (true, pattern),
        };
        let (folders_only, rest) = match rest.strip_suffix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let anchored = rest.contains('/');
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        let glob = plain(rest);
        validate(&glob).map_err(|error| PatternError {
            pattern: pattern.into(),
            problem: match error.kind {
                ErrorKind::UnclosedBracket => PatternProblem::UnclosedClass,
                ErrorKind::TrailingBackslash => PatternProblem::NothingEscaped,
                _ => PatternProblem::Other,
            },
        })?;
        Ok(Rule { glob, anchored, folders_only, leaves_out })
    }
}

/// What the matcher knows beyond a `.gitignore` stands for itself: braces, a second `!`, letters behind a backslash.
fn plain(pattern: &str) -> String {
    let mut glob = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(escaped) if escaped.is_alphanumeric() => glob.push(escaped),
                escaped => {
                    glob.push(c);
                    glob.extend(escaped);
                }
            },
            '{' | '}' => glob.extend(['\\', c]),
            '!' if glob.is_empty() => glob.push_str("\\!"),
            c => glob.push(c),
        }
    }
    glob
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_out(patterns: &[&str], path: &str, is_folder: bool) -> bool {
        Exclude::new(patterns).unwrap().leaves_out(path.as_bytes(), is_folder)
    }

    #[test]
    fn patterns_work_as_in_gitignore() {
        assert!(leaves_out(&["*.o"], "a/b/c.o", false));
        assert!(!leaves_out(&["/*.o"], "a/c.o", false));
        assert!(leaves_out(&["/*.o"], "c.o", false));
        assert!(leaves_out(&["a/*.o"], "a/c.o", false));
        assert!(!leaves_out(&["a/*.o"], "x/a/c.o", false));
        assert!(leaves_out(&["**/a/*.o"], "x/a/c.o", false));
        assert!(leaves_out(&["cache/"], "x/cache", true));
        assert!(!leaves_out(&["cache/"], "x/cache", false));
        assert!(!leaves_out(&["*.o", "!keep.o"], "keep.o", false));
        assert!(leaves_out(&["!keep.o", "*.o"], "keep.o", false));
        assert!(leaves_out(&["a/**"], "a/b/c", false));
        assert!(!leaves_out(&["a/**"], "a", true));
        assert!(leaves_out(&["a/**/c"], "a/c", false));
        assert!(leaves_out(&["a/**/c"], "a/b/b/c", false));
        assert!(leaves_out(&["?[0-9].o"], "a/x7.o", false));
        assert!(!leaves_out(&["?[!0-9].o"], "a/x7.o", false));
        assert!(!leaves_out(&["/a*b"], "a/b", false));
    }

    #[test]
    fn what_a_gitignore_does_not_know_stands_for_itself() {
        assert!(leaves_out(&["{a,b}"], "{a,b}", false));
        assert!(!leaves_out(&["{a,b}"], "a", false));
        assert!(leaves_out(&["\\n\\*"], "n*", false));
        assert!(!leaves_out(&["*", "!!a"], "!a", false));
        assert!(leaves_out(&["*", "!!a"], "a", false));
    }

    #[test]
    fn names_need_not_be_text() {
        let exclude = Exclude::new(&["*.o"]).unwrap();
        assert!(exclude.leaves_out(b"a/\xff\xfe.o", false));
    }

    #[test]
    fn a_broken_pattern_is_named() {
        let problem = |pattern: &str| Exclude::new(&[pattern]).unwrap_err();
        assert!(problem("a[b").to_string().contains("a[b"));
        assert_eq!(problem("a[b").problem, PatternProblem::UnclosedClass);
        assert_eq!(problem("a\\").problem, PatternProblem::NothingEscaped);
    }
}
