//! How many lanes were best to each host last time, remembered in the user's state folder.

use longhaul_net::{history, user};
use longhaul_proto::streams::STREAMS_MAX;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Where it is kept. Where there is no home, nothing is remembered.
#[derive(Clone, Debug)]
pub enum History {
    /// In a file.
    File(PathBuf),
    /// As long as the program runs.
    InMemory(Remembered),
}

/// What was best to each host.
pub type Remembered = Arc<Mutex<HashMap<IpAddr, u32>>>;

/// What is remembered of a host.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Best {
    lanes: u32,
}

impl History {
    /// The user's: `stripe-lanes.json` in the state folder.
    pub fn of_user() -> Option<History> {
        Some(History::File(user::state_folder()?.join("stripe-lanes.json")))
    }

    /// How many lanes were best to a host lately.
    pub fn lanes_to(&self, host: IpAddr) -> Option<u32> {
        let lanes = match self {
            History::File(file) => history::recall::<Best>(file, &host.to_string())?.lanes,
            History::InMemory(remembered) => {
                *remembered.lock().unwrap_or_else(PoisonError::into_inner).get(&host)?
            }
        };
        Some(lanes).filter(|lanes| (1..=STREAMS_MAX).contains(lanes))
    }

    /// Remember how many were best to a host. What cannot be written is not remembered.
    pub fn remember(&self, host: IpAddr, lanes: u32) {
        match self {
            History::File(file) => history::note(file, &host.to_string(), Best { lanes }),
            History::InMemory(remembered) => {
                let mut remembered = remembered.lock().unwrap_or_else(PoisonError::into_inner);
                if remembered.len() >= HOSTS_MAX {
                    remembered.clear();
                }
                remembered.insert(host, lanes);
            }
        }
    }
}

/// Some 100 kB in memory.
const HOSTS_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_again_unless_it_makes_no_sense() {
        let folder = tempfile::tempdir().unwrap();
        let history = History::File(folder.path().join("sub").join("lanes.json"));
        let host = |last| IpAddr::from([192, 0, 2, last]);
        assert_eq!(history.lanes_to(host(1)), None);
        history.remember(host(1), 4);
        history.remember(host(2), 8);
        history.remember(host(1), 16);
        history.remember(host(3), STREAMS_MAX + 1);
        let found = [1, 2, 3].map(|last| history.lanes_to(host(last)));
        assert_eq!(found, [Some(16), Some(8), None]);
    }
}
