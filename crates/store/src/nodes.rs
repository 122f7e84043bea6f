//! The numbers by which the kernel knows files and folders. A number follows from the path, so that it is the same after a restart.

use crate::draft::Draft;
use fuser::INodeNo;
use std::collections::HashMap;
use std::sync::Arc;

/// What the kernel knows.
#[derive(Default)]
pub struct Nodes {
    by_number: HashMap<u64, Node>,
    by_path: HashMap<String, u64>,
}

/// One of them.
#[derive(Clone)]
pub struct Node {
    /// Where it is; `None`: it was removed, or something else has its place.
    pub path: Option<String>,
    /// Its data, while it is being written.
    pub draft: Option<Arc<Draft>>,
    /// How often the kernel was told of it.
    lookups: u64,
}

impl Nodes {
    /// What has this number.
    pub fn get(&self, number: INodeNo) -> Option<Node> {
        if number == INodeNo::ROOT {
            return Some(Node { path: Some(String::new()), draft: None, lookups: 1 });
        }
        self.by_number.get(&number.0).cloned()
    }

    /// The number of what is at a path, of which the kernel is told now.
    pub fn told(&mut self, path: &str, draft: Option<Arc<Draft>>) -> INodeNo {
        let number = self.number(path);
        self.by_path.insert(path.into(), number);
        let node = self.by_number.entry(number).or_insert_with(|| Node {
            path: Some(path.into()),
            draft: None,
            lookups: 0,
        });
        node.lookups += 1;
        node.draft = draft;
        INodeNo(number)
    }

    /// The number of what is at a path, or would be.
    pub fn number(&self, path: &str) -> u64 {
        if path.is_empty() {
            return INodeNo::ROOT.0;
        }
        if let Some(number) = self.by_path.get(path) {
            return *number;
        }
        let hash = blake3::hash(path.as_bytes());
        let mut number = u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"));
        // The first numbers are the kernel's, and one may be taken by what was there before or is elsewhere now.
        while number <= INodeNo::ROOT.0 || self.by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }

    /// What is at one path has another from now on, and is no draft any more unless it is said to be.
    pub fn moved(&mut self, from: &str, to: &str, stays_draft: bool) {
        self.removed(to);
        let Some(number) = self.by_path.remove(from) else { return };
        self.by_path.insert(to.into(), number);
        if let Some(node) = self.by_number.get_mut(&number) {
            node.path = Some(to.into());
            if !stays_draft {
                node.draft = None;
            }
        }
    }

    /// Nothing is at this path any more. Who has it open goes on with it.
    pub fn removed(&mut self, path: &str) {
        let Some(number) = self.by_path.remove(path) else { return };
        if let Some(node) = self.by_number.get_mut(&number) {
            node.path = None;
        }
    }

    /// The kernel has forgotten it as often as this.
    pub fn forget(&mut self, number: INodeNo, times: u64) {
        let Some(node) = self.by_number.get_mut(&number.0) else { return };
        node.lookups = node.lookups.saturating_sub(times);
        if node.lookups > 0 {
            return;
        }
        if let Some(Node { path: Some(path), .. }) = self.by_number.remove(&number.0) {
            self.by_path.remove(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_with_a_file_that_gets_another_name() {
        let mut nodes = Nodes::default();
        let old = nodes.told("a", None);
        let part = nodes.told(".a.part", None);
        assert_ne!(old, part);
        nodes.moved(".a.part", "a", false);
        assert_eq!(nodes.told("a", None), part);
        assert_eq!(nodes.get(part).unwrap().path.as_deref(), Some("a"));
        assert_eq!(nodes.get(old).unwrap().path, None, "what was replaced");
        nodes.forget(part, 1);
        assert!(nodes.get(part).is_some(), "it was told twice");
        nodes.forget(part, 1);
        assert!(nodes.get(part).is_none());
        nodes.forget(old, 1);
        assert_eq!(nodes.told("a", None), old, "a number follows from the path");
    }
}
