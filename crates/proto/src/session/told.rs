//! Lists that may be very long, told in part.

use serde::{Deserialize, Serialize};

/// The first of what may be very many, and how many more there are: a message about a tree of which millions of files
/// failed must still fit a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told<T> {
    /// The first [`TOLD_MAX`] of them.
    pub first: Vec<T>,
    /// How many there are beside these.
    pub more: u64,
}

impl<T> Told<T> {
    /// Add one.
    pub fn push(&mut self, item: T) {
        if self.first.len() < TOLD_MAX {
            self.first.push(item);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// How many there are in all.
    pub fn count(&self) -> u64 {
        self.more.saturating_add(self.first.len() as u64)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

impl<T> Default for Told<T> {
    fn default() -> Told<T> {
        Told { first: vec![], more: 0 }
    }
}

impl<T> Extend<T> for Told<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Told<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Told<T> {
        let mut told = Told::default();
        told.extend(items);
        told
    }
}

/// More than anybody reads. With paths of 4096 bytes, the longest there are, and reasons of a line they take a tenth of
/// what a message may have.
pub const TOLD_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_counted() {
        let told: Told<usize> = (0..5000).collect();
        assert_eq!((told.first.len(), told.more, told.count()), (TOLD_MAX, 4000, 5000));
        assert_eq!((told.first.first(), told.first.last()), (Some(&0), Some(&999)));
        assert!(Told::<u8>::default().is_empty() && !told.is_empty());
    }
}
