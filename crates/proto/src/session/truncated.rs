//! Lists that may be very long: their beginning, and how many more there are.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// The first of what may be very many, and how many more there are: a message about a tree of which millions of files
/// failed must still fit a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated<T> {
    /// The first [`SHOWN_MAX`] of them.
    #[serde(deserialize_with = "read_first", bound(deserialize = "T: Deserialize<'de>"))]
    pub first: Vec<T>,
    /// How many there are beside these.
    pub more: u64,
}

impl<T> Truncated<T> {
    /// Add one.
    pub fn push(&mut self, item: T) {
        if self.first.len() < SHOWN_MAX {
            self.first.push(item);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    /// Add all of another list.
    pub fn append(&mut self, next: Truncated<T>) {
        self.extend(next.first);
        self.more = self.more.saturating_add(next.more);
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

impl<T> Default for Truncated<T> {
    fn default() -> Truncated<T> {
        Truncated { first: vec![], more: 0 }
    }
}

impl<T> Extend<T> for Truncated<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T> FromIterator<T> for Truncated<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Truncated<T> {
        let mut list = Truncated::default();
        list.extend(items);
        list
    }
}

/// A list from the other side: one that is longer makes the whole message senseless, before memory is taken for it.
fn read_first<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    struct Each<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Each<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
            f.write_str("the beginning of a list")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
            let mut first = vec![];
            while let Some(item) = seq.next_element()? {
                if first.len() == SHOWN_MAX {
                    return Err(A::Error::custom("more than a list may begin with"));
                }
                first.push(item);
            }
            Ok(first)
        }
    }
    from.deserialize_seq(Each(PhantomData))
}

/// More than anybody reads. With paths of 4096 bytes, the longest there are, and reasons of a line they take a tenth of
/// what a message may have.
pub const SHOWN_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_counted() {
        let told: Truncated<usize> = (0..5000).collect();
        assert_eq!((told.first.len(), told.more, told.count()), (SHOWN_MAX, 4000, 5000));
        assert_eq!((told.first.first(), told.first.last()), (Some(&0), Some(&999)));
        let mut both = told.clone();
        both.append(told);
        assert_eq!((both.first.len(), both.count()), (SHOWN_MAX, 10_000));
        assert!(Truncated::<u8>::default().is_empty() && !both.is_empty());
    }

    #[test]
    fn a_list_from_the_other_side_has_no_more_items_than_are_told() {
        let read = |count: usize| {
            let told = Truncated { first: vec![7u32; count], more: 1 };
            let bytes = postcard::to_allocvec(&told).unwrap();
            postcard::from_bytes::<Truncated<u32>>(&bytes).map(|read| read == told)
        };
        assert_eq!(read(SHOWN_MAX), Ok(true));
        assert!(read(SHOWN_MAX + 1).is_err());
    }
}
