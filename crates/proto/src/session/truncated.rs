//! Lists that may be very long: their beginning, and how many more there are.

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::marker::PhantomData;

/// The first of what may be very many, and how many more there are: a message about a tree of which millions of files
/// failed must still fit a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated<T> {
    /// The first [`SHOWN_MAX`] of them, or as many as take [`BYTES_MAX`].
    #[serde(deserialize_with = "read_first", bound(deserialize = "T: Deserialize<'de>"))]
    pub first: Vec<T>,
    /// How many there are beside these.
    pub more: u64,
}

/// What such a list is made of.
pub trait MemoryLen {
    /// The memory that it takes.
    fn memory_len(&self) -> usize;
}

impl MemoryLen for Vec<u8> {
    fn memory_len(&self) -> usize {
        size_of::<Vec<u8>>() + self.len()
    }
}

impl<T: MemoryLen> Truncated<T> {
    /// Add one.
    pub fn push(&mut self, item: T) {
        // Where one is only counted, so are all behind it.
        if self.more == 0
            && self.first.len() < SHOWN_MAX
            && self.memory_len() + item.memory_len() <= BYTES_MAX
        {
            self.first.push(item);
        } else {
            self.more = self.more.saturating_add(1);
        }
    }

    fn memory_len(&self) -> usize {
        self.first.iter().map(MemoryLen::memory_len).sum()
    }

    /// Add all of another list.
    pub fn append(&mut self, next: Truncated<T>) {
        self.extend(next.first);
        self.more = self.more.saturating_add(next.more);
    }
}

impl<T> Truncated<T> {
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

impl<T: MemoryLen> Extend<T> for Truncated<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push(item));
    }
}

impl<T: MemoryLen> FromIterator<T> for Truncated<T> {
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

/// More than anybody reads.
pub const SHOWN_MAX: usize = 1000;
/// So many of paths that are twice as long as usual. The longest there are have 4096 bytes, and a server may have to
/// tell hundreds of clients at a time.
pub const BYTES_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn path(at: usize, len: usize) -> Vec<u8> {
        format!("{at:0len$}").into()
    }

    #[test]
    fn what_is_not_told_is_counted() {
        let told: Truncated<Vec<u8>> = (0..5000).map(|at| path(at, 200)).collect();
        assert_eq!((told.first.len(), told.more, told.count()), (SHOWN_MAX, 4000, 5000));
        assert_eq!((told.first.first(), told.first.last()), (Some(&path(0, 200)), Some(&path(999, 200))));
        let mut both = told.clone();
        both.append(told);
        assert_eq!((both.first.len(), both.count()), (SHOWN_MAX, 10_000));
        assert!(Truncated::<Vec<u8>>::default().is_empty() && !both.is_empty());
    }

    #[test]
    fn of_long_paths_fewer_are_told_and_none_behind_one_that_is_not() {
        let mut told: Truncated<Vec<u8>> = (0..1000).map(|at| path(at, 4096)).collect();
        assert!(
            (60..64).contains(&told.first.len()) && told.memory_len() <= BYTES_MAX,
            "{}",
            told.first.len()
        );
        let shown = told.first.clone();
        told.push(b"short".to_vec());
        assert_eq!((told.first == shown, told.count()), (true, 1001));
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
