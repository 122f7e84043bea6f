//! How many lanes were best to each host last time, remembered in the user's state folder.

use longhaul_net::{history, user};
use longhaul_proto::streams::STREAMS_MAX;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;

/// The file. Where there is no home, nothing is remembered.
#[derive(Clone, Debug)]
pub struct History {
    file: PathBuf,
}

/// What is remembered of a host.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Best {
    lanes: u32,
}

impl History {
    /// The user's: `stripe-lanes.json` in the state folder.
    pub fn of_user() -> Option<History> {
        Some(History { file: user::state_folder()?.join("stripe-lanes.json") })
    }

    /// How many lanes were best to a host lately.
    pub fn lanes_to(&self, host: IpAddr) -> Option<u32> {
        let best: Best = history::recall(&self.file, &host.to_string())?;
        Some(best.lanes).filter(|lanes| (1..=STREAMS_MAX).contains(lanes))
    }

    /// Remember how many were best to a host. What cannot be written is not remembered.
    pub fn remember(&self, host: IpAddr, lanes: u32) {
        history::note(&self.file, &host.to_string(), Best { lanes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_found_again_unless_it_makes_no_sense() {
        let folder = tempfile::tempdir().unwrap();
        let history = History { file: folder.path().join("sub").join("lanes.json") };
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
