//! Copies over emulated paths.

use super::sides::Sides;
use super::tree::assert_same_bytes;
use super::{Ended, LONGHAUL, Running, Server, undisturbed, wait_until};
use longhaul_lab::{Lab, Scenario, Side};
use longhaul_testing::machine;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

/// Measure until it comes out as it should; see [`machine::repeat`].
pub fn repeat<T>(lab: &Lab, mut measure: impl FnMut() -> Result<T, String>) -> Option<T> {
    machine::repeat(|| {
        lab.reset_counters();
        let found = measure();
        machine::note_disturbance(lab.cpu_limited());
        found
    })
}

/// A path, and a server at its far end.
pub struct Haul {
    /// The path.
    pub lab: Lab,
    /// At its right end.
    pub server: Server,
}

impl Haul {
    /// Serve `root` at the far end of a path.
    pub fn start(scenario: &Scenario, root: &Path) -> Haul {
        Haul::start_with(scenario, root, |_| {})
    }

    /// The same; `furnish` may change how the server is started.
    pub fn start_with(scenario: &Scenario, root: &Path, furnish: impl FnOnce(&mut Command)) -> Haul {
        let lab = Lab::start(scenario).expect("a lab can be made here");
        let mut command = undisturbed(lab.command(Side::Right, LONGHAUL));
        furnish(&mut command);
        let listen = format!("{}:0", lab.address(Side::Right));
        let server = Server::start_with(command, root, &["--listen", &listen]);
        Haul { lab, server }
    }

    /// Wait until so many bytes have come over the path, in a pull towards the near end.
    pub fn await_bytes(&self, pull: bool, bytes: u64) {
        wait_until("a part arrives", || {
            let counters = self.lab.counters();
            let way = if pull { counters.right_to_left } else { counters.left_to_right };
            way.bytes_delivered > bytes
        });
    }

    /// `cp --json` at the near end, not yet started.
    pub fn cp_command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.server.cp_by(undisturbed(self.lab.command(Side::Left, LONGHAUL)), args)
    }

    /// Start `cp --json` at the near end.
    pub fn start_cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Running {
        Running::start(&mut self.cp_command(args))
    }

    /// Run `cp --json` at the near end.
    pub fn cp<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Ended {
        self.start_cp(args).finish()
    }
}

/// A path and a file to take over it.
pub struct Over {
    pub sides: Sides,
    pub haul: Haul,
    pub len: usize,
}

impl Over {
    pub fn path(scenario: &Scenario, len: usize, pull: bool) -> Over {
        let sides = Sides::with_file(pull, len);
        let haul = Haul::start(scenario, sides.there.path());
        Over { sides, haul, len }
    }

    pub fn args(&self, more: &[&str]) -> Vec<OsString> {
        self.sides.file_args(&self.haul.server.url(""), more)
    }

    /// Copy all of it, while `meanwhile` befalls the path.
    pub fn copy(&self, more: &[&str], meanwhile: impl FnOnce(&Running)) -> Ended {
        let copy = self.haul.start_cp(self.args(more));
        meanwhile(&copy);
        let ended = copy.finish().expect_code(0);
        assert_same_bytes(self.sides.source(), self.sides.target());
        ended
    }

    /// Wait until this share of the file has come over the path.
    pub fn await_share(&self, share: f64) {
        self.haul.await_bytes(self.sides.pull, (self.len as f64 * share) as u64);
    }
}
