//! Names of users and groups, as this host's files tell them. The C library would also ask what `nsswitch.conf` names; a program
//! that is linked statically cannot, as that takes libraries of the host's. Who is in a directory service alone has a number and no
//! name here, as with rsync where it has no names.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Directory {
    pub users: Ids,
    pub groups: Ids,
}

impl Directory {
    /// As it is now, or as it was when it could be read last: a server that has given up other files than its own knows what it
    /// knew before.
    pub(super) fn load() -> Arc<Directory> {
        static LAST: Mutex<Option<Arc<Directory>>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        let read = |path: &str| std::fs::read(path).map(|text| Ids::parse(&text));
        if let (Ok(users), Ok(groups)) = (read("/etc/passwd"), read("/etc/group")) {
            *last = Some(Arc::new(Directory { users, groups }));
        }
        last.clone().unwrap_or_default()
    }
}

/// Know them before other files than its own are given up.
pub fn prime() {
    Directory::load();
}

/// Names with their numbers.
#[derive(Debug, Default)]
pub(super) struct Ids {
    by_name: HashMap<Vec<u8>, u32>,
    by_id: HashMap<u32, Vec<u8>>,
}

impl Ids {
    /// Lines of passwd(5) or group(5): the name comes first, the number third. Of two the first counts.
    fn parse(text: &[u8]) -> Ids {
        let mut ids = Ids::default();
        for line in text.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b':');
            let name = fields.next().unwrap_or_default();
            let id = fields.nth(1).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
            if let Some(id) = id.filter(|_| !name.is_empty()) {
                ids.by_name.entry(name.to_vec()).or_insert(id);
                ids.by_id.entry(id).or_insert_with(|| name.to_vec());
            }
        }
        ids
    }

    pub(super) fn name(&self, id: u32) -> Option<&[u8]> {
        self.by_id.get(&id).map(Vec::as_slice)
    }

    /// The numbers here of those that have these names elsewhere, where they are others. The superuser is the superuser.
    pub(super) fn translate(&self, names: &[(u32, Vec<u8>)]) -> HashMap<u32, u32> {
        let here = |(id, name): &(u32, Vec<u8>)| Some((*id, *self.by_name.get(name)?));
        names.iter().filter_map(here).filter(|(id, here)| *id != 0 && id != here).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_translated() {
        let text = b"root:x:0:0::/:\nalice:x:1000:1000:,:/home:/bin/sh\n\nodd\nalso:x:1000:1:::\nbad:x:-5:\nalice:x:7:::";
        let ids = Ids::parse(text);
        assert_eq!(ids.name(1000), Some(&b"alice"[..]));
        assert_eq!((ids.name(0), ids.name(7)), (Some(&b"root"[..]), Some(&b"alice"[..])));
        assert_eq!(ids.name(5), None);
        let there = [
            (500, b"alice".to_vec()),
            (501, b"nobody-here".to_vec()),
            (1000, b"alice".to_vec()),
            (0, b"alice".to_vec()),
        ];
        assert_eq!(ids.translate(&there), HashMap::from([(500, 1000)]));
    }
}
