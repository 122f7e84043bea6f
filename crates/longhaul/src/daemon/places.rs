//! Sessions, and forwarded connections, at a time, of each user and in all.

use longhaul_proto::session::reason::{Cause, Reason};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is under way, by the user's name.
#[derive(Default)]
pub(crate) struct Places {
    taken: Mutex<HashMap<String, usize>>,
}

/// A place, given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    user: String,
}

impl Places {
    /// Take one, if the user and all together have less than they may; else why there is none.
    pub fn take(
        self: &Arc<Places>,
        user: &str,
        of_user: usize,
        of_all: usize,
        what: &str,
    ) -> Result<Place, Reason> {
        let mut taken = self.lock();
        let (all, own) = (taken.values().sum::<usize>(), taken.get(user).copied().unwrap_or(0));
        let full = |whose: &str, max: usize| {
            let line = format!("{whose} {max} {what} under way, as many as may be; try again later");
            Reason::new(Cause::InUse, line)
        };
        if own >= of_user {
            return Err(full("you have", of_user));
        }
        if all >= of_all {
            return Err(full("the server has", of_all));
        }
        *taken.entry(user.into()).or_default() += 1;
        Ok(Place { places: self.clone(), user: user.into() })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.lock();
        if let Some(own) = taken.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                taken.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_user_and_all_together_have_so_many_places() {
        let places = Arc::new(Places::default());
        let take = |user, max| places.take(user, max, 3, "copies");
        let first = take("alice", 2).ok().unwrap();
        let _second = take("alice", 2).ok().unwrap();
        assert!(take("alice", 2).err().unwrap().line.contains("you have 2"));
        let bob = take("bob", 3).ok().unwrap();
        assert!(take("bob", 3).err().unwrap().line.contains("the server has 3"));
        drop((first, bob));
        assert!(take("alice", 2).is_ok() && places.lock().len() == 1);
    }
}
