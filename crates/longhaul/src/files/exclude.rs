//! Which files to leave out: patterns as in a `.gitignore`.

use globset::{Glob, GlobBuilder, GlobMatcher};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A list of patterns; the last that matches decides.
///
/// A pattern without a slash matches a name at any depth; one with a slash in front or inside matches the path below
/// the source. A slash at its end makes it match folders only, `!` in front takes files back in, `**` stands for any
/// number of folders.
#[derive(Clone, Debug, Default)]
pub struct Exclude {
    rules: Vec<Rule>,
}

#[derive(Clone, Debug)]
struct Rule {
    matcher: GlobMatcher,
    /// Against the whole path, not the name alone.
    anchored: bool,
    folders_only: bool,
    /// Leave out what matches; otherwise take it back in.
    leaves_out: bool,
}

/// A pattern that makes no sense.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{pattern:?}: {}", source.kind())]
pub struct PatternError {
    /// As it was written.
    pub pattern: String,
    /// What is wrong with it.
    pub source: globset::Error,
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
        let as_path = |bytes| Path::new(OsStr::from_bytes(bytes));
        self.rules
            .iter()
            .rev()
            .find(|rule| {
                (is_folder || !rule.folders_only)
                    && rule.matcher.is_match(as_path(if rule.anchored { path } else { name }))
            })
            .is_some_and(|rule| rule.leaves_out)
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
        let senseless = |source| PatternError { pattern: pattern.into(), source };
        let matcher = glob(rest).map_err(senseless)?.compile_matcher();
        Ok(Rule { matcher, anchored, folders_only, leaves_out })
    }
}

fn glob(pattern: &str) -> Result<Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
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
    }

    #[test]
    fn a_broken_pattern_is_named() {
        assert!(Exclude::new(&["a[b"]).unwrap_err().to_string().contains("a[b"));
    }
}
