//! What to say about a name that nobody knows: which known ones the user may have meant.

/// There is nothing of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}")]
pub struct UnknownName {
    /// What was asked for.
    pub name: String,
    line: String,
}

impl UnknownName {
    /// Nothing of the kind `what` is called `name`; these names are known.
    pub fn new<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> UnknownName {
        UnknownName { name: name.into(), line: unknown(what, name, known) }
    }
}

/// One line: there is no such thing, and the near matches, or else all there are.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let near: Vec<&str> = known.iter().copied().filter(|one| is_near(name, one)).collect();
    if near.is_empty() {
        format!("there is no {what} {name:?}; choose one of {}", known.join(", "))
    } else {
        format!("there is no {what} {name:?}; did you mean {}?", near.join(" or "))
    }
}

/// Few letters apart, or beginning with the same word.
fn is_near(name: &str, known: &str) -> bool {
    let name = name.to_lowercase();
    let allowed = if known.len() < 5 { 1 } else { 2 };
    let stem = |text: &str| text.split(['_', '-']).next().unwrap_or_default().to_owned();
    strsim::damerau_levenshtein(&name, known) <= allowed
        || (stem(&name).len() > 2 && stem(&name) == stem(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_matches_are_named_and_far_ones_listed() {
        let known = || ["cubic", "newreno", "queue_bdp", "queue_kb"].into_iter();
        assert_eq!(
            unknown("controller", "Cubci", known()),
            "there is no controller \"Cubci\"; did you mean cubic?"
        );
        assert_eq!(
            unknown("field", "queue_len", known()),
            "there is no field \"queue_len\"; did you mean queue_bdp or queue_kb?"
        );
        assert_eq!(
            unknown("field", "x", known()),
            "there is no field \"x\"; choose one of cubic, newreno, queue_bdp, queue_kb"
        );
    }
}
